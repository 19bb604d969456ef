//! The configuration model: the one definition behind the file, the schema, the environment, the flags, the
//! reference and the running server.
//!
//! Every part has a default, rejects unknown fields, and is printed in full by `tributary config default`. A
//! field never holds a secret: keys and tokens are named by file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::locality::{DistributeConfig, FailoverConfig, LocalityConfig};
pub use super::merge::MergeConfig;
pub use super::registry::{RegisteredSource, RegistryConfig, Source};
pub use super::remote_admin::{AdminTokensConfig, RemoteAdminConfig};
pub use super::remotes::{RemotesConfig, SecretsConfig};
pub use super::traces::TracesConfig;
pub use super::tracing::{SpanTagConfig, TracingConfig};
pub use super::writes::Write;
use tributary_model::HttpRetries;
use tributary_registry_api::Span;

/// Required `apiVersion` of a file.
pub const API_VERSION: &str = "tributary.dev/v1alpha1";
/// Required `kind` of a file.
pub const KIND: &str = "Config";

/// Configuration of `tributary serve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Always `tributary.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Config`.
    pub kind: String,
    /// Cluster of registries and clients that do not name one.
    pub cluster_id: String,
    /// Namespace of the control plane in the config cluster. It holds the network label, the mesh
    /// configuration and the Leases.
    pub system_namespace: String,
    /// Revision of this server. Objects with another `istio.io/rev` label are excluded; without a revision
    /// every object is read.
    pub revision: Option<String>,
    /// Directory that keeps the served state across restarts, or `none`. Default: `$STATE_DIRECTORY`,
    /// `$XDG_STATE_HOME/tributary`, `~/.local/state/tributary` or `/var/lib/tributary`.
    pub state_dir: Option<PathBuf>,
    /// Kinds of objects that the server may write to a cluster. It writes only the kinds listed here, so it
    /// can run beside an istiod.
    pub writes: BTreeSet<Write>,
    /// Sources of services. Applied on reload.
    pub registries: Vec<RegistryConfig>,
    /// Remote clusters that are added at run time.
    pub remotes: RemotesConfig,
    /// xDS listener.
    pub xds: XdsConfig,
    /// Admin listener.
    pub admin: AdminConfig,
    /// Listener for health and metrics on any address.
    pub health: HealthConfig,
    /// Metrics.
    pub metrics: MetricsConfig,
    /// Traces of changes; those of requests are in `settings.tracing`.
    pub traces: TracesConfig,
    /// Condition for the first answers.
    pub start: StartConfig,
    /// DNS, which resolves host names of gateways.
    pub dns: DnsConfig,
    /// Shutdown.
    pub drain: DrainConfig,
    /// Logging.
    pub log: LogConfig,
    /// Mesh-wide settings. Applied on reload.
    pub settings: SettingsConfig,
    /// Services that join services of several registries. Applied on reload.
    pub federated_services: Vec<FederatedServiceConfig>,
    /// Merge rule for services with the same name in a cluster and in Consul. Applied on reload.
    pub merge: MergeConfig,
}

impl Config {
    /// Returns the registry of the config cluster, wherever it is listed; at most one has the server's `clusterId`.
    #[must_use]
    pub fn config_cluster(&self) -> Option<&RegistryConfig> {
        self.registries.iter().find(|registry| registry.is_config_cluster(&self.cluster_id))
    }
    /// Returns true if Secrets of the config cluster are read, where the account may.
    #[must_use]
    pub fn reads_secrets(&self) -> bool {
        let has_cluster = self.config_cluster().is_some_and(|registry| registry.kubernetes().is_some());
        has_cluster && self.remotes.secrets != SecretsConfig::Off
    }
    /// Returns true if remote clusters are found at run time, in Secrets or in a directory.
    #[must_use]
    pub fn finds_remotes(&self) -> bool {
        self.reads_secrets() || self.remotes.directory.is_some()
    }
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
            remotes: RemotesConfig::default(),
            xds: XdsConfig::default(),
            admin: AdminConfig::default(),
            health: HealthConfig::default(),
            metrics: MetricsConfig::default(),
            traces: TracesConfig::default(),
            start: StartConfig::default(),
            dns: DnsConfig::default(),
            drain: DrainConfig::default(),
            log: LogConfig::default(),
            settings: SettingsConfig::default(),
            federated_services: Vec::new(),
            merge: MergeConfig::default(),
        }
    }
}

/// xDS listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct XdsConfig {
    /// Address. Without `tls` it must be a loopback address.
    #[schemars(extend("format" = "ip-port"))]
    pub listen: SocketAddr,
    /// Certificates; files are read again when they change.
    pub tls: Option<TlsConfig>,
    /// Tokens of service accounts. If set, a client must prove its identity with one, or with a certificate where
    /// `tls.clientCaFile` is set.
    pub tokens: Option<TokensConfig>,
    /// Maximum age of a client's connection, with 10% jitter; `0s` for no limit.
    pub max_connection_age: Span,
    /// Maximum number of concurrent connections.
    pub max_connections: u32,
}

impl Default for XdsConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 15010)),
            tls: None,
            tokens: None,
            max_connection_age: Span::seconds(1800),
            max_connections: 20_000,
        }
    }
}

/// Tokens of service accounts that clients present. The cluster that a client names reviews its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TokensConfig {
    /// Audiences of which a token must have one. Agents of Istio present tokens for `istio-ca`.
    pub audiences: Vec<String>,
}

impl TokensConfig {
    /// Default audiences, as the flag writes them.
    pub const AUDIENCES: &str = "istio-ca,tributary";
}

impl Default for TokensConfig {
    fn default() -> Self {
        Self { audiences: Self::AUDIENCES.split(',').map(str::to_owned).collect() }
    }
}

/// Certificates, by file. Each layer may set a part; together they set certificate and key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Certificate chain, PEM; a file, variable or flag must set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// Private key, PEM; a file, variable or flag must set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Authorities of client certificates, PEM. With it, a client of xDS must present a certificate, and its SPIFFE URI is its identity;
    /// an operator of `admin.remote` may present one instead of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

impl TlsConfig {
    /// Returns certificate and key, or the name of a field that no layer has set.
    pub fn pair(&self) -> Result<(&Path, &Path), &'static str> {
        let cert = self.cert_file.as_deref().ok_or("certFile")?;
        Ok((cert, self.key_file.as_deref().ok_or("keyFile")?))
    }
}

/// Admin listener: health, metrics and `/debug`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address; always a loopback address.
    #[schemars(extend("format" = "ip-port"))]
    pub listen: SocketAddr,
    /// Listener for operators on other machines.
    pub remote: Option<RemoteAdminConfig>,
    /// Whether `/debug/profile` takes CPU profiles of the server.
    pub profile: bool,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 15014)), remote: None, profile: false }
    }
}

/// Listener for health and metrics, on any address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthConfig {
    /// Address; without one the listener is off.
    #[schemars(extend("format" = "ip-port"))]
    pub listen: Option<SocketAddr>,
}

/// Metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Whether names of Istio, such as `pilot_xds`, are served beside those of Tributary. Applied on reload. Off by default: beside an
    /// istiod, sums over both would count twice.
    pub istio_names: bool,
}

/// Condition for the first answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StartConfig {
    /// How long the server waits for the first sync of every registry before it answers clients without the
    /// missing ones; `0s` waits without a limit.
    pub first_sync_timeout: Span,
}

impl Default for StartConfig {
    fn default() -> Self {
        Self { first_sync_timeout: Span::seconds(30) }
    }
}

/// DNS, which resolves host names of gateways of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DnsConfig {
    /// Addresses of DNS servers with their ports, such as `10.96.0.10:53`, at most 8. They are asked in place of those of
    /// `/etc/resolv.conf`, and `/etc/hosts` is not read then.
    pub servers: Vec<SocketAddr>,
}

impl DnsConfig {
    /// Most servers.
    pub const MAX_SERVERS: usize = 8;
}

/// Shutdown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainConfig {
    /// How long streams may take to end after SIGTERM.
    pub timeout: Span,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self { timeout: Span::seconds(10) }
    }
}

/// Logging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LogConfig {
    /// Level or filter by target: `info`, `warn,tributary_xds=debug`. Applied on reload. `TRIBUTARY_LOG` is
    /// short for `TRIBUTARY_LOG__LEVEL`.
    pub level: String,
    /// Format of log lines.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Auto }
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// Columns and colours for reading.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Mesh-wide settings. An omitted field has the data plane's own default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SettingsConfig {
    /// Domain of Kubernetes service names; default `cluster.local`.
    pub domain: Option<String>,
    /// Domain of identities; default `cluster.local`.
    pub trust_domain: Option<String>,
    /// Further domains of identities: a client whose certificate is of one of them, or of `trustDomain`, may connect.
    pub trust_domain_aliases: Vec<String>,
    /// Namespace whose policies apply to all namespaces; default `istio-system`.
    pub root_namespace: Option<String>,
    /// Timeout of a connection attempt; default `10s`.
    pub connect_timeout: Option<Span>,
    /// Retries of HTTP requests by sidecars and gRPC clients; default: `defaultHttpRetryPolicy` of the mesh configuration.
    pub http_retries: Option<HttpRetriesConfig>,
    /// Log of the requests and connections of sidecars; default: `accessLogFile`, `accessLogEncoding` and
    /// `accessLogFormat` of the mesh configuration.
    pub access_log: Option<AccessLogConfig>,
    /// Tracing of the requests of sidecars; default: `enableTracing` and `defaultConfig.tracing` of the mesh configuration.
    pub tracing: Option<TracingConfig>,
    /// Whether clients use mesh TLS to endpoints that accept it, where no DestinationRule has `tls`, and sidecars accept it beside
    /// plain text, where no PeerAuthentication applies; default: `enableAutoMtls` of the mesh configuration, else `true`.
    pub auto_mtls: Option<bool>,
    /// How sidecars normalize paths of requests; default: `pathNormalization` of the mesh configuration, else `base`.
    pub path_normalization: Option<PathNormalizationConfig>,
    /// Names of xDS clusters in bootstraps of clients that serve certificates of the mesh by SDS, such as SPIRE's socket. A
    /// client names one in `SDS_CLUSTER` of its metadata; `sds-grpc`, Istio's agent, needs no entry.
    pub sds_clusters: Vec<String>,
    /// Which localities clients use, where neither a DestinationRule nor the traffic distribution of a service decides it;
    /// default: `localityLbSetting` of the mesh configuration.
    pub locality: Option<LocalityConfig>,
    /// Visibility of declarations without `exportTo`: `*` for all namespaces, `.` for their own, `~` for
    /// none, or a list of namespaces; default: all.
    pub default_export: Option<Vec<String>>,
    /// Whether traffic to unknown hosts is refused.
    pub block_unknown: Option<bool>,
    /// How endpoints of other networks are sent.
    pub cross_network: Option<CrossNetwork>,
    /// Hosts (or `*.` suffixes), and whether clients receive only endpoints of their own cluster.
    pub cluster_local: BTreeMap<String, bool>,
    /// Networks and their address ranges.
    pub networks: BTreeMap<String, Vec<String>>,
}

/// Retries of HTTP requests. Fields have the names of Istio's `HTTPRetry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HttpRetriesConfig {
    /// Number of retries of a request; 0 for none.
    pub attempts: u32,
    /// Conditions of Envoy's `x-envoy-retry-on` and `x-envoy-retry-grpc-on` and status codes, separated by commas.
    pub retry_on: String,
    /// Timeout of one attempt; default: the request's.
    pub per_try_timeout: Option<Span>,
    /// Shortest wait between two attempts; default: the client's own.
    pub backoff: Option<Span>,
    /// Whether a retry prefers localities that were not tried yet.
    pub retry_remote_localities: bool,
    /// Whether a retry prefers endpoints that were not tried yet.
    pub retry_ignore_previous_hosts: bool,
}

impl Default for HttpRetriesConfig {
    fn default() -> Self {
        let usual = HttpRetries::default();
        Self {
            attempts: usual.attempts,
            retry_on: usual.conditions.to_string(),
            per_try_timeout: None,
            backoff: None,
            retry_remote_localities: usual.remote_localities,
            retry_ignore_previous_hosts: usual.other_hosts,
        }
    }
}

/// Log of the requests and connections of sidecars.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AccessLogConfig {
    /// File on the proxy's machine, such as `/dev/stdout`; empty for no log.
    pub file: String,
    /// Form of an entry.
    pub encoding: AccessLogEncoding,
    /// Text of a line, or a JSON object, in Envoy's syntax; default: Istio's.
    pub format: Option<String>,
}

/// Form of the entries of an access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogEncoding {
    /// Lines of text.
    #[default]
    Text,
    /// JSON objects.
    Json,
}

/// How paths of requests are normalized. Each value does what the one before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathNormalizationConfig {
    /// Not at all.
    None,
    /// By RFC 3986: `..`, backslashes and encoded letters.
    Base,
    /// Joins slashes.
    MergeSlashes,
    /// Decodes slashes and backslashes.
    DecodeAndMergeSlashes,
}

/// How endpoints of other networks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CrossNetwork {
    /// Through the gateways of their network.
    Gateway,
    /// Directly: the networks are flat.
    Direct,
}

/// Host that joins services of several registries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FederatedServiceConfig {
    /// Host. It replaces declarations of the same host by sources.
    pub host: String,
    /// Namespace of the host; default `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Visibility, in the syntax of `exportTo`; default: `settings.defaultExport`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub export_to: Vec<String>,
    /// Standby members receive traffic only while fewer active endpoints than this are healthy. Without a
    /// value they are one priority lower, and clients decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_healthy_active: Option<u32>,
    /// Standby members also receive traffic once the registry of an active member has been stale for longer
    /// than this, until it has been live for as long. Without a value staleness never activates them. The
    /// last known endpoints stay served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby_after_stale: Option<Span>,
    /// Joined services.
    pub members: Vec<FederatedMemberConfig>,
}

/// Joined service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FederatedMemberConfig {
    /// Host of the service.
    pub host: String,
    /// Registry whose declarations of the host are used; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Namespace; default: the namespace of the first declaration of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Ports of the joined host, each with this member's own port number. Other ports keep their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<u16, u16>,
    /// Share of traffic relative to the other members, independent of the number of endpoints. If no member
    /// has a weight, traffic follows endpoints; if only others have one, it is 1; 0 receives no traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether the member receives traffic only when the active members fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
}
