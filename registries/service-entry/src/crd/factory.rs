//! Builds runs over the custom resources of one cluster. The application calls it for each cluster.

use std::sync::Arc;

use tributary_kube_client::Connection;
use tributary_model::{ClusterId, ProviderId, RegistryId, RegistryName, RegistrySpec};
use tributary_registry_api::{Registry, RegistryError, RegistryFactory};

use super::options::CrdOptions;
use super::source::CrdSource;
use crate::convert::Context;
use crate::registry::ServiceEntryRegistry;

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
        let id = Arc::new(RegistryId { name, provider: ProviderId::SERVICE_ENTRY, cluster });
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
        let spec = RegistrySpec::new(self.id.clone(), self.rank).configured(scopes).shadowing();
        spec.limiting_visibility().deciding_by_services()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let source =
            CrdSource::new(&self.connection.client(), &self.options).map_err(RegistryError::final_)?;
        Ok(Box::new(ServiceEntryRegistry::new(vec![Box::new(source)], self.context.clone())))
    }
}
