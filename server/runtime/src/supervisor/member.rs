//! One registry's life: its served lane, the shadow while it rotates, and how it leaves.
//!
//! Generations only grow, over both lanes, so that a late word of any run that is over is fenced.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_core::RunOrder;
use tributary_model::{Code, Evidence, Generation, RegistryName, RestartMode};
use tributary_registry_api::{RegistryFactory, RegistryIo, Run, SplitMix, confirm_channel, update_channel};

use super::run_sequence::{End, RunSequence, RunSequenceEvent};
use super::{Reply, Shared};
use crate::core_task::CoreCommand;
use crate::core_task::receivers::{RunReceiver, Which};
use crate::counters::RuntimeCounters;
use crate::report::RunState;

/// What a member is told.
pub(super) enum ToMember {
    Rotate(Arc<dyn RegistryFactory>),
    /// A new run of the same factory lists the source again.
    Restart,
    Leave(Reply),
}

pub(super) struct Member {
    name: RegistryName,
    shared: Shared,
    orders: mpsc::Receiver<ToMember>,
    adoptions: watch::Receiver<Generation>,
    served: RunSequence,
    shadow: Option<RunSequence>,
    closing: JoinSet<bool>,
    last: Generation,
    /// The run that the core serves, as far as is known here.
    in_force: Generation,
    chance: SplitMix,
}

impl Member {
    pub(super) fn new(
        name: RegistryName,
        factory: Arc<dyn RegistryFactory>,
        shared: Shared,
        orders: mpsc::Receiver<ToMember>,
        adoptions: watch::Receiver<Generation>,
    ) -> Self {
        let seed = name.as_str().bytes().fold(shared.config.seed, |s, b| s.rotate_left(7) ^ u64::from(b));
        Self {
            served: RunSequence::new(factory, shared.config.backoff),
            shadow: None,
            closing: JoinSet::new(),
            last: Generation(0),
            in_force: Generation(0),
            chance: SplitMix::seeded(seed),
            name,
            shared,
            orders,
            adoptions,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let leaving = self.live(&stop).await;
        self.shared.reports.update(&self.name, |report, _| report.state = RunState::Stopping);
        self.end(leaving).await;
    }

    /// Until it stops or leaves; returns whom to tell of the latter.
    async fn live(&mut self, stop: &CancellationToken) -> Option<Reply> {
        loop {
            self.report();
            let (which, event) = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                order = self.orders.recv() => match order {
                    None => return None,
                    Some(ToMember::Leave(reply)) => return Some(reply),
                    Some(ToMember::Rotate(factory)) => {
                        self.rotate(factory);
                        continue;
                    }
                    Some(ToMember::Restart) => {
                        self.restart();
                        continue;
                    }
                },
                Ok(()) = self.adoptions.changed() => {
                    self.adopted();
                    continue;
                }
                Some(stopped) = self.closing.join_next() => {
                    self.count_dropped(!stopped.unwrap_or(false));
                    continue;
                }
                event = self.served.event() => (Which::Served, event),
                event = shadow_event(&mut self.shadow) => (Which::Shadow, event),
            };
            match event {
                RunSequenceEvent::Due => self.begin(which).await,
                RunSequenceEvent::Ended(end) => self.ended(which, &end).await,
            }
        }
    }

    fn rotate(&mut self, factory: Arc<dyn RegistryFactory>) {
        tracing::info!(registry = %self.name, "a new run fills a shadow while the old one serves");
        let lane = RunSequence::new(factory, self.shared.config.backoff);
        if let Some(replaced) = self.shadow.replace(lane) {
            self.close(replaced);
        }
    }

    /// The served run is replaced by one that lists its source from the start. A run in a shadow does that anyway.
    fn restart(&mut self) {
        let factory = self.served.factory();
        if self.served.is_parked() || self.is_superseded() {
            return;
        }
        if factory.spec().restart == RestartMode::Shadow {
            return self.rotate(factory);
        }
        tracing::info!(registry = %self.name, "a new run lists the source again");
        let lane = RunSequence::new(factory, self.shared.config.backoff);
        let replaced = std::mem::replace(&mut self.served, lane);
        self.close(replaced);
    }

    fn adopted(&mut self) {
        let generation = *self.adoptions.borrow_and_update();
        // a served run may have begun after the shadow that now replaces it, so that this is not the highest
        self.in_force = generation;
        if let Some(lane) = self.shadow.take_if(|lane| lane.generation == generation) {
            tracing::info!(registry = %self.name, %generation, "the new run is served");
            let replaced = std::mem::replace(&mut self.served, lane);
            self.close(replaced);
        }
    }

    fn close(&mut self, lane: RunSequence) {
        let grace = self.shared.config.stop_grace;
        self.closing.spawn(lane.stop(grace));
    }

    /// Begins the next run of a lane, where the core lets it.
    async fn begin(&mut self, which: Which) {
        if which == Which::Served && self.is_superseded() {
            return self.served.park();
        }
        let (run, feed, io) = self.prepare(which);
        let (generation, in_force) = (run.generation, run.replaces);
        let (reply, answer) = oneshot::channel();
        // the pump is gone only when the server stops, which the loop sees next
        let _ = self.shared.orders.send(CoreCommand::Begin { run, which, feed, reply }).await;
        let begun = match answer.await {
            Ok(Ok(begun)) => begun,
            Ok(Err(refused)) => {
                tracing::debug!(registry = %self.name, %in_force, %refused, "the run is begun again");
                self.adopted();
                self.in_force = refused.in_force;
                return;
            }
            Err(_) => return,
        };
        RuntimeCounters::add(&self.shared.counters.runs, 1);
        let io = RegistryIo { held: begun.held, ..io };
        if begun.in_shadow && which == Which::Served {
            let parked = RunSequence::parked(self.served.factory(), self.shared.config.backoff);
            self.shadow = Some(std::mem::replace(&mut self.served, parked));
        }
        let now = self.shared.clock.now();
        match (begun.in_shadow, &mut self.shadow) {
            (true, Some(lane)) => lane.begin(generation, io, now),
            (true, None) => {}
            (false, _) => {
                self.in_force = generation;
                self.served.begin(generation, io, now);
            }
        }
    }

    /// Whether a run in a shadow is to replace what is served, so that a run of the old factory has no place.
    fn is_superseded(&self) -> bool {
        self.shadow.is_some() && self.served.factory().spec().restart == RestartMode::Shadow
    }

    fn prepare(&mut self, which: Which) -> (RunOrder, RunReceiver, RegistryIo) {
        self.last = self.last.next();
        let generation = self.last;
        let run = Run { registry: self.name.clone(), generation };
        let (out, receiver) =
            update_channel(run, Arc::clone(&self.shared.clock), Arc::clone(&self.shared.wake));
        let (confirm, confirms) = confirm_channel();
        let lane = self.shadow.as_ref().filter(|_| which == Which::Shadow).unwrap_or(&self.served);
        let order = RunOrder { spec: lane.factory().spec(), generation, replaces: self.in_force };
        (order, RunReceiver::new(receiver, Some(confirm)), RegistryIo { out, confirms, held: Arc::from([]) })
    }

    async fn ended(&mut self, which: Which, end: &End) {
        let now = self.shared.clock.now();
        let lane = match (which, &mut self.shadow) {
            (Which::Shadow, Some(lane)) => lane,
            (Which::Shadow, None) => return,
            (Which::Served, _) => &mut self.served,
        };
        let wait = lane.retreat(end, now, &mut self.chance);
        let failures = lane.failures();
        tracing::warn!(
            registry = %self.name, generation = %end.generation, code = %Code::REGISTRY_FAILED,
            reason = %end.reason, retry_in = wait.map(tracing::field::debug), "a run failed; what it said stays served"
        );
        RuntimeCounters::add(&self.shared.counters.failures, 1);
        RuntimeCounters::add(&self.shared.counters.panics, usize::from(end.panicked));
        let (name, why) = (self.name.clone(), end.reason.shared());
        let _ = self.shared.orders.send(CoreCommand::Ended { name, generation: end.generation, why }).await;
        self.shared.reports.update(&self.name, |report, _| {
            report.failures = failures;
            report.last_error = Some((Code::REGISTRY_FAILED, end.reason.clone(), now));
        });
        if which == Which::Shadow && end.final_ {
            self.give_up_shadow();
        }
    }

    /// A rotation failed for good: the factory that served before it runs again.
    fn give_up_shadow(&mut self) {
        let other = |lane: &RunSequence| !Arc::ptr_eq(&lane.factory(), &self.served.factory());
        if self.served.is_parked() && self.shadow.as_ref().is_some_and(other) {
            self.shadow = None;
            self.served.resume();
        }
    }

    fn report(&self) {
        let shadow = self.shadow.as_ref().map(|lane| (lane.generation, lane.shown()));
        // while what serves has no run of its own, the run that is to replace it is the registry's run
        let current = self.shadow.as_ref().filter(|_| self.served.is_parked()).unwrap_or(&self.served);
        self.shared.reports.update(&self.name, |report, updates| {
            report.state = current.shown();
            report.generation = self.in_force;
            report.failures = current.failures();
            report.shadow = shadow;
            if let Some(running) = current.updates() {
                *updates = Some(running.clone());
            }
        });
    }

    fn count_dropped(&self, dropped: bool) {
        RuntimeCounters::add(&self.shared.counters.dropped, usize::from(dropped));
    }

    /// Stops everything, each lane with its grace, then lets go.
    async fn end(mut self, leaving: Option<Reply>) {
        if let Some(shadow) = self.shadow.take() {
            self.close(shadow);
        }
        let stopped = self.served.stop(self.shared.config.stop_grace).await;
        let mut dropped = usize::from(!stopped);
        while let Some(stopped) = self.closing.join_next().await {
            dropped += usize::from(!stopped.unwrap_or(false));
        }
        RuntimeCounters::add(&self.shared.counters.dropped, dropped);
        self.shared.reports.forget(&self.name);
        let Some(reply) = leaving else { return };
        let (done, answer) = oneshot::channel();
        let leave = CoreCommand::Leave { name: self.name, evidence: Evidence::Operator, reply: done };
        let _ = self.shared.orders.send(leave).await;
        let _ = answer.await;
        let _ = reply.send(Ok(()));
    }
}

async fn shadow_event(shadow: &mut Option<RunSequence>) -> RunSequenceEvent {
    match shadow {
        Some(lane) => lane.event().await,
        None => std::future::pending().await,
    }
}
