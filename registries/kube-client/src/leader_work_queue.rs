//! Queue of writes that only the leading replica makes: limited concurrency, with pauses after refusals.
//!
//! Owned by a component that knows what is due: it awaits the next [`QueueEvent`], acts on it at once, and awaits again.
//! [`queue`] decides which write is next, without I/O; this module waits and sends. [`LeaderWorkQueue::next`] is
//! cancel-safe: writes in flight continue with the next call.

mod queue;

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tributary_model::Mono;
use tributary_registry_api::SplitMix;

use crate::watch::ApiFailure;
use queue::{Queue, QueueStep};

/// Result of a write.
pub type Outcome = Result<(), ApiFailure>;

/// Performs one write.
pub type Sends<W> = Box<dyn Fn(&W) -> BoxFuture<'static, Outcome> + Send>;

/// Limits and delays of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Delay between the first change and the plan, to gather changes.
    pub gather: Duration,
    /// Largest number of writes in flight.
    pub at_once: usize,
    /// A new plan is made when at most this number of writes remain.
    pub left: usize,
    /// Whether a refusal stops all writes during its pause. Otherwise the planner excludes the refused write until
    /// [`QueueEvent::Again`], and the others continue.
    pub halts: bool,
}

/// Event for the owner of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueEvent<W> {
    /// Compute what is due and [add](LeaderWorkQueue::add) it.
    Plan,
    /// Refused writes may be retried; [`QueueEvent::Plan`] follows.
    Again,
    /// A write ended. A refusal starts a pause, whether or not this write is due again.
    Done(W, Outcome),
    /// The leadership ended, and the queue is empty. Writes in flight may still arrive; they then show in the
    /// objects, to this replica and to the next leader.
    Resigned,
}

/// Writes that this replica makes while it leads.
pub struct LeaderWorkQueue<W> {
    queue: Queue<W>,
    leads: watch::Receiver<bool>,
    send: Sends<W>,
    sent: FuturesUnordered<BoxFuture<'static, (W, Outcome)>>,
    start: Instant,
}

impl<W: Send + 'static> LeaderWorkQueue<W> {
    /// Creates an empty queue. The first plan is requested when this replica begins to lead.
    #[must_use]
    pub fn new(pace: QueuePolicy, leads: watch::Receiver<bool>, send: Sends<W>, random: SplitMix) -> Self {
        let queue = Queue::new(pace, random);
        Self { queue, leads, send, sent: FuturesUnordered::new(), start: Instant::now() }
    }
    /// Requests a plan after the gather delay.
    pub fn plan_soon(&mut self) {
        self.queue.plan_soon(self.now());
    }
    /// Adds due writes.
    pub fn add(&mut self, writes: impl IntoIterator<Item = W>) {
        self.queue.add(writes);
    }

    /// Returns the next event. `ready` is whether enough is known to write.
    pub async fn next(&mut self, ready: bool) -> QueueEvent<W> {
        loop {
            let open = ready && *self.leads.borrow_and_update();
            if self.queue.open(open, self.now()) {
                self.sent.clear();
                return QueueEvent::Resigned;
            }
            let until = match self.queue.next(self.now()) {
                QueueStep::Plan => return QueueEvent::Plan,
                QueueStep::Again => return QueueEvent::Again,
                QueueStep::Send(write) => {
                    self.send(write);
                    continue;
                }
                QueueStep::Wait(until) => until.map(|at| self.start + Duration::from_millis(at.0)),
            };
            tokio::select! {
                biased;
                Some((write, outcome)) = self.sent.next(), if !self.sent.is_empty() => {
                    self.queue.answered(outcome.is_ok(), self.now());
                    return QueueEvent::Done(write, outcome);
                }
                () = at(until) => {}
                () = changed(&mut self.leads) => {}
            }
        }
    }

    fn send(&self, write: W) {
        let sent = (self.send)(&write);
        self.sent.push(Box::pin(async move { (write, sent.await) }));
    }
    fn now(&self) -> Mono {
        Mono::from_elapsed(self.start.elapsed())
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

async fn changed(leads: &mut watch::Receiver<bool>) {
    if leads.changed().await.is_err() {
        // the election task has ended: leadership no longer changes
        std::future::pending::<()>().await;
    }
}
