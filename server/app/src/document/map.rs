//! How registries, clusters and networks are connected, as nodes and edges with numbers of services and endpoints.
//!
//! A pure function over sums and rows that are kept elsewhere; it walks no service and no endpoint.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{API_VERSION, ClusterItem, GatewayItem, Metadata, RegistryItem};
use crate::ops::counts::RegistryCounts;

/// Maximum number of nodes in the document.
pub const MAX_NODES: usize = 5_000;

/// Map of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Map {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// Always `Map`.
    pub kind: String,
    /// Metadata, as of a list; `remaining` counts nodes beyond the limit.
    pub metadata: Metadata,
    /// Nodes, ordered by kind and name.
    pub nodes: Vec<NodeItem>,
    /// Edges, ordered by their ends. Both ends are nodes of the document.
    pub edges: Vec<EdgeItem>,
}

/// Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeItem {
    /// `KIND/NAME`, unique.
    pub id: String,
    /// `registry`, `datacenter`, `cluster`, `network` or `gateway`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// State; empty for networks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Reason of the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of services, of a registry or cluster.
    #[serde(default)]
    pub services: u64,
    /// Number of endpoints, of a registry, cluster or network.
    #[serde(default)]
    pub endpoints: u64,
}

/// Edge.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EdgeItem {
    /// Id of a node.
    pub from: String,
    /// Id of a node.
    pub to: String,
    /// `reads` (registry to its cluster or datacenter), `in` (cluster to the network of its endpoints), `has` (cluster to its
    /// gateway) or `enters` (gateway to the network behind it).
    pub kind: String,
    /// Number of services.
    #[serde(default)]
    pub services: u64,
    /// Number of endpoints.
    #[serde(default)]
    pub endpoints: u64,
}

/// What a map shows.
#[derive(Debug, Default)]
pub struct MapFacts {
    /// Registries.
    pub registries: Vec<RegistryItem>,
    /// Kubernetes clusters.
    pub clusters: Vec<ClusterItem>,
    /// Gateways of networks.
    pub gateways: Vec<GatewayItem>,
    /// Sums of services and endpoints.
    pub counts: RegistryCounts,
}

/// Nodes and edges, each once.
#[derive(Default)]
struct Drawn {
    nodes: BTreeMap<(&'static str, String), NodeItem>,
    edges: BTreeSet<EdgeItem>,
}

impl Drawn {
    fn node(&mut self, kind: &'static str, name: &str) -> &mut NodeItem {
        let made = || NodeItem {
            id: id(kind, name),
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..NodeItem::default()
        };
        self.nodes.entry((kind, name.to_owned())).or_insert_with(made)
    }
    fn edge(&mut self, (from, to): (String, String), kind: &str, (services, endpoints): (u64, u64)) {
        self.edges.insert(EdgeItem { from, to, kind: kind.to_owned(), services, endpoints });
    }
    fn registry(&mut self, of: &RegistryItem) {
        let own = id("registry", &of.name);
        let node = self.node("registry", &of.name);
        (node.state, node.reason) = (of.state.clone(), of.reason.clone());
        (node.services, node.endpoints) = (of.services, of.endpoints);
        if of.kind == "consul" {
            let datacenters = of.sources.iter().filter(|source| !source.scope.starts_with('('));
            // of several datacenters, only the sums are counted
            let is_only = datacenters.clone().count() == 1;
            let counts = if is_only { (of.services, of.endpoints) } else { (0, 0) };
            for source in datacenters {
                let name = format!("{}/{}", of.name, source.scope);
                let node = self.node("datacenter", &name);
                (node.state, node.reason) = (source.state.clone(), source.reason.clone());
                (node.services, node.endpoints) = counts;
                self.edge((own.clone(), id("datacenter", &name)), "reads", counts);
            }
        }
        if !of.cluster.is_empty() {
            let node = self.node("cluster", &of.cluster);
            if node.state.is_empty() {
                // a name that no Kubernetes cluster has, such as that of files: its numbers are those of its registries
                node.services += of.services;
                node.endpoints += of.endpoints;
            }
            self.edge((own, id("cluster", &of.cluster)), "reads", (of.services, of.endpoints));
        }
    }
    fn gateway(&mut self, of: &GatewayItem) {
        let at = if of.address.is_empty() { &of.source.name } else { &of.address };
        let name = format!("{}/{}/{at}", of.network, of.cluster);
        let node = self.node("gateway", &name);
        (node.state, node.reason) = (of.state.clone(), of.reason.clone());
        self.node("network", &of.network);
        self.node("cluster", &of.cluster);
        self.edge((id("gateway", &name), id("network", &of.network)), "enters", (0, 0));
        self.edge((id("cluster", &of.cluster), id("gateway", &name)), "has", (0, 0));
    }
    fn networks(&mut self, counts: &RegistryCounts) {
        for ((cluster, network), count) in &counts.of_networks {
            self.node("cluster", cluster.as_str());
            self.node("network", network.as_str()).endpoints += count;
            let ends = (id("cluster", cluster.as_str()), id("network", network.as_str()));
            self.edge(ends, "in", (0, *count));
        }
    }
}

fn id(kind: &str, name: &str) -> String {
    format!("{kind}/{name}")
}

impl Map {
    /// Returns the map of some facts.
    #[must_use]
    pub fn of(mut metadata: Metadata, facts: &MapFacts) -> Self {
        let mut drawn = Drawn::default();
        for of in &facts.clusters {
            let node = drawn.node("cluster", &of.name);
            (node.state, node.reason) = (of.state.clone(), of.reason.clone());
            (node.services, node.endpoints) = (of.services, of.endpoints);
        }
        facts.registries.iter().for_each(|of| drawn.registry(of));
        drawn.networks(&facts.counts);
        facts.gateways.iter().for_each(|of| drawn.gateway(of));
        metadata.remaining = drawn.nodes.len().saturating_sub(MAX_NODES);
        let nodes: Vec<NodeItem> = drawn.nodes.into_values().take(MAX_NODES).collect();
        let shown: BTreeSet<&str> = nodes.iter().map(|node| &*node.id).collect();
        let is_shown = |edge: &EdgeItem| shown.contains(&*edge.from) && shown.contains(&*edge.to);
        let edges = drawn.edges.into_iter().filter(is_shown).collect();
        Self { api_version: API_VERSION.to_owned(), kind: "Map".to_owned(), metadata, nodes, edges }
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{ClusterId, NetworkId};

    use super::*;
    use crate::document::registries::SourceItem;

    fn mk_registry(name: &str, kind: &str, cluster: &str) -> RegistryItem {
        RegistryItem {
            name: name.into(),
            kind: kind.into(),
            cluster: cluster.into(),
            state: "Live".into(),
            services: 2,
            endpoints: 5,
            ..RegistryItem::default()
        }
    }

    #[test]
    fn map_connects_registries_clusters_networks_and_gateways() {
        let source =
            |scope: &str| SourceItem { scope: scope.into(), state: "Live".into(), ..SourceItem::default() };
        let consul = RegistryItem {
            sources: vec![source("(datacenters)"), source("dc1")],
            ..mk_registry("c", "consul", "home")
        };
        let gateway = GatewayItem {
            network: "n2".into(),
            cluster: "away".into(),
            address: "203.0.113.9:15443".into(),
            state: "Used".into(),
            ..GatewayItem::default()
        };
        let cluster = ClusterItem { name: "away".into(), state: "Stale".into(), ..ClusterItem::default() };
        let mut counts = RegistryCounts::default();
        let of = |cluster, network| (ClusterId::new(cluster).unwrap(), NetworkId::new(network).unwrap());
        counts.of_networks.insert(of("away", "n2"), 4);
        let registries = vec![consul, mk_registry("k", "kubernetes", "away")];
        let facts = MapFacts { registries, clusters: vec![cluster], gateways: vec![gateway], counts };
        let map = Map::of(Metadata::default(), &facts);
        let nodes: Vec<String> = map.nodes.iter().map(|node| format!("{} {}", node.id, node.state)).collect();
        let expected = [
            "cluster/away Stale",
            "cluster/home ",
            "datacenter/c/dc1 Live",
            "gateway/n2/away/203.0.113.9:15443 Used",
            "network/n2 ",
            "registry/c Live",
            "registry/k Live",
        ];
        assert_eq!(nodes, expected);
        let home = map.nodes.iter().find(|node| node.id == "cluster/home").unwrap();
        assert_eq!((home.services, home.endpoints), (2, 5), "no Kubernetes cluster has this name");
        let edges = map.edges.iter().map(|edge| {
            format!("{} {} {} {}/{}", edge.from, edge.kind, edge.to, edge.services, edge.endpoints)
        });
        let expected = [
            "cluster/away has gateway/n2/away/203.0.113.9:15443 0/0",
            "cluster/away in network/n2 0/4",
            "gateway/n2/away/203.0.113.9:15443 enters network/n2 0/0",
            "registry/c reads cluster/home 2/5",
            "registry/c reads datacenter/c/dc1 2/5",
            "registry/k reads cluster/away 2/5",
        ];
        assert_eq!(edges.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn nodes_are_bounded_and_edges_have_both_ends() {
        let registries = (0..MAX_NODES).map(|at| mk_registry(&format!("r{at}"), "file", "home")).collect();
        let map = Map::of(Metadata::default(), &MapFacts { registries, ..MapFacts::default() });
        assert_eq!((map.nodes.len(), map.metadata.remaining), (MAX_NODES, 1));
        assert_eq!(map.edges.len(), MAX_NODES - 1);
    }
}
