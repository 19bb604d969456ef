//! The configuration file as a source of facts: settings and federated services enter the core like the facts
//! of a registry.

use std::sync::Arc;

use tributary_model::{
    Basis, ClusterId, Collection, CollectionKind, Completeness, Fact, ProviderId, RegistryId, RegistryName,
    RegistrySpec, RegistryUpdate, Scope,
};
use tributary_runtime::{Handle, Source};

use crate::config::registry::CONFIG_REGISTRY;
use crate::config::{Config, facts};
use crate::exit::CommandError;

/// Registry of the configuration; it reports on request.
#[derive(Debug)]
pub struct ConfigSource {
    source: Source,
    collection: Collection,
}

impl ConfigSource {
    /// Adds the registry and reports the configuration.
    pub async fn start(handle: &Handle, config: &Config) -> Result<Self, CommandError> {
        let (spec, scope) = Self::spec(config)?;
        let refused = |e: &dyn std::fmt::Display| refused(e);
        let source = handle.source(spec).await.map_err(|e| refused(&e))?;
        let collection = Collection { scope, kind: CollectionKind::Settings };
        source
            .updates
            .send(RegistryUpdate::Follows { required: vec![collection.clone()], optional: Vec::new() });
        let own = Self { source, collection };
        own.report(config);
        Ok(own)
    }
    /// Returns the registry's specification and its scope.
    pub fn spec(config: &Config) -> Result<(RegistrySpec, Scope), CommandError> {
        let refused = |e: &dyn std::fmt::Display| refused(e);
        let id = RegistryId {
            name: RegistryName::new(CONFIG_REGISTRY).map_err(|e| refused(&e))?,
            provider: ProviderId::CONFIG,
            cluster: ClusterId::new(&config.cluster_id).map_err(|e| refused(&e))?,
        };
        let scope = Scope::new("file").map_err(|e| refused(&e))?;
        Ok((RegistrySpec::new(Arc::new(id), 0).configured([scope.clone()]).overriding_settings(), scope))
    }
    /// Reports the configuration as a complete list, which removes everything that it no longer contains.
    pub fn report(&self, config: &Config) {
        self.source.updates.send_all(self.list(config));
    }
    fn list(&self, config: &Config) -> Vec<RegistryUpdate> {
        let put = |fact| RegistryUpdate::Put(self.collection.scope.clone(), fact, Basis::Authoritative);
        let settings = put(Fact::Settings(Arc::new(facts::settings_with(&config.settings, &config.merge))));
        let services = config.federated_services.iter().filter_map(facts::federated);
        let services =
            services.map(|(host, federated)| put(Fact::FederatedService(host, Arc::new(federated))));
        std::iter::once(RegistryUpdate::ListStarted(self.collection.clone()))
            .chain([settings])
            .chain(services)
            .chain([RegistryUpdate::ListEnded(self.collection.clone(), Completeness::Complete)])
            .collect()
    }
}

fn refused(why: &dyn std::fmt::Display) -> CommandError {
    CommandError::plain(format!("cannot add the configuration as a source: {why}"))
}
