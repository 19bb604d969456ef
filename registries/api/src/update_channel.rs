//! The way in: takes what a run says, conflates it, stamps it, and wakes the pump.
//!
//! Owned per run by the supervisor; the run holds the [`UpdateSender`], the pump the [`UpdateReceiver`]. Sending
//! is synchronous and never waits for the pump, so a slow core never stalls a watch. What
//! [`UpdateReceiver::take`] returns leads the core to the state that the raw words would have led to, and
//! is to be applied whole: lists are never split over turns by the inlet.

mod pending;
mod pending_update;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_model::{
    Basis, Evidence, Fact, FactKey, Generation, RegistryName, RegistryUpdate, Scope, Stamped,
};

use crate::clock::Clock;
use pending::Pending;

/// Wakes the pump. All inlets of one server share one.
pub type Wake = Arc<Notify>;

/// Who speaks through an inlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The registry.
    pub registry: RegistryName,
    /// Which of its runs.
    pub generation: Generation,
}

/// What an inlet has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdateStats {
    /// Words sent.
    pub received: u64,
    /// Words that the core never hears because a later one said the same or more.
    pub conflated: u64,
    /// Words refused because the run was over.
    pub late: u64,
}

#[derive(Default)]
struct Counters {
    received: AtomicU64,
    conflated: AtomicU64,
    late: AtomicU64,
}

struct Channel {
    run: Run,
    clock: Arc<dyn Clock>,
    wake: Wake,
    pending: Mutex<Pending>,
    closed: AtomicBool,
    counters: Counters,
}

/// The run's end. Clones speak for the same run.
#[derive(Clone)]
pub struct UpdateSender(Arc<Channel>);

/// The pump's end. Dropping it closes the inlet: what a run says after its end is refused.
pub struct UpdateReceiver(Arc<Channel>);

/// A pair of ends for one run.
#[must_use]
pub fn update_channel(run: Run, clock: Arc<dyn Clock>, wake: Wake) -> (UpdateSender, UpdateReceiver) {
    let channel = Arc::new(Channel {
        run,
        clock,
        wake,
        pending: Mutex::default(),
        closed: AtomicBool::new(false),
        counters: Counters::default(),
    });
    (UpdateSender(Arc::clone(&channel)), UpdateReceiver(channel))
}

impl UpdateSender {
    /// Says one thing. False when the run is over and nobody listens.
    pub fn send(&self, delta: RegistryUpdate) -> bool {
        self.send_all([delta])
    }
    /// Says several things that belong together: they reach the core in one turn.
    pub fn send_all(&self, deltas: impl IntoIterator<Item = RegistryUpdate>) -> bool {
        let at = self.0.clock.now();
        let mut pending = self.0.pending.lock();
        // read under the lock: `close` takes what is pending after it has set the flag
        let open = !self.0.closed.load(Ordering::Acquire);
        let (mut sent, before) = (0, pending.conflated());
        for delta in deltas {
            sent += 1;
            if open {
                pending.push(at, delta);
            }
        }
        let conflated = pending.conflated() - before;
        drop(pending);
        let counters = &self.0.counters;
        let counter = if open { &counters.received } else { &counters.late };
        counter.fetch_add(sent, Ordering::Relaxed);
        counters.conflated.fetch_add(conflated, Ordering::Relaxed);
        if open {
            self.0.wake.notify_one();
        }
        open
    }
    /// This fact is now so, by the source's own word.
    pub fn put(&self, scope: Scope, fact: Fact) -> bool {
        self.send(RegistryUpdate::Put(scope, fact, Basis::Authoritative))
    }
    /// This fact is no more.
    pub fn remove(&self, key: FactKey, evidence: Evidence) -> bool {
        self.send(RegistryUpdate::Remove(key, evidence))
    }
    /// Who speaks.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.0.run
    }
    /// Whether nobody listens any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> UpdateStats {
        self.0.stats()
    }
}

impl std::fmt::Debug for UpdateSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inlet({} generation {})", self.0.run.registry, self.0.run.generation)
    }
}

impl UpdateReceiver {
    /// All that is pending, in an order that may be applied; empty when nothing is, or when a
    /// sender is at it this very moment. In that case the sender wakes the pump when it is done:
    /// the owner of the core waits for no lock.
    #[must_use]
    pub fn take(&mut self) -> Vec<Stamped<RegistryUpdate>> {
        let Some(mut guard) = self.0.pending.try_lock() else { return Vec::new() };
        let pending = std::mem::take(&mut *guard);
        drop(guard);
        self.stamp(pending)
    }
    /// Closes the inlet and returns what was said before. Called once a run has ended, so that
    /// there is hardly a sender left to wait for.
    #[must_use]
    pub fn close(&mut self) -> Vec<Stamped<RegistryUpdate>> {
        self.0.closed.store(true, Ordering::Release);
        let pending = std::mem::take(&mut *self.0.pending.lock());
        self.stamp(pending)
    }
    /// Who speaks.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.0.run
    }
    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> UpdateStats {
        self.0.stats()
    }
    fn stamp(&self, pending: Pending) -> Vec<Stamped<RegistryUpdate>> {
        let Run { registry, generation } = &self.0.run;
        let stamped =
            |(at, value)| Stamped { registry: registry.clone(), generation: *generation, at, value };
        pending.into_words().map(stamped).collect()
    }
}

impl Drop for UpdateReceiver {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for UpdateReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outlet({} generation {})", self.0.run.registry, self.0.run.generation)
    }
}

impl Channel {
    fn stats(&self) -> UpdateStats {
        let Counters { received, conflated, late } = &self.counters;
        UpdateStats {
            received: received.load(Ordering::Relaxed),
            conflated: conflated.load(Ordering::Relaxed),
            late: late.load(Ordering::Relaxed),
        }
    }
}
