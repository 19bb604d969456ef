//! The way in: takes what a run says, conflates it, stamps it, and wakes the pump.
//!
//! Owned per run by the supervisor; the run holds the [`Inlet`], the pump the [`Outlet`]. Sending
//! is synchronous and never waits for the pump, so a slow core never stalls a watch. What
//! [`Outlet::take`] returns leads the core to the state that the raw words would have led to, and
//! is to be applied whole: lists are never split over turns by the inlet.

mod pending;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_model::{Basis, Delta, Evidence, Fact, Generation, Key, RegistryName, Scope, Stamped};

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
pub struct InletStats {
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
pub struct Inlet(Arc<Channel>);

/// The pump's end. Dropping it closes the inlet: what a run says after its end is refused.
pub struct Outlet(Arc<Channel>);

/// A pair of ends for one run.
#[must_use]
pub fn inlet(run: Run, clock: Arc<dyn Clock>, wake: Wake) -> (Inlet, Outlet) {
    let channel = Arc::new(Channel {
        run,
        clock,
        wake,
        pending: Mutex::default(),
        closed: AtomicBool::new(false),
        counters: Counters::default(),
    });
    (Inlet(Arc::clone(&channel)), Outlet(channel))
}

impl Inlet {
    /// Says one thing. False when the run is over and nobody listens.
    pub fn send(&self, delta: Delta) -> bool {
        self.send_all([delta])
    }
    /// Says several things that belong together: they reach the core in one turn.
    pub fn send_all(&self, deltas: impl IntoIterator<Item = Delta>) -> bool {
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
        self.send(Delta::Put(scope, fact, Basis::Authoritative))
    }
    /// This fact is no more.
    pub fn remove(&self, key: Key, evidence: Evidence) -> bool {
        self.send(Delta::Drop(key, evidence))
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
    pub fn stats(&self) -> InletStats {
        self.0.stats()
    }
}

impl std::fmt::Debug for Inlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inlet({} generation {})", self.0.run.registry, self.0.run.generation)
    }
}

impl Outlet {
    /// All that is pending, in an order that may be applied; empty when nothing is, or when a
    /// sender is at it this very moment. In that case the sender wakes the pump when it is done:
    /// the owner of the core waits for no lock.
    #[must_use]
    pub fn take(&mut self) -> Vec<Stamped<Delta>> {
        let Some(mut guard) = self.0.pending.try_lock() else { return Vec::new() };
        let pending = std::mem::take(&mut *guard);
        drop(guard);
        self.stamp(pending)
    }
    /// Closes the inlet and returns what was said before. Called once a run has ended, so that
    /// there is hardly a sender left to wait for.
    #[must_use]
    pub fn close(&mut self) -> Vec<Stamped<Delta>> {
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
    pub fn stats(&self) -> InletStats {
        self.0.stats()
    }
    fn stamp(&self, pending: Pending) -> Vec<Stamped<Delta>> {
        let Run { registry, generation } = &self.0.run;
        let stamped =
            |(at, value)| Stamped { registry: registry.clone(), generation: *generation, at, value };
        pending.into_words().map(stamped).collect()
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outlet({} generation {})", self.0.run.registry, self.0.run.generation)
    }
}

impl Channel {
    fn stats(&self) -> InletStats {
        let Counters { received, conflated, late } = &self.counters;
        InletStats {
            received: received.load(Ordering::Relaxed),
            conflated: conflated.load(Ordering::Relaxed),
            late: late.load(Ordering::Relaxed),
        }
    }
}
