//! Where an instance is reached: which of its addresses, and at which primary port.

use std::net::IpAddr;

use tributary_model::Hostname;

use crate::wire::HealthEntry;

/// An address as it can be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// An IP.
    Ip(IpAddr),
    /// A name that is looked up.
    Name(Hostname),
}

/// Which family is taken where there are both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// IPv4 first.
    #[default]
    PreferV4,
    /// IPv6 first.
    PreferV6,
}

/// From where instances are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// Whether the instances run in another datacenter, so that their WAN addresses are meant.
    pub remote: bool,
    /// Whether `lan` addresses go before the instance's own.
    pub lan: bool,
    /// Whether the agent has chosen addresses for its clients already.
    pub translated: bool,
    /// Which family is taken.
    pub family: Family,
}

/// The address, and the port that comes with it where one does. `None` where none can be used.
#[must_use]
pub fn of(entry: &HealthEntry, view: View) -> Option<(Where, Option<i64>)> {
    let network = match (view.translated, view.remote, view.lan) {
        (true, ..) | (false, false, false) => None,
        (_, true, _) => Some("wan"),
        (_, false, true) => Some("lan"),
    };
    let tagged = network.and_then(|network| tagged(entry, network, view.family));
    tagged.or_else(|| own(entry).map(|place| (place, None)))
}

/// Of the addresses for one network, the first that can be used: the instance's, then its node's.
fn tagged(entry: &HealthEntry, network: &str, family: Family) -> Option<(Where, Option<i64>)> {
    let (first, second) = match family {
        Family::PreferV4 => ("ipv4", "ipv6"),
        Family::PreferV6 => ("ipv6", "ipv4"),
    };
    let keys = [format!("{network}_{first}"), network.to_owned(), format!("{network}_{second}")];
    let service = keys.iter().filter_map(|key| entry.service.tagged_addresses.get(key));
    let port = |port: i64| (port != 0).then_some(port);
    let service = service.filter_map(|tagged| Some((usable(&tagged.address)?, port(tagged.port))));
    let node = keys.iter().filter_map(|key| entry.node.tagged_addresses.get(key));
    let node = node.filter_map(|text| Some((usable(text)?, None)));
    service.chain(node).next()
}

fn own(entry: &HealthEntry) -> Option<Where> {
    let text = if entry.service.address.is_empty() { &entry.node.address } else { &entry.service.address };
    usable(text)
}

/// An IP that leads somewhere else than to the caller itself, or a name.
fn usable(text: &str) -> Option<Where> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return (!ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast()).then_some(Where::Ip(ip));
    }
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    Hostname::new(text).ok().filter(|host| !numeric && !host.is_wildcard()).map(Where::Name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Node, Service, Tagged};

    fn mk_entry(service: &str, node: &str) -> HealthEntry {
        let node = Node { node: "n".into(), address: node.into(), ..Node::default() };
        let service = Service { service: "web".into(), address: service.into(), ..Service::default() };
        HealthEntry { node, service, checks: vec![] }
    }

    fn found(entry: &HealthEntry, view: View) -> Option<(String, Option<i64>)> {
        of(entry, view).map(|(place, port)| match place {
            Where::Ip(ip) => (ip.to_string(), port),
            Where::Name(host) => (host.to_string(), port),
        })
    }

    #[test]
    fn an_instances_own_address_goes_before_its_nodes() {
        let cases = [
            ("10.0.0.2", "10.0.0.1", Some("10.0.0.2")),
            ("", "10.0.0.1", Some("10.0.0.1")),
            ("", "2001:db8::1", Some("2001:db8::1")),
            ("DB.example.com", "10.0.0.1", Some("db.example.com")),
            ("", "", None),
        ];
        for (service, node, want) in cases {
            let have = found(&mk_entry(service, node), View::default());
            assert_eq!(have, want.map(|want| (want.to_owned(), None)), "{service} {node}");
        }
    }

    #[test]
    fn an_address_that_leads_nowhere_is_none() {
        for bad in
            ["0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "[2001:db8::1]", "10.0.0.300", "a b", "*.a.b"]
        {
            assert_eq!(found(&mk_entry(bad, "10.0.0.1"), View::default()), None, "{bad}");
        }
    }

    #[test]
    fn the_network_that_is_looked_from_decides() {
        let mut entry = mk_entry("10.0.0.2", "10.0.0.1");
        let tagged = |address: &str, port| Tagged { address: address.into(), port };
        entry.node.tagged_addresses =
            [("wan".into(), "1.1.1.1".into()), ("lan".into(), "10.9.9.9".into())].into();
        entry.service.tagged_addresses = [
            ("virtual".into(), tagged("240.0.0.1", 1)),
            ("consul-virtual".into(), tagged("240.0.0.2", 1)),
            ("lan_ipv4".into(), tagged("10.0.0.3", 0)),
            ("lan_ipv6".into(), tagged("2001:db8::3", 0)),
        ]
        .into();
        let remote = View { remote: true, ..View::default() };
        let lan = View { lan: true, ..View::default() };
        let cases = [
            (View::default(), ("10.0.0.2", None)),
            (remote, ("1.1.1.1", None)),
            (View { translated: true, ..remote }, ("10.0.0.2", None)),
            (lan, ("10.0.0.3", None)),
            (View { family: Family::PreferV6, ..lan }, ("2001:db8::3", None)),
        ];
        for (view, (address, port)) in cases {
            assert_eq!(found(&entry, view), Some((address.to_owned(), port)), "{view:?}");
        }
        entry.service.tagged_addresses.insert("wan".into(), tagged("2.2.2.2", 444));
        assert_eq!(found(&entry, remote), Some(("2.2.2.2".to_owned(), Some(444))));
    }
}
