//! One byte budget over all encoded bodies.
//!
//! Every encoded body is registered here. When their sum exceeds the budget, a clock hand evicts the
//! bodies that were not read since its last pass. Versions stay; a later reader encodes the body
//! again. Bytes in the chunks of ropes count too, though only bodies are evicted: a chunk holds
//! copies of them. Entries of dropped resources are removed lazily: each registration checks two
//! entries, so dead entries never outnumber live ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_model::EncodedResource;

use super::counters::Counters;

/// The budget and the bodies that count against it.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    ring: Mutex<Ring>,
    copies: Arc<Copies>,
}

/// Number of bytes in the chunks of ropes and in the runs of route tables.
#[derive(Debug, Default)]
pub struct Copies(AtomicU64);

/// Bytes that count until their last reader drops them.
struct Counted {
    bytes: Vec<u8>,
    copies: Arc<Copies>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.copies.take(self.bytes.len());
    }
}

impl Copies {
    /// Counts bytes while they are referenced.
    pub(crate) fn own(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        self.add(bytes.len());
        Bytes::from_owner(Counted { bytes, copies: Arc::clone(self) })
    }
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    pub(crate) fn take(&self, bytes: usize) {
        self.0.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Ring {
    held: u64,
    hand: usize,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    resource: Weak<EncodedResource>,
    len: u32,
}

/// Action of the hand at an entry.
enum HandAction {
    Keep,
    Remove,
    Evict,
}

impl Budget {
    /// Default limit, in bytes.
    pub const DEFAULT: u64 = 1 << 30;

    /// Creates a budget of this many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit, ring: Mutex::default(), copies: Arc::default() }
    }
    /// Registers a body, and evicts others if the budget is exceeded.
    pub fn register(&self, resource: &Arc<EncodedResource>, counters: &Counters) {
        let mut ring = self.ring.lock();
        // Before the new entry is added: the check would find it alive.
        for _ in 0..2 {
            ring.step(false, counters);
        }
        ring.held += u64::from(resource.len);
        ring.entries.push(Entry { resource: Arc::downgrade(resource), len: resource.len });
        // Two passes: the first may find every body in use.
        let mut left = ring.entries.len() * 2;
        while ring.held + self.copies.get() > self.limit && left > 0 {
            ring.step(true, counters);
            left -= 1;
        }
    }
    /// Returns the number of bytes held, including dropped resources that were not yet removed.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.ring.lock().held + self.copies.get()
    }
    /// Returns the counter of chunk bytes.
    #[must_use]
    pub fn copies(&self) -> Arc<Copies> {
        Arc::clone(&self.copies)
    }
    /// Returns the number of registered bodies.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.ring.lock().entries.len()
    }
}

impl Ring {
    fn step(&mut self, evict: bool, counters: &Counters) {
        if self.hand >= self.entries.len() {
            self.hand = 0;
        }
        let Some(entry) = self.entries.get(self.hand) else { return };
        match entry.look(evict) {
            HandAction::Keep => self.hand += 1,
            HandAction::Remove => self.remove(),
            HandAction::Evict => {
                counters.evictions.one();
                self.remove();
            }
        }
    }
    fn remove(&mut self) {
        let entry = self.entries.swap_remove(self.hand);
        self.held = self.held.saturating_sub(entry.len.into());
    }
}

impl Entry {
    fn look(&self, evict: bool) -> HandAction {
        let Some(resource) = self.resource.upgrade() else { return HandAction::Remove };
        if !evict || resource.take_used() {
            return HandAction::Keep;
        }
        resource.evict();
        HandAction::Evict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_resource(len: usize) -> Arc<EncodedResource> {
        Arc::new(EncodedResource::new("r".into(), vec![7; len].into()))
    }

    #[test]
    fn budget_evicts_only_unused_bodies() {
        let (budget, counters) = (Budget::new(1_000), Counters::default());
        let hot = mk_resource(100);
        budget.register(&hot, &counters);
        let mut cold = Vec::new();
        for _ in 0..50 {
            cold.push(mk_resource(100));
            let _ = hot.body();
            budget.register(cold.last().unwrap(), &counters);
            assert!(budget.held() <= 1_000, "{} held", budget.held());
        }
        assert!(hot.body().is_some(), "a body in constant use was evicted");
        let dropped = cold.iter().filter(|r| r.body().is_none()).count();
        assert_eq!(u64::try_from(dropped).unwrap(), counters.evictions.get());
        assert!(dropped >= 40);
    }

    #[test]
    fn dropped_resources_leave_the_budget() {
        let (budget, counters) = (Budget::new(Budget::DEFAULT), Counters::default());
        let held: Vec<_> = (0..10).map(|_| mk_resource(10)).collect();
        held.iter().for_each(|r| budget.register(r, &counters));
        for _ in 0..10_000 {
            budget.register(&mk_resource(10), &counters);
        }
        assert!(budget.registered() <= 40, "{} registered", budget.registered());
        assert_eq!(counters.evictions.get(), 0);
    }
}
