//! One byte budget over all encoded bodies (`core.md` 5).
//!
//! Every body that is encoded is filed here. When their sum exceeds the budget, a hand goes round
//! and drops the bodies that nobody has asked for since it last passed (clock). Versions stay;
//! whoever needs the bytes encodes again. Bytes in the chunks of ropes count too, though only
//! bodies are dropped: a chunk holds a copy of them. Resources whose view is gone leave by themselves: each
//! filing looks at two entries more, so that the dead are never more than the living.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tributary_model::EncodedResource;

use super::counters::Counters;

/// The budget and what is held under it.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    ring: Mutex<Ring>,
    copies: Arc<Copies>,
}

/// How many bytes the chunks of ropes have.
#[derive(Debug, Default)]
pub struct Copies(AtomicU64);

impl Copies {
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

/// What the hand does at an entry.
enum Step {
    Leave,
    Gone,
    Drop,
}

impl Budget {
    /// What is held unless somebody says otherwise.
    pub const DEFAULT: u64 = 1 << 30;

    /// A budget of this many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit, ring: Mutex::default(), copies: Arc::default() }
    }
    /// Files a body, and drops others where there are too many.
    pub fn file(&self, resource: &Arc<EncodedResource>, counters: &Counters) {
        let mut ring = self.ring.lock();
        // Before the new one comes: were it looked at, it would be found alive.
        for _ in 0..2 {
            ring.step(false, counters);
        }
        ring.held += u64::from(resource.len);
        ring.entries.push(Entry { resource: Arc::downgrade(resource), len: resource.len });
        // Two rounds: the first may find everything in use.
        let mut left = ring.entries.len() * 2;
        while ring.held + self.copies.get() > self.limit && left > 0 {
            ring.step(true, counters);
            left -= 1;
        }
    }
    /// How many bytes are held, those of resources not yet found gone included.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.ring.lock().held + self.copies.get()
    }
    /// Where the bytes of chunks are counted.
    #[must_use]
    pub fn copies(&self) -> Arc<Copies> {
        Arc::clone(&self.copies)
    }
    /// How many bodies are filed.
    #[must_use]
    pub fn filed(&self) -> usize {
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
            Step::Leave => self.hand += 1,
            Step::Gone => self.remove(),
            Step::Drop => {
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
    fn look(&self, evict: bool) -> Step {
        let Some(resource) = self.resource.upgrade() else { return Step::Gone };
        if !evict || resource.take_used() {
            return Step::Leave;
        }
        resource.evict();
        Step::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_resource(len: usize) -> Arc<EncodedResource> {
        Arc::new(EncodedResource::new("r".into(), vec![7; len].into()))
    }

    #[test]
    fn the_budget_holds_and_what_is_used_stays() {
        let (budget, counters) = (Budget::new(1_000), Counters::default());
        let hot = mk_resource(100);
        budget.file(&hot, &counters);
        let mut cold = Vec::new();
        for _ in 0..50 {
            cold.push(mk_resource(100));
            let _ = hot.body();
            budget.file(cold.last().unwrap(), &counters);
            assert!(budget.held() <= 1_000, "{} held", budget.held());
        }
        assert!(hot.body().is_some(), "what was asked for all the time was dropped");
        let dropped = cold.iter().filter(|r| r.body().is_none()).count();
        assert_eq!(u64::try_from(dropped).unwrap(), counters.evictions.get());
        assert!(dropped >= 40);
    }

    #[test]
    fn resources_that_are_gone_leave_no_trace() {
        let (budget, counters) = (Budget::new(Budget::DEFAULT), Counters::default());
        let held: Vec<_> = (0..10).map(|_| mk_resource(10)).collect();
        held.iter().for_each(|r| budget.file(r, &counters));
        for _ in 0..10_000 {
            budget.file(&mk_resource(10), &counters);
        }
        assert!(budget.filed() <= 40, "{} filed", budget.filed());
        assert_eq!(counters.evictions.get(), 0);
    }
}
