//! Builds runs over the custom resources of one cluster. The application calls it for each cluster.

use std::sync::Arc;

use tokio::sync::watch;
use tributary_kube_client::{Connection, Resource, Timing, WatchSpec};
use tributary_model::{
    ClusterId, InvalidName, Namespace, Provider, RegistryId, RegistryName, RegistrySpec, Scope, Version,
};
use tributary_registry_api::{ClusterContextReceiver, Registry, RegistryError, RegistryFactory, SplitMix};

use super::kinds::{self, Kinds};
use super::source::CrdSource;
use crate::allocate::Ranges;
use crate::convert::Context;
use crate::registry::ServiceEntryRegistry;

/// Options of a run over custom resources.
#[derive(Debug, Clone, Default)]
pub struct CrdOptions {
    /// The kinds to read.
    pub kinds: Kinds,
    /// Revision; objects of a different revision are excluded.
    pub revision: Option<Arc<str>>,
    /// The namespaces to read, each with its own watch; empty means all.
    pub namespaces: Vec<Namespace>,
    /// Context of the objects, reported by the cluster's Kubernetes registry. The run reports nothing
    /// before the first value. `None` means that all namespaces count and no network is known.
    pub cluster_context: Option<ClusterContextReceiver>,
    /// Allocates addresses to hosts without any and writes them into their objects; `None` disables
    /// all writes.
    pub addresses: Option<Addresses>,
    /// Timing of the watches.
    pub timing: Timing,
    /// Seed of pauses and audits.
    pub seed: u64,
}

/// Options of address allocation.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The ranges to allocate from.
    pub ranges: Ranges,
    /// Whether this replica holds the Lease for writing.
    pub leads: watch::Receiver<bool>,
}

impl CrdOptions {
    /// Every kind in every configured namespace.
    pub(super) fn watched(&self) -> Vec<(&'static Resource, Option<&Namespace>)> {
        let namespaces: Vec<Option<&Namespace>> = match &self.namespaces[..] {
            [] => vec![None],
            named => named.iter().map(Some).collect(),
        };
        let of = |resource| namespaces.iter().map(move |namespace| (resource, *namespace));
        self.kinds.resources().iter().flat_map(of).collect()
    }
    /// The scopes that a run reports: one for each watch.
    pub fn scopes(&self) -> Result<Vec<Scope>, InvalidName> {
        self.watched().into_iter().map(|(resource, namespace)| kinds::scope(resource, namespace)).collect()
    }
    pub(super) fn watch(&self, resource: &Resource, namespace: Option<&Namespace>) -> WatchSpec {
        let namespace = namespace.map(ToString::to_string);
        WatchSpec { namespace, ..WatchSpec::all(resource.clone(), self.timing) }
    }
    /// Returns the random source of one part, so that parts with the same seed do not pause in step.
    pub(super) fn random_source(&self, what: &str) -> SplitMix {
        SplitMix::seeded(self.seed ^ Version::of(what.as_bytes()).0)
    }
}

/// Builds runs of the registry of a cluster's custom resources.
#[derive(Debug, Clone)]
pub struct CrdFactory {
    id: Arc<RegistryId>,
    rank: u16,
    connection: Connection,
    options: CrdOptions,
    context: Context,
}

impl CrdFactory {
    /// Creates the factory of a registry beside the Kubernetes registry of the same cluster.
    #[must_use]
    pub fn new(name: RegistryName, cluster: ClusterId, connection: Connection, options: CrdOptions) -> Self {
        let context = Context::new(cluster.clone());
        let id = Arc::new(RegistryId { name, provider: Provider::ServiceEntry, cluster });
        Self { id, rank: 1, connection, options, context }
    }
    /// Sets the trust domain of service account identities, used if the cluster context names none.
    #[must_use]
    pub fn trust_domain(mut self, domain: &str) -> Self {
        self.context.trust_domain = domain.into();
        self
    }
    /// Sets the rank; the config cluster has 0.
    #[must_use]
    pub const fn rank(mut self, rank: u16) -> Self {
        self.rank = rank;
        self
    }
}

impl RegistryFactory for CrdFactory {
    fn spec(&self) -> RegistrySpec {
        // Namespaces are validated before, so each is a valid scope name.
        let scopes = self.options.scopes().unwrap_or_default();
        RegistrySpec::new(self.id.clone(), self.rank).configured(scopes).shadowing()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let source =
            CrdSource::new(&self.connection.client(), &self.options).map_err(RegistryError::final_)?;
        Ok(Box::new(ServiceEntryRegistry::new(vec![Box::new(source)], self.context.clone())))
    }
}
