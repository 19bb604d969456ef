//! Parts of a Consul that a registry follows, each as a scope.

use std::collections::BTreeSet;

use tributary_model::{InvalidName, Scope};

use crate::config::{ConsulConfig, Datacenters};
use crate::map::name::Tenancy;

/// Maximum scopes of one registry.
const MOST: usize = 1_000;

/// Returns every datacenter with every partition and namespace, and peers in the registry's own datacenter.
pub(super) fn of(config: &ConsulConfig, datacenters: &[String], own: &str) -> Vec<Tenancy> {
    let or_default = |names: &[String]| if names.is_empty() { vec![String::new()] } else { names.to_vec() };
    let (partitions, namespaces) = (or_default(&config.partitions), or_default(&config.namespaces));
    let mut out = Vec::new();
    for datacenter in datacenters {
        for partition in &partitions {
            below(datacenter, partition, &namespaces, &[], &mut out);
        }
    }
    for (partition, namespace) in partitions.iter().flat_map(|p| namespaces.iter().map(move |n| (p, n))) {
        out.extend(config.peers.iter().map(|peer| part(own, partition, namespace, peer)));
    }
    bounded(out)
}

/// Truncates to the maximum of one registry.
pub(super) fn bounded(mut parts: Vec<Tenancy>) -> Vec<Tenancy> {
    parts.truncate(MOST);
    parts
}

/// Adds the namespaces of one partition, and its peers in each.
pub(super) fn below(
    datacenter: &str,
    partition: &str,
    namespaces: &[String],
    peers: &[String],
    out: &mut Vec<Tenancy>,
) {
    for namespace in namespaces {
        out.push(part(datacenter, partition, namespace, ""));
        out.extend(peers.iter().map(|peer| part(datacenter, partition, namespace, peer)));
    }
}

fn part(datacenter: &str, partition: &str, namespace: &str, peer: &str) -> Tenancy {
    let [datacenter, partition, namespace, peer] =
        [datacenter, partition, namespace, peer].map(str::to_owned);
    Tenancy { datacenter, partition, namespace, peer }
}

/// Returns the scope of a part: `dc1`, `dc1/eu/shop`, `dc1@east`.
pub(super) fn scope(part: &Tenancy) -> Result<Scope, InvalidName> {
    let mut name = visible(&part.datacenter);
    if !part.partition.is_empty() || !part.namespace.is_empty() {
        name = format!("{name}/{}/{}", visible(&part.partition), visible(&part.namespace));
    }
    if !part.peer.is_empty() {
        name = format!("{name}@{}", visible(&part.peer));
    }
    Scope::new(name)
}

/// Returns the part of a scope: the inverse of [`scope`]. `None` for other scopes, such as those of the lists.
pub(super) fn part_of(scope: &Scope) -> Option<Tenancy> {
    let (location, peer) = scope.as_str().split_once('@').unwrap_or((scope.as_str(), ""));
    let mut names = location.splitn(3, '/').map(hidden);
    let mut next = || names.next().unwrap_or_else(|| Some(String::new()));
    let (datacenter, partition, namespace) = (next()?, next()?, next()?);
    let part = Tenancy { datacenter, partition, namespace, peer: hidden(peer)? };
    let is_same = self::scope(&part).is_ok_and(|own| own == *scope);
    (is_same && !part.datacenter.is_empty()).then_some(part)
}

/// Returns the parts that an earlier run left facts of, if this run may follow more than its configuration names.
/// Parts removed from the configuration are not followed.
pub(super) fn held(config: &ConsulConfig, scopes: &[Scope]) -> BTreeSet<Tenancy> {
    let scopes = if configured(config).is_some() { &[] } else { scopes };
    scopes.iter().filter_map(part_of).take(MOST).collect()
}

/// Returns all scopes that a run may report, if the configuration alone decides them. It does not if anything is
/// discovered, nor with peers, because only the agent knows their datacenter.
pub(crate) fn configured(config: &ConsulConfig) -> Option<Vec<Scope>> {
    let Datacenters::Listed(names) = &config.datacenters else { return None };
    if config.discover.any() || !config.peers.is_empty() {
        return None;
    }
    let parts = of(config, names, "").iter().map(scope).collect::<Result<Vec<_>, _>>().ok()?;
    let lists = names.iter().filter_map(|name| lists(name));
    Some(directory().into_iter().chain(lists).chain(parts).collect())
}

/// Returns the scope of the list of datacenters. No datacenter can have its name.
pub(super) fn directory() -> Option<Scope> {
    Scope::new("(datacenters)").ok()
}

/// Returns the scope of a datacenter's own lists.
pub(super) fn lists(datacenter: &str) -> Option<Scope> {
    Scope::new(format!("({})", visible(datacenter))).ok()
}

fn visible(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'/' | b'@' | b'(');
    let mut out = String::new();
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

/// Decodes the output of [`visible`].
fn hidden(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut hex = || char::from(bytes.next()?).to_digit(16);
            out.push(u8::try_from(hex()? * 16 + hex()?).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Address, Discover};

    fn mk_config() -> ConsulConfig {
        ConsulConfig::new(vec![Address::parse("c:8500").unwrap()]).unwrap()
    }

    fn names(config: &ConsulConfig, datacenters: &[&str]) -> Vec<String> {
        let datacenters: Vec<String> = datacenters.iter().map(|name| (*name).to_owned()).collect();
        of(config, &datacenters, "dc1").iter().map(|part| scope(part).unwrap().to_string()).collect()
    }

    #[test]
    fn default_is_one_scope_per_datacenter() {
        assert_eq!(names(&mk_config(), &["dc1", "dc2"]), ["dc1", "dc2"]);
    }

    #[test]
    fn namespaces_and_partitions_multiply_and_peers_are_added() {
        let mut config = mk_config();
        config.namespaces = vec!["a".into(), "b/c".into()];
        config.peers = vec!["east".into()];
        assert_eq!(names(&config, &["dc1"]), ["dc1//a", "dc1//b%2fc", "dc1//a@east", "dc1//b%2fc@east"]);
        config.partitions = vec!["eu".into()];
        assert_eq!(names(&config, &["dc1"])[0], "dc1/eu/a");
    }

    #[test]
    fn no_part_has_the_name_of_the_directory() {
        let part = Tenancy { datacenter: "(datacenters)".into(), ..Tenancy::default() };
        assert_ne!(scope(&part).unwrap(), directory().unwrap());
        let part = Tenancy { datacenter: "(dc1)".into(), ..Tenancy::default() };
        assert_ne!(scope(&part).unwrap(), lists("dc1").unwrap());
    }

    #[test]
    fn other_scopes_have_no_part() {
        for text in [
            "(datacenters)",
            "(dc1)",
            "@east",
            "/a/b",
            "dc1/",
            "dc1/a",
            "dc1//",
            "dc1/a/b/c",
            "dc1@",
            "dc1@a@b",
            "dc%",
            "dc%4",
            "dc%2F",
            "dc%31",
            "dc%zz",
            "dc%ff",
        ] {
            assert_eq!(part_of(&Scope::new(text).unwrap()), None, "{text}");
        }
    }

    #[test]
    fn scopes_are_configured_only_without_discovery() {
        let mut config = mk_config();
        assert_eq!(configured(&config), None, "the agent names its own datacenter");
        config.datacenters = Datacenters::All;
        assert_eq!(configured(&config), None);
        config.datacenters = Datacenters::Listed(vec!["dc1".into(), "dc2".into()]);
        config.namespaces = vec!["a".into()];
        let scopes: Vec<String> = configured(&config).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(scopes, ["(datacenters)", "(dc1)", "(dc2)", "dc1//a", "dc2//a"]);
        config.peers = vec!["east".into()];
        assert_eq!(configured(&config), None, "they are in the agent's own datacenter");
        config.peers.clear();
        config.discover = Discover { partitions: true, ..Discover::default() };
        assert_eq!(configured(&config), None);
    }

    proptest! {
        #[test]
        fn part_of_inverts_scope(
            names in prop::array::uniform4("[a-c%/@( .\\PC]{0,4}"),
        ) {
            let [datacenter, partition, namespace, peer] = names;
            let part = Tenancy { datacenter, partition, namespace, peer };
            if let Ok(scope) = scope(&part) {
                let want = (!part.datacenter.is_empty()).then_some(part);
                prop_assert_eq!(part_of(&scope), want, "{}", scope);
            }
        }
        #[test]
        fn scope_inverts_part_of(text in "[a-b%/@(2f]{1,8}") {
            let scope_read = Scope::new(&text).unwrap();
            if let Some(part) = part_of(&scope_read) {
                prop_assert_eq!(scope(&part).unwrap(), scope_read);
            }
        }
    }
}
