//! The names of resources (`xds.md` 5.1): how an xDS cluster is called, and what a name means.

use tributary_model::{Hostname, PortNumber};

/// Where traffic goes that no service claims.
pub const PASSTHROUGH: &str = "PassthroughCluster";
/// Where traffic goes that is refused.
pub const BLACK_HOLE: &str = "BlackHoleCluster";
/// Where inbound traffic goes that no service claims.
pub const INBOUND_PASSTHROUGH: &str = "InboundPassthroughCluster";

/// `outbound|80||pay.shop`.
#[must_use]
pub fn cluster_name(port: PortNumber, host: &Hostname) -> String {
    format!("outbound|{port}||{host}")
}

/// `inbound|80||`.
#[must_use]
pub fn inbound_name(port: PortNumber) -> String {
    format!("inbound|{port}||")
}

/// The port and host of `outbound|80||pay.shop`. A subset is refused: subsets are another
/// resource, and no rule of this server makes one.
#[must_use]
pub fn parse_cluster_name(name: &str) -> Option<(PortNumber, Hostname)> {
    let rest = name.strip_prefix("outbound|")?;
    let (port, rest) = rest.split_once('|')?;
    let host = rest.strip_prefix('|')?;
    Some((parse_port(port)?, canonical_host(host)?))
}

/// A port in its one spelling: `080` is another name, and names are compared as text.
fn parse_port(text: &str) -> Option<PortNumber> {
    let number = PortNumber::new(text.parse().ok()?).ok()?;
    (number.to_string() == text).then_some(number)
}

/// A host in its one spelling, for the same reason.
fn canonical_host(text: &str) -> Option<Hostname> {
    Hostname::new(text).ok().filter(|host| host.as_str() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_round_trips() {
        let (port, host) = (PortNumber::new(80).unwrap(), Hostname::new("*.pay.shop").unwrap());
        let name = cluster_name(port, &host);
        assert_eq!(name, "outbound|80||*.pay.shop");
        assert_eq!(parse_cluster_name(&name), Some((port, host)));
    }

    #[test]
    fn other_spellings_are_other_names() {
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
