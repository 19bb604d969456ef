//! Context of all objects: the mesh configuration, the cluster's networks, the domain of identities.
//!
//! Rebuilt when a namespace or the mesh configuration changes. A counter records each change of the context; a caller
//! that derived from it derives everything again, because all objects read it.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use tributary_kube_client::ClusterContext;
use tributary_model::Namespace;

use super::objects::ClusterObjects;
use crate::kind::{Kind, Name};
use crate::mesh::Mesh;
use crate::network::{self, NetworkAssignment, Networks};
use crate::options::Options;
use crate::project::{MeshConfig, Object};

/// Context that all objects share.
#[derive(Debug, Clone)]
pub(super) struct MeshContext {
    mesh_name: Name,
    pub(super) networks: Networks,
    trust_domain: Arc<str>,
    /// Mesh configuration of an earlier run; its valid fields replace fields that are invalid now.
    last_mesh: Option<Arc<MeshConfig>>,
    /// Mesh configuration of the config cluster, where it is followed and known.
    home: Option<Arc<Mesh>>,
    changes: u64,
}

impl MeshContext {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            mesh_name: Name::new(options.system_namespace.as_str(), options.mesh_config()),
            networks: Networks::default(),
            trust_domain: "".into(),
            last_mesh: None,
            home: None,
            changes: 0,
        }
    }
}

impl ClusterObjects {
    /// Returns the mesh configuration, if it exists.
    #[must_use]
    pub fn mesh_config(&self) -> Option<&Arc<MeshConfig>> {
        self.mesh_configs.get(&self.mesh_context.mesh_name)
    }
    /// Returns the name of the mesh configuration's object, whether or not it exists.
    #[must_use]
    pub const fn mesh_name(&self) -> &Name {
        &self.mesh_context.mesh_name
    }
    /// Returns the values of the mesh configuration in force, the config cluster's where it is followed; the defaults if it does
    /// not exist.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        static NOTHING: LazyLock<Mesh> = LazyLock::new(Mesh::default);
        let home = || self.mesh_context.home.as_deref();
        let own = || self.mesh_config().map(|config| &config.mesh);
        (if self.options.follows_mesh { home() } else { own() }).unwrap_or(&NOTHING)
    }
    /// Whether the mesh configuration of the config cluster is followed and not known yet.
    #[must_use]
    pub const fn waits_for_mesh(&self) -> bool {
        self.options.follows_mesh && self.mesh_context.home.is_none()
    }
    /// Takes a value of the followed mesh configuration; returns the earlier one.
    pub(crate) fn follow_mesh(&mut self, mesh: Arc<Mesh>) -> Option<Arc<Mesh>> {
        let old = self.mesh_context.home.replace(mesh);
        self.settle(Kind::MeshConfig);
        old
    }
    /// Returns the networks of this cluster's addresses.
    #[must_use]
    pub const fn networks(&self) -> &Networks {
        &self.mesh_context.networks
    }
    /// Returns the domain of identities: the configuration file's, then the cluster's.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.mesh_context.trust_domain
    }
    /// Returns how often the context has changed.
    #[must_use]
    pub(crate) const fn changes(&self) -> u64 {
        self.mesh_context.changes
    }

    /// Returns the context for other registries of this cluster.
    #[must_use]
    pub fn cluster_context(&self) -> ClusterContext {
        let of_namespaces =
            || self.namespaces.values().filter_map(|ns| Some((Namespace::new(&ns.meta.name.name).ok()?, ns)));
        ClusterContext {
            selected: self.selected_namespaces(),
            traffic: of_namespaces().filter_map(|(name, ns)| Some((name, ns.traffic?))).collect(),
            network: self.networks().own().map(|own| own.network.clone()),
            networks: self.networks().ranges().clone(),
            trust_domain: Some(Arc::clone(&self.mesh_context.trust_domain)),
            ..ClusterContext::default()
        }
    }
    fn selected_namespaces(&self) -> Option<BTreeSet<Namespace>> {
        let named = &self.options.namespaces;
        if self.mesh().discovery.is_empty() {
            return (!named.is_empty()).then(|| named.iter().cloned().collect());
        }
        let all = self.namespaces.keys().filter(|name| self.selected(&name.name));
        Some(all.filter_map(|name| Namespace::new(&name.name).ok()).collect())
    }

    /// Sets the mesh configuration of an earlier run.
    pub fn remember_mesh(&mut self, last: Arc<MeshConfig>) {
        self.mesh_context.last_mesh = Some(last);
    }
    /// Drops the mesh configuration of an earlier run, after this run has read it.
    pub(crate) fn forget_mesh(&mut self) {
        self.mesh_context.last_mesh = None;
    }
    /// Fills invalid fields of a mesh configuration with their last valid values.
    pub(super) fn with_last_good(&self, object: Object) -> Object {
        let Object::MeshConfig(mut config) = object else { return object };
        let last = self.mesh_configs.get(&config.meta.name).or(self.mesh_context.last_mesh.as_ref());
        if let Some(last) = last.filter(|last| last.meta.name == config.meta.name)
            && !config.mesh.faults.is_empty()
        {
            let config = Arc::make_mut(&mut config);
            config.mesh.inherit(&last.mesh);
            config.text = Arc::clone(&last.text);
        }
        Object::MeshConfig(config)
    }
    /// Rebuilds the context after a change of an object of this kind.
    pub(super) fn settle(&mut self, kind: Kind) {
        if !matches!(kind, Kind::Namespace | Kind::MeshConfig) {
            return;
        }
        let networks = self.find_networks();
        let trust_domain: Arc<str> = self.find_trust_domain().unwrap_or("cluster.local").into();
        let mesh_context = &mut self.mesh_context;
        if mesh_context.networks != networks || mesh_context.trust_domain != trust_domain {
            mesh_context.changes += 1;
            (mesh_context.networks, mesh_context.trust_domain) = (networks, trust_domain);
        }
    }
    /// Returns the trust domain of the configuration file, then of the mesh configuration. Where that of the config cluster is
    /// followed, the cluster's own comes first, as identities are issued by it.
    fn find_trust_domain(&self) -> Option<&str> {
        let file = self.options.trust_domain.as_deref();
        let own = self.mesh_config().and_then(|config| config.mesh.trust_domain.as_deref());
        if self.options.follows_mesh {
            return own.or(file).or_else(|| self.mesh().trust_domain.as_deref());
        }
        file.or(own)
    }
    /// Combines the label of the system namespace, then of Istio's own, the mesh networks' claim on this cluster, and
    /// the ranges of the configuration file before those of the mesh networks.
    fn find_networks(&self) -> Networks {
        let label = self.options.system_namespaces().find_map(|namespace| {
            let network = network::label(&self.namespace(namespace.as_str())?.meta.labels)?;
            let origin = format!("label {} of namespace {namespace}", tributary_model::labels::NETWORK);
            Some(NetworkAssignment { network, origin: origin.into() })
        });
        let mesh = &self.mesh().networks;
        let claimed = mesh.of_registry(self.options.cluster.as_str()).map(|network| {
            let of = if self.options.follows_mesh { " of the config cluster" } else { "" };
            let origin = format!("meshNetworks of ConfigMap {}{of}", self.mesh_context.mesh_name);
            NetworkAssignment { network: network.clone(), origin: origin.into() }
        });
        let own = self.options.networks.iter();
        let own = own.flat_map(|(network, ranges)| ranges.iter().map(move |range| (network, range)));
        Networks::new(label, claimed, own.chain(mesh.ranges()))
    }
}
