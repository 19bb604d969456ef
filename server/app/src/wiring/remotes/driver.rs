//! Holds the roster: passes events to it, and orders to the supervisor, one after the other.
//!
//! It waits only for replies of the supervisor. A removal drains and waits for runs that stop, so it is a task of its own.
//! The membership is known once every watch has been listed, after the clusters of these lists were added; until then the start waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tributary_model::{ClusterId, Code, RegistryName};
use tributary_registry_api::Clock;
use tributary_remote::SecretFollower;
use tributary_remote::roster::{
    Access, Action, ClusterStatus, Event, Fault, Order, Outcome, RestoredCluster, Roster, RosterStatus,
    Source, SourceHealth, State,
};

use super::accepted::Accepted;
use super::clusters::Clusters;
use super::departures::{Departures, Step};
use super::joins::Joins;
use super::secret_watch::Batch;
use crate::config::Config;
use crate::document::clusters::text;
use crate::ops::clusters::board::Board;
use crate::ops::receipts::Receipts;
use crate::wiring::journal;

/// Stands for no timer.
const NEVER: Duration = Duration::from_secs(86_400);

/// Configuration of remote clusters, as it changes.
pub(super) type Settings = watch::Receiver<Arc<Config>>;

/// Holder of the roster.
pub(super) struct Driver {
    roster: Roster,
    followers: BTreeMap<Source, SecretFollower>,
    clusters: Clusters,
    joins: Joins,
    board: Board,
    clock: Arc<dyn Clock>,
    departures: Departures,
    accepted: Accepted,
    /// Clusters with a connection, and the claims that it rests on.
    joined: BTreeMap<ClusterId, (RegistryName, Access)>,
    settings: Settings,
    is_membership_known: bool,
    /// Problems that were logged and last.
    logged: BTreeSet<String>,
}

impl Driver {
    pub(super) fn new(
        roster: Roster,
        followers: BTreeMap<Source, SecretFollower>,
        (clusters, departures, board): (Clusters, Departures, Board),
        settings: Settings,
        (clock, seed): (Arc<dyn Clock>, u64),
    ) -> Self {
        let (accepted, joined, logged) = (Accepted::default(), BTreeMap::new(), BTreeSet::new());
        let is_membership_known = false;
        let joins = Joins::new(board.clone(), Arc::clone(&clock), seed);
        Self {
            roster,
            followers,
            clusters,
            joins,
            board,
            departures,
            accepted,
            joined,
            settings,
            clock,
            is_membership_known,
            logged,
        }
    }

    /// Adds clusters whose facts a journal restored. They have no claim yet, so no order follows.
    pub(super) fn restore(&mut self, clusters: Vec<RestoredCluster>) {
        let now = self.clock.now();
        for RestoredCluster { cluster, .. } in &clusters {
            tracing::info!(%cluster, "remote cluster restored; it is served until its Secret is read");
        }
        let orders = self.roster.apply(now, Event::Restored(clusters));
        debug_assert_eq!(orders, [], "a cluster without a claim stays");
    }

    /// Adds receipts here from now on; `objects` declared the clusters of the journal.
    pub(super) fn record_in(&mut self, receipts: Receipts, objects: Vec<(ClusterId, String)>) {
        self.departures.record_in(receipts);
        for (cluster, object) in objects {
            self.departures.declared(&cluster, &object);
        }
    }

    /// Shows restored registries, and records clusters in a journal from now on.
    pub(super) fn remember<'a>(
        &mut self,
        restored: impl Iterator<Item = &'a RegistryName>,
        state: journal::State,
    ) {
        self.clusters.remember(restored, state);
    }

    /// Takes the batches of the watches until their sender ends.
    pub(super) async fn run(mut self, mut batches: mpsc::Receiver<Batch>) {
        loop {
            let due = self.until_due();
            tokio::select! {
                batch = batches.recv() => match batch {
                    Some(batch) => self.take(batch).await,
                    None => return,
                },
                Ok(()) = self.settings.changed() => self.rotate_all().await,
                step = self.departures.next() => self.depart(step).await,
                () = tokio::time::sleep(due) => {
                    self.apply(Event::Tick).await;
                    self.joins.retry(&self.clusters).await;
                }
            }
            self.report().await;
        }
    }

    async fn take(&mut self, (source, events): Batch) {
        for event in events {
            let follower = self.followers.get_mut(&source);
            if let Some(event) = follower.and_then(|follower| follower.take(event)) {
                self.apply(event).await;
            }
        }
    }

    fn until_due(&self) -> Duration {
        let now = self.clock.now();
        let due = self.roster.next_due().into_iter().chain(self.joins.next_due()).min();
        due.map_or(NEVER, |due| due.since(now).max(Duration::from_millis(1)))
    }

    async fn apply(&mut self, event: Event) {
        for order in self.roster.apply(self.clock.now(), event) {
            self.execute(order).await;
        }
    }

    /// Logs what changed, and declares the membership known once every source is complete.
    async fn report(&mut self) {
        let roster = &self.roster;
        self.departures.keep_returned(|cluster, number| roster.is_leaving(cluster, number)).await;
        let status = self.roster.status();
        for (registry, identity) in self.accepted.changes(&status) {
            self.clusters.accept(&registry, identity).await;
        }
        self.board.publish(status.clone());
        self.log(&status);
        if !self.is_membership_known && is_complete(&status, self.may_lack_secrets(&status)) {
            self.is_membership_known = true;
            self.clusters.are_known().await;
        }
    }

    /// Returns whether the server goes on without Secrets that it may not read: it does not need them and holds no cluster of one.
    fn may_lack_secrets(&self, status: &RosterStatus) -> bool {
        let is_held = |one: &ClusterStatus| one.state != State::Absent;
        self.board.view().may_lack_secrets && !status.clusters.iter().any(is_held)
    }

    async fn execute(&mut self, order: Order) {
        match &order.action {
            Action::Join(access) | Action::Rotate(access) => self.connect(&order, access).await,
            Action::Leave => self.departures.begin(order).await,
            Action::Pause => {
                self.joins.forget(&order.cluster);
                self.joined.remove(&order.cluster);
                self.clusters.pause(&order.registry, &order.cluster).await;
            }
        }
    }

    async fn connect(&mut self, order: &Order, access: &Access) {
        let (cluster, secret) = (&order.cluster, &access.object);
        let follower = self.followers.get(&access.source);
        let Some(kubeconfig) = follower.and_then(|follower| follower.kubeconfig(access, cluster)) else {
            tracing::error!(%cluster, secret, "the kubeconfig of a remote cluster is gone; apply its Secret again");
            return;
        };
        self.departures.declared(cluster, secret);
        self.joined.insert(cluster.clone(), (order.registry.clone(), access.clone()));
        self.joins.put(&self.clusters, order.clone(), kubeconfig.clone()).await;
    }

    /// Rotates every connected cluster with the settings that changed.
    async fn rotate_all(&mut self) {
        let config = Arc::clone(&self.settings.borrow_and_update());
        self.clusters.configure(config);
        for (cluster, (registry, access)) in &self.joined {
            let follower = self.followers.get(&access.source);
            let Some(kubeconfig) = follower.and_then(|follower| follower.kubeconfig(access, cluster)) else {
                tracing::warn!(
                    %cluster, secret = access.object,
                    "a remote cluster keeps its settings: its Secret changed to one that is refused; correct it"
                );
                continue;
            };
            match self.clusters.put(registry, cluster, (&access.object, kubeconfig.clone())).await {
                Ok(()) => tracing::info!(%cluster, "settings changed; the remote cluster is read again"),
                Err(error) => {
                    tracing::error!(%cluster, %error, "settings of a remote cluster were not changed")
                }
            }
        }
    }

    async fn depart(&mut self, step: Step) {
        match step {
            Step::Drained(cluster, number) => {
                if self.roster.withdraw(&cluster, number) {
                    self.departures.remove(cluster, number);
                }
            }
            Step::Removed(cluster, number) => {
                self.departures.removed(&cluster);
                self.accepted.forget(&cluster);
                self.joined.remove(&cluster);
                self.joins.forget(&cluster);
                self.board.forget(&cluster);
                self.apply(Event::Receipt(cluster, number)).await;
            }
        }
    }

    /// Logs problems that are new.
    fn log(&mut self, status: &RosterStatus) {
        let now = problems(status, self.may_lack_secrets(status));
        for text in now.difference(&self.logged) {
            tracing::warn!("{text}");
        }
        self.logged = now;
    }
}

/// Returns whether every source is known; one that may not be read counts where the server may lack it.
fn is_complete(status: &RosterStatus, may_lack: bool) -> bool {
    let is_known = |health| health == SourceHealth::Synced || may_lack && health == SourceHealth::Forbidden;
    status.sources.iter().all(|source| is_known(source.health))
}

/// Returns what operators should know: sources that cannot be read, claims that are refused or not used, and faults of Secrets.
fn problems(status: &RosterStatus, may_lack: bool) -> BTreeSet<String> {
    let sources = status.sources.iter().filter_map(|source| {
        let why = match source.health {
            // usual without remote clusters; `get clusters` has a note
            SourceHealth::Forbidden if may_lack => return None,
            SourceHealth::Forbidden => {
                "may not be read: grant what `tributary rbac print` shows with `remotes.secrets: on`"
            }
            SourceHealth::Failed => "cannot be read now; the next try follows",
            SourceHealth::Synced | SourceHealth::Unsynced => return None,
        };
        Some(format!("Secrets of remote clusters ({}) {why}; no cluster is removed", label(source.source)))
    });
    let claims = status.clusters.iter().flat_map(|cluster| {
        cluster.claims.iter().flat_map(move |claim| {
            let object = &claim.object;
            let of = format!("cluster {} of Secret {object}", cluster.cluster);
            match &claim.outcome {
                Outcome::Wins => Vec::new(),
                Outcome::Conflicts => {
                    vec![format!("{of} is not used: another Secret with the key precedes it")]
                }
                Outcome::Ignored => vec![format!("{of} is not used: the configuration has the cluster")],
                Outcome::Refused(faults) => {
                    faults.iter().map(|fault| format!("{of}: {}", shown(fault))).collect()
                }
            }
        })
    });
    let objects = status.objects.iter().flat_map(|object| {
        object.faults.iter().map(move |fault| format!("Secret {}: {}", object.object, shown(fault)))
    });
    let leaving = status.clusters.iter().filter_map(|cluster| {
        let grace = cluster.leaves?.since(cluster.since?);
        Some(format!("cluster {} is no longer declared; it leaves after {grace:?}", cluster.cluster))
    });
    sources.chain(claims).chain(objects).chain(leaving).collect()
}

fn label(source: Source) -> &'static str {
    match source {
        Source::Secrets(label) => label.as_str(),
        Source::ConfigFile | Source::Directory => "files",
    }
}

fn shown(fault: &Fault) -> String {
    let code = fault.code.unwrap_or(Code::SECRET_REFUSED);
    format!("{code}: {}", text(fault))
}
