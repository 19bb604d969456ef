//! Receipts of removed clusters: what left with each, computed before anything changed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Most hosts that a plan names.
pub const MOST_HOSTS: usize = 100;

/// What the removal of a cluster takes away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeavePlan {
    /// Services with a declaration or an endpoint of the cluster.
    pub services: u64,
    /// Its endpoints; one of two services counts twice.
    pub endpoints: u64,
    /// Number of hosts that keep no endpoint.
    pub emptied: u64,
    /// These hosts, the first 100.
    pub hosts: Vec<String>,
}

/// What the removal of a cluster that is served would take away now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    /// Cluster.
    pub cluster: String,
    /// What would leave with it.
    pub plan: LeavePlan,
}

/// Removal of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptItem {
    /// Cluster.
    pub cluster: String,
    /// Registry of its objects.
    pub registry: String,
    /// Object that declared it last, `NAMESPACE/NAME` of a Secret; empty if unknown.
    pub object: String,
    /// Generation of that registry when the removal began.
    pub generation: u64,
    /// When the removal began.
    pub began: Timestamp,
    /// What it was to take away.
    pub plan: LeavePlan,
    /// When the facts were removed.
    pub removed: Timestamp,
}
