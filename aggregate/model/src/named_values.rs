//! Client values that an endpoint assignment names, so that all other values give one answer.
//!
//! Built once per inputs by answer, which reads it to reduce a client to its projection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::{ClusterId, Namespace, NetworkId, NodeName};

/// Nodes of endpoints, by region, zone and subzone.
pub type Places = BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<NodeName>>>>;

/// Client values that make a difference to the answers of some inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedValues {
    /// Networks of the endpoints.
    pub networks: BTreeSet<NetworkId>,
    /// Clusters of endpoints that only clients of the same cluster may have.
    pub clusters: BTreeSet<ClusterId>,
    /// Nodes of endpoints that only clients of the same node may have.
    pub nodes: BTreeSet<NodeName>,
    /// Namespaces that see other endpoints than a client without a namespace, each with the first
    /// namespace that sees the same.
    pub namespaces: BTreeMap<Namespace, Namespace>,
    /// Locations that the order of endpoints compares; empty if their order does not depend on the client.
    pub places: Places,
}
