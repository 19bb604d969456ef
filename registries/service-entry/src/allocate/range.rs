//! The ranges from which addresses are allocated.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// A range of addresses of one family. Its first address is the network's and is not allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range(IpNet);

/// The reason why a range cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeError(String);

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for RangeError {}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let net = text.parse::<IpNet>().map_err(|_| {
            RangeError(format!("{text:?} is not a range of addresses; write one as 240.240.0.0/16"))
        })?;
        if net.max_prefix_len() - net.prefix_len() < 2 {
            return Err(RangeError(format!(
                "{text} holds too few addresses; write one with a shorter prefix"
            )));
        }
        Ok(Self(net.trunc()))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address as a number within its family.
fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

impl Range {
    /// Whether it contains an address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.0.contains(&ip)
    }
    /// Whether a network contains the whole range.
    pub(crate) fn lies_in(&self, net: &IpNet) -> bool {
        net.contains(&self.0)
    }
    pub(crate) const fn is_ipv4(&self) -> bool {
        matches!(self.0, IpNet::V4(_))
    }
    fn address(&self, number: u128) -> IpAddr {
        match u32::try_from(number) {
            Ok(small) if self.is_ipv4() => Ipv4Addr::from(small).into(),
            _ => Ipv6Addr::from(number).into(),
        }
    }
    /// The first and last allocatable address; the last address of an IPv4 range is its broadcast address.
    fn bounds(&self) -> (u128, u128) {
        let last = number(self.0.broadcast());
        (number(self.0.network()) + 1, if self.is_ipv4() { last - 1 } else { last })
    }
    /// Returns the next free address after `after`, wrapping around at the end; `None` if all are
    /// taken. `taken` returns the last address of the occupied block that contains its argument, or `None`.
    pub(crate) fn next_free(
        &self,
        after: Option<IpAddr>,
        taken: impl Fn(IpAddr) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        let (first, last) = self.bounds();
        let start = after.filter(|ip| self.contains(*ip)).map_or(first, |ip| number(ip).saturating_add(1));
        let start = if (first..=last).contains(&start) { start } else { first };
        let search = |mut at: u128, to: u128| {
            while at <= to {
                match taken(self.address(at)) {
                    None => return Some(self.address(at)),
                    Some(until) => at = number(until).max(at).saturating_add(1),
                }
            }
            None
        };
        search(start, last).or_else(|| search(first, start.saturating_sub(1)))
    }
}

/// One range for each family; a family without a range receives no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    /// IPv4.
    pub v4: Option<Range>,
    /// IPv6.
    pub v6: Option<Range>,
}

impl Default for Ranges {
    /// `240.240.0.0/16` and `2001:2::/48`, as in Istio.
    fn default() -> Self {
        let v4 = ipnet::Ipv4Net::new_assert(Ipv4Addr::new(240, 240, 0, 0), 16);
        let v6 = ipnet::Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48);
        Self { v4: Some(Range(v4.into())), v6: Some(Range(v6.into())) }
    }
}

impl Ranges {
    /// Parses an IPv4 and an IPv6 range; an empty text means no range.
    pub fn parse(v4: &str, v6: &str) -> Result<Self, RangeError> {
        let range = |text: &str, v4: bool| {
            if text.is_empty() {
                return Ok(None);
            }
            let range = text.parse::<Range>()?;
            if range.is_ipv4() == v4 {
                return Ok(Some(range));
            }
            Err(RangeError(format!("{text} is not a range of IPv{} addresses", if v4 { 4 } else { 6 })))
        };
        Ok(Self { v4: range(v4, true)?, v6: range(v6, false)? })
    }
    /// The configured ranges.
    pub(crate) fn all(&self) -> impl Iterator<Item = Range> {
        self.v4.into_iter().chain(self.v6)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn one(ip: IpAddr, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        taken.contains(&ip).then_some(ip)
    }

    #[test]
    fn addresses_follow_each_other_and_begin_again() {
        let range = range("10.0.0.0/29");
        let mut taken = BTreeSet::new();
        let mut at = None;
        let mut given = Vec::new();
        while let Some(next) = range.next_free(at, |ip| one(ip, &taken)) {
            taken.insert(next);
            (at, _) = (Some(next), given.push(next.to_string()));
        }
        assert_eq!(given, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        taken.remove(&ip("10.0.0.2"));
        assert_eq!(range.next_free(at, |ip| one(ip, &taken)), Some(ip("10.0.0.2")));
    }

    #[test]
    fn occupied_block_is_skipped_in_one_step() {
        let range = range("2001:2::/48");
        let calls = std::cell::Cell::new(0);
        let until = |at: IpAddr| {
            calls.set(calls.get() + 1);
            (at < ip("2001:2:0:8000::")).then(|| ip("2001:2:0:7fff:ffff:ffff:ffff:ffff"))
        };
        assert_eq!(range.next_free(None, until), Some(ip("2001:2:0:8000::")));
        assert_eq!(calls.get(), 2);
    }

    #[test]
    fn a_full_range_ends_the_search_wherever_it_begins() {
        let range = range("10.0.0.0/30");
        for after in [None, Some(ip("10.0.0.1")), Some(ip("10.0.0.2")), Some(ip("192.168.0.1"))] {
            assert_eq!(range.next_free(after, Some), None, "{after:?}");
        }
    }

    #[test]
    fn ranges_are_of_their_family_and_not_too_small() {
        assert_eq!(Ranges::parse("240.240.0.0/16", "2001:2::/48"), Ok(Ranges::default()));
        assert_eq!(Ranges::parse("10.0.0.7/24", "").unwrap().v4.unwrap().to_string(), "10.0.0.0/24");
        for (v4, v6) in [("2001:2::/48", ""), ("", "10.0.0.0/8"), ("10.0.0.0/31", ""), ("ten", "")] {
            assert!(Ranges::parse(v4, v6).is_err(), "{v4:?} {v6:?}");
        }
    }
}
