//! Routes of a client to a host, as documents.

use serde::{Deserialize, Serialize};

use super::ObjectItem;

/// One route of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteItem {
    /// `requests` of HTTP and gRPC, or `connections` of TCP and TLS.
    pub kind: String,
    /// Port of the service; absent if no service has the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Position among the routes of the virtual host or the port, from 1: the first that matches is taken. Of connections
    /// the most specific match is taken, whatever its position.
    pub order: usize,
    /// Name of the route; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Conditions, all of which are fulfilled; empty if everything takes the route.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// What happens: the xDS clusters with their shares, or a redirect or an answer.
    pub to: String,
    /// xDS clusters with their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<WeightedItem>,
    /// Settings, such as timeouts and retries, the xDS clusters that the client was not sent, or no endpoints of, and what the
    /// connections do not go to, although it is planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// VirtualService that the route is from, the delegate that declares it, and the EnvoyFilters that changed the route
    /// table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ObjectItem>,
    /// Route table, or the listener with a table within it.
    pub table: String,
    /// Virtual host within the table; empty for connections.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub virtual_host: String,
    /// State of the route table or listener, as of resources: `SYNCED`, `STALE`, `ERROR`, `NOT SENT`, …
    pub state: String,
}

/// xDS cluster with its share of the requests or connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedItem {
    /// Name of the xDS cluster.
    pub cluster: String,
    /// Weight in relation to the others.
    pub weight: u32,
}
