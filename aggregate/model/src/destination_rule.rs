//! DestinationRule: settings and subsets of the endpoints of a host.
//!
//! Adapters build these values from `networking.istio.io` DestinationRules after validation; the core decides which
//! rule applies to which clients of which service.

use std::sync::Arc;

use crate::export::ExportTo;
use crate::hostname::HostPattern;
use crate::labels::Labels;
use crate::subset::Subset;
use crate::traffic_policy::PortPolicies;

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
