//! Keeps the running registries equal to the configuration, at start and on reload.
//!
//! A source under a new name is served before the old name is removed or gets another source, so that its endpoints never leave.

mod renamed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tributary_core::RegistryStatus;
use tributary_model::{Code, Generation, RegistryName};
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

/// Longest wait of a reload for a registry under a new name. A source that does not answer is waited for by later tries.
const RENAMED: Duration = Duration::from_secs(3);

/// Served runs by registry.
type Generations = BTreeMap<RegistryName, Generation>;

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
    /// Adds and rotates registries whose runs begin to serve in one turn.
    async fn put(&self, registries: &[&RegistryConfig], config: &Config) -> Result<(), CommandError> {
        let Some(first) = registries.first() else { return Ok(()) };
        let (mut all, mut configured) = (Vec::new(), Vec::new());
        for registry in registries {
            let factories = self.factories.of(registry, config)?;
            configured.push(Configured::of(registry, self.file.as_deref(), &factories));
            all.extend(factories);
        }
        let put = self.handle.put_registries(all).await;
        put.map_err(|e| failed(first.name.as_deref().unwrap_or_default(), &e))?;
        configured.iter().for_each(|one| self.state.remember(one));
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
    /// Returns the served runs of registries.
    fn generations(&self, of: &[RegistryConfig]) -> Generations {
        let runs = self.handle.runs();
        let names = of.iter().flat_map(RegistryConfig::names);
        let served = names.filter_map(|name| runs.get_key_value(name.as_str()));
        served.map(|(name, run)| (name.clone(), run.generation)).collect()
    }
    /// Waits for the registry of the configuration that has the same source under another name, if there is one, until it serves all that the
    /// registry serves, in a run after the replaced one. Fails after a while: the registry stays, and the next try waits again.
    async fn is_succeeded(
        &self,
        registry: &RegistryConfig,
        config: &Config,
        replaced: &Generations,
    ) -> Result<(), CommandError> {
        let Some(successor) = Change::successor(registry, config) else { return Ok(()) };
        let names: Vec<(String, String)> = registry.names().into_iter().zip(successor.names()).collect();
        tokio::time::timeout(RENAMED, self.succeeded(&names, replaced)).await.map_err(|_| {
            let [old, new] = [registry, successor].map(|of| of.name.clone().unwrap_or_default());
            failed(&old, &format_args!("it stays until `{new}`, which has the same source, serves all of it"))
                .next("make the source answer, correct its invalid objects, or remove both names from the file to end what it serves")
        })
    }
    /// Waits until each second registry serves all that the first one serves.
    async fn succeeded(&self, names: &[(String, String)], replaced: &Generations) {
        let mut changes = self.handle.status_changes();
        while changes.next().await.is_some() {
            let Ok(all) = self.handle.inspect(tributary_core::Core::status).await else { return };
            let of = |name: &String| all.iter().find(|status| status.id.name.as_str() == name);
            let is_new = |new: &RegistryStatus| {
                replaced.get(&new.id.name).is_none_or(|before| *before != new.generation)
            };
            let is_replaced = |(old, new): &(String, String)| {
                let Some(old) = of(old) else { return true };
                of(new).is_some_and(|new| is_new(new) && renamed::has_all_of(new, old))
            };
            if names.iter().all(is_replaced) {
                return;
            }
        }
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
        let is_reused = |of: &&RegistryConfig| change.added.iter().any(|added| name(added) == name(of));
        for registry in change.removed.iter().filter(is_reused) {
            let done = self.remove(registry).await;
            if done.is_err() {
                stays.insert(name(registry));
            }
            note(Part::Removed(name(registry)), done);
        }
        let replaced = self.generations(&change.rotated);
        let moves = |registry: &&RegistryConfig| change.moving.contains(&name(registry));
        let added = || change.added.iter().filter(|registry| !stays.contains(&name(registry)));
        for registry in added().filter(|registry| !moves(registry)) {
            note(Part::Added(name(registry)), self.add(registry, config).await);
        }
        for registry in change.rotated.iter().filter(|registry| !moves(registry)) {
            note(Part::Rotated(name(registry)), self.rotate(registry, config).await);
        }
        let moving: Vec<_> = added().chain(&change.rotated).filter(moves).collect();
        let done = self.put(&moving, config).await;
        for registry in moving {
            let is_new = change.added.iter().any(|added| name(added) == name(registry));
            let part = if is_new { Part::Added } else { Part::Rotated };
            note(part(name(registry)), done.clone());
        }
        let removed: Vec<_> = change.removed.iter().filter(|of| !is_reused(of)).collect();
        let waits = removed.iter().map(|registry| self.is_succeeded(registry, config, &replaced));
        for (registry, is_succeeded) in removed.iter().zip(futures::future::join_all(waits).await) {
            let done = match is_succeeded {
                Ok(()) => self.remove(registry).await,
                Err(stays) => Err(stays),
            };
            note(Part::Removed(name(registry)), done);
        }
        let concerns = change.policies || concerns_remotes(change, config);
        if let Some(remotes) = self.remotes.as_ref().filter(|_| concerns) {
            remotes.send_replace(Arc::new(config.clone()));
        }
        failures
    }
}
