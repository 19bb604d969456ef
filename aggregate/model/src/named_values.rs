//! Client values that an endpoint assignment names, so that all other values give one answer.
//!
//! Built once per inputs by answer, which reads it to reduce a client to its projection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::by_namespace::ByNamespace;
use crate::declaration::TrafficDistribution;
use crate::id::{ClusterId, Namespace, NetworkId, NodeName};
use crate::traffic_policy::FailoverLabel;

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
    /// What the order of endpoints compares, by the namespace of the client.
    pub orders: ByNamespace<Arc<NamedOrder>>,
}

/// Client values that the order of endpoints compares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedOrder {
    /// Locations of endpoints that a traffic distribution compares, and which of them.
    pub near: Option<(TrafficDistribution, Places)>,
    /// Regions, zones and subzones that failover or shares compare.
    pub parts: Parts,
    /// Labels that failover compares, for each list of labels.
    pub labels: Vec<NamedLabels>,
}

/// Subzones by region and zone.
pub type Parts = BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<Arc<str>>>>;

/// Values of endpoints for one list of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLabels {
    /// Labels, the most significant first.
    pub labels: Arc<[FailoverLabel]>,
    /// Networks, if the first label is the network: then the others count also where it differs.
    pub networks: Option<BTreeSet<Arc<str>>>,
    /// Values of the other labels.
    pub values: LabelValues,
}

/// Values of a label, each with those of the next label where it has this value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelValues(pub BTreeMap<Arc<str>, LabelValues>);
