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

/// Result of a part of a change.
type Done = (Part, Result<(), CommandError>);

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
    async fn await_successor(
        &self,
        registry: &RegistryConfig,
        config: &Config,
        replaced: &Generations,
    ) -> Result<(), CommandError> {
        let Some(successor) = Change::successor(registry, config) else { return Ok(()) };
        let names: Vec<(String, String)> = registry.names().into_iter().zip(successor.names()).collect();
        tokio::time::timeout(RENAMED, self.until_replaced(&names, replaced)).await.map_err(|_| {
            let [old, new] = [registry, successor].map(name);
            failed(&old, &format_args!("it stays until `{new}`, which has the same source, serves all of it"))
                .next("make the source answer, correct its invalid objects, or remove both names from the file to end what it serves")
        })
    }
    /// Waits until each second registry serves all that the first one serves.
    async fn until_replaced(&self, names: &[(String, String)], replaced: &Generations) {
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
    /// Removes the registries whose names new ones reuse.
    async fn remove_reused(&self, change: &Change) -> Vec<Done> {
        let mut done = Vec::new();
        for registry in change.removed.iter().filter(|of| is_reused(of, change)) {
            done.push((Part::Removed(name(registry)), self.remove(registry).await));
        }
        done
    }
    /// Adds and rotates registries, those between which sources move in one turn; no name that could not be removed is added.
    async fn add_and_rotate(&self, change: &Change, config: &Config, stays: &BTreeSet<&Part>) -> Vec<Done> {
        let added = change.added.iter().filter(|of| !stays.contains(&Part::Removed(name(of))));
        let added = added.map(|registry| (registry, Part::Added(name(registry))));
        let rotated = change.rotated.iter().map(|registry| (registry, Part::Rotated(name(registry))));
        let (moving, alone): (Vec<_>, Vec<_>) =
            added.chain(rotated).partition(|(registry, _)| change.moving.contains(&name(registry)));
        let mut done = Vec::new();
        for (registry, part) in alone {
            let result = match part {
                Part::Added(_) => self.add(registry, config).await,
                _ => self.rotate(registry, config).await,
            };
            done.push((part, result));
        }
        let registries: Vec<_> = moving.iter().map(|(registry, _)| *registry).collect();
        let result = self.put(&registries, config).await;
        done.extend(moving.into_iter().map(|(_, part)| (part, result.clone())));
        done
    }
    /// Removes registries whose names are free afterwards, each once its successor serves all of it.
    async fn remove_others(&self, change: &Change, config: &Config, replaced: &Generations) -> Vec<Done> {
        let removed: Vec<_> = change.removed.iter().filter(|of| !is_reused(of, change)).collect();
        let waits = removed.iter().map(|registry| self.await_successor(registry, config, replaced));
        let mut done = Vec::new();
        for (registry, waited) in removed.iter().zip(futures::future::join_all(waits).await) {
            let result = match waited {
                Ok(()) => self.remove(registry).await,
                Err(stays) => Err(stays),
            };
            done.push((Part::Removed(name(registry)), result));
        }
        done
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

fn name(registry: &RegistryConfig) -> String {
    registry.name.clone().unwrap_or_default()
}

/// Whether a new registry has the name of a removed one.
fn is_reused(removed: &RegistryConfig, change: &Change) -> bool {
    change.added.iter().any(|added| added.name == removed.name)
}

fn failed(name: &str, why: &dyn std::fmt::Display) -> CommandError {
    let message = format!("registry `{name}`: {why}");
    CommandError::new(Exit::Failed, Code::CONFIG_RELOAD_FAILED, message)
}

#[async_trait]
impl Apply for Registries {
    async fn apply(&self, change: &Change, config: &Config) -> Vec<(Part, CommandError)> {
        let mut done = Vec::new();
        if change.settings {
            self.source.report(config);
        }
        if change.level {
            done.push((Part::Level, self.log.set(&config.log.level)));
        }
        let reused = self.remove_reused(change).await;
        let replaced = self.generations(&change.rotated);
        let stays: BTreeSet<&Part> =
            reused.iter().filter(|(_, done)| done.is_err()).map(|(part, _)| part).collect();
        done.extend(self.add_and_rotate(change, config, &stays).await);
        done.extend(self.remove_others(change, config, &replaced).await);
        done.extend(reused);
        let concerns = change.policies || concerns_remotes(change, config);
        if let Some(remotes) = self.remotes.as_ref().filter(|_| concerns) {
            remotes.send_replace(Arc::new(config.clone()));
        }
        done.into_iter().filter_map(|(part, done)| Some((part, done.err()?))).collect()
    }
}
