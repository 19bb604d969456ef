//! What surrounds all objects: the mesh configuration, the cluster's networks, the domain of identities.
//!
//! Made again whenever a namespace or the mesh configuration changes. A change of it counts, and whoever has
//! derived anything from it derives all again: a change that all objects read is one change, not many.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use tributary_model::settings::Cidrs;
use tributary_model::{Namespace, NetworkId};
use tributary_registry_api::ClusterContext;

use crate::input::{Kind, Name, Object};
use crate::mesh::Mesh;
use crate::network::{self, NetworkAssignment, Networks};
use crate::objects::ClusterObjects;
use crate::options::Options;
use crate::project::MeshConfig;

/// Where Istio has its own objects.
const ISTIO_SYSTEM: &str = "istio-system";

/// What surrounds all objects.
#[derive(Debug, Clone)]
pub(super) struct MeshContext {
    mesh_name: Name,
    pub(super) networks: Networks,
    trust_domain: Arc<str>,
    /// The mesh configuration as an earlier run knew it, whose good parts stand in for those that are not valid now.
    last_mesh: Option<Arc<MeshConfig>>,
    changes: u64,
}

impl MeshContext {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            mesh_name: Name::new(options.system_namespace.as_str(), options.mesh_config()),
            networks: Networks::default(),
            trust_domain: "".into(),
            last_mesh: None,
            changes: 0,
        }
    }
}

impl ClusterObjects {
    /// The mesh configuration, where there is one.
    #[must_use]
    pub fn mesh_config(&self) -> Option<&Arc<MeshConfig>> {
        self.mesh_configs.get(&self.mesh_context.mesh_name)
    }
    /// The name of the object of the mesh configuration, whether or not it is there.
    #[must_use]
    pub const fn mesh_name(&self) -> &Name {
        &self.mesh_context.mesh_name
    }
    /// What the mesh configuration says; nothing where there is none.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        static NOTHING: LazyLock<Mesh> = LazyLock::new(Mesh::default);
        self.mesh_config().map_or(&NOTHING, |config| &config.mesh)
    }
    /// In which networks this cluster's addresses lie.
    #[must_use]
    pub const fn networks(&self) -> &Networks {
        &self.mesh_context.networks
    }
    /// The domain of identities: the configuration file's word, then the cluster's.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.mesh_context.trust_domain
    }
    /// How often what surrounds all objects has changed.
    #[must_use]
    pub(crate) const fn changes(&self) -> u64 {
        self.mesh_context.changes
    }

    /// What other registries of this cluster need to know of it.
    #[must_use]
    pub fn cluster_context(&self) -> ClusterContext {
        let of_namespaces =
            || self.namespaces.values().filter_map(|ns| Some((Namespace::new(&ns.meta.name.name).ok()?, ns)));
        ClusterContext {
            selected: self.selected_namespaces(),
            traffic: of_namespaces().filter_map(|(name, ns)| Some((name, ns.traffic?))).collect(),
            network: self.networks().own().map(|said| said.network.clone()),
            networks: self.ranges(),
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
    /// Ranges of networks; one that the configuration file gives away is not the mesh networks' to give.
    fn ranges(&self) -> Arc<[(NetworkId, Cidrs)]> {
        let own = &self.options.networks;
        let taken: BTreeSet<_> =
            own.iter().flat_map(|(_, ranges)| ranges.iter().map(ipnet::IpNet::trunc)).collect();
        let left = self.mesh().networks.iter().map(|network| {
            let ranges = network.ranges.iter().filter(|range| !taken.contains(&range.trunc()));
            (network.id.clone(), ranges.copied().collect::<Cidrs>())
        });
        own.iter().cloned().chain(left.filter(|(_, ranges)| !ranges.is_empty())).collect()
    }

    /// What an earlier run knew of the mesh configuration.
    pub fn remember_mesh(&mut self, last: Arc<MeshConfig>) {
        self.mesh_context.last_mesh = Some(last);
    }
    /// The mesh configuration has been read.
    pub(crate) fn forget_mesh(&mut self) {
        self.mesh_context.last_mesh = None;
    }
    /// What is not valid of a mesh configuration keeps its last good value.
    pub(super) fn with_last_good(&self, object: Object) -> Object {
        let Object::MeshConfig(mut config) = object else { return object };
        let last = self.mesh_configs.get(&config.meta.name).or(self.mesh_context.last_mesh.as_ref());
        if let Some(last) = last.filter(|last| last.meta.name == config.meta.name)
            && !config.mesh.faults.is_empty()
        {
            Arc::make_mut(&mut config).mesh.inherit(&last.mesh);
        }
        Object::MeshConfig(config)
    }
    /// An object of this kind has changed.
    pub(super) fn settle(&mut self, kind: Kind) {
        if !matches!(kind, Kind::Namespace | Kind::MeshConfig) {
            return;
        }
        let networks = self.find_networks();
        let said = self.options.trust_domain.as_deref().or_else(|| self.mesh().trust_domain.as_deref());
        let trust_domain: Arc<str> = said.unwrap_or("cluster.local").into();
        let mesh_context = &mut self.mesh_context;
        if mesh_context.networks != networks || mesh_context.trust_domain != trust_domain {
            mesh_context.changes += 1;
            (mesh_context.networks, mesh_context.trust_domain) = (networks, trust_domain);
        }
    }
    /// The system namespace's label, else that of Istio's own; then the mesh networks that claim this cluster,
    /// and the ranges of the configuration file before those of the mesh networks.
    fn find_networks(&self) -> Networks {
        let system = [self.options.system_namespace.as_str(), ISTIO_SYSTEM];
        let label = system.into_iter().find_map(|namespace| {
            let network = network::label(&self.namespace(namespace)?.meta.labels)?;
            let place = format!("label {} of namespace {namespace}", tributary_model::labels::NETWORK);
            Some(NetworkAssignment { network, place: place.into() })
        });
        let mesh = &self.mesh().networks;
        let claimed = mesh.of_registry(self.options.cluster.as_str()).map(|network| {
            let place = format!("meshNetworks of ConfigMap {}", self.mesh_context.mesh_name);
            NetworkAssignment { network: network.clone(), place: place.into() }
        });
        let own = self.options.networks.iter();
        let own = own.flat_map(|(network, ranges)| ranges.iter().map(move |range| (network, range)));
        Networks::new(label, claimed, own.chain(mesh.ranges()))
    }
}
