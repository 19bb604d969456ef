//! Builds runs over the custom resources of one cluster.

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

/// What is read of a cluster, and how.
#[derive(Debug, Clone, Default)]
pub struct CrdOptions {
    /// Which kinds.
    pub kinds: Kinds,
    /// Objects of another revision are left out.
    pub revision: Option<Arc<str>>,
    /// Only these namespaces, each watched by itself; all of them where none is named.
    pub namespaces: Vec<Namespace>,
    /// What holds around the objects, as the cluster's other registry tells it. Until its first word
    /// nothing is said. Without it all namespaces count and no network is known.
    pub cluster_context: Option<ClusterContextReceiver>,
    /// Addresses are given to hosts that have none, and written into their objects; nothing is written
    /// without this.
    pub addresses: Option<Addresses>,
    /// How often and how long is watched.
    pub timing: Timing,
    /// The seed of what is left to chance: pauses and audits.
    pub seed: u64,
}

/// How addresses are given.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The ranges they are given from.
    pub ranges: Ranges,
    /// Whether this replica is the one that writes, as its Lease says.
    pub leads: watch::Receiver<bool>,
}

impl CrdOptions {
    /// Every kind, of every namespace where only some are read.
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
    /// What has one seed does not pause in step.
    pub(super) fn chance(&self, what: &str) -> SplitMix {
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
    /// A registry of that name, beside the Kubernetes registry of the same cluster.
    #[must_use]
    pub fn new(name: RegistryName, cluster: ClusterId, connection: Connection, options: CrdOptions) -> Self {
        let context = Context::new(cluster.clone());
        let id = Arc::new(RegistryId { name, provider: Provider::ServiceEntry, cluster });
        Self { id, rank: 1, connection, options, context }
    }
    /// With the domain of identities that are made from service accounts, where the surroundings name none.
    #[must_use]
    pub fn trust_domain(mut self, domain: &str) -> Self {
        self.context.trust_domain = domain.into();
        self
    }
    /// With another rank: 0 is the config cluster's.
    #[must_use]
    pub const fn rank(mut self, rank: u16) -> Self {
        self.rank = rank;
        self
    }
}

impl RegistryFactory for CrdFactory {
    fn spec(&self) -> RegistrySpec {
        // namespaces have been checked, so that each makes the name of a scope
        let scopes = self.options.scopes().unwrap_or_default();
        RegistrySpec::new(self.id.clone(), self.rank).configured(scopes).shadowing()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let source =
            CrdSource::new(&self.connection.client(), &self.options).map_err(RegistryError::final_)?;
        Ok(Box::new(ServiceEntryRegistry::new(vec![Box::new(source)], self.context.clone())))
    }
}
