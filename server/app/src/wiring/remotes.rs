//! Remote clusters that Secrets and files declare: watches of both feed a roster, whose orders change the supervisor's registries.
//!
//! The server starts one task. [`secret_watch`] and [`directory_watch`] read, [`driver`] holds the roster and decides when, [`clusters`]
//! adds, rotates and removes the two registries of a cluster as those of a configured one. The task holds no lock. [`remembered`] finds
//! the clusters of the journal, which are served before the sources are read. Secrets need a config cluster; a directory needs none.

mod accepted;
mod clusters;
mod credentials;
mod departures;
pub(crate) mod directory_watch;
mod driver;
mod followers;
mod joins;
mod problems;
mod relists;
mod remembered;
mod secret_watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tributary_model::{ClusterId, RegistryName};
use tributary_registry_api::Clock;
use tributary_remote::roster::{DigestKey, Roster, RosterSettings, Source};
use tributary_remote::{DirectoryFollower, SecretFollower};
use tributary_runtime::Handle;

use super::cluster::Cluster;
use super::factories::Factories;
use super::journal::{Configured, Recalled, State};
use crate::config::Config;
use crate::config::model::{RegistryConfig, Write};
use crate::exit::CommandError;
use crate::ops::clusters::board::Board;
use crate::ops::clusters::tries::KubeconfigRequests;
use crate::ops::receipts::Receipts;
use clusters::Clusters;
use credentials::CredentialWriter;
use departures::Departures;
use directory_watch::DirectoryWatch;
use driver::Driver;
use followers::{Batch, Followers};
use relists::Wanted;
pub use remembered::remembered;
use secret_watch::{LABELS, SecretWatch};

/// Batches of events that wait for the driver.
const WAITING: usize = 64;

/// Task of the remote clusters.
pub struct Remotes {
    driver: Driver,
    secrets: Option<SecretWatch>,
    writer: Option<CredentialWriter>,
    directory: Option<DirectoryWatch>,
    batches: mpsc::Receiver<Batch>,
    settings: watch::Sender<Arc<Config>>,
}

impl Remotes {
    /// Creates the task if the configuration has a source of remote clusters. It reads nothing before it runs.
    pub fn of(
        config: &Config,
        factories: &Factories,
        handle: &Handle,
        (clock, board, requests): (&Arc<dyn Clock>, Board, KubeconfigRequests),
    ) -> Result<Option<Self>, CommandError> {
        if !config.finds_remotes() {
            return Ok(None);
        }
        let home = factories.clusters(config)?.into_iter().find(|cluster| cluster.options.is_config);
        let home = home.filter(|_| config.reads_secrets());
        board.set_sources(!config.remotes.requires_secrets(), config.remotes.directory.as_deref());
        let writes = config.writes.contains(&Write::Credentials);
        board.set_renews(writes && home.is_some());
        let followers = followers(config)?;
        let clusters = Clusters::new(handle.clone(), factories.clone(), config.clone());
        let roster = Roster::new(settings(config, followers.sources()));
        let departures = Departures::new(clusters.clone(), config.remotes.drain.get());
        let process = factories.platform().process();
        let seed = home.as_ref().map_or_else(|| u64::from(process.id), Cluster::seed);
        let (settings, changes) = watch::channel(Arc::new(config.clone()));
        let writer = home.clone().filter(|_| writes).map(|home| CredentialWriter {
            home,
            board: board.clone(),
            handle: handle.clone(),
            allowed: config.remotes.allowed(),
            clock: Arc::clone(clock),
            seed,
        });
        let parts = (clusters, departures, board);
        let driver = Driver::new(roster, followers, parts, (changes, requests), (Arc::clone(clock), seed));
        let (out, batches) = mpsc::channel(WAITING);
        let secrets = home.map(|home| secret_watch(&home, out.clone(), driver.wanted()));
        let directory = config.remotes.directory.as_deref().map(|path| DirectoryWatch::new(path, out));
        Ok(Some(Self { driver, secrets, writer, directory, batches, settings }))
    }

    /// Adds the clusters of the journal, keeps the journal's list of them from now on, and writes receipts.
    #[must_use]
    pub fn remembering(
        mut self,
        (remembered, recalled): (&[Configured], &Recalled),
        state: &State,
        receipts: &Receipts,
    ) -> Self {
        let restored = remembered::restored(remembered, &recalled.registries, |kind| self.driver.reads(kind));
        self.driver.record_in(receipts.clone(), remembered::objects(remembered));
        self.driver.restore(restored);
        let names = remembered.iter().map(|one| &one.spec.id.name);
        self.driver.remember(names.filter(|name| recalled.registries.contains(*name)), state.clone());
        self
    }

    /// Returns the sender of changed configurations: the clusters are read again with each.
    #[must_use]
    pub fn settings(&self) -> watch::Sender<Arc<Config>> {
        self.settings.clone()
    }

    /// Follows the sources until stopped.
    pub async fn run(self, stop: CancellationToken) {
        let Self { driver, secrets, writer, directory, batches, .. } = self;
        let follow = async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = follow_secrets(secrets) => {}
                () = follow_directory(directory) => {}
                () = driver.run(batches) => {}
            }
        };
        let write = async {
            if let Some(writer) = writer {
                writer.run(stop.clone()).await;
            }
        };
        tokio::join!(follow, write);
    }
}

async fn follow_secrets(watch: Option<SecretWatch>) {
    match watch {
        Some(watch) => watch.run().await,
        None => std::future::pending().await,
    }
}

async fn follow_directory(watch: Option<DirectoryWatch>) {
    match watch {
        Some(mut watch) => watch.run().await,
        None => std::future::pending().await,
    }
}

/// Returns the followers of the sources that the configuration reads.
fn followers(config: &Config) -> Result<Followers, CommandError> {
    let key = DigestKey::random().ok_or_else(|| CommandError::plain("no random bytes are available"))?;
    let allowed = config.remotes.allowed();
    let follower = |label| {
        let source = Source::Secrets(label);
        (source, SecretFollower::new(source, allowed.clone(), key.clone()))
    };
    let secrets = if config.reads_secrets() { LABELS.map(follower).into() } else { BTreeMap::new() };
    let directory = config.remotes.directory.as_ref();
    let directory = directory.map(|_| {
        DirectoryFollower::new(allowed.clone(), key.clone()).with_policies(config.remotes.policies())
    });
    Ok(Followers::new(secrets, directory))
}

fn secret_watch(home: &Cluster, out: mpsc::Sender<Batch>, wanted: Wanted) -> SecretWatch {
    SecretWatch {
        connector: home.connector().clone(),
        namespace: home.options.system_namespace.to_string(),
        timing: home.timing,
        seed: home.seed(),
        out,
        wanted,
    }
}

/// Returns the settings of the roster. Clusters and names of the configuration are not for Secrets and files.
fn settings(config: &Config, sources: impl Iterator<Item = Source>) -> RosterSettings {
    let names = config.registries.iter().flat_map(RegistryConfig::names);
    let id = |registry: &RegistryConfig| registry.cluster_id.clone();
    let clusters = config.registries.iter().filter(|registry| registry.kubernetes().is_some());
    let ids = clusters.filter_map(id).chain([config.cluster_id.clone()]);
    RosterSettings {
        sources: sources.collect(),
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
        let settings = settings(&serde_saphyr::from_str(text).unwrap(), std::iter::empty());
        let shown: Vec<&str> = settings.configured.iter().map(ClusterId::as_str).collect();
        assert_eq!(shown, ["far", "home"], "a folder is no cluster");
        let names: Vec<&str> = settings.registries.iter().map(RegistryName::as_str).collect();
        assert_eq!(names, ["away", "away-entries", "files", "own", "own-entries"]);
        assert_eq!(settings.grace.as_secs(), 5);
    }

    #[test]
    fn directory_is_read_without_a_config_cluster_and_secrets_are_not() {
        let sources = |text: &str| {
            followers(&serde_saphyr::from_str(text).unwrap()).unwrap().sources().collect::<Vec<_>>()
        };
        let secrets = LABELS.map(Source::Secrets);
        assert_eq!(sources("{remotes: {directory: d}}"), [Source::Directory]);
        assert_eq!(sources("{registries: [{kind: kubernetes}]}"), secrets);
        assert_eq!(
            sources("{remotes: {directory: d}, registries: [{kind: kubernetes}]}"),
            [secrets[0], secrets[1], Source::Directory]
        );
        assert_eq!(
            sources("{remotes: {secrets: off, directory: d}, registries: [{kind: kubernetes}]}"),
            [Source::Directory]
        );
    }
}
