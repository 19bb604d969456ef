//! Keeps the running registries equal to the configuration, at start and on reload.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use tributary_model::{Code, RegistryName};
use tributary_runtime::{Handle, SupervisorError};

use super::config_source::ConfigSource;
use super::factories::Factories;
use super::journal::{Configured, State};
use crate::config::Config;
use crate::config::change::{Change, Part};
use crate::config::model::RegistryConfig;
use crate::exit::{CommandError, Exit};
use crate::reload::Apply;
use crate::telemetry::LogLevel;

/// Adds, rotates and removes registries as the configuration lists them.
pub struct Registries {
    handle: Handle,
    source: ConfigSource,
    factories: Factories,
    log: LogLevel,
    state: State,
    file: Option<PathBuf>,
    /// Configuration of the clusters that are found at run time.
    remotes: Option<watch::Sender<Arc<Config>>>,
}

impl Registries {
    /// Creates it over a running server.
    #[must_use]
    pub fn new(
        handle: Handle,
        source: ConfigSource,
        factories: Factories,
        log: LogLevel,
        (state, file): (State, Option<PathBuf>),
    ) -> Self {
        Self { handle, source, factories, log, state, file, remotes: None }
    }
    /// Passes settings that change on to the clusters that are found at run time, which have those of the config cluster.
    #[must_use]
    pub fn with_remotes(self, remotes: Option<watch::Sender<Arc<Config>>>) -> Self {
        Self { remotes, ..self }
    }
    /// Adds every registry of the configuration.
    pub async fn add_all(&self, config: &Config) -> Result<(), CommandError> {
        for registry in &config.registries {
            self.add(registry, config).await?;
        }
        Ok(())
    }
    /// Adds all parts of a registry or none.
    async fn add(&self, registry: &RegistryConfig, config: &Config) -> Result<(), CommandError> {
        let mut added = Vec::new();
        let factories = self.factories.of(registry, config)?;
        let configured = Configured::of(registry, self.file.as_deref(), &factories);
        for factory in factories {
            let name = factory.spec().id.name.clone();
            if let Err(e) = self.handle.add_registry(factory).await {
                for name in added {
                    // A part that cannot be removed was never added; report the first error.
                    let _ = self.handle.remove_registry(name).await;
                }
                return Err(failed(name.as_str(), &e));
            }
            added.push(name);
        }
        self.state.remember(&configured);
        Ok(())
    }
    async fn rotate(&self, registry: &RegistryConfig, config: &Config) -> Result<(), CommandError> {
        let factories = self.factories.of(registry, config)?;
        let configured = Configured::of(registry, self.file.as_deref(), &factories);
        for factory in factories {
            let name = factory.spec().id.name.clone();
            self.handle.rotate(factory).await.map_err(|e| failed(name.as_str(), &e))?;
        }
        self.state.remember(&configured);
        Ok(())
    }
    async fn remove(&self, registry: &RegistryConfig) -> Result<(), CommandError> {
        for name in registry.names() {
            let own = RegistryName::new(&name).map_err(|e| failed(&name, &e))?;
            match self.handle.remove_registry(own).await {
                // removed by an earlier try, of which another part failed
                Ok(()) | Err(SupervisorError::Unknown(_)) => {}
                Err(e) => return Err(failed(&name, &e)),
            }
        }
        Ok(())
    }
}

/// Returns true if settings changed that clusters found at run time have too: then the config cluster is rotated. Without one, any
/// change of settings counts.
fn concerns_remotes(change: &Change, config: &Config) -> bool {
    match config.config_cluster().and_then(|registry| registry.name.as_ref()) {
        Some(home) => change.rotated.iter().any(|registry| registry.name.as_ref() == Some(home)),
        None => change.settings,
    }
}

fn failed(name: &str, why: &dyn std::fmt::Display) -> CommandError {
    let message = format!("registry `{name}`: {why}");
    CommandError::new(Exit::Failed, Code::CONFIG_RELOAD_FAILED, message)
}

#[async_trait]
impl Apply for Registries {
    async fn apply(&self, change: &Change, config: &Config) -> Vec<(Part, CommandError)> {
        let mut failures = Vec::new();
        let mut note = |part, done: Result<(), CommandError>| failures.extend(done.err().map(|e| (part, e)));
        if change.settings {
            self.source.report(config);
        }
        if change.level {
            note(Part::Level, self.log.set(&config.log.level));
        }
        let name = |registry: &RegistryConfig| registry.name.clone().unwrap_or_default();
        let mut stays = BTreeSet::new();
        // Removals precede additions only for a name that a new registry reuses.
        for registry in &change.removed {
            let done = self.remove(registry).await;
            if done.is_err() {
                stays.insert(name(registry));
            }
            note(Part::Removed(name(registry)), done);
        }
        for registry in change.added.iter().filter(|registry| !stays.contains(&name(registry))) {
            note(Part::Added(name(registry)), self.add(registry, config).await);
        }
        for registry in &change.rotated {
            note(Part::Rotated(name(registry)), self.rotate(registry, config).await);
        }
        let concerns = change.policies || concerns_remotes(change, config);
        if let Some(remotes) = self.remotes.as_ref().filter(|_| concerns) {
            remotes.send_replace(Arc::new(config.clone()));
        }
        failures
    }
}
