//! Settings of the mapping: how a registry maps, and which part of Consul.
//!
//! The registry's owner creates them; the mapping rules only read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{ClusterId, InvalidName, Namespace, NetworkId, PortNumber, Protocol, Scope};

use super::address::Family;
use super::name::Tenancy;

/// Mapping settings of one registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapConfig {
    /// Domain suffix of hosts: `consul`.
    pub domain: String,
    /// Mesh namespace of the declared services.
    pub namespace: Namespace,
    /// Cluster that the registry belongs to.
    pub cluster: Option<ClusterId>,
    /// Network of all datacenters that [`MapConfig::datacenters`] does not list.
    pub network: Option<NetworkId>,
    /// Port number of every service whose instances have no `service-port` meta (`servicePort`).
    pub service_port: Option<PortNumber>,
    /// Service.Meta key of the protocol.
    pub protocol_key: String,
    /// Protocol of ports for which nothing else gives one.
    pub protocol: Protocol,
    /// Family to use if an instance has both.
    pub family: Family,
    /// Whether `lan` addresses take precedence over the instance's own.
    pub lan: bool,
    /// Whether loopback addresses are accepted because clients run on the instances' machine.
    pub loopback: bool,
    /// Whether instances in warning state receive traffic.
    pub warning: Warning,
    /// Prefix of the labels made from Node.Meta; `None` makes no labels.
    pub node_labels: Option<String>,
    /// Whether tags of the older form `key|value` become labels.
    pub pipe_tags: bool,
    /// Node.Meta keys of region and zone.
    pub locality_keys: (String, String),
    /// Topology of datacenters by name.
    pub datacenters: BTreeMap<String, Datacenter>,
    /// Clusters that are watched directly, so that copies of their instances are excluded.
    pub direct: Direct,
}

impl MapConfig {
    /// Returns the default settings.
    pub fn new() -> Result<Self, InvalidName> {
        Ok(Self {
            domain: "consul".to_owned(),
            namespace: Namespace::new("consul")?,
            cluster: None,
            network: None,
            service_port: None,
            protocol_key: "protocol".to_owned(),
            protocol: Protocol::Tcp,
            family: Family::PreferV4,
            lan: false,
            loopback: false,
            warning: Warning::Served,
            node_labels: Some("node/".to_owned()),
            pipe_tags: false,
            locality_keys: ("external-k8s-topology-region".into(), "external-k8s-topology-zone".into()),
            datacenters: BTreeMap::new(),
            direct: Direct::default(),
        })
    }
}

/// Treatment of instances in warning state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Warning {
    /// They receive traffic by their weight for that state.
    #[default]
    Served,
    /// They count as unhealthy.
    Withheld,
}

/// Topology of a datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Datacenter {
    /// Region, if it differs from the datacenter's name.
    pub region: Option<String>,
    /// Zone, if the datacenter is one.
    pub zone: Option<String>,
    /// Network of its instances.
    pub network: Option<NetworkId>,
}

/// Instances copied from Kubernetes that are excluded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Direct {
    /// Clusters that are watched directly.
    pub clusters: BTreeSet<ClusterId>,
    /// Cluster that the catalog sync of a node name copies. Copies from other clusters and on unlisted nodes are
    /// served; if services are merged, equal endpoints of two registries count as one.
    pub nodes: BTreeMap<String, ClusterId>,
    /// Whether all instances copied from Kubernetes are excluded, whichever cluster they come from.
    pub all: bool,
}

/// Part of Consul that is mapped and fails as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Datacenter, partition, namespace and peer.
    pub part: Tenancy,
    /// The registry's own datacenter, whose services also get short hosts.
    pub own_datacenter: String,
    /// Scope that reports its facts.
    pub scope: Scope,
    label: Arc<str>,
}

impl Area {
    /// Creates an area as seen from a datacenter.
    #[must_use]
    pub fn new(part: Tenancy, own_datacenter: &str, scope: Scope) -> Self {
        let label = label(&part).into();
        Self { part, own_datacenter: own_datacenter.to_owned(), scope, label }
    }
    /// Returns the display name: `dc1`, `dc1/eu/shop` (partition, namespace), `dc1@east` (peer).
    #[must_use]
    pub const fn label(&self) -> &Arc<str> {
        &self.label
    }
    /// Returns whether its instances run outside the registry's own datacenter.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        !self.part.datacenter.eq_ignore_ascii_case(&self.own_datacenter)
    }
}

fn label(part: &Tenancy) -> String {
    let named = |text: &str| !text.is_empty() && text != "default";
    let mut out = part.datacenter.clone();
    if named(&part.partition) || named(&part.namespace) {
        let or_default = |text: &str| if text.is_empty() { "default".to_owned() } else { text.to_owned() };
        out = format!("{out}/{}/{}", or_default(&part.partition), or_default(&part.namespace));
    }
    if !part.peer.is_empty() {
        out = format!("{out}@{}", part.peer);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_distinct_labels() {
        let part = |partition: &str, namespace: &str, peer: &str| Tenancy {
            datacenter: "dc1".into(),
            partition: partition.into(),
            namespace: namespace.into(),
            peer: peer.into(),
        };
        let cases = [
            (part("", "", ""), "dc1"),
            (part("default", "default", ""), "dc1"),
            (part("", "shop", ""), "dc1/default/shop"),
            (part("eu", "shop", "east"), "dc1/eu/shop@east"),
        ];
        for (part, want) in cases {
            let area = Area::new(part, "dc2", Scope::new("x").unwrap());
            assert_eq!(&**area.label(), want);
            assert!(area.is_remote());
        }
    }
}
