//! Factory of runs over one cluster.

use std::sync::Arc;

use tokio::sync::watch;
use tributary_kube_client::{ClusterContextSender, Connection, Timing};
use tributary_model::{ProviderId, RegistryId, RegistryName, RegistrySpec};
use tributary_registry_api::{Registry, RegistryError, RegistryFactory};

use crate::mesh_link::MeshLink;
use crate::options::Options;
use crate::publish::Index;
use crate::registry::KubernetesRegistry;
use crate::run_loop::RunMemory;
use crate::run_loop::{Exporter, RunLoop, WatchSet};

/// Builds runs of `--registry kubernetes`. A run begins with an empty index and what the memory keeps; runs share the
/// connection.
#[derive(Debug, Clone)]
pub struct KubernetesFactory {
    id: Arc<RegistryId>,
    connection: Connection,
    options: Options,
    timing: Timing,
    seed: u64,
    context_sender: Option<Arc<ClusterContextSender>>,
    exports: Option<watch::Receiver<bool>>,
    memory: Arc<RunMemory>,
    mesh_link: MeshLink,
}

impl KubernetesFactory {
    /// Creates a factory of a registry with this name over a cluster.
    #[must_use]
    pub fn new(name: RegistryName, connection: Connection, options: Options) -> Self {
        let cluster = options.cluster.clone();
        let id = Arc::new(RegistryId { name, provider: ProviderId::KUBERNETES, cluster });
        Self {
            id,
            connection,
            options,
            timing: Timing::default(),
            seed: 0,
            context_sender: None,
            exports: None,
            memory: Arc::default(),
            mesh_link: MeshLink::Own,
        }
    }
    /// Replaces the intervals; for tests.
    #[must_use]
    pub const fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }
    /// Publishes the cluster context to other registries of this cluster.
    #[must_use]
    pub fn cluster_context(mut self, sender: Arc<ClusterContextSender>) -> Self {
        self.context_sender = Some(sender);
        self
    }
    /// Links the run to the mesh configuration of other clusters.
    #[must_use]
    pub fn mesh_link(mut self, link: MeshLink) -> Self {
        self.options.follows_mesh = link.follows();
        self.mesh_link = link;
        self
    }
    /// Exports Services while this reports leadership; requires that the options enable it.
    #[must_use]
    pub fn exports(mut self, leads: watch::Receiver<bool>) -> Self {
        self.exports = Some(leads);
        self
    }
    /// Uses this memory to pass objects from run to run, in place of the factory's own.
    #[must_use]
    pub fn memory(mut self, memory: Arc<RunMemory>) -> Self {
        self.memory = memory;
        self
    }
    /// Sets the seed of random pauses and audits. Replicas should use different seeds.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

impl RegistryFactory for KubernetesFactory {
    fn spec(&self) -> RegistrySpec {
        let rank = u16::from(!self.options.is_config);
        RegistrySpec::new(self.id.clone(), rank).configured(self.options.reported_scopes()).shadowing()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let watches = WatchSet::new(&self.connection, &self.options, self.timing, self.seed);
        let index = Index::new(self.options.clone());
        let leads = self.exports.clone().filter(|_| self.options.mcs.auto_export);
        let exporter = leads.map(|leads| Exporter::new(&self.connection, &self.options, leads, self.seed));
        let run_loop = RunLoop::new(index, watches, self.context_sender.clone(), Arc::clone(&self.memory))
            .exporting(exporter)
            .linked(self.mesh_link.clone());
        Ok(Box::new(KubernetesRegistry::new(run_loop)))
    }
}
