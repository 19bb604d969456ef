//! What a Consul registry is told: where to ask, as whom, for what, how much at a time, and how to read the answers.
//!
//! Plain values. The application fills them from its configuration file and hands the environment in as a map
//! ([`ConsulConfig::from_env`]); [`ConsulConfig::check`] is called once by the factory, before anything runs.

pub mod address;
pub mod env;
pub mod select;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::map::MapConfig;

pub use address::{Address, InvalidAddress};
pub use select::{Pattern, Select};

/// One Consul: everything that a registry over it needs.
#[derive(Debug, Clone)]
pub struct ConsulConfig {
    /// Whom to ask, the first first; at least one. The others are for when it fails.
    pub addresses: Vec<Address>,
    /// Datacenters that are asked at addresses of their own, so that they outlive the others' quorum.
    pub datacenter_addresses: BTreeMap<String, Vec<Address>>,
    /// Which datacenters.
    pub datacenters: Datacenters,
    /// Namespaces (Enterprise); none sends no namespace at all.
    pub namespaces: Vec<String>,
    /// Partitions (Enterprise); none sends no partition at all.
    pub partitions: Vec<String>,
    /// Peers whose imported services are followed beside the local ones.
    pub peers: Vec<String>,
    /// Of what all that there is is followed, in place of the lists above.
    pub discover: Discover,
    /// As whom.
    pub auth: Auth,
    /// How the connection is secured.
    pub tls: Tls,
    /// Which services.
    pub select: Select,
    /// How they are followed.
    pub mode: ModeChoice,
    /// How much at a time.
    pub limits: Limits,
    /// How long things take.
    pub timing: Timing,
    /// How answers become facts.
    pub mapping: MapConfig,
}

impl ConsulConfig {
    /// Over one Consul with nothing else said.
    pub fn new(addresses: Vec<Address>) -> Result<Self, ConfigError> {
        Ok(Self {
            addresses,
            datacenter_addresses: BTreeMap::new(),
            datacenters: Datacenters::Local,
            namespaces: Vec::new(),
            partitions: Vec::new(),
            peers: Vec::new(),
            discover: Discover::default(),
            auth: Auth::default(),
            tls: Tls::default(),
            select: Select::default(),
            mode: ModeChoice::Auto,
            limits: Limits::default(),
            timing: Timing::default(),
            mapping: MapConfig::new()?,
        })
    }
    /// What is wrong with it, as a whole.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.addresses.is_empty() || self.datacenter_addresses.values().any(Vec::is_empty) {
            return Err(ConfigError::NoAddress);
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            return Err(ConfigError::HalfCertificate);
        }
        if matches!(&self.datacenters, Datacenters::Listed(names) if names.is_empty()) {
            return Err(ConfigError::NoDatacenter);
        }
        Ok(())
    }
}

/// Why a Consul registry cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Nobody to ask.
    #[error("a consul registry has no address; give one, for example http://127.0.0.1:8500")]
    NoAddress,
    /// A certificate without its key, or a key without its certificate.
    #[error("a client certificate needs both a certificate and a key file; give both or neither")]
    HalfCertificate,
    /// An empty list.
    #[error("the list of datacenters is empty; leave it out for the local one, or write `all`")]
    NoDatacenter,
    /// An address that is none.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] tributary_model::InvalidName),
    /// A variable that cannot be read.
    #[error("{name} is {value:?}; {why}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it says; never a secret one.
        value: String,
        /// What it may say.
        why: &'static str,
    },
}

/// Which datacenters are followed, each as a scope of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Datacenters {
    /// The one that the agent belongs to.
    #[default]
    Local,
    /// All that the agent knows, asked for again and again.
    All,
    /// These.
    Listed(Vec<String>),
}

/// Which lists of scopes below a datacenter are asked for again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discover {
    /// All partitions.
    pub partitions: bool,
    /// All namespaces of each partition.
    pub namespaces: bool,
    /// All peers of the agent's own datacenter.
    pub peers: bool,
}

impl Discover {
    /// Whether any is.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.partitions || self.namespaces || self.peers
    }
}

/// As whom requests are made.
#[derive(Debug, Clone, Default)]
pub struct Auth {
    /// Where the token comes from.
    pub token: TokenSource,
    /// Name and password for a proxy before Consul.
    pub basic: Option<Basic>,
}

/// Name and password.
#[derive(Debug, Clone)]
pub struct Basic {
    /// The name.
    pub user: String,
    /// The password.
    pub password: SecretString,
}

/// Where an ACL token comes from.
#[derive(Debug, Clone, Default)]
pub enum TokenSource {
    /// None is sent: the agent's own default token decides.
    #[default]
    None,
    /// This one.
    Value(SecretString),
    /// The content of a file, read again when it changes and when the token is refused.
    File(PathBuf),
    /// What an auth method gives for a service account's token; asked for again before it expires.
    Login {
        /// The auth method's name.
        method: String,
        /// The file with the bearer token, a service account's in Kubernetes.
        bearer: PathBuf,
    },
}

/// How connections to `https` addresses are secured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// A file of authorities, PEM; the system's where neither this nor `ca_path` is given.
    pub ca: Option<PathBuf>,
    /// A directory of such files.
    pub ca_path: Option<PathBuf>,
    /// The client certificate, PEM; read again when it changes.
    pub cert: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have, where it is not the address's
    /// (`server.dc1.consul`).
    pub server_name: Option<String>,
    /// Whether the server's certificate is verified; off only for trying things out.
    pub verify: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self { ca: None, ca_path: None, cert: None, key: None, server_name: None, verify: true }
    }
}

/// How services are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModeChoice {
    /// Precise while the selected services fit the budget, the doorbell beyond it.
    #[default]
    Auto,
    /// A long poll per service.
    Precise,
    /// Two long polls per scope, and a read of what they say has changed.
    Doorbell,
}

/// How much at a time. Each figure is for one registry; its scopes share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections where each request needs one (plain HTTP).
    pub connections: usize,
    /// The most connections where they are shared (TLS, h2).
    pub shared_connections: usize,
    /// The most requests on one shared connection.
    pub streams: usize,
    /// The most reads at once, of one scope, that are not long polls.
    pub concurrency: usize,
    /// The most requests a second of one scope, beyond a burst of as many.
    pub rate: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 150, shared_connections: 24, streams: 250, concurrency: 16, rate: 500 }
    }
}

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a long poll waits.
    pub wait: Duration,
    /// What a read may take beyond its wait and the server's jitter.
    pub grace: Duration,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// How long a connection may be silent until the other end is asked for a sign of life.
    pub keepalive: Duration,
    /// How long the sign may take until the connection is given up.
    pub keepalive_answer: Duration,
    /// The longest first pause after a failure, and how it grows.
    pub pause_first: Duration,
    /// The longest pause after a failure.
    pub pause_most: Duration,
    /// The shortest pause after a refused token.
    pub pause_auth: Duration,
    /// The pause after a refused request.
    pub pause_config: Duration,
    /// How many reads of one service may follow each other at once.
    pub burst: u32,
    /// After how long another one may.
    pub refill: Duration,
    /// For how long what the doorbell says is gathered before it is read.
    pub coalesce: Duration,
    /// How long it takes, in doorbell mode, until every service has been read once.
    pub sweep: Duration,
    /// How often the lists of datacenters and of peers' services are asked for.
    pub poll: Duration,
    /// After how long the leader is asked again about a peer's service that it reported to have no instance.
    pub recheck: Duration,
    /// How often the files of tokens and certificates are looked at.
    pub files: Duration,
    /// The longest silence between a server and its leader that is believed.
    pub max_contact: Duration,
    /// The oldest cached answer that is believed.
    pub max_age: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            wait: seconds(60),
            grace: seconds(10),
            connect: seconds(5),
            keepalive: seconds(30),
            keepalive_answer: seconds(10),
            pause_first: seconds(1),
            pause_most: seconds(60),
            pause_auth: seconds(30),
            pause_config: seconds(300),
            burst: 8,
            refill: seconds(2),
            coalesce: Duration::from_millis(200),
            sweep: seconds(300),
            poll: seconds(60),
            recheck: seconds(10),
            files: seconds(5),
            max_contact: seconds(10),
            max_age: Duration::ZERO,
        }
    }
}
