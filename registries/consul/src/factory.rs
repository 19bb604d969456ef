//! Factory of Consul registry runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use tributary_model::{ClusterId, ProviderId, RegistryId, RegistryName};
use tributary_registry_api::{Registry, RegistryError, RegistryFactory, RegistrySpec};

use crate::client::Client;
use crate::config::{ConfigError, ConsulConfig};
use crate::registry::ConsulRegistry;
use crate::run_loop;

/// Creates runs over one Consul.
#[derive(Debug, Clone)]
pub struct ConsulFactory {
    id: Arc<RegistryId>,
    config: Arc<ConsulConfig>,
    seed: Option<u64>,
}

impl ConsulFactory {
    /// Creates a factory. Consul need not be running.
    pub fn new(
        name: RegistryName,
        cluster: ClusterId,
        mut config: ConsulConfig,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        config.mapping.cluster.get_or_insert_with(|| cluster.clone());
        let id = Arc::new(RegistryId { name, provider: ProviderId::CONSUL, cluster });
        Ok(Self { id, config: Arc::new(config), seed: None })
    }
    /// Uses the same random seed for every run; for tests.
    #[must_use]
    pub const fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl RegistryFactory for ConsulFactory {
    fn spec(&self) -> RegistrySpec {
        let spec = RegistrySpec::new(Arc::clone(&self.id), 1).confirming();
        match run_loop::configured(&self.config) {
            Some(scopes) => spec.configured(scopes),
            None => spec,
        }
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        if !self.config.tls.verify {
            tracing::warn!(registry = %self.id.name, "certificate verification is disabled; another server can impersonate consul");
        }
        let client = Client::new(&self.config, &self.config.addresses).map_err(RegistryError::retryable)?;
        let seed = self.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Ok(Box::new(ConsulRegistry::new(Arc::clone(&self.config), client, seed)))
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::Scopes;

    use super::*;
    use crate::config::Datacenters;

    #[test]
    fn spec_names_the_scopes_that_the_configuration_lists() {
        let scopes = |datacenters: Datacenters| {
            let mut config = ConsulConfig::new(vec!["http://127.0.0.1:1".parse().unwrap()]).unwrap();
            config.datacenters = datacenters;
            let name = RegistryName::new("consul").unwrap();
            ConsulFactory::new(name, ClusterId::new("consul").unwrap(), config).unwrap().spec().scopes
        };
        assert_eq!(scopes(Datacenters::All), Scopes::Discovered);
        let listed = scopes(Datacenters::Listed(vec!["dc1".to_owned()]));
        assert!(matches!(listed, Scopes::Configured(all) if all.len() == 3), "with two for the lists");
    }
}
