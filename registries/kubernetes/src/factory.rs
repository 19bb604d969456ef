//! Builds runs over one cluster.

use std::sync::Arc;

use tokio::sync::watch;
use tributary_kube_client::{Connection, Timing};
use tributary_model::{Provider, RegistryId, RegistryName, RegistrySpec};
use tributary_registry_api::{ClusterContextSender, Registry, RegistryError, RegistryFactory};

use crate::index::Index;
use crate::memory::Memory;
use crate::options::Options;
use crate::registry::KubernetesRegistry;
use crate::run_loop::{Exporter, RunLoop, WatchSet};

/// Builds runs of `--registry kubernetes`. A run begins with nothing known but what the memory
/// keeps; the connection is shared.
#[derive(Debug, Clone)]
pub struct KubernetesFactory {
    id: Arc<RegistryId>,
    connection: Connection,
    options: Options,
    timing: Timing,
    seed: u64,
    surroundings: Option<Arc<ClusterContextSender>>,
    exports: Option<watch::Receiver<bool>>,
    memory: Arc<Memory>,
}

impl KubernetesFactory {
    /// A registry of that name over a cluster.
    #[must_use]
    pub fn new(name: RegistryName, connection: Connection, options: Options) -> Self {
        let cluster = options.cluster.clone();
        let id = Arc::new(RegistryId { name, provider: Provider::Kubernetes, cluster });
        Self {
            id,
            connection,
            options,
            timing: Timing::default(),
            seed: 0,
            surroundings: None,
            exports: None,
            memory: Arc::default(),
        }
    }
    /// With other times; for tests.
    #[must_use]
    pub const fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }
    /// Telling other registries of this cluster what surrounds its objects.
    #[must_use]
    pub fn cluster_context(mut self, say: Arc<ClusterContextSender>) -> Self {
        self.surroundings = Some(say);
        self
    }
    /// Exporting Services while this says that it leads; only where the options ask for it.
    #[must_use]
    pub fn exports(mut self, leads: watch::Receiver<bool>) -> Self {
        self.exports = Some(leads);
        self
    }
    /// Passing on from run to run what this memory keeps; a factory has one of its own otherwise.
    #[must_use]
    pub fn memory(mut self, memory: Arc<Memory>) -> Self {
        self.memory = memory;
        self
    }
    /// With the seed of what is left to chance: pauses and audits. Replicas should differ in it.
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
        let feeds = WatchSet::new(&self.connection, &self.options, self.timing, self.seed);
        let index = Index::new(self.options.clone());
        let leads = self.exports.clone().filter(|_| self.options.mcs.auto_export);
        let exporter = leads.map(|leads| Exporter::new(&self.connection, &self.options, leads, self.seed));
        let rim = RunLoop::new(index, feeds, self.surroundings.clone(), Arc::clone(&self.memory))
            .exporting(exporter);
        Ok(Box::new(KubernetesRegistry::new(rim)))
    }
}
