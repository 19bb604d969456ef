//! What can be configured: the one definition that the file, the schema, the environment, the
//! flags, the reference and the running server share.
//!
//! Every part has a default, refuses fields that it does not know, and is written back in full by
//! `tributary config default`. No field holds a secret: keys are named by file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::merge::MergeConfig;
pub use super::registry::{MeshSource, RegistryConfig};
use super::span::Span;
pub use super::writes::Write;

/// The version that a file must name.
pub const API_VERSION: &str = "tributary.dev/v1alpha1";
/// The kind that a file must name.
pub const KIND: &str = "Config";

/// The configuration of `tributary serve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Always `tributary.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Config`.
    pub kind: String,
    /// The cluster that registries speak for unless they name another, and that clients which
    /// name none are taken to be in.
    pub cluster_id: String,
    /// The namespace of the control plane, in the config cluster: the label of its network, mesh
    /// configuration and Leases are there.
    pub system_namespace: String,
    /// The revision that this server is. Objects with another `istio.io/rev` label are left out;
    /// all are read when left out.
    pub revision: Option<String>,
    /// The directory that remembers what is served over a restart, or `none`. `$STATE_DIRECTORY`,
    /// `$XDG_STATE_HOME/tributary`, `~/.local/state/tributary` or `/var/lib/tributary` when left out.
    pub state_dir: Option<PathBuf>,
    /// What may be written to a cluster. Nothing is written that is not named here, so that a
    /// server can run beside an istiod.
    pub writes: BTreeSet<Write>,
    /// The sources. Changes are taken on reload.
    pub registries: Vec<RegistryConfig>,
    /// Where xDS is served.
    pub xds: XdsConfig,
    /// Where the admin surface is served.
    pub admin: AdminConfig,
    /// Where health and metrics are served for others to reach.
    pub health: HealthConfig,
    /// When the server begins to answer.
    pub start: StartConfig,
    /// How the server ends.
    pub drain: DrainConfig,
    /// What it says of itself.
    pub log: LogConfig,
    /// Mesh-wide values. Changes are taken on reload.
    pub settings: SettingsConfig,
    /// Names that join services of several registries. Changes are taken on reload.
    pub aliases: Vec<AliasConfig>,
    /// What is done with services that have one name in a cluster and in Consul. Changes are taken on reload.
    pub merge: MergeConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            cluster_id: "Kubernetes".to_owned(),
            system_namespace: "tributary-system".to_owned(),
            revision: None,
            state_dir: None,
            writes: BTreeSet::new(),
            registries: Vec::new(),
            xds: XdsConfig::default(),
            admin: AdminConfig::default(),
            health: HealthConfig::default(),
            start: StartConfig::default(),
            drain: DrainConfig::default(),
            log: LogConfig::default(),
            settings: SettingsConfig::default(),
            aliases: Vec::new(),
            merge: MergeConfig::default(),
        }
    }
}

/// Where xDS is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct XdsConfig {
    /// The address. Without `tls` it must be a loopback address.
    pub listen: SocketAddr,
    /// Certificates; files are read again when they change.
    pub tls: Option<TlsConfig>,
    /// How long a client's connection lives at most, give or take a tenth; `0s` for no limit.
    pub max_connection_age: Span,
    /// How many connections are taken at once.
    pub max_connections: u32,
}

impl Default for XdsConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 15010)),
            tls: None,
            max_connection_age: Span::seconds(1800),
            max_connections: 20_000,
        }
    }
}

/// Certificates, by file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate chain, PEM.
    pub cert_file: PathBuf,
    /// Its private key, PEM.
    pub key_file: PathBuf,
    /// The authorities of client certificates, PEM. With it a client must have a certificate, and
    /// its SPIFFE URI is its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// The admin surface: health, metrics and `/debug`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AdminConfig {
    /// The address; always a loopback address.
    pub listen: SocketAddr,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 15014)) }
    }
}

/// Health and metrics alone, on any address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthConfig {
    /// The address; nothing more is served when left out.
    pub listen: Option<SocketAddr>,
}

/// When the server begins to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StartConfig {
    /// How long every registry has for its first sync before the server answers without those
    /// that have not; `0s` waits for ever.
    pub first_sync_timeout: Span,
}

impl Default for StartConfig {
    fn default() -> Self {
        Self { first_sync_timeout: Span::seconds(30) }
    }
}

/// How the server ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainConfig {
    /// How long streams have to end after SIGTERM.
    pub timeout: Span,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self { timeout: Span::seconds(10) }
    }
}

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LogConfig {
    /// A level or a filter by target: `info`, `warn,tributary_xds=debug`. Changes are taken on
    /// reload. `TRIBUTARY_LOG` is short for `TRIBUTARY_LOG__LEVEL`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Auto }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Mesh-wide values. What is left out has the data plane's own default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SettingsConfig {
    /// The domain of Kubernetes service names; `cluster.local` when left out.
    pub domain: Option<String>,
    /// The domain of identities; `cluster.local` when left out.
    pub trust_domain: Option<String>,
    /// How long a connection attempt may take; `10s` when left out.
    pub connect_timeout: Option<Span>,
    /// Who sees a declaration that says nothing: `*` all, `.` its own namespace, `~` nobody, or
    /// namespaces; all when left out.
    pub default_export: Option<Vec<String>>,
    /// Whether traffic to unknown hosts is refused.
    pub block_unknown: Option<bool>,
    /// How endpoints of other networks are sent.
    pub cross_network: Option<CrossNetwork>,
    /// Hosts (or `*.` suffixes) and whether only their own cluster's endpoints are served.
    pub cluster_local: BTreeMap<String, bool>,
    /// Networks and the address ranges that lie in them.
    pub networks: BTreeMap<String, Vec<String>>,
}

/// How endpoints of other networks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CrossNetwork {
    /// Through the gateways of their network.
    Gateway,
    /// As they are: the networks are flat.
    Direct,
}

/// A name that joins services of several registries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AliasConfig {
    /// The name. A source that declares it too is served under it no more.
    pub host: String,
    /// The namespace in which it is served; `default` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Who sees it, in the words of `exportTo`; as `settings.defaultExport` says when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export_to: Vec<String>,
    /// Standby members take traffic only while fewer active endpoints than this are healthy. When left out
    /// they stand one priority lower, and clients decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_until_healthy_below: Option<u32>,
    /// Standby members also take traffic once the registry of an active one has been silent for longer than this, and
    /// until it has been heard for as long; never for that reason when left out. What it last said stays served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_until_silent_for: Option<Span>,
    /// The joined services.
    pub members: Vec<AliasMemberConfig>,
}

/// One joined service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AliasMemberConfig {
    /// Its host.
    pub host: String,
    /// The registry whose declarations of the host are meant; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Its namespace; that of the first to declare the host when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Port numbers of the alias, each with this member's own number for it. Others stand for themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<u16, u16>,
    /// Its share of traffic beside the other members', however many endpoints it has. By endpoints when no
    /// member says one; 1 when only others do; none at all for 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether it waits for the members that do not to fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
}
