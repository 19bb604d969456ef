//! Remote clusters that Secrets declare: watches of the Secrets feed a roster, whose orders change the supervisor's registries.
//!
//! The server starts one task. [`secret_watch`] reads, [`driver`] holds the roster and decides when, [`clusters`] adds, rotates and
//! removes the two registries of a cluster as those of a configured one. The task holds no lock. [`remembered`] finds the clusters of
//! the journal, which are served before the Secrets are read.

mod accepted;
mod clusters;
mod departures;
mod driver;
mod joins;
mod remembered;
mod secret_watch;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tributary_model::{ClusterId, RegistryName};
use tributary_registry_api::Clock;
use tributary_remote::SecretFollower;
use tributary_remote::roster::{DigestKey, Roster, RosterSettings, Source};
use tributary_runtime::Handle;

use super::cluster::{Cluster, seed};
use super::factories::Factories;
use super::journal::{Configured, Recalled, State};
use crate::config::Config;
use crate::config::model::RegistryConfig;
use crate::exit::CommandError;
use crate::ops::clusters::board::Board;
use crate::ops::receipts::Receipts;
use clusters::Clusters;
use departures::Departures;
use driver::Driver;
pub use remembered::remembered;
use secret_watch::{Batch, LABELS, SecretWatch};

/// Batches of events that wait for the driver.
const WAITING: usize = 64;

/// Task of the remote clusters.
pub struct Remotes {
    driver: Driver,
    watch: SecretWatch,
    batches: mpsc::Receiver<Batch>,
    settings: watch::Sender<Arc<Config>>,
}

impl Remotes {
    /// Creates the task if the configuration reads Secrets. It reads nothing before it runs.
    pub fn of(
        config: &Config,
        factories: &Factories,
        handle: &Handle,
        (clock, board): (&Arc<dyn Clock>, Board),
    ) -> Result<Option<Self>, CommandError> {
        let home = factories.clusters(config)?.into_iter().find(|cluster| cluster.options.is_config);
        let Some(home) = home.filter(|_| config.reads_secrets()) else { return Ok(None) };
        board.set_may_lack_secrets(!config.remotes.requires_secrets());
        let key = DigestKey::random().ok_or_else(|| CommandError::plain("no random bytes are available"))?;
        let allowed = config.remotes.allowed();
        let follower = |label| {
            let source = Source::Secrets(label);
            (source, SecretFollower::new(source, allowed.clone(), key.clone()))
        };
        let clusters = Clusters::new(handle.clone(), factories.clone(), config.clone());
        let roster = Roster::new(settings(config));
        let departures = Departures::new(clusters.clone(), config.remotes.drain.get());
        let (followers, seed) = (LABELS.map(follower).into(), seed(&home.name));
        let (settings, changes) = watch::channel(Arc::new(config.clone()));
        let parts = (clusters, departures, board);
        let driver = Driver::new(roster, followers, parts, changes, (Arc::clone(clock), seed));
        let (out, batches) = mpsc::channel(WAITING);
        Ok(Some(Self { driver, watch: secret_watch(&home, out), batches, settings }))
    }

    /// Adds the clusters of the journal, keeps the journal's list of them from now on, and writes receipts.
    #[must_use]
    pub fn remembering(
        mut self,
        (remembered, recalled): (&[Configured], &Recalled),
        state: &State,
        receipts: &Receipts,
    ) -> Self {
        self.driver.record_in(receipts.clone(), remembered::objects(remembered));
        self.driver.restore(remembered::restored(remembered, &recalled.registries));
        let names = remembered.iter().map(|one| &one.spec.id.name);
        self.driver.remember(names.filter(|name| recalled.registries.contains(*name)), state.clone());
        self
    }

    /// Returns the sender of changed configurations: the clusters are read again with each.
    #[must_use]
    pub fn settings(&self) -> watch::Sender<Arc<Config>> {
        self.settings.clone()
    }

    /// Follows the Secrets until stopped.
    pub async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.watch.run() => {}
            () = self.driver.run(self.batches) => {}
        }
    }
}

fn secret_watch(home: &Cluster, out: mpsc::Sender<Batch>) -> SecretWatch {
    SecretWatch {
        connector: home.connector().clone(),
        namespace: home.options.system_namespace.to_string(),
        timing: home.timing,
        seed: seed(&home.name),
        out,
    }
}

/// Returns the settings of the roster. Clusters and names of the configuration are not for Secrets.
fn settings(config: &Config) -> RosterSettings {
    let names = config.registries.iter().flat_map(RegistryConfig::names);
    let id = |registry: &RegistryConfig| registry.cluster_id.clone();
    let clusters = config.registries.iter().filter(|registry| registry.kubernetes().is_some());
    let ids = clusters.filter_map(id).chain([config.cluster_id.clone()]);
    RosterSettings {
        sources: LABELS.map(Source::Secrets).into(),
        configured: ids.filter_map(|id| ClusterId::new(id).ok()).collect(),
        registries: names.filter_map(|name| RegistryName::new(name).ok()).collect(),
        grace: config.remotes.leave_grace.get(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_and_names_of_the_configuration_are_not_for_secrets() {
        let text = "{clusterId: home, remotes: {leaveGrace: 5s}, registries: [{kind: kubernetes, name: own}, \
                    {kind: kubernetes, name: away, clusterId: far}, {kind: file, name: files, path: f, clusterId: other}]}";
        let settings = settings(&serde_saphyr::from_str(text).unwrap());
        let shown: Vec<&str> = settings.configured.iter().map(ClusterId::as_str).collect();
        assert_eq!(shown, ["far", "home"], "a folder is no cluster");
        let names: Vec<&str> = settings.registries.iter().map(RegistryName::as_str).collect();
        assert_eq!(names, ["away", "away-entries", "files", "own", "own-entries"]);
        assert_eq!(settings.grace.as_secs(), 5);
    }
}
