//! Selection of an instance's address and of the port that comes with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tributary_model::Hostname;

use crate::wire::HealthEntry;

/// Usable address of an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceAddress {
    /// One IP.
    Ip(IpAddr),
    /// One IP of each family.
    Both(Ipv4Addr, Ipv6Addr),
    /// DNS name.
    Name(Hostname),
}

/// Address family to use if an instance has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Prefers IPv4.
    #[default]
    PreferV4,
    /// Prefers IPv6.
    PreferV6,
    /// Uses both.
    Both,
}

/// Decides which address of an instance is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddressSelection {
    /// Whether the instances run in another datacenter, so that their WAN addresses apply.
    pub remote: bool,
    /// Whether `lan` addresses take precedence over the instance's own.
    pub lan: bool,
    /// Whether the agent has already selected addresses for its clients.
    pub translated: bool,
    /// Preferred family.
    pub family: Family,
    /// Whether loopback addresses are accepted because clients run on the instance's machine.
    pub loopback: bool,
}

/// Returns the address, and the port that comes with it if any. `None` if no address is usable.
#[must_use]
pub fn of(entry: &HealthEntry, selection: AddressSelection) -> Option<(InstanceAddress, Option<i64>)> {
    if selection.family != Family::Both {
        return one(entry, selection);
    }
    let (first, port) = one(entry, AddressSelection { family: Family::PreferV4, ..selection })?;
    let second = in_network(entry, AddressSelection { family: Family::PreferV6, ..selection }, true);
    let both = match (&first, second) {
        (InstanceAddress::Ip(IpAddr::V4(v4)), Some((InstanceAddress::Ip(IpAddr::V6(v6)), _))) => {
            InstanceAddress::Both(*v4, v6)
        }
        _ => first,
    };
    Some((both, port))
}

fn one(entry: &HealthEntry, selection: AddressSelection) -> Option<(InstanceAddress, Option<i64>)> {
    in_network(entry, selection, false)
}

/// Returns the address in the selected network. With `by_family`, the tagged address of the family precedes the
/// network's.
fn in_network(
    entry: &HealthEntry,
    selection: AddressSelection,
    by_family: bool,
) -> Option<(InstanceAddress, Option<i64>)> {
    let network =
        match (selection.translated, selection.remote, selection.lan || selection.family == Family::PreferV6)
        {
            (true, ..) | (false, false, false) => None,
            (_, true, _) => Some("wan"),
            (_, false, true) => Some("lan"),
        };
    let tagged = network.and_then(|network| tagged(entry, network, selection, by_family));
    tagged.or_else(|| own(entry, selection).map(|at| (at, None)))
}

/// Returns the first usable address of one network: the instance's, then its node's. An operator sets `wan` and `lan`;
/// the addresses per family that an agent adds repeat the instance's own. They come last, and lead nowhere from
/// outside.
fn tagged(
    entry: &HealthEntry,
    network: &str,
    selection: AddressSelection,
    by_family: bool,
) -> Option<(InstanceAddress, Option<i64>)> {
    let (first, second) = match selection.family {
        Family::PreferV4 | Family::Both => ("ipv4", "ipv6"),
        Family::PreferV6 => ("ipv6", "ipv4"),
    };
    let mut keys = vec![format!("{network}_{first}"), network.to_owned(), format!("{network}_{second}")];
    if selection.remote && !by_family {
        keys.swap(0, 1);
    }
    if !selection.remote && !selection.lan {
        // If only the family was requested, an absent tagged address leaves the instance's own.
        keys.truncate(1);
    }
    let own = &entry.service.address;
    let found = keys.iter().filter_map(|key| Some((key, entry.service.tagged_addresses.get(key)?)));
    let (by_agent, by_operator): (Vec<_>, Vec<_>) = found
        .map(|(key, found)| (key != network && found.address == *own, found))
        .partition(|(by_agent, _)| *by_agent);
    let by_agent = by_agent.into_iter().filter(|_| !selection.remote);
    let service = by_operator.into_iter().chain(by_agent).map(|(_, found)| found);
    let port = |port: i64| (port != 0).then_some(port);
    let service = service.filter_map(|tagged| Some((usable(&tagged.address, selection)?, port(tagged.port))));
    // A node's address applies only if the instance has no address.
    let has_own = !selection.remote && !selection.lan && !entry.service.address.is_empty();
    let node = keys.iter().filter(|_| !has_own).filter_map(|key| entry.node.tagged_addresses.get(key));
    let node = node.filter_map(|text| Some((usable(text, selection)?, None)));
    service.chain(node).next()
}

fn own(entry: &HealthEntry, selection: AddressSelection) -> Option<InstanceAddress> {
    let text = if entry.service.address.is_empty() { &entry.node.address } else { &entry.service.address };
    usable(text, selection)
}

/// Parses an IP that does not point back to the client, or a DNS name.
fn usable(text: &str, selection: AddressSelection) -> Option<InstanceAddress> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let elsewhere = selection.loopback || !ip.is_loopback();
        return (elsewhere && !ip.is_unspecified() && !ip.is_multicast()).then_some(InstanceAddress::Ip(ip));
    }
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    Hostname::new(text).ok().filter(|host| !numeric && !host.is_wildcard()).map(InstanceAddress::Name)
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

    fn found(entry: &HealthEntry, selection: AddressSelection) -> Option<(String, Option<i64>)> {
        of(entry, selection).map(|(at, port)| match at {
            InstanceAddress::Ip(ip) => (ip.to_string(), port),
            InstanceAddress::Both(v4, v6) => (format!("{v4} {v6}"), port),
            InstanceAddress::Name(host) => (host.to_string(), port),
        })
    }

    #[test]
    fn own_address_precedes_node_address() {
        let cases = [
            ("10.0.0.2", "10.0.0.1", Some("10.0.0.2")),
            ("", "10.0.0.1", Some("10.0.0.1")),
            ("", "2001:db8::1", Some("2001:db8::1")),
            ("DB.example.com", "10.0.0.1", Some("db.example.com")),
            ("", "", None),
        ];
        for (service, node, want) in cases {
            let have = found(&mk_entry(service, node), AddressSelection::default());
            assert_eq!(have, want.map(|want| (want.to_owned(), None)), "{service} {node}");
        }
    }

    #[test]
    fn unusable_address_is_absent() {
        for bad in
            ["0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "[2001:db8::1]", "10.0.0.300", "a b", "*.a.b"]
        {
            assert_eq!(found(&mk_entry(bad, "10.0.0.1"), AddressSelection::default()), None, "{bad}");
        }
    }

    #[test]
    fn loopback_is_accepted_only_for_local_clients() {
        let here = AddressSelection { loopback: true, ..AddressSelection::default() };
        assert_eq!(found(&mk_entry("", "127.0.0.1"), here), Some(("127.0.0.1".to_owned(), None)));
        assert_eq!(found(&mk_entry("", "0.0.0.0"), here), None);
    }

    #[test]
    fn both_families_are_used_if_present() {
        let mut entry = mk_entry("10.0.0.2", "10.0.0.1");
        let both = AddressSelection { family: Family::Both, ..AddressSelection::default() };
        let six = AddressSelection { family: Family::PreferV6, ..AddressSelection::default() };
        assert_eq!(found(&entry, both), Some(("10.0.0.2".to_owned(), None)));
        entry.node.tagged_addresses.insert("lan_ipv6".into(), "2001:db8::9".into());
        assert_eq!(found(&entry, six), Some(("10.0.0.2".to_owned(), None)), "that is its node's");
        let tagged = Tagged { address: "2001:db8::3".into(), port: 0 };
        entry.service.tagged_addresses.insert("lan_ipv6".into(), tagged);
        assert_eq!(found(&entry, both), Some(("10.0.0.2 2001:db8::3".to_owned(), None)));
        assert_eq!(found(&entry, six), Some(("2001:db8::3".to_owned(), None)));
        assert_eq!(found(&entry, AddressSelection::default()), Some(("10.0.0.2".to_owned(), None)));
        entry.service.address.clear();
        entry.service.tagged_addresses.clear();
        assert_eq!(found(&entry, both), Some(("10.0.0.1 2001:db8::9".to_owned(), None)));
    }

    #[test]
    fn viewpoint_selects_the_network_address() {
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
        let remote = AddressSelection { remote: true, ..AddressSelection::default() };
        let lan = AddressSelection { lan: true, ..AddressSelection::default() };
        let cases = [
            (AddressSelection::default(), ("10.0.0.2", None)),
            (remote, ("1.1.1.1", None)),
            (AddressSelection { translated: true, ..remote }, ("10.0.0.2", None)),
            (lan, ("10.0.0.3", None)),
            (AddressSelection { family: Family::PreferV6, ..lan }, ("2001:db8::3", None)),
        ];
        for (selection, (address, port)) in cases {
            assert_eq!(found(&entry, selection), Some((address.to_owned(), port)), "{selection:?}");
        }
        entry.service.tagged_addresses.insert("wan".into(), tagged("2.2.2.2", 444));
        assert_eq!(found(&entry, remote), Some(("2.2.2.2".to_owned(), Some(444))));
    }

    /// The agent adds `lan_ipv4` and `lan_ipv6` with the instance's own address too.
    #[test]
    fn lan_address_of_the_operator_precedes_those_of_the_agent() {
        let tagged = |address: &str, port| Tagged { address: address.into(), port };
        let lan = AddressSelection { lan: true, ..AddressSelection::default() };
        let mut entry = mk_entry("10.0.0.2", "10.0.0.1");
        entry.node.tagged_addresses.insert("lan".into(), "10.0.0.1".into());
        entry.service.tagged_addresses.insert("lan_ipv4".into(), tagged("10.0.0.2", 80));
        assert_eq!(found(&entry, lan), Some(("10.0.0.2".to_owned(), Some(80))), "not its node's");
        entry.service.tagged_addresses.insert("lan".into(), tagged("192.168.0.2", 8080));
        assert_eq!(found(&entry, lan), Some(("192.168.0.2".to_owned(), Some(8080))));
        entry.service.tagged_addresses.insert("lan_ipv4".into(), tagged("192.168.0.3", 0));
        assert_eq!(found(&entry, lan), Some(("192.168.0.3".to_owned(), None)), "both are the operator's");
    }

    /// The agent adds `wan_ipv4` and `wan_ipv6` with the instance's own address to every registration.
    #[test]
    fn wan_address_of_the_operator_precedes_those_of_the_agent() {
        let tagged = |address: &str, port| Tagged { address: address.into(), port };
        let remote = AddressSelection { remote: true, ..AddressSelection::default() };
        let mut entry = mk_entry("10.0.0.2", "10.0.0.1");
        entry.node.tagged_addresses =
            [("wan".into(), "1.1.1.1".into()), ("wan_ipv4".into(), "10.0.0.1".into())].into();
        entry.service.tagged_addresses.insert("wan_ipv4".into(), tagged("10.0.0.2", 80));
        assert_eq!(found(&entry, remote), Some(("1.1.1.1".to_owned(), None)));
        entry.service.tagged_addresses.insert("wan".into(), tagged("2.2.2.2", 444));
        assert_eq!(found(&entry, remote), Some(("2.2.2.2".to_owned(), Some(444))));
        entry.service.tagged_addresses.insert("wan_ipv6".into(), tagged("2001:db8::2", 444));
        let both = AddressSelection { family: Family::Both, ..remote };
        assert_eq!(found(&entry, both), Some(("2.2.2.2 2001:db8::2".to_owned(), Some(444))));
        entry.service.tagged_addresses.insert("wan".into(), tagged("web.example.com.", 444));
        assert_eq!(found(&entry, remote), Some(("web.example.com".to_owned(), Some(444))));
    }
}
