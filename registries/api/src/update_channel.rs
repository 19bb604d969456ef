//! Channel of updates from a run to the core task: conflates, stamps, and wakes the core task.
//!
//! The supervisor creates one per run; the run holds the [`UpdateSender`], the core task the [`UpdateReceiver`].
//! Sending is synchronous and never waits for the core task, so a slow core never blocks a watch. The updates of
//! one [`UpdateReceiver::take`] give the core the same state as the raw updates. The core task applies them in
//! one batch, so the channel never splits a list between batches.

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

/// Wakes the core task. All update channels of one server share one.
pub type Wake = Arc<Notify>;

/// Run that owns an update channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Registry.
    pub registry: RegistryName,
    /// Number of the run.
    pub generation: Generation,
}

/// Counters of an update channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdateStats {
    /// Updates sent.
    pub received: u64,
    /// Updates that later updates replaced before the core took them.
    pub conflated: u64,
    /// Updates rejected because the run had ended.
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

/// Sending half of a run's update channel. Clones share the run.
#[derive(Clone)]
pub struct UpdateSender(Arc<Channel>);

/// Receiving half, owned by the core task. Dropping it closes the channel: later updates are rejected.
pub struct UpdateReceiver(Arc<Channel>);

/// Creates the channel of one run.
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
    /// Sends one update. Returns false if the channel is closed.
    pub fn send(&self, update: RegistryUpdate) -> bool {
        self.send_all([update])
    }
    /// Sends several updates that belong together: they reach the core in one batch.
    pub fn send_all(&self, updates: impl IntoIterator<Item = RegistryUpdate>) -> bool {
        let at = self.0.clock.now();
        let mut pending = self.0.pending.lock();
        // read under the lock: `close` takes what is pending after it has set the flag
        let open = !self.0.closed.load(Ordering::Acquire);
        let (mut sent, before) = (0, pending.conflated());
        for update in updates {
            sent += 1;
            if open {
                pending.push(at, update);
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
    /// Sends the current value of a fact, as the source reports it.
    pub fn put(&self, scope: Scope, fact: Fact) -> bool {
        self.send(RegistryUpdate::Put(scope, fact, Basis::Authoritative))
    }
    /// Sends the removal of a fact.
    pub fn remove(&self, key: FactKey, evidence: Evidence) -> bool {
        self.send(RegistryUpdate::Remove(key, evidence))
    }
    /// Returns the run of the channel.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.0.run
    }
    /// Whether the channel is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> UpdateStats {
        self.0.stats()
    }
}

impl std::fmt::Debug for UpdateSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UpdateSender({} generation {})", self.0.run.registry, self.0.run.generation)
    }
}

impl UpdateReceiver {
    /// Takes all pending updates, in an order that the core may apply. Returns an empty list if nothing is
    /// pending or a sender holds the lock. The sender then wakes the core task when it is done, so the core task
    /// never waits for a lock.
    #[must_use]
    pub fn take(&mut self) -> Vec<Stamped<RegistryUpdate>> {
        let Some(mut guard) = self.0.pending.try_lock() else { return Vec::new() };
        let pending = std::mem::take(&mut *guard);
        drop(guard);
        self.stamp(pending)
    }
    /// Closes the channel and returns the pending updates. Called after the run has ended, when senders rarely
    /// hold the lock.
    #[must_use]
    pub fn close(&mut self) -> Vec<Stamped<RegistryUpdate>> {
        self.0.closed.store(true, Ordering::Release);
        let pending = std::mem::take(&mut *self.0.pending.lock());
        self.stamp(pending)
    }
    /// Returns the run of the channel.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.0.run
    }
    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> UpdateStats {
        self.0.stats()
    }
    fn stamp(&self, pending: Pending) -> Vec<Stamped<RegistryUpdate>> {
        let Run { registry, generation } = &self.0.run;
        let stamped =
            |(at, value)| Stamped { registry: registry.clone(), generation: *generation, at, value };
        pending.into_updates().map(stamped).collect()
    }
}

impl Drop for UpdateReceiver {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for UpdateReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UpdateReceiver({} generation {})", self.0.run.registry, self.0.run.generation)
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
