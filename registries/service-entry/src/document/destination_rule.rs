//! DestinationRule of `networking.istio.io`: settings and subsets of the endpoints of a host.

use tributary_model::Labels;

use super::traffic_policy::TrafficPolicy;
use super::{Located, Text};

/// Settings and subsets of the endpoints of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DestinationRule {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// The host, which may be short or a wildcard.
    pub host: Option<Text>,
    /// Settings of all endpoints.
    pub policy: Option<TrafficPolicy>,
    /// The subsets.
    pub subsets: Vec<SubsetRule>,
    /// Namespaces whose clients it concerns.
    pub export_to: Vec<Text>,
    /// Labels of the clients that it concerns; all clients if absent.
    pub selector: Option<Located<Labels>>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
}

/// Endpoints with certain labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubsetRule {
    /// Position.
    pub at: Located<()>,
    /// Name.
    pub name: Option<Text>,
    /// Labels that an endpoint must have.
    pub labels: Located<Labels>,
    /// Settings, each part instead of that of the rule.
    pub policy: Option<TrafficPolicy>,
}

impl DestinationRule {
    /// The traffic policies with their paths, those of ports included.
    pub(crate) fn policies(&self) -> impl Iterator<Item = (String, &TrafficPolicy)> {
        let own = self.policy.iter().map(|policy| ("spec.trafficPolicy".to_owned(), policy));
        let subsets = self.subsets.iter().enumerate().filter_map(|(i, subset)| {
            Some((format!("spec.subsets[{i}].trafficPolicy"), subset.policy.as_ref()?))
        });
        own.chain(subsets).flat_map(|(path, policy)| {
            let ports = policy.ports.iter().enumerate();
            let ports: Vec<_> =
                ports.map(|(i, port)| (format!("{path}.portLevelSettings[{i}]"), &port.policy)).collect();
            std::iter::once((path, policy)).chain(ports)
        })
    }
}
