//! How instances become facts: names, ports, networks, places. Read by [`map`](crate::map) alone.
//!
//! Handed over once per run: `map::Mapper::new(mapping, cluster, own_datacenter)`, which interns what facts share.
//! Then, per answer, `mapper.facts(&part, name, &entries, translated) -> map::Mapped { facts, problems }`, where no
//! entries are no facts; `map::scope_of(&part)` names a scope, and `map::service_of(&item)` gives the Consul name that
//! a declaration or group came from, for questions about facts of an earlier run.

use std::collections::BTreeMap;

use tributary_model::NetworkId;

use crate::map::address::Family;

/// How answers become facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The domain of host names: `web.service.consul`.
    pub domain: String,
    /// The number under which a service is offered, where its meta does not say one.
    pub service_port: Option<u16>,
    /// The meta key that says an instance's protocol; `<key>-<port name>` says a named port's.
    pub protocol_key: String,
    /// The meta key that says under which number a service is offered.
    pub service_port_key: String,
    /// Which family is taken where there are both.
    pub family: Family,
    /// Whether `lan` addresses go before an instance's own.
    pub lan: bool,
    /// Whether the instances of other datacenters are reached at their WAN addresses.
    pub wan: bool,
    /// Whether an instance that warns is taken as unhealthy.
    pub warning_is_unhealthy: bool,
    /// What stands before keys of a node's meta among an instance's labels.
    pub node_prefix: String,
    /// The keys of a node's meta that say its zone, the first first.
    pub zone_keys: Vec<String>,
    /// The keys of a node's meta that say its region, the first first.
    pub region_keys: Vec<String>,
    /// The network of instances, where `places` says none for their datacenter.
    pub network: Option<NetworkId>,
    /// Where datacenters stand.
    pub places: BTreeMap<String, DatacenterPlace>,
    /// Which Kubernetes cluster a synchronising process speaks for, by the node name under which it registers.
    /// What it registers of a cluster that is watched directly is left out.
    pub synced_clusters: BTreeMap<String, String>,
}

impl Default for Mapping {
    fn default() -> Self {
        Self {
            domain: "consul".to_owned(),
            service_port: None,
            protocol_key: "protocol".to_owned(),
            service_port_key: "service-port".to_owned(),
            family: Family::default(),
            lan: false,
            wan: true,
            warning_is_unhealthy: false,
            node_prefix: "node.".to_owned(),
            zone_keys: vec!["external-k8s-topology-zone".to_owned(), "zone".to_owned()],
            region_keys: vec!["external-k8s-topology-region".to_owned(), "region".to_owned()],
            network: None,
            places: BTreeMap::new(),
            synced_clusters: BTreeMap::new(),
        }
    }
}

/// Where a datacenter stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatacenterPlace {
    /// Its region.
    pub region: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// The network of its instances.
    pub network: Option<NetworkId>,
}
