//! Names of xDS resources: formatting and parsing (`docs/reference/xds.md`).
//!
//! Names compare as text, so only the one spelling that [`ClusterName`] formats parses again.

use std::fmt;
use std::str::FromStr;

use tributary_model::{ClientKind, Hostname, PortNumber, Subset};

/// xDS cluster for outbound traffic without a service.
pub const PASSTHROUGH: &str = "PassthroughCluster";
/// xDS cluster for rejected traffic.
pub const BLACK_HOLE: &str = "BlackHoleCluster";
/// xDS cluster for inbound traffic without a service.
pub const INBOUND_PASSTHROUGH: &str = "InboundPassthroughCluster";

/// Name of the xDS cluster of a service port, or of a subset of its endpoints: `outbound|80||pay.shop`,
/// `outbound|80|v1|pay.shop`; that of a router is `outbound_.80_._.pay.shop`, which clients send as a server name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName {
    /// Port of the service.
    pub port: PortNumber,
    /// Subset of the endpoints; `None` for all of them.
    pub subset: Option<Subset>,
    /// Host of the service.
    pub host: Hostname,
    /// Whether it is that of a router.
    pub forwarded: bool,
}

impl ClusterName {
    /// Names the xDS cluster of all endpoints of a port.
    #[must_use]
    pub fn new(port: PortNumber, host: &Hostname) -> Self {
        Self { port, subset: None, host: host.clone(), forwarded: false }
    }
    /// Returns the name that clients of a kind have for it.
    #[must_use]
    pub fn of(self, kind: Option<ClientKind>) -> Self {
        Self { forwarded: kind == Some(ClientKind::Router), ..self }
    }
    /// Whether it is of the same port as another, whatever their subsets.
    #[must_use]
    pub fn is_port_of(&self, other: &Self) -> bool {
        self.port == other.port && self.host == other.host
    }
    /// Parses a name as clients of a kind have it.
    #[must_use]
    pub fn parse(name: &str, kind: ClientKind) -> Option<Self> {
        name.parse().ok().filter(|name: &Self| name.forwarded == (kind == ClientKind::Router))
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subset = self.subset.as_ref().map_or("", Subset::as_str);
        let between = if self.forwarded { FORWARDED } else { "|" };
        write!(f, "outbound{between}{}{between}{subset}{between}{}", self.port, self.host)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl FromStr for ClusterName {
    type Err = NotAClusterName;

    fn from_str(name: &str) -> Result<Self, NotAClusterName> {
        parse(name).ok_or(NotAClusterName)
    }
}

/// Error: a text is not the name of a service's xDS cluster in its canonical spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAClusterName;

impl fmt::Display for NotAClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of an xDS cluster; write outbound|PORT|SUBSET|HOST")
    }
}

impl std::error::Error for NotAClusterName {}

/// Separator of the parts of a router's names.
const FORWARDED: &str = "_.";

/// Formats the name of an inbound xDS cluster: `inbound|80||`.
#[must_use]
pub fn inbound_name(port: PortNumber) -> String {
    format!("inbound|{port}||")
}

fn parse(name: &str) -> Option<ClusterName> {
    let rest = name.strip_prefix("outbound")?;
    let forwarded = rest.starts_with(FORWARDED);
    let between = if forwarded { FORWARDED } else { "|" };
    let (port, rest) = rest.strip_prefix(between)?.split_once(between)?;
    let (subset, host) = rest.split_once(between)?;
    let subset = if subset.is_empty() { None } else { Some(Subset::new(subset)?) };
    Some(ClusterName { port: parse_port(port)?, subset, host: canonical_host(host)?, forwarded })
}

/// Parses a port in its canonical spelling only: `080` is a different name.
fn parse_port(text: &str) -> Option<PortNumber> {
    let number = PortNumber::new(text.parse().ok()?).ok()?;
    (number.to_string() == text).then_some(number)
}

/// Parses a host in its canonical spelling only.
fn canonical_host(text: &str) -> Option<Hostname> {
    Hostname::new(text).ok().filter(|host| host.as_str() == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn xds_cluster_name_round_trips() {
        let (port, host) = (PortNumber::new(80).unwrap(), Hostname::new("*.pay.shop").unwrap());
        let name = ClusterName::new(port, &host);
        assert_eq!(name.to_string(), "outbound|80||*.pay.shop");
        assert_eq!("outbound|80||*.pay.shop".parse(), Ok(name.clone()));
        let of_subset = ClusterName { subset: Subset::new("v1-b"), ..name };
        assert_eq!(of_subset.to_string(), "outbound|80|v1-b|*.pay.shop");
        assert_eq!("outbound|80|v1-b|*.pay.shop".parse(), Ok(of_subset));
    }

    #[test]
    fn names_of_routers_are_server_names() {
        for name in ["outbound_.80_._.pay.shop", "outbound_.80_.v1-b_.*.pay.shop"] {
            let parsed: ClusterName = name.parse().unwrap();
            assert_eq!((parsed.to_string().as_str(), parsed.forwarded), (name, true));
            assert_eq!(ClusterName::parse(name, ClientKind::Router), Some(parsed.clone()));
            assert_eq!(ClusterName::parse(name, ClientKind::Sidecar), None);
            let plain = parsed.of(Some(ClientKind::Sidecar)).to_string();
            assert_eq!(ClusterName::parse(&plain, ClientKind::Router), None, "{plain}");
        }
    }

    #[test]
    fn other_spellings_are_rejected() {
        let long = format!("outbound|80|{}|a.b", "v".repeat(Subset::MAX + 1));
        for bad in [
            "",
            "outbound|80||",
            "outbound|80|v1|",
            "outbound|080||a.b",
            "outbound|+80||a.b",
            "outbound|0||a.b",
            "outbound|80||A.b",
            "outbound|80||a.b.",
            "outbound|80|||a.b",
            "outbound|80|v1",
            "outbound|80|-v1|a.b",
            "outbound|80|v1-|a.b",
            "outbound|80|v.1|a.b",
            "outbound|80| |a.b",
            "outbound|80|v1|v2|a.b",
            "inbound|80||",
            "outbound_.80_._.A.b",
            "outbound_.80|_.a.b",
            "outbound|80_._.a.b",
            &long,
        ] {
            assert_eq!(bad.parse::<ClusterName>(), Err(NotAClusterName), "{bad:?}");
        }
        let longest = long.replacen('v', "", 1);
        assert_eq!(longest.parse::<ClusterName>().unwrap().to_string(), longest);
    }

    proptest! {
        #[test]
        fn names_that_parse_are_formatted_as_they_were(
            name in "(outbound|inbound)[|](0?[1-9][0-9]{0,4}|0)[|][a-zA-Z0-9.-]{0,3}[|][a-zA-Z0-9.*_-]{0,6}",
        ) {
            if let Ok(parsed) = name.parse::<ClusterName>() {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }
    }
}
