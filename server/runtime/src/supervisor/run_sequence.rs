//! Successive runs of one factory: the served sequence, or the shadow that may replace it.
//!
//! A member owns it. Dropping a sequence drops its run.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tributary_core::RunGroup;
use tributary_model::{Generation, Mono};
use tributary_registry_api::{
    Backoff, BackoffPolicy, RandomSource, Reason, RegistryError, RegistryFactory, RegistryIo, UpdateSender,
};

use crate::report::RunState;

/// A run in progress.
struct Running {
    generation: Generation,
    task: JoinSet<Result<(), RegistryError>>,
    stop: CancellationToken,
    began: Mono,
    updates: UpdateSender,
}

enum State {
    Running(Running),
    Waiting { until: Instant, shown: Mono },
    Parked,
}

/// How a run ended.
pub(super) struct End {
    pub(super) generation: Generation,
    pub(super) reason: Reason,
    pub(super) panicked: bool,
    pub(super) final_: bool,
    began: Mono,
}

/// Next action of the member for a sequence.
pub(super) enum RunSequenceEvent {
    /// Begin the next run.
    Due,
    /// A run ended without a stop request.
    Ended(End),
}

pub(super) struct RunSequence {
    factory: Arc<dyn RegistryFactory>,
    backoff: Backoff,
    state: State,
    pub(super) generation: Generation,
    /// Runs of other registries with which its first run begins to serve; `None` once it serves.
    pub(super) group: Option<RunGroup>,
}

impl RunSequence {
    /// Creates a sequence without a run and without a due run.
    pub(super) fn parked(factory: Arc<dyn RegistryFactory>, policy: BackoffPolicy) -> Self {
        let state = State::Parked;
        Self { factory, backoff: Backoff::new(policy), state, generation: Generation(0), group: None }
    }
    /// Sets the group of its first run.
    pub(super) fn of_group(self, group: Option<RunGroup>) -> Self {
        Self { group, ..self }
    }
    /// Begins no run until it is resumed.
    pub(super) fn park(&mut self) {
        self.state = State::Parked;
    }
    /// Whether no run is in progress or due.
    pub(super) const fn is_parked(&self) -> bool {
        matches!(self.state, State::Parked)
    }
    /// Makes the next run due at once.
    pub(super) fn resume(&mut self) {
        self.state = State::Waiting { until: Instant::now(), shown: Mono(0) };
    }
    /// Returns the factory of its runs.
    pub(super) fn factory(&self) -> Arc<dyn RegistryFactory> {
        Arc::clone(&self.factory)
    }
    /// Creates a sequence whose first run is due at once.
    pub(super) fn new(factory: Arc<dyn RegistryFactory>, policy: BackoffPolicy) -> Self {
        let state = State::Waiting { until: Instant::now(), shown: Mono(0) };
        Self { factory, backoff: Backoff::new(policy), state, generation: Generation(0), group: None }
    }
    /// Returns the next event. Cancel-safe.
    pub(super) async fn event(&mut self) -> RunSequenceEvent {
        match &mut self.state {
            State::Parked => std::future::pending().await,
            State::Waiting { until, .. } => {
                tokio::time::sleep_until(*until).await;
                RunSequenceEvent::Due
            }
            State::Running(running) => {
                let ended = running.task.join_next().await;
                let (generation, began) = (running.generation, running.began);
                RunSequenceEvent::Ended(end_of(ended, generation, began))
            }
        }
    }
    /// Spawns the next run. The run builds the registry itself, so a panic of the factory is contained too.
    pub(super) fn begin(&mut self, generation: Generation, io: RegistryIo, now: Mono) {
        let (factory, stop) = (Arc::clone(&self.factory), CancellationToken::new());
        let (updates, stopped) = (io.out.clone(), stop.clone());
        let mut task = JoinSet::new();
        task.spawn(async move { factory.build()?.run(io, stopped).await });
        self.generation = generation;
        self.state = State::Running(Running { generation, task, stop, began: now, updates });
    }
    /// Schedules the next run after an end, or parks after a permanent failure. Returns the delay.
    pub(super) fn schedule_retry(
        &mut self,
        end: &End,
        now: Mono,
        random: &mut dyn RandomSource,
    ) -> Option<Duration> {
        let delay = self.backoff.next_after(now.since(end.began), random);
        self.state = if end.final_ {
            State::Parked
        } else {
            State::Waiting { until: Instant::now() + delay, shown: now.plus(delay) }
        };
        (!end.final_).then_some(delay)
    }
    pub(super) fn failures(&self) -> u32 {
        self.backoff.failures()
    }
    pub(super) const fn shown(&self) -> RunState {
        match &self.state {
            State::Running(_) => RunState::Running,
            State::Waiting { shown, .. } => RunState::Waiting { until: *shown },
            State::Parked => RunState::Parked,
        }
    }
    pub(super) fn updates(&self) -> Option<&UpdateSender> {
        match &self.state {
            State::Running(running) => Some(&running.updates),
            State::Waiting { .. } | State::Parked => None,
        }
    }
    /// Stops the run and waits for it; false if it had to be dropped.
    pub(super) async fn stop(self, grace: Duration) -> bool {
        let State::Running(mut running) = self.state else { return true };
        running.stop.cancel();
        let stopped = tokio::time::timeout(grace, running.task.join_next()).await.is_ok();
        running.task.shutdown().await;
        stopped
    }
}

fn end_of(
    ended: Option<Result<Result<(), RegistryError>, JoinError>>,
    generation: Generation,
    began: Mono,
) -> End {
    let (reason, panicked, final_) = match ended {
        Some(Ok(Err(RegistryError::Final(reason)))) => (reason, false, true),
        Some(Ok(Err(RegistryError::Retryable(reason)))) => (reason, false, false),
        Some(Err(error)) if error.is_panic() => (panic_reason(&*error.into_panic()), true, false),
        Some(Ok(Ok(()))) | Some(Err(_)) | None => {
            (Reason::new("the run ended without a stop request"), false, false)
        }
    };
    End { generation, reason, panicked, final_, began }
}

fn panic_reason(payload: &(dyn Any + Send)) -> Reason {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Reason::new(format_args!("the adapter panicked: {}", message.unwrap_or("no message")))
}
