//! Holds the roster: passes events to it, and orders to the supervisor, one after the other.
//!
//! It waits only for replies of the supervisor. A removal drains and waits for runs that stop, so it is a task of its own.
//! The membership is known once every watch has been listed, after the clusters of these lists were added, and once none of them is
//! refused or paused without ever having been read; until then the start waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tributary_model::{ClusterId, RegistryName};
use tributary_registry_api::Clock;
use tributary_remote::roster::{
    Access, Action, ClusterStatus, Event, Order, Outcome, RestoredCluster, Roster, RosterStatus, Source,
    SourceHealth, SourceKind, State,
};

use super::accepted::Accepted;
use super::clusters::Clusters;
use super::departures::{Departures, Step};
use super::followers::{Batch, Followers};
use super::joins::Joins;
use super::problems::problems;
use super::relists::{Relists, Wanted};
use crate::config::Config;
use crate::ops::clusters::board::Board;
use crate::ops::clusters::conditions::object as shown;
use crate::ops::clusters::tries::KubeconfigRequests;
use crate::ops::receipts::Receipts;
use crate::wiring::journal;

/// Stands for no timer.
const NEVER: Duration = Duration::from_secs(86_400);

/// Configuration of remote clusters, as it changes.
pub(super) type Settings = watch::Receiver<Arc<Config>>;

/// Holder of the roster.
pub(super) struct Driver {
    roster: Roster,
    followers: Followers,
    clusters: Clusters,
    joins: Joins,
    board: Board,
    clock: Arc<dyn Clock>,
    departures: Departures,
    relists: Relists,
    accepted: Accepted,
    /// Clusters with a connection, and the claims that it rests on.
    joined: BTreeMap<ClusterId, (RegistryName, Access)>,
    settings: Settings,
    requests: KubeconfigRequests,
    /// Whether every source of declarations was read once.
    is_complete: bool,
    /// Whether every declared cluster is read or was.
    is_membership_known: bool,
    /// Problems that were logged and last.
    logged: BTreeSet<String>,
}

impl Driver {
    pub(super) fn new(
        roster: Roster,
        followers: Followers,
        (clusters, departures, board): (Clusters, Departures, Board),
        (settings, requests): (Settings, KubeconfigRequests),
        (clock, seed): (Arc<dyn Clock>, u64),
    ) -> Self {
        let (accepted, joined, logged) = (Accepted::default(), BTreeMap::new(), BTreeSet::new());
        let relists = Relists::of(followers.sources());
        let joins = Joins::new(board.clone(), Arc::clone(&clock), seed);
        Self {
            roster,
            followers,
            clusters,
            joins,
            board,
            departures,
            relists,
            accepted,
            joined,
            settings,
            requests,
            clock,
            is_complete: false,
            is_membership_known: false,
            logged,
        }
    }

    /// Adds clusters whose facts a journal restored. They have no claim yet, so no order follows.
    pub(super) fn restore(&mut self, clusters: Vec<RestoredCluster>) {
        let now = self.clock.now();
        for RestoredCluster { cluster, .. } in &clusters {
            tracing::info!(%cluster, "remote cluster restored; it is served until its kubeconfig is read");
        }
        let orders = self.roster.apply(now, Event::Restored(clusters));
        debug_assert_eq!(orders, [], "a cluster without a claim stays");
    }

    /// Returns the number of the last list of Secrets that the driver wants, as it grows.
    pub(super) fn wanted(&self) -> Wanted {
        self.relists.wanted()
    }

    /// Returns true if sources of this kind are read.
    pub(super) fn reads(&self, kind: SourceKind) -> bool {
        self.followers.sources().any(|source| source.kind() == kind)
    }

    /// Adds receipts here from now on; `objects` declared the clusters of the journal.
    pub(super) fn record_in(&mut self, receipts: Receipts, objects: Vec<(ClusterId, Source, String)>) {
        self.departures.record_in(receipts);
        for (cluster, source, object) in objects {
            self.declared(&cluster, source, &object);
        }
    }

    fn declared(&mut self, cluster: &ClusterId, source: Source, object: &str) {
        self.departures.declared(cluster, object);
        self.board.declared(cluster, shown(source, object));
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
                biased;
                Ok(()) = self.settings.changed() => self.configure().await,
                Some(request) = self.requests.recv() => {
                    // one who waits no longer needs no answer
                    let _ = request.send(self.followers.kept());
                }
                step = self.departures.next() => self.depart(step).await,
                batch = batches.recv() => match batch {
                    Some(batch) => self.take(batch).await,
                    None => return,
                },
                () = tokio::time::sleep(due) => {
                    self.apply(Event::Tick).await;
                    self.joins.retry(&self.clusters).await;
                }
            }
            self.withdraw();
            self.report().await;
        }
    }

    async fn take(&mut self, batch: Batch) {
        self.relists.note(&batch);
        for input in self.followers.inputs(batch) {
            if let Some(event) = self.followers.take(input) {
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

    /// Logs what changed, and declares the membership known once every source is complete and no declared cluster is unread.
    async fn report(&mut self) {
        let roster = &self.roster;
        self.departures.keep_returned(|cluster, number| roster.is_leaving(cluster, number)).await;
        let status = self.roster.status();
        for (registry, accepted) in self.accepted.changes(&status) {
            self.clusters.accept(&registry, accepted).await;
        }
        self.follow_claims(&status);
        self.follow_staleness(&status).await;
        self.board.publish(status.clone(), self.followers.errors());
        self.log(&status);
        if !self.is_complete && is_complete(&status, self.may_lack_secrets(&status)) {
            self.is_complete = true;
            self.clusters.are_declared();
        }
        // what a cluster that was never read has is unknown, not empty
        if self.is_complete && !self.is_membership_known && status.unread.is_empty() {
            self.is_membership_known = true;
            self.clusters.are_known().await;
        }
    }

    /// Follows clusters whose credential in use is that of another claim now: equal credentials give no order.
    fn follow_claims(&mut self, status: &RosterStatus) {
        for one in status.clusters.iter().filter(|one| one.state == State::Joined) {
            let Some((source, object)) = used(one) else { continue };
            let Some((registry, access)) = self.joined.get_mut(&one.cluster) else { continue };
            if (access.source, access.object.as_str()) == (source, object) {
                continue;
            }
            (access.source, access.object) = (source, object.to_owned());
            self.clusters.move_to(registry, &one.cluster, (source, object));
            self.declared(&one.cluster, source, object);
        }
    }

    /// Reads clusters again whose staleness policy changed; the run that begins has it.
    async fn follow_staleness(&mut self, status: &RosterStatus) {
        for one in status.clusters.iter().filter(|one| one.state == State::Joined) {
            let staleness = one.policy.as_ref().and_then(|policy| policy.staleness);
            let Some((_, access)) = self.joined.get_mut(&one.cluster) else { continue };
            if access.policy.staleness != staleness {
                access.policy.staleness = staleness;
                self.read_again(&one.cluster).await;
            }
        }
    }

    /// Returns whether the server goes on without Secrets that it may not read: it does not need them and holds no cluster of one.
    fn may_lack_secrets(&self, status: &RosterStatus) -> bool {
        self.board.view().may_lack_secrets && !status.holds_of(SourceKind::Secrets)
    }

    async fn execute(&mut self, order: Order) {
        match &order.action {
            Action::Join(access) | Action::Rotate(access) => self.connect(&order, access).await,
            Action::Leave => {
                let drain = self.roster.drain(&order.cluster);
                let rests_on_absence = self.roster.rests_on_absent_secrets(&order.cluster);
                let relist = rests_on_absence.then(|| self.relists.request());
                self.departures.begin(order, drain, relist).await;
            }
            Action::Pause => {
                self.joins.forget(&order.cluster);
                self.joined.remove(&order.cluster);
                self.clusters.pause(&order.registry, &order.cluster).await;
            }
        }
    }

    async fn connect(&mut self, order: &Order, access: &Access) {
        let cluster = &order.cluster;
        let Some(kubeconfig) = self.followers.kubeconfig(access, cluster).cloned() else {
            let object = shown(access.source, &access.object);
            tracing::error!(%cluster, object, "the kubeconfig of a remote cluster is gone; declare it again");
            return;
        };
        self.declared(cluster, access.source, &access.object);
        self.joined.insert(cluster.clone(), (order.registry.clone(), access.clone()));
        self.joins.put(&self.clusters, order.clone(), kubeconfig).await;
    }

    /// Applies a changed configuration: policies of files at once, other settings by reading every connected cluster again.
    async fn configure(&mut self) {
        let config = Arc::clone(&self.settings.borrow_and_update());
        if let Some(event) = self.followers.set_policies(config.remotes.policies()) {
            self.apply(event).await;
        }
        if !self.clusters.configure(config) {
            return;
        }
        for cluster in self.joined.keys() {
            self.read_again(cluster).await;
        }
    }

    /// Begins new runs of a connected cluster, with the present settings and the credential in use.
    async fn read_again(&self, cluster: &ClusterId) {
        let Some((registry, access)) = self.joined.get(cluster) else { return };
        let object = (access.source, access.object.as_str());
        let Some(kubeconfig) = self.followers.kubeconfig(access, cluster) else {
            tracing::warn!(
                %cluster, object = shown(object.0, object.1),
                "a remote cluster keeps its settings: its kubeconfig changed to one that is refused; correct it"
            );
            return;
        };
        match self.clusters.put(registry, cluster, (object, kubeconfig.clone(), &access.policy)).await {
            Ok(()) => tracing::info!(%cluster, "settings changed; the remote cluster is read again"),
            Err(error) => {
                tracing::error!(%cluster, %error, "settings of a remote cluster were not changed");
            }
        }
    }

    /// Removes clusters that are drained, and that no claim brought back by the list that they waited for.
    fn withdraw(&mut self) {
        for (cluster, number) in self.departures.ready(|request| self.relists.is_answered(request)) {
            if self.roster.withdraw(&cluster, number) {
                self.departures.remove(cluster, number);
            }
        }
    }

    async fn depart(&mut self, step: Step) {
        match step {
            Step::Drained(cluster, number) => self.departures.drained(&cluster, number),
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
        let policies: Vec<ClusterId> = self.settings.borrow().remotes.policies().into_keys().collect();
        let now = problems(&self.board.view(), self.may_lack_secrets(status), &policies);
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

/// Returns the claim whose credential a cluster uses.
fn used(one: &ClusterStatus) -> Option<(Source, &str)> {
    let claim = one.claims.iter().find(|claim| claim.outcome == Outcome::Wins)?;
    Some((claim.source, &claim.object))
}
