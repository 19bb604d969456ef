//! Which parts of a Consul a registry follows, each as a scope.

use tributary_model::{InvalidName, Scope};

use crate::config::ConsulConfig;
use crate::map::name::Part;

/// The most scopes that one registry has.
const MOST: usize = 1_000;

/// Every datacenter with every partition and namespace; peers in the registry's own datacenter.
pub(super) fn of(config: &ConsulConfig, datacenters: &[String], own: &str) -> Vec<Part> {
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

/// No more than one registry has.
pub(super) fn bounded(mut parts: Vec<Part>) -> Vec<Part> {
    parts.truncate(MOST);
    parts
}

/// The namespaces of one partition, and its peers in each.
pub(super) fn below(
    datacenter: &str,
    partition: &str,
    namespaces: &[String],
    peers: &[String],
    out: &mut Vec<Part>,
) {
    for namespace in namespaces {
        out.push(part(datacenter, partition, namespace, ""));
        out.extend(peers.iter().map(|peer| part(datacenter, partition, namespace, peer)));
    }
}

fn part(datacenter: &str, partition: &str, namespace: &str, peer: &str) -> Part {
    let [datacenter, partition, namespace, peer] =
        [datacenter, partition, namespace, peer].map(str::to_owned);
    Part { datacenter, partition, namespace, peer }
}

/// The scope of a part: `dc1`, `dc1/eu/shop`, `dc1@east`.
pub(super) fn scope(part: &Part) -> Result<Scope, InvalidName> {
    let mut name = visible(&part.datacenter);
    if !part.partition.is_empty() || !part.namespace.is_empty() {
        name = format!("{name}/{}/{}", visible(&part.partition), visible(&part.namespace));
    }
    if !part.peer.is_empty() {
        name = format!("{name}@{}", visible(&part.peer));
    }
    Scope::new(name)
}

/// The scope of the list of datacenters itself. No datacenter can have its name.
pub(super) fn directory() -> Option<Scope> {
    Scope::new("(datacenters)").ok()
}

/// The scope of a datacenter's own lists, where they are asked for.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Address;

    fn mk_config() -> ConsulConfig {
        ConsulConfig::new(vec![Address::parse("c:8500").unwrap()]).unwrap()
    }

    fn names(config: &ConsulConfig, datacenters: &[&str]) -> Vec<String> {
        let datacenters: Vec<String> = datacenters.iter().map(|name| (*name).to_owned()).collect();
        of(config, &datacenters, "dc1").iter().map(|part| scope(part).unwrap().to_string()).collect()
    }

    #[test]
    fn nothing_said_is_one_scope_per_datacenter() {
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
    fn no_part_takes_the_directorys_name() {
        let part = Part { datacenter: "(datacenters)".into(), ..Part::default() };
        assert_ne!(scope(&part).unwrap(), directory().unwrap());
        let part = Part { datacenter: "(dc1)".into(), ..Part::default() };
        assert_ne!(scope(&part).unwrap(), lists("dc1").unwrap());
    }
}
