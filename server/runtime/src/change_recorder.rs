//! What led to each published generation, for traces.
//!
//! The core task collects it, only if the fan-out has a [`ChangeRecorder`]: without one it costs a check of an option for each batch.
//! The times are those of the recorder. What is collected of a generation is bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_model::{RegistryName, RegistryUpdate, Stamped};

/// Receives what led to each generation. The binary implements it.
pub trait ChangeRecorder: Send + Sync + 'static {
    /// Returns the time since the recorder's start.
    fn now(&self) -> Duration;
    /// Takes a published generation. Never waits: the core task calls it.
    fn published(&self, publication: Publication);
}

/// A published generation, and the batches of updates in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Generation of the catalog.
    pub generation: u64,
    /// Batches that changed something, the first [`Publication::MOST`] of them, in the order in which they were applied.
    pub batches: Vec<AppliedBatch>,
    /// Number of further batches.
    pub more: usize,
    /// Start of the first batch; without one, of the publication.
    pub began: Duration,
    /// Time after the publication.
    pub ended: Duration,
}

impl Publication {
    /// Most batches that are described.
    pub const MOST: usize = 8;
}

/// Updates of one registry that were applied together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedBatch {
    /// The registry.
    pub registry: RegistryName,
    /// When the oldest update was reported.
    pub reported: Duration,
    /// When the core began to apply them.
    pub applied: Duration,
    /// Number of updates.
    pub updates: usize,
    /// Of these, facts.
    pub facts: usize,
    /// Of these, removals and ended scopes.
    pub removals: usize,
    /// Whether a list of a collection is in them.
    pub lists: bool,
}

impl AppliedBatch {
    /// Describes updates that the core begins to apply at `now`, the oldest of which has waited so long.
    pub(crate) fn of(updates: &[Stamped<RegistryUpdate>], now: Duration, waited: Duration) -> Option<Self> {
        let registry = updates.first()?.registry.clone();
        let count = |is: fn(&RegistryUpdate) -> bool| updates.iter().filter(|one| is(&one.value)).count();
        Some(Self {
            registry,
            reported: now.saturating_sub(waited),
            applied: now,
            updates: updates.len(),
            facts: count(|one| matches!(one, RegistryUpdate::Put(..))),
            removals: count(|one| matches!(one, RegistryUpdate::Remove(..) | RegistryUpdate::End(..))),
            lists: count(|one| matches!(one, RegistryUpdate::ListStarted(_) | RegistryUpdate::ListEnded(..)))
                > 0,
        })
    }
    /// Adds the next slice of the same take.
    fn extend(&mut self, next: Self) {
        self.reported = self.reported.min(next.reported);
        self.updates += next.updates;
        self.facts += next.facts;
        self.removals += next.removals;
        self.lists |= next.lists;
    }
}

/// Batches since the last publication.
#[derive(Debug, Default)]
pub(crate) struct ChangeTrace {
    /// Takes of which more slices follow; at most one for each registry.
    open: BTreeMap<RegistryName, AppliedBatch>,
    batches: Vec<AppliedBatch>,
    more: usize,
}

impl ChangeTrace {
    /// Adds a slice of a take. The take counts if its last slice, or an earlier one, changed something.
    pub(crate) fn add(&mut self, batch: AppliedBatch, is_last: bool, has_changed: bool) {
        let whole = match self.open.remove(&batch.registry) {
            Some(mut earlier) => {
                earlier.extend(batch);
                earlier
            }
            None => batch,
        };
        if !is_last && !has_changed {
            self.open.insert(whole.registry.clone(), whole);
        } else if has_changed && self.batches.len() < Publication::MOST {
            self.batches.push(whole);
        } else if has_changed {
            self.more += 1;
        }
    }
    /// Returns the publication of all batches since the last one.
    pub(crate) fn publish(&mut self, generation: u64, began: Duration, ended: Duration) -> Publication {
        let batches = std::mem::take(&mut self.batches);
        let began = batches.first().map_or(began, |first| first.applied);
        Publication { generation, began, ended, batches, more: std::mem::take(&mut self.more) }
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{Collection, CollectionKind, Completeness, Generation, Mono, Scope};

    use super::*;

    const AT: Duration = Duration::from_secs(10);

    fn mk(registry: &str, updates: usize) -> AppliedBatch {
        let collection = Collection { scope: Scope::new("s").unwrap(), kind: CollectionKind::Services };
        let one = |at| Stamped {
            registry: RegistryName::new(registry).unwrap(),
            generation: Generation::default(),
            at: Mono(at),
            value: RegistryUpdate::ListEnded(collection.clone(), Completeness::Complete),
        };
        let all: Vec<_> = (0..updates as u64).map(one).collect();
        AppliedBatch::of(&all, AT, Duration::from_secs(updates as u64)).unwrap()
    }

    #[test]
    fn slices_of_a_take_are_one_batch_beside_those_of_others() {
        let mut trace = ChangeTrace::default();
        trace.add(mk("a", 2), false, false);
        trace.add(mk("b", 1), true, true);
        trace.add(mk("a", 3), true, true);
        trace.add(mk("c", 1), true, false);
        let out = trace.publish(7, AT * 2, AT * 3);
        let seen: Vec<_> = out.batches.iter().map(|one| (one.registry.as_str(), one.updates)).collect();
        assert_eq!((seen, out.generation, out.began), (vec![("b", 1), ("a", 5)], 7, AT));
        assert_eq!(out.batches[1].reported, Duration::from_secs(7), "the oldest update counts");
        let next = trace.publish(8, AT * 4, AT * 5);
        assert_eq!((next.batches.len(), next.began), (0, AT * 4), "batches are in one generation alone");
    }

    #[test]
    fn batches_of_a_generation_are_bounded() {
        let mut trace = ChangeTrace::default();
        (0..100).for_each(|_| trace.add(mk("a", 1), true, true));
        let out = trace.publish(1, AT, AT);
        assert_eq!((out.batches.len(), out.more), (Publication::MOST, 92));
        assert_eq!(trace.publish(2, AT, AT).more, 0);
    }
}
