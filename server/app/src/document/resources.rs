//! Resources that a client was sent, as documents, and the differences between two clients.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ObjectItem;

/// One resource of one client.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceItem {
    /// `CDS`, `EDS`, `LDS` or `RDS`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name.
    pub name: String,
    /// Version that the client holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// `SYNCED`, `STALE` (unacknowledged), `ERROR` (rejected), `NOT SENT`, `ABSENT` (no such resource), `HELD BACK`
    /// (while a registry is unknown) or `KEPT` (removed, while the client rejects its routes).
    pub state: String,
    /// Error text of the client, if it rejected the resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Length of the encoded resource, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// What the state means, why there is no body, or nothing in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// DestinationRules that apply to the client: of an xDS cluster or its endpoints, the first in precedence first; of a
    /// subset, the one that declares it. VirtualServices that a route table or a listener is from. Then the EnvoyFilters that
    /// changed or added the resource, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ObjectItem>,
    /// Decoded resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

/// One difference between the resources of two clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffItem {
    /// `CDS`, `EDS`, `LDS` or `RDS`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name.
    pub name: String,
    /// The clients that hold it: `a`, `b` or `both`, with different versions.
    pub held_by: String,
    /// Version of the first client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub a: String,
    /// Version of the second client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub b: String,
    /// Attributes of the clients that make the difference, where known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// First fields with different values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}
