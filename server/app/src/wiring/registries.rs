//! From the configuration's registries to factories, at start and when the file changes.

use std::sync::Arc;

use async_trait::async_trait;
use tributary_model::{ClusterId, Code, RegistryName};
use tributary_registry_api::RegistryFactory;
use tributary_runtime::Handle;
use tributary_service_entry::FileFactory;

use super::config_source::ConfigSource;
use crate::config::change::Change;
use crate::config::model::RegistryConfig;
use crate::config::{Config, RegistryKind};
use crate::exit::{Exit, Failure};
use crate::reload::Apply;
use crate::telemetry::LogLevel;

/// The factories of one configured registry, which come and go together: a Kubernetes cluster is
/// two registries. A source that is down is no error here: it is waited for.
pub fn factories(
    registry: &RegistryConfig,
    config: &Config,
) -> Result<Vec<Arc<dyn RegistryFactory>>, Failure> {
    let name = registry.name.as_deref().unwrap_or_else(|| registry.kind.as_str());
    let wrong = |e: tributary_model::InvalidName| Failure::config(format!("registry `{name}`: {e}"));
    let name = RegistryName::new(name).map_err(wrong)?;
    let cluster = registry.cluster_id.as_ref().unwrap_or(&config.cluster_id);
    let cluster = ClusterId::new(cluster).map_err(wrong)?;
    match registry.kind {
        RegistryKind::File => {
            let path = registry.path.clone().unwrap_or_default();
            let files = FileFactory::new(name, cluster, vec![path]);
            let domain = config.settings.trust_domain.as_deref();
            Ok(vec![Arc::new(match domain {
                Some(domain) => files.trust_domain(domain),
                None => files,
            })])
        }
        RegistryKind::Kubernetes => {
            Err(Failure::config(format!("registry `{name}`: the cluster's registry is not wired yet")))
        }
    }
}

/// Joins, rotates and removes registries as the configuration says.
pub struct Registries {
    handle: Handle,
    source: ConfigSource,
    log: LogLevel,
}

impl Registries {
    /// Over a running server.
    #[must_use]
    pub const fn new(handle: Handle, source: ConfigSource, log: LogLevel) -> Self {
        Self { handle, source, log }
    }
    /// Joins every registry of the configuration.
    pub async fn join_all(&self, config: &Config) -> Result<(), Failure> {
        for registry in &config.registries {
            self.join(registry, config).await?;
        }
        Ok(())
    }
    /// All of a registry's parts or none of them.
    async fn join(&self, registry: &RegistryConfig, config: &Config) -> Result<(), Failure> {
        let mut joined = Vec::new();
        for factory in factories(registry, config)? {
            let name = factory.spec().id.name.clone();
            if let Err(e) = self.handle.join(factory).await {
                for name in joined {
                    // What cannot leave has never come; the first error is the one to tell.
                    let _ = self.handle.leave(name).await;
                }
                return Err(failed(name.as_str(), &e));
            }
            joined.push(name);
        }
        Ok(())
    }
    async fn rotate(&self, registry: &RegistryConfig, config: &Config) -> Result<(), Failure> {
        for factory in factories(registry, config)? {
            let name = factory.spec().id.name.clone();
            self.handle.rotate(factory).await.map_err(|e| failed(name.as_str(), &e))?;
        }
        Ok(())
    }
    async fn leave(&self, registry: &RegistryConfig) -> Result<(), Failure> {
        for name in registry.names() {
            let own = RegistryName::new(&name).map_err(|e| failed(&name, &e))?;
            self.handle.leave(own).await.map_err(|e| failed(&name, &e))?;
        }
        Ok(())
    }
}

fn failed(name: &str, why: &dyn std::fmt::Display) -> Failure {
    let message = format!("registry `{name}`: {why}");
    Failure::new(Exit::Failed, Code::CONFIG_RELOAD_FAILED, message)
}

#[async_trait]
impl Apply for Registries {
    async fn apply(&self, change: &Change, config: &Config) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut note = |done: Result<(), Failure>| failures.extend(done.err());
        if change.settings {
            self.source.say(config);
        }
        if change.level {
            note(self.log.set(&config.log.level));
        }
        // Leaving comes first only where a name is taken by another registry.
        for registry in &change.left {
            note(self.leave(registry).await);
        }
        for registry in &change.joined {
            note(self.join(registry, config).await);
        }
        for registry in &change.rotated {
            note(self.rotate(registry, config).await);
        }
        failures
    }
}
