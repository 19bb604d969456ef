//! Addresses of host names: what DNS answered for the names of gateways.
//!
//! Reported by the registry of resolved names as facts, one for each name; the core joins them with the gateways that have the name.
//! Equal answers are equal values, in whatever order a server lists the addresses.

use std::net::IpAddr;
use std::sync::Arc;

use crate::time::Mono;

/// Addresses of a host name of gateways.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedName {
    /// Addresses of the last answer that had any, sorted, each once; empty if there was none.
    pub addresses: Arc<[IpAddr]>,
    /// Why the name cannot be resolved now; its addresses stay in use.
    pub failure: Option<NameFailure>,
}

/// Resolution that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameFailure {
    /// Time of the first failure since the last answer.
    pub since: Mono,
    /// Reason, for operators.
    pub reason: Arc<str>,
}

impl ResolvedName {
    /// Maximum number of addresses of one name.
    pub const MAX_ADDRESSES: usize = 32;

    /// Creates the value of an answer. Of more addresses than the maximum, the first in order count.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut addresses: Vec<IpAddr> = addresses.into_iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(Self::MAX_ADDRESSES);
        Self { addresses: addresses.into(), failure: None }
    }
    /// Returns the value with the same addresses and a failure.
    #[must_use]
    pub fn failing(&self, failure: NameFailure) -> Self {
        Self { addresses: Arc::clone(&self.addresses), failure: Some(failure) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_equal_in_any_order_and_bounded() {
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let [a, b] = [[ip(2), ip(1), ip(2)].to_vec(), vec![ip(1), ip(2)]].map(ResolvedName::new);
        assert_eq!(a, b);
        let many = ResolvedName::new((0..100).rev().map(ip));
        assert_eq!((many.addresses.len(), many.addresses[0]), (ResolvedName::MAX_ADDRESSES, ip(0)));
    }
}
