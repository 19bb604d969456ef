//! What the index must know that no object of the cluster says: flags and the configuration file.

use std::sync::Arc;

use tributary_model::settings::{Cidrs, ClusterLocal};
use tributary_model::{ClusterId, InvalidName, Namespace, NetworkId};

use crate::input::{Kind, WatchScope};
use crate::part::PartScopes;

/// Fixed for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The cluster that the registry speaks for.
    pub cluster: ClusterId,
    /// The scopes of its facts.
    pub scopes: PartScopes,
    /// The domain of service names, the config cluster's for every cluster.
    pub domain: Arc<str>,
    /// The domain of identities, where the configuration file names one; it goes before the cluster's.
    pub trust_domain: Option<Arc<str>>,
    /// Where the network's label and the mesh configuration are looked for.
    pub system_namespace: Namespace,
    /// Objects of another revision are left out.
    pub revision: Option<Arc<str>>,
    /// Only these namespaces are read; all where there are none.
    pub namespaces: Vec<Namespace>,
    /// Whether this is the cluster of the configuration: what is meant for every cluster is read here only.
    pub is_config: bool,
    /// Networks and the ranges that lie in them, as the configuration file says; they go before the cluster's.
    pub networks: Arc<[(NetworkId, Cidrs)]>,
    /// Hosts that stay within their cluster, and their opposite, as the configuration file says.
    pub cluster_local: Option<ClusterLocal>,
    /// The domains of Consuls that are read directly, so that their copies in the cluster are left out.
    pub consul_domains: Arc<[Arc<str>]>,
    /// Multi-cluster services.
    pub mcs: Mcs,
    /// The kinds that are watched. A kind that is not watched counts as empty.
    pub kinds: Vec<Kind>,
}

/// Multi-cluster services (`registries.md` 3.8); all of it is off where nothing is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mcs {
    /// A Service without a ServiceExport is found in its own cluster only.
    pub discovery: bool,
    /// A Service's own host is found in its own cluster only, exported or not.
    pub cluster_local: bool,
    /// ServiceImports make hosts of `clusterset.local`.
    pub host: bool,
    /// Every Service is exported by a ServiceExport that is written for it.
    pub auto_export: bool,
    /// The API group of both kinds.
    pub group: Arc<str>,
}

impl Default for Mcs {
    fn default() -> Self {
        let group = Self::GROUP.into();
        Self { discovery: false, cluster_local: false, host: false, auto_export: false, group }
    }
}

impl Mcs {
    /// The API group of the project that defines both kinds.
    pub const GROUP: &'static str = "multicluster.x-k8s.io";

    /// Whether it matters which Services are exported.
    #[must_use]
    pub const fn reads_exports(&self) -> bool {
        self.discovery || self.host || self.auto_export
    }
}

impl Options {
    /// A cluster with what is usual: every kind, every namespace.
    pub fn new(cluster: ClusterId) -> Result<Self, InvalidName> {
        Ok(Self {
            cluster,
            scopes: PartScopes::new()?,
            domain: "cluster.local".into(),
            trust_domain: None,
            system_namespace: Namespace::new("tributary-system")?,
            revision: None,
            namespaces: Vec::new(),
            is_config: true,
            networks: Arc::from([]),
            cluster_local: None,
            consul_domains: Arc::from([]),
            mcs: Mcs::default(),
            kinds: Kind::ALL.to_vec(),
        })
    }
    /// The name of the ConfigMap of mesh configuration.
    #[must_use]
    pub fn mesh_config(&self) -> String {
        let revision = self.revision.as_deref().filter(|revision| !matches!(*revision, "" | "default"));
        revision.map_or_else(|| "istio".to_owned(), |revision| format!("istio-{revision}"))
    }
    /// Whether objects of a kind are asked for.
    pub(crate) fn reads(&self, kind: Kind) -> bool {
        match kind {
            Kind::Export => self.mcs.reads_exports(),
            Kind::Import => self.mcs.host,
            _ => true,
        }
    }
    /// The watches that a run needs, in the order in which to start them.
    #[must_use]
    pub fn feeds(&self) -> Vec<WatchScope> {
        let kinds = self.kinds.iter().filter(|kind| self.reads(**kind));
        kinds.flat_map(|&kind| self.feeds_of(kind)).collect()
    }
    fn feeds_of(&self, kind: Kind) -> Vec<WatchScope> {
        if kind == Kind::MeshConfig {
            return vec![WatchScope { kind, namespace: Some(self.system_namespace.clone()) }];
        }
        if self.namespaces.is_empty() || !kind.is_namespaced() {
            return vec![WatchScope::all(kind)];
        }
        self.namespaces.iter().map(|n| WatchScope { kind, namespace: Some(n.clone()) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_namespaces_are_watched_one_by_one_and_cluster_kinds_whole() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::Node, Kind::Pod];
        assert_eq!(options.feeds(), [WatchScope::all(Kind::Node), WatchScope::all(Kind::Pod)]);
        let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        options.namespaces = vec![a.clone(), b.clone()];
        let pod = |namespace| WatchScope { kind: Kind::Pod, namespace: Some(namespace) };
        assert_eq!(options.feeds(), [WatchScope::all(Kind::Node), pod(a), pod(b)]);
    }

    #[test]
    fn the_mesh_configuration_is_one_object_of_the_system_namespace() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::MeshConfig];
        let system = Some(Namespace::new("tributary-system").unwrap());
        assert_eq!(options.feeds(), [WatchScope { kind: Kind::MeshConfig, namespace: system }]);
        for (revision, name) in [(None, "istio"), (Some("default"), "istio"), (Some("blue"), "istio-blue")] {
            options.revision = revision.map(Arc::from);
            assert_eq!(options.mesh_config(), name);
        }
    }

    #[test]
    fn the_kinds_of_multi_cluster_services_are_watched_where_they_are_asked_for() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::Export, Kind::Import];
        let kinds = |options: &Options| options.feeds().iter().map(|feed| feed.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&options), []);
        options.mcs.discovery = true;
        assert_eq!(kinds(&options), [Kind::Export]);
        options.mcs = Mcs { host: true, ..Mcs::default() };
        assert_eq!(kinds(&options), [Kind::Export, Kind::Import]);
    }
}
