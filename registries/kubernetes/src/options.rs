//! Options of a run: values from flags and the configuration file.

use std::sync::Arc;

use tributary_model::settings::{Cidrs, ClusterLocal};
use tributary_model::{ClusterId, InvalidName, Namespace, NetworkId};

use crate::collections::PartScopes;
use crate::kind::{Kind, WatchScope};

/// Istio's own namespace.
const ISTIO_SYSTEM: &str = "istio-system";

/// Options, constant during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Cluster of the registry.
    pub cluster: ClusterId,
    /// Scopes of the facts.
    pub scopes: PartScopes,
    /// Domain of service names; all clusters use the config cluster's.
    pub domain: Arc<str>,
    /// Domain of identities from the configuration file; takes precedence over the cluster's.
    pub trust_domain: Option<Arc<str>>,
    /// Namespace of the network label and of the mesh configuration.
    pub system_namespace: Namespace,
    /// Revision whose mesh configuration is read.
    pub revision: Option<Arc<str>>,
    /// Namespaces to read; empty means all. Named ones need no right to other namespaces; the labels of the system
    /// namespaces are read where that is allowed.
    pub namespaces: Vec<Namespace>,
    /// Whether this is the config cluster; mesh-wide values are read there only.
    pub is_config: bool,
    /// Whether the mesh configuration of the config cluster is in force in place of the cluster's own. Of the latter only the
    /// trust domain counts.
    pub follows_mesh: bool,
    /// Networks and their ranges from the configuration file; they take precedence over the cluster's.
    pub networks: Arc<[(NetworkId, Cidrs)]>,
    /// Cluster-local hosts and exceptions from the configuration file.
    pub cluster_local: Option<ClusterLocal>,
    /// Domains of directly read Consuls; their copies in the cluster are excluded.
    pub consul_domains: Arc<[Arc<str>]>,
    /// Multi-cluster services.
    pub mcs: Mcs,
    /// Kinds to watch. An unwatched kind counts as empty.
    pub kinds: Vec<Kind>,
}

/// Options of multi-cluster services (docs/reference/kubernetes.md); all off by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mcs {
    /// A Service without a ServiceExport is visible in its own cluster only.
    pub discovery: bool,
    /// A Service's own host is visible in its own cluster only, exported or not. No effect without `host`.
    pub cluster_local: bool,
    /// ServiceImports create hosts of `clusterset.local`. No effect without `discovery`.
    pub host: bool,
    /// Every Service gets a generated ServiceExport.
    pub auto_export: bool,
    /// API group of both kinds.
    pub group: Arc<str>,
}

impl Default for Mcs {
    fn default() -> Self {
        let group = Self::GROUP.into();
        Self { discovery: false, cluster_local: false, host: false, auto_export: false, group }
    }
}

impl Mcs {
    /// API group of the project that defines both kinds.
    pub const GROUP: &'static str = "multicluster.x-k8s.io";

    /// Whether hosts of `clusterset.local` are served: needs `discovery`, as in Istio.
    #[must_use]
    pub const fn serves_hosts(&self) -> bool {
        self.host && self.discovery
    }
    /// Whether a Service's own host is visible in its own cluster only: needs `host` and `discovery`, as in Istio.
    #[must_use]
    pub const fn limits_own_hosts(&self) -> bool {
        self.cluster_local && self.serves_hosts()
    }
    /// Whether ServiceExports are needed.
    #[must_use]
    pub const fn reads_exports(&self) -> bool {
        self.discovery || self.auto_export
    }
}

impl Options {
    /// Builds the defaults of a cluster: every kind, every namespace.
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
            follows_mesh: false,
            networks: Arc::from([]),
            cluster_local: None,
            consul_domains: Arc::from([]),
            mcs: Mcs::default(),
            kinds: Kind::ALL.to_vec(),
        })
    }
    /// Returns the name of the ConfigMap with the mesh configuration.
    #[must_use]
    pub fn mesh_config(&self) -> String {
        let revision = self.revision.as_deref().filter(|revision| !matches!(*revision, "" | "default"));
        revision.map_or_else(|| "istio".to_owned(), |revision| format!("istio-{revision}"))
    }
    /// Whether objects of a kind are needed.
    pub(crate) fn reads(&self, kind: Kind) -> bool {
        match kind {
            Kind::Export => self.mcs.reads_exports(),
            Kind::Import => self.mcs.serves_hosts(),
            _ => true,
        }
    }
    /// Returns the watch scopes of a run, in the order of their start.
    #[must_use]
    pub fn watch_scopes(&self) -> Vec<WatchScope> {
        let kinds = self.kinds.iter().filter(|kind| self.reads(**kind));
        kinds.flat_map(|&kind| self.watch_scopes_of(kind)).collect()
    }
    /// Returns the namespaces whose labels name the network: the system namespace, then Istio's.
    pub(crate) fn system_namespaces(&self) -> impl Iterator<Item = Namespace> {
        let istio = Namespace::new(ISTIO_SYSTEM).ok().filter(|istio| *istio != self.system_namespace);
        std::iter::once(self.system_namespace.clone()).chain(istio)
    }
    /// Whether a watch reads a namespace only for the network that its labels name; no object in it is read.
    pub(crate) fn is_for_network_only(&self, scope: &WatchScope) -> bool {
        let is_named = |namespace| self.namespaces.contains(namespace);
        scope.kind == Kind::Namespace && scope.namespace.as_ref().is_some_and(|n| !is_named(n))
    }
    fn watch_scopes_of(&self, kind: Kind) -> Vec<WatchScope> {
        if kind == Kind::MeshConfig {
            return vec![WatchScope { kind, namespace: Some(self.system_namespace.clone()) }];
        }
        if self.namespaces.is_empty() || kind == Kind::Node {
            return vec![WatchScope::all(kind)];
        }
        let named = self.namespaces.iter().map(|n| WatchScope { kind, namespace: Some(n.clone()) });
        let systems =
            self.system_namespaces().filter(|n| kind == Kind::Namespace && !self.namespaces.contains(n));
        named.chain(systems.map(|n| WatchScope { kind, namespace: Some(n) })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_namespaces_are_watched_one_by_one() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::Namespace, Kind::Node, Kind::Pod];
        assert_eq!(options.watch_scopes(), [Kind::Namespace, Kind::Node, Kind::Pod].map(WatchScope::all));
        let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        options.namespaces = vec![a.clone(), b.clone()];
        let of = |kind, namespace: &Namespace| WatchScope { kind, namespace: Some(namespace.clone()) };
        let (system, istio) = (options.system_namespace.clone(), Namespace::new("istio-system").unwrap());
        let namespaces = [&a, &b, &system, &istio].map(|namespace| of(Kind::Namespace, namespace));
        let rest = [WatchScope::all(Kind::Node), of(Kind::Pod, &a), of(Kind::Pod, &b)];
        assert_eq!(options.watch_scopes(), namespaces.into_iter().chain(rest).collect::<Vec<_>>());
        assert!(of(Kind::Namespace, &a).covers(&crate::Name::new("", "a")));
        assert!(!of(Kind::Namespace, &a).covers(&crate::Name::new("", "b")));
    }

    #[test]
    fn mesh_configuration_is_one_object_of_the_system_namespace() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::MeshConfig];
        let system = Some(Namespace::new("tributary-system").unwrap());
        assert_eq!(options.watch_scopes(), [WatchScope { kind: Kind::MeshConfig, namespace: system }]);
        for (revision, name) in [(None, "istio"), (Some("default"), "istio"), (Some("blue"), "istio-blue")] {
            options.revision = revision.map(Arc::from);
            assert_eq!(options.mesh_config(), name);
        }
    }

    #[test]
    fn mcs_kinds_are_watched_where_an_option_needs_them() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::Export, Kind::Import];
        let kinds =
            |options: &Options| options.watch_scopes().iter().map(|scope| scope.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&options), []);
        options.mcs.discovery = true;
        assert_eq!(kinds(&options), [Kind::Export]);
        options.mcs.host = true;
        assert_eq!(kinds(&options), [Kind::Export, Kind::Import]);
        options.mcs.discovery = false;
        assert_eq!(kinds(&options), []);
    }
}
