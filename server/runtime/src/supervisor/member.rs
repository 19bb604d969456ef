//! One registry: its served runs, the shadow while it rotates, and its removal.
//!
//! Generations only grow, over both sequences, so late updates of any ended run are rejected.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_core::{RunGroup, RunOrder};
use tributary_model::{Code, Generation, RegistryName, RestartMode};
use tributary_registry_api::{RegistryFactory, RegistryIo, Run, SplitMix, confirm_channel, update_channel};

use super::Shared;
use super::run_sequence::{End, RunSequence, RunSequenceEvent};
use crate::core_task::CoreCommand;
use crate::core_task::receivers::{RunReceiver, RunRole};
use crate::counters::RuntimeCounters;
use crate::report::RunState;

/// A command for a member.
pub(super) enum ToMember {
    Rotate(Arc<dyn RegistryFactory>, Option<RunGroup>),
    /// Begins a new run of the same factory, which lists the source again.
    Restart,
    /// Stops every run until the next rotation, for this reason.
    Pause(Arc<str>),
    Leave(Leave),
}

/// Removal of a member, perhaps together with others.
pub(super) struct Leave {
    /// Sent when its runs have stopped.
    pub(super) stopped: oneshot::Sender<()>,
    /// Cancelled when the core has removed the facts.
    pub(super) withdrawn: CancellationToken,
}

pub(super) struct Member {
    name: RegistryName,
    shared: Shared,
    commands: mpsc::Receiver<ToMember>,
    adoptions: watch::Receiver<Generation>,
    served: RunSequence,
    shadow: Option<RunSequence>,
    /// Whether the shadow is to replace a served run because of a rotation, not because that run ended or the server
    /// started.
    is_rotating: bool,
    /// Whether it has no run until the next rotation.
    is_paused: bool,
    closing: JoinSet<bool>,
    last: Generation,
    /// Generation of the run that the core serves, as far as this member knows.
    in_force: Generation,
    random: SplitMix,
}

impl Member {
    pub(super) fn new(
        name: RegistryName,
        (factory, group): (Arc<dyn RegistryFactory>, Option<RunGroup>),
        shared: Shared,
        commands: mpsc::Receiver<ToMember>,
        adoptions: watch::Receiver<Generation>,
    ) -> Self {
        let seed = name.as_str().bytes().fold(shared.config.seed, |s, b| s.rotate_left(7) ^ u64::from(b));
        Self {
            served: RunSequence::new(factory, shared.config.backoff).of_group(group),
            shadow: None,
            is_rotating: false,
            is_paused: false,
            closing: JoinSet::new(),
            last: Generation(0),
            in_force: Generation(0),
            random: SplitMix::seeded(seed),
            name,
            shared,
            commands,
            adoptions,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let leaving = self.live(&stop).await;
        self.shared.reports.update(&self.name, |report, _| report.state = RunState::Stopping);
        self.end(leaving).await;
    }

    /// Runs until it stops or is removed; returns the removal.
    async fn live(&mut self, stop: &CancellationToken) -> Option<Leave> {
        loop {
            self.report();
            let (role, event) = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                order = self.commands.recv() => match order {
                    None => return None,
                    Some(ToMember::Leave(leave)) => return Some(leave),
                    Some(ToMember::Rotate(factory, group)) => {
                        self.rotate(factory, group);
                        continue;
                    }
                    Some(ToMember::Pause(why)) => {
                        self.pause(why).await;
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
                event = self.served.event() => (RunRole::Served, event),
                event = shadow_event(&mut self.shadow) => (RunRole::Shadow, event),
            };
            match event {
                RunSequenceEvent::Due => self.begin(role).await,
                RunSequenceEvent::Ended(end) => self.ended(role, &end).await,
            }
        }
    }

    fn rotate(&mut self, factory: Arc<dyn RegistryFactory>, group: Option<RunGroup>) {
        tracing::info!(registry = %self.name, "rotation started; the previous run serves until the new run syncs");
        (self.is_rotating, self.is_paused) = (true, false);
        let sequence = RunSequence::new(factory, self.shared.config.backoff).of_group(group);
        if let Some(replaced) = self.shadow.replace(sequence) {
            self.close(replaced);
        }
    }

    /// Replaces the served run by one that lists its source from the start. A run in a shadow does that anyway.
    fn restart(&mut self) {
        let factory = self.served.factory();
        if self.served.is_parked() || self.is_superseded() {
            return;
        }
        if factory.spec().restart == RestartMode::Shadow {
            return self.rotate(factory, None);
        }
        tracing::info!(registry = %self.name, "registry run restarted; it lists the source again");
        let sequence = RunSequence::new(factory, self.shared.config.backoff);
        let replaced = std::mem::replace(&mut self.served, sequence);
        self.close(replaced);
    }

    /// Stops the shadow first, so that a weaker one does not take over from the served run that ends.
    async fn pause(&mut self, why: Arc<str>) {
        tracing::info!(registry = %self.name, reason = %why, "registry paused; its facts stay");
        let parked = RunSequence::parked(self.served.factory(), self.shared.config.backoff);
        let served = std::mem::replace(&mut self.served, parked);
        (self.is_rotating, self.is_paused) = (false, true);
        for sequence in self.shadow.take().into_iter().chain([served]) {
            let (name, generation, why) = (self.name.clone(), sequence.generation, Arc::clone(&why));
            // The core task ends only when the server stops, which the loop sees next.
            let _ = self.shared.commands.send(CoreCommand::Ended { name, generation, why }).await;
            self.close(sequence);
        }
    }

    fn adopted(&mut self) {
        let generation = *self.adoptions.borrow_and_update();
        // A served run may have begun after the shadow that now replaces it, so this may not be the highest.
        self.in_force = generation;
        if let Some(mut sequence) = self.shadow.take_if(|sequence| sequence.generation == generation) {
            sequence.group = None;
            if std::mem::take(&mut self.is_rotating) {
                tracing::info!(registry = %self.name, %generation, "rotation finished; the new run serves");
            }
            let replaced = std::mem::replace(&mut self.served, sequence);
            self.close(replaced);
        }
    }

    fn close(&mut self, sequence: RunSequence) {
        let grace = self.shared.config.stop_grace;
        self.closing.spawn(sequence.stop(grace));
    }

    /// Begins the next run of a sequence, if the core permits it.
    async fn begin(&mut self, role: RunRole) {
        if role == RunRole::Served && self.is_superseded() {
            return self.served.park();
        }
        let (run, receiver, io) = self.prepare(role);
        let (generation, in_force) = (run.generation, run.replaces);
        let (reply, answer) = oneshot::channel();
        // The core task ends only when the server stops, which the loop sees next.
        let _ = self.shared.commands.send(CoreCommand::Begin { run, role, receiver, reply }).await;
        let begun = match answer.await {
            Ok(Ok(begun)) => begun,
            Ok(Err(refused)) => {
                tracing::debug!(registry = %self.name, %in_force, %refused, "run rejected because another run is in force; retrying");
                self.adopted();
                self.in_force = refused.in_force;
                return;
            }
            Err(_) => return,
        };
        RuntimeCounters::add(&self.shared.counters.runs, 1);
        let io = RegistryIo { held: begun.held, ..io };
        if begun.in_shadow && role == RunRole::Served {
            let parked = RunSequence::parked(self.served.factory(), self.shared.config.backoff);
            self.shadow = Some(std::mem::replace(&mut self.served, parked));
            self.is_rotating = false;
        }
        let now = self.shared.clock.now();
        match (begun.in_shadow, &mut self.shadow) {
            (true, Some(sequence)) => sequence.begin(generation, io, now),
            (true, None) => {}
            (false, _) => {
                self.in_force = generation;
                self.served.group = None;
                self.served.begin(generation, io, now);
            }
        }
    }

    /// Whether a shadow is to replace the served run, so that the old factory must not begin another run.
    fn is_superseded(&self) -> bool {
        self.shadow.is_some() && self.served.factory().spec().restart == RestartMode::Shadow
    }

    fn prepare(&mut self, role: RunRole) -> (RunOrder, RunReceiver, RegistryIo) {
        self.last = self.last.next();
        let generation = self.last;
        let run = Run { registry: self.name.clone(), generation };
        let (out, receiver) =
            update_channel(run, Arc::clone(&self.shared.clock), Arc::clone(&self.shared.wake));
        let (confirm, confirms) = confirm_channel();
        let sequence = self.shadow.as_ref().filter(|_| role == RunRole::Shadow).unwrap_or(&self.served);
        let (spec, group) = (sequence.factory().spec(), sequence.group.clone());
        let order = RunOrder { spec, generation, replaces: self.in_force, group };
        (order, RunReceiver::new(receiver, Some(confirm)), RegistryIo { out, confirms, held: Arc::from([]) })
    }

    async fn ended(&mut self, role: RunRole, end: &End) {
        let now = self.shared.clock.now();
        let sequence = match (role, &mut self.shadow) {
            (RunRole::Shadow, Some(sequence)) => sequence,
            (RunRole::Shadow, None) => return,
            (RunRole::Served, _) => &mut self.served,
        };
        let wait = sequence.schedule_retry(end, now, &mut self.random);
        let failures = sequence.failures();
        self.log_failure(end, wait);
        RuntimeCounters::add(&self.shared.counters.failures, 1);
        RuntimeCounters::add(&self.shared.counters.panics, usize::from(end.panicked));
        let (name, why) = (self.name.clone(), end.reason.shared());
        let _ = self.shared.commands.send(CoreCommand::Ended { name, generation: end.generation, why }).await;
        self.shared.reports.update(&self.name, |report, _| {
            report.failures = failures;
            report.last_error = Some((Code::REGISTRY_FAILED, end.reason.clone(), now));
        });
        if role == RunRole::Shadow && end.final_ {
            self.abandon_shadow();
        }
    }

    fn log_failure(&self, end: &End, retry_in: Option<Duration>) {
        let (generation, reason, code) = (end.generation, &end.reason, Code::REGISTRY_FAILED);
        match retry_in {
            Some(retry_in) => tracing::warn!(
                registry = %self.name, %generation, %code, %reason, ?retry_in, "registry run failed; a new run follows"
            ),
            None => tracing::warn!(
                registry = %self.name, %generation, %code, %reason,
                "registry run failed; no run follows until its configuration or credential changes"
            ),
        }
    }

    /// Resumes the previous factory after a rotation failed permanently.
    fn abandon_shadow(&mut self) {
        let differs = |sequence: &RunSequence| !Arc::ptr_eq(&sequence.factory(), &self.served.factory());
        if self.served.is_parked() && self.shadow.as_ref().is_some_and(differs) {
            (self.shadow, self.is_rotating) = (None, false);
            self.served.resume();
        }
    }

    fn report(&self) {
        let shadow = self.shadow.as_ref().map(|sequence| (sequence.generation, sequence.shown()));
        // While the served sequence has no run of its own, the shadow is the registry's run.
        let current = self.shadow.as_ref().filter(|_| self.served.is_parked()).unwrap_or(&self.served);
        self.shared.reports.update(&self.name, |report, updates| {
            report.state = if self.is_paused { RunState::Paused } else { current.shown() };
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

    /// Stops everything, each run with its grace, and keeps the name until the facts are removed, if it leaves.
    async fn end(mut self, leaving: Option<Leave>) {
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
        let Some(Leave { stopped, withdrawn }) = leaving else { return };
        // the receiver ends only with the supervisor
        let _ = stopped.send(());
        withdrawn.cancelled().await;
    }
}

async fn shadow_event(shadow: &mut Option<RunSequence>) -> RunSequenceEvent {
    match shadow {
        Some(sequence) => sequence.event().await,
        None => std::future::pending().await,
    }
}
