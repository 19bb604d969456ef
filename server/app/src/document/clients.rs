//! Connected clients as people read them: who they are, what they were sent, what they took.

use serde::{Deserialize, Serialize};

use super::filter::Filter;

/// One stream of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientItem {
    /// Its node id.
    pub id: String,
    /// `<node id>-<number>`, unique while the server runs.
    pub connection: String,
    /// `envoy`, `sidecar` or `grpc`.
    pub kind: String,
    /// The program that it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Where it connects from.
    pub peer: String,
    /// `sotw` or `delta`.
    pub protocol: String,
    /// Who its certificate proves it to be, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Its namespace, where it named one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its cluster, where it named one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Its network, where it named one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// `region/zone/subzone`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub locality: String,
    /// The worst state of its types: `SYNCED`, `STALE` (no answer yet), `ERROR` (refused) or `NOT SENT`.
    pub state: String,
    /// How long it has been connected, in milliseconds.
    pub connected_millis: u64,
    /// Per type that it subscribes to.
    pub types: Vec<ClientTypeItem>,
    /// What a person should know, such as `partial: mtls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One type of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTypeItem {
    /// `CDS`, `EDS`, `LDS`, `RDS`, or a type URL.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it subscribes to all.
    #[serde(default)]
    pub wildcard: bool,
    /// How many names it subscribes to.
    #[serde(default)]
    pub names: usize,
    /// Names that are neither sent nor told to be gone while a registry is unknown.
    #[serde(default)]
    pub held: usize,
    /// The version it was last sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sent: String,
    /// The version it last took.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub acked: String,
    /// `SYNCED`, `STALE` (no answer yet), `ERROR` (refused) or `NOT SENT`.
    pub state: String,
    /// Why it refused what it was sent last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nack: String,
    /// Which resources were in what it refused, where they were few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nacked_names: Vec<String>,
    /// The generation that it was last sent from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_generation: Option<u64>,
    /// The generation that it last took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_generation: Option<u64>,
    /// How long ago it last took something, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_millis_ago: Option<u64>,
    /// How long ago it was last sent something, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_millis_ago: Option<u64>,
}

/// The clients that the filter takes, by id.
#[must_use]
pub fn list(mut clients: Vec<ClientItem>, filter: &Filter) -> Vec<ClientItem> {
    clients.retain(|client| {
        (filter.takes_name(&client.id) || filter.takes_name(&client.connection))
            && filter.namespace.as_deref().is_none_or(|wanted| wanted == client.namespace)
    });
    clients.sort_by(|a, b| (&a.id, &a.connection).cmp(&(&b.id, &b.connection)));
    clients
}
