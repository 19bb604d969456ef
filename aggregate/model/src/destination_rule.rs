//! DestinationRule: settings and subsets of the endpoints of a host.
//!
//! Adapters build these values from `networking.istio.io` DestinationRules after validation; the core decides which
//! rule applies to which clients of which service.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::export::ExportTo;
use crate::hostname::HostPattern;
use crate::labels::Labels;
use crate::policy::PolicyKey;
use crate::subset::Subset;
use crate::traffic_policy::{HashKey, LocalityBalancing, PortPolicies, TrafficPolicy};

/// Settings and subsets of the endpoints of a host.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DestinationRule {
    /// Hosts; a name without a dot is one of the rule's namespace.
    pub host: HostPattern,
    /// Namespaces whose clients it concerns.
    pub export: ExportTo,
    /// Labels of the clients that it concerns; empty for all.
    pub selector: Labels,
    /// Settings of all endpoints.
    pub policies: PortPolicies,
    /// Subsets, in declared order; each name once.
    pub subsets: Arc<[SubsetRule]>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

impl DestinationRule {
    /// Returns the keys of the client labels by which it orders endpoints.
    #[must_use]
    pub fn compared_labels(&self) -> BTreeSet<Arc<str>> {
        let all = std::iter::once(&self.policies).chain(self.subsets.iter().map(|subset| &subset.policies));
        let policies = all.flat_map(|of| std::iter::once(&of.all).chain(of.ports.values()));
        let balancers = policies.filter_map(|policy| policy.balancer.as_ref());
        let localities = balancers.filter_map(|balancer| balancer.locality.as_ref());
        localities.flat_map(LocalityBalancing::compared_labels).cloned().collect()
    }
}

/// Endpoints with certain labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SubsetRule {
    /// Name.
    pub name: Subset,
    /// Labels that an endpoint must have.
    pub labels: Labels,
    /// Settings, each part instead of that of the rule.
    pub policies: PortPolicies,
}

/// What rules set for the xDS clusters of one port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ClusterPolicy {
    /// Settings of all endpoints.
    pub whole: TrafficPolicy,
    /// Settings of each subset, by name.
    pub subsets: Arc<[(Subset, TrafficPolicy)]>,
    /// Rules that these come from, the first in precedence first; the others add subsets or the settings of all.
    pub from: Arc<[PolicyKey]>,
}

impl ClusterPolicy {
    /// Returns the settings of all endpoints, and of each subset.
    pub fn all(&self) -> impl Iterator<Item = &TrafficPolicy> {
        std::iter::once(&self.whole).chain(self.subsets.iter().map(|(_, policy)| policy))
    }
    /// Returns the settings of all endpoints or of a subset; `None` if the subset does not exist.
    #[must_use]
    pub fn of(&self, subset: Option<&Subset>) -> Option<&TrafficPolicy> {
        let Some(subset) = subset else { return Some(&self.whole) };
        self.subsets.iter().find(|(name, _)| name == subset).map(|(_, policy)| policy)
    }
}

/// What rules set for connections to one port, which a client's listeners decide.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ConnectionPolicy {
    /// Property of a request that decides its endpoint.
    pub hash: Option<HashKey>,
    /// Whether the client's address decides the endpoint of a connection of TCP.
    pub by_source: bool,
    /// Time without bytes until a connection of TCP is closed; without a limit for 0.
    pub idle_timeout: Option<Duration>,
    /// Longest duration of a connection of TCP.
    pub max_duration: Option<Duration>,
}

/// What rules set for the assignments of one port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EndpointPolicy {
    /// Use of all endpoints.
    pub whole: EndpointUse,
    /// Labels of each subset and the use of its endpoints, by name.
    pub subsets: Arc<[(Subset, Labels, EndpointUse)]>,
}

/// How a rule lets clients use endpoints: in which order, and whether by gateways between networks, which need mesh TLS and replace the
/// destination of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EndpointUse {
    /// Which localities are used; that of the service or of the mesh if absent.
    pub locality: Option<LocalityBalancing>,
    /// Whether endpoints that fail are ejected, without which no locality replaces another.
    pub ejects: bool,
    /// Whether connections use mesh TLS, as gateways between networks need; as without a rule if absent.
    pub mesh_tls: Option<bool>,
    /// Whether connections keep their destination, which then is no gateway.
    pub passes: bool,
}
