//! Keeps the running registries as the configuration lists them, at start and when the file changes.

use std::path::PathBuf;

use async_trait::async_trait;
use tributary_model::{Code, RegistryName};
use tributary_runtime::Handle;

use super::config_source::ConfigSource;
use super::factories::Factories;
use super::journal::{Configured, State};
use crate::config::Config;
use crate::config::change::Change;
use crate::config::model::RegistryConfig;
use crate::exit::{CommandError, Exit};
use crate::reload::Apply;
use crate::telemetry::LogLevel;

/// Joins, rotates and removes registries as the configuration says.
pub struct Registries {
    handle: Handle,
    source: ConfigSource,
    factories: Factories,
    log: LogLevel,
    state: State,
    file: Option<PathBuf>,
}

impl Registries {
    /// Over a running server.
    #[must_use]
    pub fn new(
        handle: Handle,
        source: ConfigSource,
        factories: Factories,
        log: LogLevel,
        (state, file): (State, Option<PathBuf>),
    ) -> Self {
        Self { handle, source, factories, log, state, file }
    }
    /// Joins every registry of the configuration.
    pub async fn join_all(&self, config: &Config) -> Result<(), CommandError> {
        for registry in &config.registries {
            self.join(registry, config).await?;
        }
        Ok(())
    }
    /// All of a registry's parts or none of them.
    async fn join(&self, registry: &RegistryConfig, config: &Config) -> Result<(), CommandError> {
        let mut joined = Vec::new();
        let factories = self.factories.of(registry, config)?;
        let configured = Configured::of(registry, self.file.as_deref(), &factories);
        for factory in factories {
            let name = factory.spec().id.name.clone();
            if let Err(e) = self.handle.add_registry(factory).await {
                for name in joined {
                    // What cannot leave has never come; the first error is the one to tell.
                    let _ = self.handle.remove_registry(name).await;
                }
                return Err(failed(name.as_str(), &e));
            }
            joined.push(name);
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
    async fn leave(&self, registry: &RegistryConfig) -> Result<(), CommandError> {
        for name in registry.names() {
            let own = RegistryName::new(&name).map_err(|e| failed(&name, &e))?;
            self.handle.remove_registry(own).await.map_err(|e| failed(&name, &e))?;
        }
        Ok(())
    }
}

fn failed(name: &str, why: &dyn std::fmt::Display) -> CommandError {
    let message = format!("registry `{name}`: {why}");
    CommandError::new(Exit::Failed, Code::CONFIG_RELOAD_FAILED, message)
}

#[async_trait]
impl Apply for Registries {
    async fn apply(&self, change: &Change, config: &Config) -> Vec<CommandError> {
        let mut failures = Vec::new();
        let mut note = |done: Result<(), CommandError>| failures.extend(done.err());
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
