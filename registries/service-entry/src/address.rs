//! Parses addresses of documents.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{Hostname, WorkloadAddress};

use crate::document::WorkloadSpec;

/// An IP or a CIDR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
    /// Whether the text contains a `/`.
    pub(crate) cidr: bool,
}

/// Parses an IP, or a CIDR reduced to its network; `/32` and `/128` are single addresses.
pub(crate) fn parse_range(text: &str) -> Option<Range> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Range { ip, prefix: if ip.is_ipv4() { 32 } else { 128 }, cidr: false });
    }
    let net = text.parse::<ipnet::IpNet>().ok()?.trunc();
    Some(Range { ip: net.addr(), prefix: net.prefix_len(), cidr: true })
}

/// The address at which a workload listens; `None` if it is absent or invalid.
pub(crate) fn of(spec: &WorkloadSpec) -> Option<WorkloadAddress> {
    if let Some(path) = spec.unix_path() {
        return (!path.is_empty()).then(|| WorkloadAddress::Unix(path.into()));
    }
    let text = &spec.address.as_ref()?.value;
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(WorkloadAddress::Ip(ip));
    }
    name(text).map(|host| WorkloadAddress::Name(Arc::from(host.as_str())))
}

/// The IP at which a workload listens, if its address is an IP.
pub(crate) fn ip(spec: &WorkloadSpec) -> Option<IpAddr> {
    spec.address.as_ref()?.value.parse().ok()
}

/// Parses a name that DNS can resolve. Text of digits and dots alone is never a name:
/// `10.0.0.300` is an invalid IP.
pub(crate) fn name(text: &str) -> Option<Hostname> {
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    Hostname::new(text).ok().filter(|host| !numeric && !host.is_wildcard())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_reduced_to_their_network() {
        let range = parse_range("10.1.2.3/16").unwrap();
        assert_eq!((range.ip, range.prefix, range.cidr), ("10.1.0.0".parse().unwrap(), 16, true));
        assert_eq!(parse_range("2001:db8::1").unwrap().prefix, 128);
        assert_eq!(parse_range("10.0.0.1/32").unwrap().prefix, 32);
        for junk in ["", "10.0.0.0/33", "10.0.0", "pay.example.com", "10.0.0.1/", "fe80::1%eth0"] {
            assert_eq!(parse_range(junk), None, "{junk:?} was accepted");
        }
    }
}
