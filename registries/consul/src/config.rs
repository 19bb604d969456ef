//! Configuration of a Consul registry: addresses, credentials, selection, limits, and mapping.
//!
//! Plain values. The application fills them from its configuration file and passes the environment as a map
//! ([`ConsulConfig::from_env`]). The factory calls [`ConsulConfig::check`] once, before a run starts.

pub mod address;
pub mod env;
pub mod fields;
pub mod select;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::map::MapConfig;

pub use address::{Address, InvalidAddress};
pub use fields::ConsulFields;
pub use select::{Pattern, Select};

/// Shortest wait of a long poll; a shorter one would be a poll.
pub const MIN_WAIT: Duration = Duration::from_secs(1);
/// Longest wait of a long poll that Consul grants.
pub const MAX_WAIT: Duration = Duration::from_secs(600);
/// Maximum requests on one shared connection that Consul's servers accept.
pub const MAX_STREAMS: usize = 250;

/// Complete configuration of one registry.
#[derive(Debug, Clone)]
pub struct ConsulConfig {
    /// Addresses in order of preference; at least one. The others serve as fallback.
    pub addresses: Vec<Address>,
    /// Addresses of datacenters that are requested directly, so that they do not depend on another datacenter's
    /// quorum.
    pub datacenter_addresses: BTreeMap<String, Vec<Address>>,
    /// Datacenters to follow.
    pub datacenters: Datacenters,
    /// Namespaces (Enterprise); if empty, requests carry no namespace.
    pub namespaces: Vec<String>,
    /// Partitions (Enterprise); if empty, requests carry no partition.
    pub partitions: Vec<String>,
    /// Peers whose imported services are followed in addition to the local ones.
    pub peers: Vec<String>,
    /// Lists to discover, in place of the lists above.
    pub discover: Discover,
    /// Credentials.
    pub auth: Auth,
    /// TLS settings.
    pub tls: Tls,
    /// Services to follow.
    pub select: Select,
    /// Limits on concurrency and rate.
    pub limits: Limits,
    /// Waits, pauses and intervals.
    pub timing: Timing,
    /// How answers become facts.
    pub mapping: MapConfig,
}

impl ConsulConfig {
    /// Returns the default configuration for these addresses.
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
            limits: Limits::default(),
            timing: Timing::default(),
            mapping: MapConfig::new()?,
        })
    }
    /// Checks the configuration as a whole.
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
        if !(MIN_WAIT..=MAX_WAIT).contains(&self.timing.wait) {
            return Err(ConfigError::Wait);
        }
        if !(1..=MAX_STREAMS).contains(&self.limits.streams) {
            return Err(ConfigError::Streams);
        }
        Ok(())
    }
}

/// Error in the configuration of a Consul registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No address.
    #[error("a consul registry has no address; give one, for example http://127.0.0.1:8500")]
    NoAddress,
    /// A certificate without its key, or a key without its certificate.
    #[error(
        "a client certificate needs its key: set `tls.certFile` and `tls.keyFile`, or CONSUL_CLIENT_CERT and \
         CONSUL_CLIENT_KEY"
    )]
    HalfCertificate,
    /// The list of datacenters is empty.
    #[error("the list of datacenters is empty; omit it for the local one, or write `all`")]
    NoDatacenter,
    /// A long poll's wait that Consul does not grant.
    #[error("a long poll of Consul waits from 1s to 10m; write a time in this range")]
    Wait,
    /// A number of requests on one connection that Consul does not accept.
    #[error("Consul accepts 1 to 250 requests on a connection; write a number in this range")]
    Streams,
    /// Invalid address.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// Invalid name.
    #[error(transparent)]
    Name(#[from] tributary_model::InvalidName),
    /// Environment variable that cannot be parsed.
    #[error("{name}: {why}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What is wrong and what to write; never a secret.
        why: String,
    },
}

impl ConfigError {
    /// Returns the environment variable that has the invalid value; `None` for a field.
    #[must_use]
    pub const fn variable(&self) -> Option<&'static str> {
        match self {
            Self::Variable { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// Datacenters to follow, each as its own scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Datacenters {
    /// The agent's own datacenter.
    #[default]
    Local,
    /// All that the agent knows; the list is polled.
    All,
    /// These datacenters.
    Listed(Vec<String>),
}

/// Lists below a datacenter that are polled.
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
    /// Returns whether any list is polled.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.partitions || self.namespaces || self.peers
    }
}

/// Credentials of requests.
#[derive(Debug, Clone, Default)]
pub struct Auth {
    /// Source of the ACL token.
    pub token: TokenSource,
    /// Addresses that get the token; `None` for all.
    pub token_addresses: Option<Vec<Address>>,
    /// User and password for a proxy in front of Consul.
    pub basic: Option<Basic>,
    /// Addresses that get user and password; `None` for all.
    pub basic_addresses: Option<Vec<Address>>,
}

impl Auth {
    /// Returns whether a token is configured.
    #[must_use]
    pub const fn has_token(&self) -> bool {
        !matches!(self.token, TokenSource::None)
    }
}

/// User and password.
#[derive(Debug, Clone)]
pub struct Basic {
    /// User.
    pub user: String,
    /// Password.
    pub password: SecretString,
}

/// Source of the ACL token.
#[derive(Debug, Clone, Default)]
pub enum TokenSource {
    /// Requests carry no token: the agent's default token applies.
    #[default]
    None,
    /// This token.
    Value(SecretString),
    /// Contents of a file, read again when it changes and when the token is refused.
    File(PathBuf),
    /// Token that an auth method issues for a bearer token; renewed before it expires.
    Login {
        /// Name of the auth method.
        method: String,
        /// File with the bearer token, in Kubernetes the service account's.
        bearer: PathBuf,
    },
}

/// TLS settings of connections to `https` addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of authorities; the system's if neither this nor `ca_path` is set.
    pub ca: Option<PathBuf>,
    /// Directory of such files.
    pub ca_path: Option<PathBuf>,
    /// Client certificate, PEM; read again when it changes.
    pub cert: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
    /// Name that the server's certificate must carry, if it differs from the address (`server.dc1.consul`).
    pub server_name: Option<String>,
    /// Whether the server's certificate is verified; disable only for tests.
    pub verify: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self { ca: None, ca_path: None, cert: None, key: None, server_name: None, verify: true }
    }
}

/// Limits on concurrency and rate. Each value is for one registry; its scopes share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum connections where each request needs its own (plain HTTP).
    pub connections: usize,
    /// Maximum connections where requests share them (TLS, h2).
    pub shared_connections: usize,
    /// Maximum requests on one shared connection.
    pub streams: usize,
    /// Maximum concurrent reads of one scope, long polls excluded.
    pub concurrency: usize,
    /// Maximum requests per second of one scope, above a burst of the same size.
    pub rate: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 150, shared_connections: 24, streams: 250, concurrency: 16, rate: 500 }
    }
}

impl Limits {
    /// Returns the maximum concurrent requests where each needs its own connection. An eighth of the connections is a
    /// reserve: a server counts a connection until it notices that it was closed, and a request may open another one
    /// while the last one returns to the pool.
    #[must_use]
    pub const fn unshared_requests(&self) -> usize {
        let requests = self.connections - self.connections / 8;
        if requests == 0 { 1 } else { requests }
    }
}

/// Waits, pauses and intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Wait of a long poll.
    pub wait: Duration,
    /// Time that a read may take in addition to its wait and the server's jitter.
    pub grace: Duration,
    /// Time limit for opening a connection.
    pub connect: Duration,
    /// Idle time of a connection before a keepalive probe is sent.
    pub keepalive: Duration,
    /// Time limit for the answer to a keepalive probe.
    pub keepalive_answer: Duration,
    /// Upper bound of the first pause after a failure; later pauses grow from it.
    pub pause_first: Duration,
    /// Maximum pause after a failure.
    pub pause_most: Duration,
    /// Minimum pause after a refused token.
    pub pause_auth: Duration,
    /// Pause after a refused request.
    pub pause_config: Duration,
    /// Reads of one service that may follow each other without a pause.
    pub burst: u32,
    /// Time until one more such read is allowed.
    pub refill: Duration,
    /// Wait of a read for an announced change that may not have reached the server yet.
    pub catch_up: Duration,
    /// Time until one more read of all checks is allowed; each answer lists every check.
    pub checks_refill: Duration,
    /// Time for which change notifications are collected before the services are read.
    pub coalesce: Duration,
    /// Time after a move of the catalog's index in which a changed check may explain it.
    pub explain: Duration,
    /// Time in which every service without a long poll is read once.
    pub full_pass: Duration,
    /// Minimum time between two reads of one service while services are read in turn.
    pub in_turn: Duration,
    /// Interval of the polled lists: datacenters, scopes, and peers' services.
    pub poll: Duration,
    /// Pause before the leader is read again about a peer's service that has no instance.
    pub recheck: Duration,
    /// Interval of the periodic status of a scope.
    pub status: Duration,
    /// Interval of the checks for changed token and certificate files.
    pub files: Duration,
    /// Minimum time between two reads of a refused token.
    pub reread: Duration,
    /// Longest accepted time since a server's last contact with its leader.
    pub max_contact: Duration,
    /// Oldest accepted cached answer.
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
            catch_up: seconds(1),
            checks_refill: seconds(1),
            coalesce: Duration::from_millis(200),
            explain: Duration::from_millis(1_500),
            full_pass: seconds(300),
            in_turn: seconds(5),
            poll: seconds(60),
            recheck: seconds(10),
            status: seconds(5),
            files: seconds(5),
            reread: seconds(5),
            max_contact: seconds(10),
            max_age: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut ConsulConfig)) -> Result<(), ConfigError> {
        let mut config = ConsulConfig::new(vec![Address::parse("c:8500")?])?;
        change(&mut config);
        config.check()
    }

    #[test]
    fn waits_and_streams_stay_within_what_consul_accepts() {
        let wait = |seconds| check(|config| config.timing.wait = Duration::from_secs(seconds));
        assert_eq!([0, 1, 600, 601].map(|seconds| wait(seconds).is_ok()), [false, true, true, false]);
        let streams = |most| check(|config| config.limits.streams = most);
        assert_eq!([0, 1, 250, 251].map(|most| streams(most).is_ok()), [false, true, true, false]);
    }
}
