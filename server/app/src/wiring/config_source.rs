//! The configuration file as a source of facts: settings and aliases enter the core as any other
//! registry's facts do.

use std::sync::Arc;

use tributary_model::{
    Basis, ClusterId, Collection, CollectionKind, Completeness, Fact, Provider, RegistryId, RegistryName,
    RegistrySpec, RegistryUpdate, Scope,
};
use tributary_runtime::{Handle, Source};

use crate::config::{Config, facts};
use crate::exit::CommandError;

/// The name under which the configuration speaks; no registry of a file may have it.
pub const NAME: &str = "config";

/// The source, which speaks when it is told to.
#[derive(Debug)]
pub struct ConfigSource {
    source: Source,
    collection: Collection,
}

impl ConfigSource {
    /// Joins, and says what the configuration says.
    pub async fn start(handle: &Handle, config: &Config) -> Result<Self, CommandError> {
        let (spec, scope) = Self::spec(config)?;
        let refused = |e: &dyn std::fmt::Display| refused(e);
        let source = handle.source(spec).await.map_err(|e| refused(&e))?;
        let collection = Collection { scope, kind: CollectionKind::Settings };
        source
            .updates
            .send(RegistryUpdate::Follows { required: vec![collection.clone()], optional: Vec::new() });
        let own = Self { source, collection };
        own.say(config);
        Ok(own)
    }
    /// The source as the core knows it, and its scope.
    pub fn spec(config: &Config) -> Result<(RegistrySpec, Scope), CommandError> {
        let refused = |e: &dyn std::fmt::Display| refused(e);
        let id = RegistryId {
            name: RegistryName::new(NAME).map_err(|e| refused(&e))?,
            provider: Provider::Config,
            cluster: ClusterId::new(&config.cluster_id).map_err(|e| refused(&e))?,
        };
        let scope = Scope::new("file").map_err(|e| refused(&e))?;
        Ok((RegistrySpec::new(Arc::new(id), 0).configured([scope.clone()]), scope))
    }
    /// Says what the configuration says now: a complete list, so that what it no longer says goes.
    pub fn say(&self, config: &Config) {
        self.source.updates.send_all(self.list(config));
    }
    fn list(&self, config: &Config) -> Vec<RegistryUpdate> {
        let put = |fact| RegistryUpdate::Put(self.collection.scope.clone(), fact, Basis::Authoritative);
        let settings = put(Fact::Settings(Arc::new(facts::settings_with(&config.settings, &config.merge))));
        let aliases = config.aliases.iter().filter_map(facts::alias);
        let aliases = aliases.map(|(host, alias)| put(Fact::Alias(host, Arc::new(alias))));
        std::iter::once(RegistryUpdate::ListStarted(self.collection.clone()))
            .chain([settings])
            .chain(aliases)
            .chain([RegistryUpdate::ListEnded(self.collection.clone(), Completeness::Complete)])
            .collect()
    }
}

fn refused(why: &dyn std::fmt::Display) -> CommandError {
    CommandError::plain(format!("the configuration cannot be a source: {why}"))
}
