//! Start of everything that the server reads: the journal is restored, then the configured registries and the watches of remote
//! clusters are added.
//!
//! The start of the server and the simulation call it over a running runtime. Readiness waits for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tributary_model::RegistryName;
use tributary_registry_api::Clock;
use tributary_runtime::{Handle, RuntimeConfig, StartRule};

use super::config_source::ConfigSource;
use super::factories::Factories;
use super::gateway_names::GatewayNames;
use super::journal::{Configured, Kept, State};
use super::platform::ProcessName;
use super::registries::Registries;
use super::remotes::{self, Remotes};
use crate::config::Config;
use crate::config::model::RegistryConfig;
use crate::exit::CommandError;
use crate::ops::clusters::board::Board;
use crate::ops::clusters::tries::KubeconfigRequests;
use crate::ops::receipts::Receipts;
use crate::telemetry::LogLevel;

/// Sources that have not started.
pub struct Sources<'a> {
    /// Configuration, which has been checked.
    pub config: &'a Config,
    /// Its file.
    pub file: Option<PathBuf>,
    /// Factories of registries.
    pub factories: Factories,
    /// Log, whose level follows the configuration.
    pub log: LogLevel,
    /// Receipts of removed clusters.
    pub receipts: Receipts,
}

/// Sources that have started.
pub struct Started {
    /// Registries of the configuration.
    pub registries: Registries,
    /// Task of the remote clusters, if any are found at run time.
    pub remotes: Option<Remotes>,
    /// Host names of gateways; the caller runs their lookups.
    pub names: GatewayNames,
}

impl Sources<'_> {
    /// Restores the journal and adds every configured registry. The caller runs the returned tasks.
    pub async fn start(
        self,
        (handle, clock): (&Handle, &Arc<dyn Clock>),
        (state, kept): (&State, Kept),
        (board, requests): (Board, KubeconfigRequests),
    ) -> Result<Started, CommandError> {
        let Self { config, file, factories, log, receipts } = self;
        let stopped = |_| CommandError::plain("the server stopped during its start");
        // readiness waits until every configured registry is added
        handle.set_membership_known(false).await.map_err(stopped)?;
        let configured = configured(&factories, config, file.as_deref())?;
        let found_before = remotes::remembered(config, &factories, &state.members())?;
        let known = [configured.as_slice(), found_before.as_slice()].concat();
        let recalled = state.restore(kept, handle, &known, config.finds_remotes()).await?;
        factories.restore_mesh(&handle.catalog().settings);
        let source = ConfigSource::start(handle, config).await?;
        let names = GatewayNames::start(handle, clock, config).await?;
        state.remember(&configured[..OWN]);
        let remotes = Remotes::of(config, &factories, handle, (clock, board, requests))?
            .map(|remotes| remotes.remembering((&found_before, &recalled), state, &receipts));
        let registries = Registries::new(handle.clone(), source, factories, log, (state.clone(), file))
            .with_remotes(remotes.as_ref().map(Remotes::settings));
        registries.add_all(config).await?;
        if remotes.is_none() {
            state.membership_synced(false);
        }
        if remotes.is_none() || recalled.remotes_known {
            handle.set_membership_known(true).await.map_err(stopped)?;
        }
        Ok(Started { registries, remotes, names })
    }
}

/// Number of sources that the server itself is; they come first.
const OWN: usize = 2;

/// Returns every configured registry, including the configuration file itself and the host names of gateways.
fn configured(
    factories: &Factories,
    config: &Config,
    file: Option<&Path>,
) -> Result<Vec<Configured>, CommandError> {
    let (spec, _) = ConfigSource::spec(config)?;
    let (names, _) = GatewayNames::spec(config)?;
    let mut all = vec![Configured::own(spec), Configured::own(names)];
    for registry in &config.registries {
        all.extend(Configured::of(registry, file, &factories.of(registry, config)?));
    }
    Ok(all)
}

/// Returns the configuration of the runtime.
#[must_use]
pub fn runtime_config(config: &Config, process: &ProcessName) -> RuntimeConfig {
    let names = config.registries.iter().flat_map(RegistryConfig::names);
    let known: BTreeSet<RegistryName> = names.filter_map(|name| RegistryName::new(name).ok()).collect();
    let first_sync_timeout = config.start.first_sync_timeout.limit();
    let config_cluster = config.config_cluster();
    let config_cluster = config_cluster.and_then(|r| RegistryName::new(r.name.as_deref()?).ok());
    RuntimeConfig {
        start: StartRule {
            known,
            config_cluster,
            first_sync_timeout,
            awaits_membership: config.finds_remotes(),
        },
        // The process id seeds the backoff, so that replicas that fail together retry at different times.
        seed: u64::from(process.id),
        ..RuntimeConfig::default()
    }
}

#[cfg(test)]
mod tests;
