//! The task that owns the core: drains the update channels, applies the updates, publishes.
//!
//! The runtime spawns it once. It waits for no lock and for no client. Updates of one run are applied in
//! the order of its channel, one run's take per batch, with publication between batches, so a large
//! list of one registry does not delay a removal in another. Commands (a run begins or ends, an
//! operator inspects) run between batches, in the order in which they were sent; one that concerns a
//! registry waits for the end of its take.

mod command;
pub(crate) mod pace;
pub(crate) mod receivers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tributary_core::{ApplyOutcome, Core, RegistryStatus};
use tributary_model::{CatalogChanges, Generation, Mono, ObservedSince, RegistryName};
use tributary_registry_api::{Clock, Wake};

use crate::change_recorder::{AppliedBatch, ChangeRecorder, ChangeTrace};
use crate::counters::RuntimeCounters;
use crate::fanout::Fanout;
use crate::journal::{JournalSink, SnapshotRequest};
use crate::published_catalog::PublishedCatalog;
use crate::readiness::{Readiness, StartFacts, StartRule};
use crate::status_changes::StatusFeed;
pub(crate) use command::CoreCommand;
use pace::Pace;
use receivers::{RunReceivers, Slice};

/// The longest sleep, when nothing is due.
const IDLE: Duration = Duration::from_secs(3600);
/// Interval at which an unfinished fan-out is checked.
const FANOUT_CHECK: Duration = Duration::from_millis(2);

/// State of the core task.
pub(crate) struct CoreTask {
    pub(crate) core: Core,
    pub(crate) receivers: RunReceivers,
    pub(crate) pace: Pace,
    pub(crate) published: Arc<PublishedCatalog>,
    pub(crate) fanout: Arc<dyn Fanout>,
    pub(crate) recorder: Option<Arc<dyn ChangeRecorder>>,
    pub(crate) trace: ChangeTrace,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) commands: mpsc::Receiver<CoreCommand>,
    pub(crate) journal: Box<dyn JournalSink>,
    pub(crate) counters: Arc<RuntimeCounters>,
    pub(crate) statuses: StatusFeed,
    pub(crate) rule: StartRule,
    pub(crate) start: StartFacts,
    pub(crate) readiness: watch::Sender<Readiness>,
    pub(crate) adoptions: BTreeMap<RegistryName, watch::Sender<Generation>>,
    pub(crate) unpublished: CatalogChanges,
    pub(crate) observed: ObservedSince,
}

impl CoreTask {
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        self.publish_if_due();
        self.judge_start();
        while self.wait(&stop).await {
            let mut idle = true;
            while let Some(slice) = self.receivers.next() {
                idle = false;
                self.apply_batch(slice);
                self.publish_if_due();
                self.execute_waiting();
                tokio::task::yield_now().await;
            }
            if idle {
                self.pass_time();
                self.publish_if_due();
            }
            self.refill_journal();
        }
    }

    /// Waits for work, and executes commands. Returns false when the server stops.
    async fn wait(&mut self, stop: &CancellationToken) -> bool {
        let sleep = self.sleep();
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            command = self.commands.recv() => {
                let Some(command) = command else { return false };
                self.execute(command);
                self.execute_waiting();
            }
            () = self.wake.notified() => {}
            () = tokio::time::sleep(sleep) => {}
        }
        true
    }

    /// Returns how long to sleep if no update or command arrives.
    fn sleep(&self) -> Duration {
        let now = self.clock.now();
        let until = |at: Mono| at.since(now).max(Duration::from_millis(1));
        let mut sleep = self.core.next_tick().map_or(IDLE, until).min(IDLE);
        if let Some(due) = self.pace.due(self.published.cost(), self.is_busy()) {
            let check = if self.fanout.is_writing() { FANOUT_CHECK } else { IDLE };
            sleep = sleep.min(until(due)).min(check);
        }
        match self.rule.deadline(&self.start) {
            Some(deadline) if deadline > now => sleep.min(until(deadline)),
            _ => sleep,
        }
    }

    fn is_busy(&self) -> bool {
        self.published.is_busy() || self.fanout.is_writing()
    }

    /// Gives the journal one slice of the facts that it lost, so that other work runs in between.
    fn refill_journal(&mut self) {
        if let Some(SnapshotRequest { registry, after, most }) = self.journal.wanted() {
            let (records, last) = self.core.snapshot(&registry, after.as_ref(), most);
            self.journal.slice(&registry, records, last);
            self.wake.notify_one();
        }
    }

    fn execute_waiting(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.execute(command);
        }
    }

    /// Applies one batch of one run's updates.
    fn apply_batch(&mut self, slice: Slice) {
        if slice.updates.is_empty() {
            return;
        }
        let now = self.clock.now();
        let oldest = slice.updates.iter().map(|update| update.at).min().unwrap_or(now);
        RuntimeCounters::add(&self.counters.batches, 1);
        RuntimeCounters::add(&self.counters.updates, slice.updates.len());
        let batch = self
            .recorder
            .as_ref()
            .and_then(|recorder| AppliedBatch::of(&slice.updates, recorder.now(), now.since(oldest)));
        let outcome = if slice.last {
            self.core.apply(now, slice.updates)
        } else {
            self.core.apply_part(now, slice.updates)
        };
        if let Some(batch) = batch {
            self.trace.add(batch, slice.last, !outcome.changed.is_empty());
        }
        self.take_outcome(outcome, now, oldest);
    }

    /// Runs the core's timers that are due.
    fn pass_time(&mut self) {
        let now = self.clock.now();
        if self.core.next_tick().is_some_and(|tick| tick <= now) {
            let outcome = self.core.tick(now);
            self.take(outcome, now);
        }
    }

    fn take(&mut self, outcome: ApplyOutcome, now: Mono) {
        self.take_outcome(outcome, now, now);
    }

    /// Handles the outcome of a batch whose oldest update was received at `oldest`.
    fn take_outcome(&mut self, outcome: ApplyOutcome, now: Mono, oldest: Mono) {
        let ApplyOutcome { confirms, records, changed, urgent, incomplete, statuses } = outcome;
        for request in confirms {
            let counter = if self.receivers.confirm(&request) {
                &self.counters.confirms
            } else {
                &self.counters.unsent_confirms
            };
            RuntimeCounters::add(counter, 1);
        }
        if !records.is_empty() {
            RuntimeCounters::add(&self.counters.records, records.len());
            self.journal.record(records);
        }
        if changed.registries {
            self.adopt();
        }
        self.statuses.add(statuses);
        if !changed.is_empty() {
            if changed.concerns_clients() {
                self.observed.merge(ObservedSince::batch(oldest, urgent));
            }
            self.unpublished.merge(changed);
            self.pace.changed(now, urgent, incomplete);
        }
    }

    /// Makes adopted shadows the served runs.
    fn adopt(&mut self) {
        let shadows = self.receivers.shadows();
        if shadows.is_empty() {
            return;
        }
        let status = self.core.status();
        for (name, generation) in shadows {
            if status.iter().any(|one| one.id.name == name && one.generation == generation) {
                self.receivers.adopt(&name);
                RuntimeCounters::add(&self.counters.adoptions, 1);
                if let Some(adopted) = self.adoptions.get(&name) {
                    adopted.send_replace(generation);
                }
            }
        }
    }

    fn publish_if_due(&mut self) {
        let now = self.clock.now();
        let cost = self.published.cost();
        if self.pace.due(cost, self.is_busy()).is_some_and(|due| due <= now) {
            let began = self.recorder.as_ref().map(|recorder| recorder.now());
            let catalog = self.core.publish();
            self.record(catalog.generation, began);
            let observed = std::mem::take(&mut self.observed);
            self.published.post(catalog, std::mem::take(&mut self.unpublished), observed);
            RuntimeCounters::add(&self.counters.publications, 1);
            if self.pace.published(now, cost) {
                RuntimeCounters::add(&self.counters.urgent, 1);
            }
        }
        self.judge_start();
    }

    /// Gives the recorder what led to a generation, before any client can receive it.
    fn record(&mut self, generation: u64, began: Option<Duration>) {
        if let (Some(recorder), Some(began)) = (&self.recorder, began) {
            recorder.published(self.trace.publish(generation, began, recorder.now()));
        }
    }

    /// Notes the registries that were added before the membership was known, if the start awaits it.
    fn find_members(&mut self, status: &[RegistryStatus], before: &Readiness) {
        if !self.rule.awaits_membership || before.is_ready() {
            return;
        }
        self.start.found.extend(status.iter().map(|one| one.id.name.clone()));
        self.start.awaits_membership = !self.core.is_membership_known();
    }

    /// Judges the start rule after publication, so that a reader of "ready" finds the catalog that made it so.
    fn judge_start(&mut self) {
        if !self.unpublished.is_empty() {
            return;
        }
        let before = self.readiness.borrow().clone();
        if before.is_ready() && before.unknown.is_empty() {
            return;
        }
        let now = self.clock.now();
        let status = self.core.status();
        self.find_members(&status, &before);
        let counts =
            |name: &&RegistryName| self.rule.known.contains(*name) || self.start.found.contains(*name);
        let synced = status.iter().filter(|one| one.synced && !one.failing).map(|one| &one.id.name);
        let synced: Vec<RegistryName> = synced.filter(counts).cloned().collect();
        let undecided = status.iter().filter(|one| !one.decided).map(|one| &one.id.name);
        self.start.undecided = undecided.filter(counts).cloned().collect();
        self.start.synced.extend(synced);
        if let Some(config) = &self.rule.config_cluster
            && status.iter().any(|one| one.synced && one.id.name == *config)
        {
            self.start.config_synced.get_or_insert(now);
        }
        let judged = self.rule.judge(&self.start, now, &before);
        if judged != before {
            if judged.is_ready() && !before.is_ready() {
                self.journal.ready();
            }
            self.readiness.send_replace(judged);
        }
    }
}
