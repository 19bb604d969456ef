//! Writes that one replica of several makes: while it leads, a few at a time, with pauses after refusals.
//!
//! Owned and polled by whoever knows what is due, who asks for the next [`QueueEvent`], acts on it at once, and asks
//! again. Which write may go when is decided in [`queue`], without I/O; here is what it waits for. A turn that is
//! dropped while it waits loses nothing, and what is under way goes on when the next is asked for.

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

/// What came of a write.
pub type Outcome = Result<(), ApiFailure>;

/// Makes one write.
pub type Sends<W> = Box<dyn Fn(&W) -> BoxFuture<'static, Outcome> + Send>;

/// How a duty is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePolicy {
    /// So long are changes gathered before what is due is looked for.
    pub gather: Duration,
    /// So many writes are under way at once.
    pub at_once: usize,
    /// What is due is looked for again when no more than so many writes are left.
    pub left: usize,
    /// Whether nothing at all is done in the pause after a refusal. Else whoever plans leaves out what was
    /// refused until [`QueueEvent::Again`], and the others go on.
    pub halts: bool,
}

/// What is to be done about a duty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueEvent<W> {
    /// Look for what is due, and [add](LeaderWorkQueue::add) it.
    Plan,
    /// What was refused may be tried again; [`QueueEvent::Plan`] follows.
    Again,
    /// This came of a write. After a refusal there is a pause, whether or not this one is due again.
    Done(W, Outcome),
    /// Writes may not be made any more, and all that was added is forgotten. What was sent may still arrive; it
    /// shows in the objects then, to us as to whoever is next.
    Resigned,
}

/// The writes that are this replica's to make while it leads.
pub struct LeaderWorkQueue<W> {
    queue: Queue<W>,
    leads: watch::Receiver<bool>,
    send: Sends<W>,
    sent: FuturesUnordered<BoxFuture<'static, (W, Outcome)>>,
    start: Instant,
}

impl<W: Send + 'static> LeaderWorkQueue<W> {
    /// Nothing is added yet. What is due is looked for when this replica begins to lead.
    #[must_use]
    pub fn new(pace: QueuePolicy, leads: watch::Receiver<bool>, send: Sends<W>, chance: SplitMix) -> Self {
        let queue = Queue::new(pace, chance);
        Self { queue, leads, send, sent: FuturesUnordered::new(), start: Instant::now() }
    }
    /// Something may have become due.
    pub fn plan_soon(&mut self) {
        self.queue.plan_soon(self.now());
    }
    /// These are due.
    pub fn add(&mut self, writes: impl IntoIterator<Item = W>) {
        self.queue.add(writes);
    }

    /// The next turn. `ready` says whether enough is known to write anything.
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
        // whoever decided has ended: nothing changes any more
        std::future::pending::<()>().await;
    }
}
