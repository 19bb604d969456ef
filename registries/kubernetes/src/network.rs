//! Network of an endpoint (docs/reference/kubernetes.md): its own label, then the label of the system namespace, then
//! the mesh networks' claims on the registry and on address ranges.
//!
//! Held by [`ClusterObjects`](crate::ClusterObjects) and rebuilt when the mesh configuration or a system namespace changes;
//! then every output with a topology is derived again in the same flush, so that no flush mixes two networks.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tributary_model::network_ranges::NetworkRanges;
use tributary_model::{Labels, NetworkId, labels};

/// Network, and the object that assigns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAssignment {
    /// Network.
    pub network: NetworkId,
    /// Description of the assigning object, such as `label topology.istio.io/network of namespace istio-system`.
    pub origin: Arc<str>,
}

/// Networks of this cluster's addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks {
    /// Network of the cluster itself.
    own: Option<NetworkAssignment>,
    /// Networks by address range.
    ranges: NetworkRanges,
}

impl Networks {
    /// Combines the label of the system namespace, the mesh networks' claim on this registry, and the ranges of all
    /// networks. The first network that claims a range has it.
    #[must_use]
    pub fn new<'a>(
        label: Option<NetworkAssignment>,
        registry: Option<NetworkAssignment>,
        ranges: impl IntoIterator<Item = (&'a NetworkId, &'a IpNet)>,
    ) -> Self {
        Self { own: label.or(registry), ranges: NetworkRanges::new(ranges) }
    }
    /// Returns the cluster's own network and its source.
    #[must_use]
    pub const fn own(&self) -> Option<&NetworkAssignment> {
        self.own.as_ref()
    }
    /// Returns the network of an endpoint with these labels and this address.
    #[must_use]
    pub fn of(&self, labels: &Labels, ip: Option<IpAddr>) -> Option<NetworkId> {
        label(labels)
            .or_else(|| self.own.as_ref().map(|own| own.network.clone()))
            .or_else(|| self.ranges.at(ip?).cloned())
    }
    /// Returns the networks by address range.
    #[must_use]
    pub const fn ranges(&self) -> &NetworkRanges {
        &self.ranges
    }
}

/// Returns the network that labels name; `None` for an empty label.
#[must_use]
pub fn label(labels: &Labels) -> Option<NetworkId> {
    labels.get(labels::NETWORK).and_then(|network| NetworkId::new(network).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> NetworkId {
        NetworkId::new(text).unwrap()
    }
    fn assigned(text: &str) -> Option<NetworkAssignment> {
        Some(NetworkAssignment { network: network(text), origin: "x".into() })
    }
    fn mk(
        own: Option<NetworkAssignment>,
        registry: Option<NetworkAssignment>,
        ranges: &[(&str, &str)],
    ) -> Networks {
        let ranges: Vec<_> = ranges.iter().map(|(n, r)| (network(n), r.parse().unwrap())).collect();
        Networks::new(own, registry, ranges.iter().map(|(n, r)| (n, r)))
    }

    #[test]
    fn nearest_assignment_to_the_endpoint_decides() {
        let labels: Labels = [(labels::NETWORK, "of-label")].into_iter().collect();
        let (none, empty) = (Labels::default(), [(labels::NETWORK, "")].into_iter().collect::<Labels>());
        let ip = Some(IpAddr::from([10, 0, 0, 1]));
        let range = &[("of-range", "10.0.0.0/8")][..];
        let cases = [
            (mk(assigned("of-system"), assigned("of-registry"), range), &labels, Some("of-label")),
            (mk(assigned("of-system"), assigned("of-registry"), range), &empty, Some("of-system")),
            (mk(None, assigned("of-registry"), range), &none, Some("of-registry")),
            (mk(None, None, range), &none, Some("of-range")),
            (mk(None, None, &[("of-range", "11.0.0.0/8")]), &none, None),
        ];
        for (networks, labels, want) in cases {
            assert_eq!(networks.of(labels, ip), want.map(network), "{networks:?}");
        }
    }
}
