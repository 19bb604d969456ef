//! Connected clients as documents: identity, sent and acknowledged versions.

use serde::{Deserialize, Serialize};

/// One stream of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientItem {
    /// Node id.
    pub id: String,
    /// `<node id>-<number>`, unique while the server runs.
    pub connection: String,
    /// `envoy`, `sidecar` or `grpc`.
    pub kind: String,
    /// Program name and version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Remote address.
    pub peer: String,
    /// `sotw` or `delta`.
    pub protocol: String,
    /// Identity that it proved, if one is required.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// What proved it: `certificate` or `token`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub proof: String,
    /// Namespace, if it named one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Cluster, if it named one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Network, if it named one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// `region/zone/subzone`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub locality: String,
    /// Worst state of its types: `SYNCED`, `STALE` (unanswered), `ERROR` (rejected) or `NOT SENT`.
    pub state: String,
    /// Age of the connection, in milliseconds.
    pub connected_millis: u64,
    /// Subscribed types.
    pub types: Vec<ClientTypeItem>,
    /// Notes for the operator, such as `TRB0606 xDS clusters without mesh TLS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One subscribed type of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTypeItem {
    /// `CDS`, `EDS`, `LDS`, `RDS`, or a type URL.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it subscribes to every resource.
    #[serde(default)]
    pub wildcard: bool,
    /// Number of names that it subscribes to.
    #[serde(default)]
    pub names: usize,
    /// Names that are neither sent nor reported as removed while a registry is unknown.
    #[serde(default)]
    pub held: usize,
    /// Version last sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sent: String,
    /// Version last acknowledged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub acked: String,
    /// `SYNCED`, `STALE` (unanswered), `ERROR` (rejected) or `NOT SENT`.
    pub state: String,
    /// Error text of the rejected last response.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nack: String,
    /// Resources in the rejected response, if they were few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nacked_names: Vec<String>,
    /// Catalog generation last sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_generation: Option<u64>,
    /// Catalog generation last acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_generation: Option<u64>,
    /// Time since the last acknowledgement, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_millis_ago: Option<u64>,
    /// Time since the last response, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_millis_ago: Option<u64>,
}
