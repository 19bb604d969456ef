//! Names of xDS resources: formatting and parsing (`docs/reference/xds.md`).

use tributary_model::{Hostname, PortNumber};

/// xDS cluster for outbound traffic without a service.
pub const PASSTHROUGH: &str = "PassthroughCluster";
/// xDS cluster for rejected traffic.
pub const BLACK_HOLE: &str = "BlackHoleCluster";
/// xDS cluster for inbound traffic without a service.
pub const INBOUND_PASSTHROUGH: &str = "InboundPassthroughCluster";

/// Formats the name of an outbound xDS cluster: `outbound|80||pay.shop`.
#[must_use]
pub fn cluster_name(port: PortNumber, host: &Hostname) -> String {
    format!("outbound|{port}||{host}")
}

/// Formats the name of an inbound xDS cluster: `inbound|80||`.
#[must_use]
pub fn inbound_name(port: PortNumber) -> String {
    format!("inbound|{port}||")
}

/// Parses the port and host of `outbound|80||pay.shop`. Rejects names with a subset, because this server
/// has no subsets.
#[must_use]
pub fn parse_cluster_name(name: &str) -> Option<(PortNumber, Hostname)> {
    let rest = name.strip_prefix("outbound|")?;
    let (port, rest) = rest.split_once('|')?;
    let host = rest.strip_prefix('|')?;
    Some((parse_port(port)?, canonical_host(host)?))
}

/// Parses a port in its canonical spelling only: names compare as text, so `080` is a different name.
fn parse_port(text: &str) -> Option<PortNumber> {
    let number = PortNumber::new(text.parse().ok()?).ok()?;
    (number.to_string() == text).then_some(number)
}

/// Parses a host in its canonical spelling only, for the same reason.
fn canonical_host(text: &str) -> Option<Hostname> {
    Hostname::new(text).ok().filter(|host| host.as_str() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xds_cluster_name_round_trips() {
        let (port, host) = (PortNumber::new(80).unwrap(), Hostname::new("*.pay.shop").unwrap());
        let name = cluster_name(port, &host);
        assert_eq!(name, "outbound|80||*.pay.shop");
        assert_eq!(parse_cluster_name(&name), Some((port, host)));
    }

    #[test]
    fn other_spellings_are_rejected() {
        for bad in [
            "",
            "outbound|80||",
            "outbound|080||a.b",
            "outbound|+80||a.b",
            "outbound|0||a.b",
            "outbound|80||A.b",
            "outbound|80||a.b.",
            "outbound|80|v1|a.b",
            "inbound|80||",
            "outbound_.80_._.a.b",
        ] {
            assert_eq!(parse_cluster_name(bad), None, "{bad:?}");
        }
    }
}
