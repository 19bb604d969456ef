//! Watches of the Secrets that declare remote clusters: one for each label, over a connection of their own to the config cluster.
//!
//! The driver starts it and receives its events in order. It never ends by itself: without a connection, or with another cluster at
//! the address, it reports that the lists are unfinished and tries again, so that nothing is removed. At the driver's request it lists
//! again.

use std::time::Duration;

use tokio::sync::mpsc;
use tributary_kube_client::{ClusterIdentity, Connection, Connector, Event, Timing, Watch, WatchSpec};
use tributary_model::{Fingerprint, Version};
use tributary_registry_api::{Backoff, BackoffPolicy, SplitMix};
use tributary_remote::roster::{SecretLabel, Source};
use tributary_remote::{SECRETS, Secret};

use super::followers::Batch;
use super::relists::Wanted;

/// Labels with a watch each.
pub(super) const LABELS: [SecretLabel; 2] = [SecretLabel::Istio, SecretLabel::Tributary];
/// Interval at which a wrong identity is checked again.
const RECHECK: Duration = Duration::from_secs(30);

/// Watches of one config cluster.
pub(super) struct SecretWatch {
    pub(super) connector: Connector,
    pub(super) namespace: String,
    pub(super) timing: Timing,
    pub(super) seed: u64,
    pub(super) out: mpsc::Sender<Batch>,
    /// Number of the last list that the driver wants.
    pub(super) wanted: Wanted,
}

impl SecretWatch {
    /// Watches; never ends.
    pub(super) async fn run(&self) {
        let mut pinned: Option<Fingerprint> = None;
        let (mut backoff, mut random) = (Backoff::new(BackoffPolicy::default()), SplitMix::seeded(self.seed));
        loop {
            let connection = match self.open().await {
                Ok(connection) => connection,
                Err(error) => {
                    if backoff.failures() == 0 {
                        tracing::warn!(%error, "cannot connect to the config cluster for its Secrets; trying again");
                    }
                    self.unconnected(error).await;
                    tokio::time::sleep(backoff.next(&mut random)).await;
                    continue;
                }
            };
            backoff.reset();
            let cluster = ClusterIdentity::new(connection.client());
            self.is_pinned(&cluster, &mut pinned).await;
            let [istio, own] = LABELS.map(|label| self.follow(label, &connection, &cluster));
            tokio::select! {
                biased;
                () = istio => {}
                () = own => {}
                () = self.connector.outdated(&connection) => {}
            }
            pinned = pinned.or_else(|| cluster.known());
            self.interrupted().await;
        }
    }

    async fn open(&self) -> Result<Connection, String> {
        self.connector.open_async().await.map_err(|error| error.to_string())
    }

    /// Waits until the cluster of earlier connections answers; the first one is pinned.
    async fn is_pinned(&self, cluster: &ClusterIdentity, pinned: &mut Option<Fingerprint>) {
        let Some(was) = pinned.clone() else { return };
        loop {
            let confirmed = cluster.confirm().await.is_ok();
            match cluster.known() {
                Some(now) if now == was => return,
                Some(now) => {
                    let why = "the Secrets are those of another cluster and are not read; restart the server to follow it";
                    tracing::error!(%was, %now, "{why}");
                    self.unconnected(why.to_owned()).await;
                }
                None if confirmed => return,
                None => {}
            }
            tokio::time::sleep(RECHECK).await;
        }
    }

    /// Reports why no watch can begin.
    async fn unconnected(&self, why: String) {
        // without a receiver the server stops
        let _ = self.out.send(Batch::Unconnected(why)).await;
    }

    /// Reports that both lists are unfinished until a new watch has ended one.
    async fn interrupted(&self) {
        for label in LABELS {
            // without a receiver the server stops
            let _ = self.out.send(Batch::Secrets(Source::Secrets(label), vec![Event::Init])).await;
        }
    }

    /// Passes a batch on; without a receiver the server stops.
    async fn pass_on(&self, batch: Batch) {
        if self.out.send(batch).await.is_err() {
            std::future::pending().await
        }
    }

    /// Passes on the events of one label, until nothing receives them.
    async fn follow(&self, label: SecretLabel, connection: &Connection, cluster: &ClusterIdentity) {
        let spec = WatchSpec {
            namespace: Some(self.namespace.clone()),
            label_selector: Some(format!("{}=true", label.as_str())),
            ..WatchSpec::all(SECRETS, self.timing)
        };
        let random = SplitMix::seeded(self.seed ^ Version::of(label.as_str().as_bytes()).0);
        let mut watch = Watch::<Secret>::new(connection.client(), spec, random).of_cluster(cluster.clone());
        let (source, mut wanted) = (Source::Secrets(label), self.wanted.clone());
        // the first list answers requests that came before
        wanted.mark_changed();
        loop {
            tokio::select! {
                biased;
                Ok(()) = wanted.changed() => {
                    let request = *wanted.borrow_and_update();
                    let events = watch.list_again();
                    self.pass_on(Batch::Answers(source, request)).await;
                    self.pass_on(Batch::Secrets(source, events)).await;
                }
                events = watch.next() => self.pass_on(Batch::Secrets(source, events)).await,
            }
        }
    }
}
