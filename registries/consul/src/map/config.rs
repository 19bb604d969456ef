//! What the mapping is told beside the instances: how a registry maps, and which part of a Consul it looks at.
//!
//! Made by whoever builds the registry; read by every rule, changed by none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{ClusterId, InvalidName, Namespace, NetworkId, PortNumber, Protocol, Scope};

use super::address::Family;
use super::name::Tenancy;

/// How one registry maps what its Consul says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapConfig {
    /// The domain under which hosts are made: `consul`.
    pub domain: String,
    /// The mesh namespace that services are declared in.
    pub namespace: Namespace,
    /// The cluster that the registry speaks for.
    pub cluster: Option<ClusterId>,
    /// The network of all datacenters that [`MapConfig::datacenters`] does not name.
    pub network: Option<NetworkId>,
    /// The one number of every service whose instances do not say `service-port` (`servicePort`).
    pub service_port: Option<PortNumber>,
    /// The key of Service.Meta that says what an instance speaks.
    pub protocol_key: String,
    /// What a port speaks of which nothing else says it.
    pub protocol: Protocol,
    /// Which family is taken where there are both.
    pub family: Family,
    /// Whether `lan` addresses go before the instance's own.
    pub lan: bool,
    /// Whether loopback addresses are taken, because clients run on the instances' own machine.
    pub loopback: bool,
    /// Whether instances that warn take traffic.
    pub warning: Warning,
    /// Under which prefix Node.Meta becomes labels; `None` for not at all.
    pub node_labels: Option<String>,
    /// Whether tags of the older form `key|value` are labels too.
    pub bar_tags: bool,
    /// The keys of Node.Meta that say the region and the zone.
    pub locality_keys: (String, String),
    /// What is known of datacenters.
    pub datacenters: BTreeMap<String, Datacenter>,
    /// Which clusters are watched directly, so that copies of their instances are left out.
    pub direct: Direct,
}

impl MapConfig {
    /// As a registry maps that is told nothing.
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
            bar_tags: false,
            locality_keys: ("external-k8s-topology-region".into(), "external-k8s-topology-zone".into()),
            datacenters: BTreeMap::new(),
            direct: Direct::default(),
        })
    }
}

/// What becomes of an instance that warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Warning {
    /// It takes traffic by its weight for that state.
    #[default]
    Served,
    /// It counts as unhealthy.
    Withheld,
}

/// What is known of a datacenter beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Datacenter {
    /// Its region, where that is not its name.
    pub region: Option<String>,
    /// Its zone, where it is one.
    pub zone: Option<String>,
    /// The network that its instances are in.
    pub network: Option<NetworkId>,
}

/// Which instances that were copied from Kubernetes are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Direct {
    /// The clusters that are watched directly.
    pub clusters: BTreeSet<ClusterId>,
    /// Which cluster the synchronisation of a node name copies. Copies of others, and of nodes that are not
    /// named, are served: what is the same endpoint as one of another registry is one where both are joined.
    pub nodes: BTreeMap<String, ClusterId>,
    /// Whether everything that was copied from Kubernetes is left out, from whichever cluster.
    pub all: bool,
}

/// Which part of a Consul is mapped: it fails as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Datacenter, partition, namespace, peer.
    pub part: Tenancy,
    /// The datacenter of the registry itself, whose services have short hosts too.
    pub own_datacenter: String,
    /// The scope under which its facts are said.
    pub scope: Scope,
    label: Arc<str>,
}

impl Area {
    /// A part as seen from a datacenter.
    #[must_use]
    pub fn new(part: Tenancy, own_datacenter: &str, scope: Scope) -> Self {
        let label = label(&part).into();
        Self { part, own_datacenter: own_datacenter.to_owned(), scope, label }
    }
    /// As people read it: `dc1`, `dc1/eu/shop` (partition, namespace), `dc1@east` (peer).
    #[must_use]
    pub const fn label(&self) -> &Arc<str> {
        &self.label
    }
    /// Whether its instances run in another datacenter than the registry's own.
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
    fn areas_have_names_of_their_own() {
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
