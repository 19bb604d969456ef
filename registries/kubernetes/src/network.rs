//! In which network an endpoint lies (`registries.md` 3.6): its own label, then the label of the system
//! namespace, then what mesh networks say of the registry and of address ranges.
//!
//! Kept by [`ClusterObjects`](crate::ClusterObjects) and made again when the mesh configuration or a system namespace changes,
//! after which everything that has a place is derived again in the same flush: nothing is published that
//! mixes the old network with the new one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tributary_model::{Labels, NetworkId, labels};

/// A network, and where it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAssignment {
    /// The network.
    pub network: NetworkId,
    /// Where a person finds that: `label topology.istio.io/network of namespace istio-system`.
    pub place: Arc<str>,
}

/// What says in which network addresses of this cluster lie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks {
    /// The cluster's own network.
    own: Option<NetworkAssignment>,
    /// Ranges by the length of their prefix, the longest first.
    ranges: Arc<[(u8, BTreeMap<IpNet, NetworkId>)]>,
}

impl Networks {
    /// From what the system namespace's label says, what mesh networks say of this registry, and the ranges of
    /// all networks. Of two networks that claim one range the first has it.
    #[must_use]
    pub fn new<'a>(
        label: Option<NetworkAssignment>,
        registry: Option<NetworkAssignment>,
        ranges: impl IntoIterator<Item = (&'a NetworkId, &'a IpNet)>,
    ) -> Self {
        let mut by_length: BTreeMap<u8, BTreeMap<IpNet, NetworkId>> = BTreeMap::new();
        for (network, range) in ranges {
            let of_length = by_length.entry(range.prefix_len()).or_default();
            of_length.entry(range.trunc()).or_insert_with(|| network.clone());
        }
        Self { own: label.or(registry), ranges: by_length.into_iter().rev().collect() }
    }
    /// The cluster's own network and where it is said.
    #[must_use]
    pub const fn own(&self) -> Option<&NetworkAssignment> {
        self.own.as_ref()
    }
    /// The network of what has these labels and this address.
    #[must_use]
    pub fn of(&self, labels: &Labels, ip: Option<IpAddr>) -> Option<NetworkId> {
        label(labels)
            .or_else(|| self.own.as_ref().map(|said| said.network.clone()))
            .or_else(|| self.at(ip?).cloned())
    }
    /// The network of the narrowest range that holds an address.
    #[must_use]
    pub fn at(&self, ip: IpAddr) -> Option<&NetworkId> {
        self.ranges.iter().find_map(|(length, ranges)| ranges.get(&IpNet::new(ip, *length).ok()?.trunc()))
    }
}

/// The network that labels name; an empty label names none.
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
    fn said(text: &str) -> Option<NetworkAssignment> {
        Some(NetworkAssignment { network: network(text), place: "x".into() })
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
    fn what_is_nearest_to_the_endpoint_decides() {
        let labels: Labels = [(labels::NETWORK, "of-label")].into_iter().collect();
        let (none, empty) = (Labels::default(), [(labels::NETWORK, "")].into_iter().collect::<Labels>());
        let ip = Some(IpAddr::from([10, 0, 0, 1]));
        let range = &[("of-range", "10.0.0.0/8")][..];
        let cases = [
            (mk(said("of-system"), said("of-registry"), range), &labels, Some("of-label")),
            (mk(said("of-system"), said("of-registry"), range), &empty, Some("of-system")),
            (mk(None, said("of-registry"), range), &none, Some("of-registry")),
            (mk(None, None, range), &none, Some("of-range")),
            (mk(None, None, &[("of-range", "11.0.0.0/8")]), &none, None),
        ];
        for (networks, labels, want) in cases {
            assert_eq!(networks.of(labels, ip), want.map(network), "{networks:?}");
        }
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let ranges = [
            ("wide", "10.0.0.0/8"),
            ("narrow", "10.1.0.0/16"),
            ("host", "10.1.2.3/32"),
            ("all", "0.0.0.0/0"),
        ];
        let cases =
            [("10.1.2.3", "host"), ("10.1.2.4", "narrow"), ("10.2.0.1", "wide"), ("192.0.2.1", "all")];
        let mut turned = ranges;
        turned.reverse();
        for networks in [mk(None, None, &ranges), mk(None, None, &turned)] {
            for (ip, want) in cases {
                assert_eq!(networks.at(ip.parse().unwrap()), Some(&network(want)), "{ip}");
            }
            assert_eq!(networks.at("2001:db8::1".parse().unwrap()), None, "no range of that family");
        }
    }

    #[test]
    fn host_bits_do_not_hide_a_range_and_the_first_claim_on_it_stands() {
        let networks = mk(None, None, &[("a", "10.1.2.3/8"), ("b", "10.0.0.0/8"), ("six", "2001:db8::7/32")]);
        assert_eq!(networks.at("10.9.9.9".parse().unwrap()), Some(&network("a")));
        assert_eq!(networks.at("2001:db8:1::1".parse().unwrap()), Some(&network("six")));
    }
}
