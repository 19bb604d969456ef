//! Parts of a Consul registry's fields in the configuration file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Auth method that issues a Consul token for a service account token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginConfig {
    /// Name of the auth method.
    pub method: String,
    /// File with the account's token; default: the pod's token.
    #[serde(default = "LoginConfig::pods_own")]
    pub token_file: PathBuf,
}

impl LoginConfig {
    fn pods_own() -> PathBuf {
        PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/token")
    }
}

/// TLS settings of client connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClientTlsConfig {
    /// Certificate authorities, PEM; default: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Directory of such files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_path: Option<PathBuf>,
    /// Client certificate, PEM; read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// Private key of the client certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Name that the server's certificate must have, if it differs from the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// Address family of an instance that has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AddressFamilyConfig {
    /// IPv4.
    PreferV4,
    /// IPv6.
    PreferV6,
    /// Both.
    Both,
}

/// Meta keys of instances and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MetaKeysConfig {
    /// Key of the protocol in an instance's Meta; default `protocol`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Key of the region in a node's Meta; default `external-k8s-topology-region`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Key of the zone in a node's Meta; default `external-k8s-topology-zone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether tags of the form `key|value` are labels, like tags of the form `key=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipe_tags: Option<bool>,
}

/// Topology of a datacenter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DatacenterTopologyConfig {
    /// Region; default: the datacenter's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Network of its instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}
