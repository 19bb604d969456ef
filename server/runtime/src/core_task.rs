//! The task that owns the core: drains the inlets, applies what they hold, publishes.
//!
//! Spawned once by the runtime. It waits for no lock and for no client. Updates of one run are applied
//! in the order of its inlet, one run's take a turn, with publication between turns, so that a large
//! list of one registry does not delay a removal in another. Orders (a run begins or ends, an operator
//! inspects) are carried out between turns, in the order in which they were sent; one that concerns a
//! registry waits for the end of its take.

mod command;
pub(crate) mod pace;
pub(crate) mod receivers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tributary_core::{ApplyOutcome, Core};
use tributary_model::{CatalogChanges, Generation, Mono, ObservedSince, RegistryName};
use tributary_registry_api::{Clock, Wake};

use crate::counters::RuntimeCounters;
use crate::fanout::Fanout;
use crate::journal::{JournalSink, SnapshotRequest};
use crate::published_catalog::PublishedCatalog;
use crate::readiness::{Readiness, StartFacts, StartRule};
pub(crate) use command::CoreCommand;
use pace::Pace;
use receivers::{RunReceivers, Slice};

/// The longest nap, when nothing at all is due.
const IDLE: Duration = Duration::from_secs(3600);
/// How often a fan-out that is still being written is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// What the pump is made of.
pub(crate) struct CoreTask {
    pub(crate) core: Core,
    pub(crate) feeds: RunReceivers,
    pub(crate) pace: Pace,
    pub(crate) board: Arc<PublishedCatalog>,
    pub(crate) fanout: Arc<dyn Fanout>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) orders: mpsc::Receiver<CoreCommand>,
    pub(crate) journal: Box<dyn JournalSink>,
    pub(crate) counters: Arc<RuntimeCounters>,
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
            while let Some(slice) = self.feeds.next() {
                idle = false;
                self.turn(slice);
                self.publish_if_due();
                self.carry_out_waiting();
                tokio::task::yield_now().await;
            }
            if idle {
                self.pass_time();
                self.publish_if_due();
            }
            self.refill_journal();
        }
    }

    /// Waits for something to do, and carries orders out; false when the server stops.
    async fn wait(&mut self, stop: &CancellationToken) -> bool {
        let nap = self.nap();
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            order = self.orders.recv() => {
                let Some(order) = order else { return false };
                self.carry_out(order);
                self.carry_out_waiting();
            }
            () = self.wake.notified() => {}
            () = tokio::time::sleep(nap) => {}
        }
        true
    }

    /// How long there is nothing to do if nothing comes in.
    fn nap(&self) -> Duration {
        let now = self.clock.now();
        let until = |at: Mono| at.since(now).max(Duration::from_millis(1));
        let mut nap = self.core.next_tick().map_or(IDLE, until).min(IDLE);
        if let Some(due) = self.pace.due(self.board.cost(), self.is_busy()) {
            let glance = if self.fanout.is_writing() { GLANCE } else { IDLE };
            nap = nap.min(until(due)).min(glance);
        }
        match self.rule.deadline(&self.start) {
            Some(deadline) if deadline > now => nap.min(until(deadline)),
            _ => nap,
        }
    }

    fn is_busy(&self) -> bool {
        self.board.is_busy() || self.fanout.is_writing()
    }

    /// Gives the journal one slice of what it has lost, so that other work comes between.
    fn refill_journal(&mut self) {
        if let Some(SnapshotRequest { registry, after, most }) = self.journal.wanted() {
            let (records, last) = self.core.snapshot(&registry, after.as_ref(), most);
            self.journal.slice(&registry, records, last);
            self.wake.notify_one();
        }
    }

    fn carry_out_waiting(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.carry_out(order);
        }
    }

    /// One turn of one run's updates.
    fn turn(&mut self, slice: Slice) {
        if slice.updates.is_empty() {
            return;
        }
        let now = self.clock.now();
        let oldest = slice.updates.iter().map(|update| update.at).min().unwrap_or(now);
        RuntimeCounters::add(&self.counters.turns, 1);
        RuntimeCounters::add(&self.counters.words, slice.updates.len());
        let turn = if slice.last {
            self.core.apply(now, slice.updates)
        } else {
            self.core.apply_part(now, slice.updates)
        };
        self.take_heard(turn, now, oldest);
    }

    /// Time alone may be something that the core acts on.
    fn pass_time(&mut self) {
        let now = self.clock.now();
        if self.core.next_tick().is_some_and(|tick| tick <= now) {
            let turn = self.core.tick(now);
            self.take(turn, now);
        }
    }

    fn take(&mut self, turn: ApplyOutcome, now: Mono) {
        self.take_heard(turn, now, now);
    }

    /// Takes a turn whose oldest word was heard at `oldest`.
    fn take_heard(&mut self, turn: ApplyOutcome, now: Mono, oldest: Mono) {
        let ApplyOutcome { confirms, records, changed, urgent } = turn;
        for ask in confirms {
            let counter = if self.feeds.ask(&ask) { &self.counters.asked } else { &self.counters.unasked };
            RuntimeCounters::add(counter, 1);
        }
        if !records.is_empty() {
            RuntimeCounters::add(&self.counters.records, records.len());
            self.journal.record(records);
        }
        if changed.registries {
            self.adopt();
        }
        if !changed.is_empty() {
            if changed.concerns_clients() {
                self.observed.merge(ObservedSince::batch(oldest, urgent));
            }
            self.unpublished.merge(changed);
            self.pace.changed(now, urgent);
        }
    }

    /// Lets shadows that the core has adopted take the place of what they replace.
    fn adopt(&mut self) {
        let shadows = self.feeds.shadows();
        if shadows.is_empty() {
            return;
        }
        let status = self.core.status();
        for (name, generation) in shadows {
            if status.iter().any(|one| one.id.name == name && one.generation == generation) {
                self.feeds.adopt(&name);
                RuntimeCounters::add(&self.counters.adoptions, 1);
                if let Some(told) = self.adoptions.get(&name) {
                    told.send_replace(generation);
                }
            }
        }
    }

    fn publish_if_due(&mut self) {
        let now = self.clock.now();
        let cost = self.board.cost();
        if self.pace.due(cost, self.is_busy()).is_some_and(|due| due <= now) {
            let catalog = self.core.publish();
            let observed = std::mem::take(&mut self.observed);
            self.board.post(catalog, std::mem::take(&mut self.unpublished), observed);
            RuntimeCounters::add(&self.counters.publications, 1);
            if self.pace.published(now, cost) {
                RuntimeCounters::add(&self.counters.urgent, 1);
            }
        }
        self.judge_start();
    }

    /// After publication, so that whoever is told "ready" finds what made it so.
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
        let synced = status.iter().filter(|one| one.synced).map(|one| &one.id.name);
        self.start.synced.extend(synced.filter(|name| self.rule.known.contains(*name)).cloned());
        if let Some(config) = &self.rule.config_cluster
            && self.start.synced.contains(config)
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
