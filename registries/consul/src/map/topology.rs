//! Topology of an instance: its own locality, its node's, its Meta, its node's Meta, or its datacenter's settings.

use std::collections::BTreeMap;

use tributary_model::{Locality, NodeName, Topology};

use super::config::{Area, MapConfig};
use crate::wire::HealthEntry;

/// Returns its cluster, network, locality and node.
pub(super) fn of(entry: &HealthEntry, area: &Area, config: &MapConfig) -> Topology {
    let known = config.datacenters.get(&area.part.datacenter);
    let network = known.and_then(|known| known.network.clone()).or_else(|| config.network.clone());
    Topology {
        cluster: config.cluster.clone(),
        network,
        locality: locality(entry, area, config),
        node: NodeName::new(&entry.node.node).ok(),
    }
}

/// Returns the first of these that names a region. Region and zone are never combined from two sources, because they
/// may name different locations.
fn locality(entry: &HealthEntry, area: &Area, config: &MapConfig) -> Locality {
    let all = [&entry.service.locality, &entry.node.locality];
    if let Some(declared) = all.into_iter().flatten().find(|declared| !declared.region.is_empty()) {
        return Locality::new(&declared.region, &declared.zone, "");
    }
    let known = config.datacenters.get(&area.part.datacenter);
    let region = known.and_then(|known| known.region.as_deref()).unwrap_or(&area.part.datacenter);
    let of = |meta: &'_ BTreeMap<String, String>, key: &str| {
        meta.get(key).filter(|value| !value.is_empty()).cloned()
    };
    let meta = |key: &str| of(&entry.service.meta, key).or_else(|| of(&entry.node.meta, key));
    let (region_key, zone_key) = &config.locality_keys;
    let zone = known.and_then(|known| known.zone.as_deref()).unwrap_or_default();
    let (own_region, own_zone) = (meta(region_key), meta(zone_key));
    Locality::new(own_region.as_deref().unwrap_or(region), own_zone.as_deref().unwrap_or(zone), "")
}

#[cfg(test)]
mod tests {
    use tributary_model::{ClusterId, NetworkId, Scope};

    use super::super::config::Datacenter;
    use super::super::name::Tenancy;
    use super::*;
    use crate::wire::{self, Node, Service};

    fn mk_entry(service: Option<&str>, node: Option<&str>, meta: &[(&str, &str)]) -> HealthEntry {
        let locality = |text: &str| {
            let (region, zone) = text.split_once('/').unwrap();
            wire::Locality { region: region.into(), zone: zone.into() }
        };
        let meta: BTreeMap<String, String> = meta.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let node = Node { node: "n 1".into(), locality: node.map(locality), meta, ..Node::default() };
        let service = Service { locality: service.map(locality), ..Service::default() };
        HealthEntry { node, service, checks: vec![] }
    }

    fn mk_area(datacenter: &str) -> Area {
        let part = Tenancy { datacenter: datacenter.into(), ..Tenancy::default() };
        Area::new(part, "dc1", Scope::new("x").unwrap())
    }

    #[test]
    fn nearest_source_decides_the_locality() {
        let eu = Datacenter {
            region: Some("eu".into()),
            zone: Some("z9".into()),
            network: NetworkId::new("vm").ok(),
        };
        let config = MapConfig {
            datacenters: [("dc2".to_owned(), eu)].into(),
            network: NetworkId::new("flat").ok(),
            cluster: ClusterId::new("vms").ok(),
            ..MapConfig::new().unwrap()
        };
        let zone: &[_] = &[("external-k8s-topology-zone", "z3")];
        let both: &[_] = &[("external-k8s-topology-zone", "z3"), ("external-k8s-topology-region", "us")];
        type Case<'a> = (Option<&'a str>, Option<&'a str>, &'a [(&'a str, &'a str)], &'a str, &'a str);
        let cases: [Case<'_>; 10] = [
            (Some("us/1"), Some("us/2"), both, "dc1", "us/1"),
            (None, Some("us/2"), both, "dc1", "us/2"),
            (Some("/1"), None, both, "dc1", "us/z3"),
            (Some("/1"), Some("us/2"), both, "dc1", "us/2"),
            (None, None, both, "dc2", "us/z3"),
            (None, None, zone, "dc2", "eu/z3"),
            (None, None, zone, "dc1", "dc1/z3"),
            (None, None, &[], "dc2", "eu/z9"),
            (None, None, &[], "dc1", "dc1"),
            (Some("us/"), None, zone, "dc2", "us"),
        ];
        for (service, node, meta, datacenter, want) in cases {
            let topology = of(&mk_entry(service, node, meta), &mk_area(datacenter), &config);
            assert_eq!(topology.locality.to_string(), want, "{service:?} {node:?} {meta:?} {datacenter}");
            let network = if datacenter == "dc2" { "vm" } else { "flat" };
            assert_eq!(topology.network.unwrap().as_str(), network);
            assert_eq!(
                (topology.cluster.unwrap().as_str(), topology.node),
                ("vms", None),
                "a node's name has no blank"
            );
        }
    }

    /// The catalog sync from Kubernetes writes region and zone into Service.Meta.
    #[test]
    fn zone_in_service_meta_precedes_node_meta() {
        let mut entry = mk_entry(None, None, &[("external-k8s-topology-zone", "z3")]);
        entry.service.meta.insert("external-k8s-topology-zone".into(), "z4".into());
        let at = of(&entry, &mk_area("dc1"), &MapConfig::new().unwrap());
        assert_eq!(at.locality.to_string(), "dc1/z4");
        entry.service.meta.insert("external-k8s-topology-region".into(), "eu".into());
        let at = of(&entry, &mk_area("dc1"), &MapConfig::new().unwrap());
        assert_eq!(at.locality.to_string(), "eu/z4");
    }
}
