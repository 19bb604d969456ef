//! Networks by address range. The registries of a cluster share it, so that all use the longest prefix.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::id::NetworkId;

/// Ranges by the length of their prefix, the longest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkRanges(Arc<[(u8, BTreeMap<IpNet, NetworkId>)]>);

impl NetworkRanges {
    /// Collects ranges; the first network that claims a range has it.
    #[must_use]
    pub fn new<'a>(ranges: impl IntoIterator<Item = (&'a NetworkId, &'a IpNet)>) -> Self {
        let mut by_length: BTreeMap<u8, BTreeMap<IpNet, NetworkId>> = BTreeMap::new();
        for (network, range) in ranges {
            let of_length = by_length.entry(range.prefix_len()).or_default();
            of_length.entry(range.trunc()).or_insert_with(|| network.clone());
        }
        Self(by_length.into_iter().rev().collect())
    }
    /// Returns the network of the longest prefix that contains an address.
    #[must_use]
    pub fn at(&self, ip: IpAddr) -> Option<&NetworkId> {
        self.0.iter().find_map(|(length, ranges)| ranges.get(&IpNet::new(ip, *length).ok()?.trunc()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_ranges(ranges: &[(&str, &str)]) -> NetworkRanges {
        let ranges: Vec<(NetworkId, IpNet)> =
            ranges.iter().map(|(n, r)| (NetworkId::new(*n).unwrap(), r.parse().unwrap())).collect();
        NetworkRanges::new(ranges.iter().map(|(n, r)| (n, r)))
    }

    fn at<'r>(ranges: &'r NetworkRanges, ip: &str) -> Option<&'r str> {
        ranges.at(ip.parse().unwrap()).map(NetworkId::as_str)
    }

    #[test]
    fn longest_prefix_wins_in_any_order() {
        let mut all = [
            ("wide", "10.0.0.0/8"),
            ("narrow", "10.1.0.0/16"),
            ("host", "10.1.2.3/32"),
            ("all", "0.0.0.0/0"),
        ];
        for _ in 0..2 {
            let ranges = mk_ranges(&all);
            for (ip, want) in
                [("10.1.2.3", "host"), ("10.1.2.4", "narrow"), ("10.2.0.1", "wide"), ("192.0.2.1", "all")]
            {
                assert_eq!(at(&ranges, ip), Some(want), "{ip}");
            }
            assert_eq!(at(&ranges, "2001:db8::1"), None, "no range of that family");
            all.reverse();
        }
    }

    #[test]
    fn host_bits_are_ignored_and_the_first_claim_wins() {
        let ranges = mk_ranges(&[("a", "10.1.2.3/8"), ("b", "10.0.0.0/8"), ("six", "2001:db8::7/32")]);
        assert_eq!(at(&ranges, "10.9.9.9"), Some("a"));
        assert_eq!(at(&ranges, "2001:db8:1::1"), Some("six"));
    }
}
