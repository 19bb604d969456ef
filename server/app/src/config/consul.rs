//! The parts of a Consul registry's configuration that have parts of their own.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An auth method that gives a token for a service account's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginConfig {
    /// The auth method's name.
    pub method: String,
    /// The file that holds the account's token; the pod's own when left out.
    #[serde(default = "LoginConfig::pods_own")]
    pub token_file: PathBuf,
}

impl LoginConfig {
    fn pods_own() -> PathBuf {
        PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/token")
    }
}

/// How connections to a source are secured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClientTlsConfig {
    /// The authorities, PEM; the system's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A directory of such files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_path: Option<PathBuf>,
    /// The client certificate, PEM; read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// Its private key, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The name that the server's certificate must have, where it is not the address's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// How services are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModeConfig {
    /// Precise while the selected services fit the budget, the doorbell beyond it.
    Auto,
    /// A long poll per service.
    Precise,
    /// Two long polls per scope, and a read of what they say has changed.
    Doorbell,
}

/// Which address is taken of an instance that has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FamilyConfig {
    /// IPv4.
    PreferV4,
    /// IPv6.
    PreferV6,
    /// Both.
    Both,
}

/// Under which keys instances and nodes say things of themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeysConfig {
    /// The key of an instance's Meta that says what it speaks; `protocol` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The key of a node's Meta that says its region; `external-k8s-topology-region` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The key of a node's Meta that says its zone; `external-k8s-topology-zone` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether tags of the form `key|value` are labels, as those of the form `key=value` are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar_tags: Option<bool>,
}

/// Where a datacenter stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlaceConfig {
    /// Its region; its name when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The network that its instances are in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}
