//! Proposed removals of the current batch, held removals, and when confirm requests are due.
//!
//! Part of the state: ingest proposes removals, the end of a batch judges them, the build shows the held ones.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Declaration, EndpointGroup, Evidence, FactId, Mono};

use crate::state::shards::ShardId;

/// Reasons for doubting a removal, as operators read them.
pub(crate) mod reason {
    pub(crate) const SERVICE_VANISHES: &str = "the service would vanish";
    pub(crate) const HOST_EMPTIED: &str = "the host would have no endpoint left";
    pub(crate) const LARGE_LOSS: &str = "more than 30 % of the scope would go at once";
    pub(crate) const SHORT_ANSWER: &str = "the source's answer was short or old";
    const RESTORED: &str = "its removal was held before the restart";

    /// Returns the reason of a hold that a journal kept.
    pub(crate) fn restored(text: &str) -> &'static str {
        let all = [SERVICE_VANISHES, HOST_EMPTIED, LARGE_LOSS, SHORT_ANSWER];
        all.into_iter().find(|known| *known == text).unwrap_or(RESTORED)
    }
}

/// Fact of a hold or of a proposal.
pub(crate) type HoldKey = (ShardId, FactId);

/// A removal that rests on absence.
#[derive(Debug)]
pub(crate) enum Proposal {
    /// A list lacked the fact; contains the evidence of the removal.
    Absent(Evidence),
    /// A partial answer has fewer endpoints; `doubted` if the answer is known to be partial.
    Fewer { reported: Arc<EndpointGroup>, at: Mono, doubted: bool },
}

/// Held removal.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    /// Start of the hold.
    pub(crate) since: Mono,
    /// Why the removal is doubted.
    pub(crate) reason: &'static str,
    /// Number of confirm requests.
    pub(crate) requests: u32,
    /// Time of the next confirm request.
    pub(crate) next: Mono,
}

/// Proposals of the current batch, holds, and due times of confirm requests.
#[derive(Debug, Default)]
pub(crate) struct RemovalGuard {
    pub(crate) proposals: BTreeMap<HoldKey, Proposal>,
    pub(crate) holds: BTreeMap<HoldKey, Hold>,
    /// Number of holds of each shard that has any.
    held_in: BTreeMap<ShardId, usize>,
    due: BTreeSet<(Mono, HoldKey)>,
    /// Holds that began or ended in this batch.
    changed: BTreeSet<HoldKey>,
    /// Declarations with fewer ports by a partial answer, until their groups are judged.
    pub(crate) redeclared: BTreeMap<HoldKey, (Arc<Declaration>, Mono)>,
}

impl RemovalGuard {
    /// Proposes a removal.
    pub(crate) fn propose(&mut self, key: HoldKey, proposal: Proposal) {
        // contradicts an earlier answer of this batch, which would end the hold if it were applied later
        self.redeclared.remove(&key);
        self.proposals.insert(key, proposal);
    }
    /// Defers a partial answer that changes a declaration.
    pub(crate) fn redeclare(&mut self, key: HoldKey, reported: Arc<Declaration>, at: Mono) {
        // the declaration exists, which contradicts an earlier list of this batch
        self.proposals.remove(&key);
        self.redeclared.insert(key, (reported, at));
    }
    /// Returns whether nothing is proposed or held, which is the common case.
    pub(crate) fn is_idle(&self) -> bool {
        self.proposals.is_empty() && self.redeclared.is_empty() && self.holds.is_empty()
    }
    /// Removes the proposal and the hold of a fact.
    pub(crate) fn end(&mut self, key: &HoldKey) {
        self.proposals.remove(key);
        self.redeclared.remove(key);
        if let Some(hold) = self.holds.remove(key) {
            self.due.remove(&(hold.next, key.clone()));
            self.changed.insert(key.clone());
            if let Entry::Occupied(mut held) = self.held_in.entry(key.0) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }
    /// Takes the keys of holds that began or ended since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<HoldKey> {
        std::mem::take(&mut self.changed)
    }
    /// Returns the facts of a shard that are held or proposed.
    pub(crate) fn of_shard(&self, shard: ShardId) -> Vec<FactId> {
        let all = self.holds.keys().chain(self.proposals.keys()).chain(self.redeclared.keys());
        all.filter(|(of, _)| *of == shard).map(|(_, item)| item.clone()).collect()
    }
    /// Returns every hold.
    pub(crate) fn holds(&self) -> impl ExactSizeIterator<Item = (&HoldKey, &Hold)> {
        self.holds.iter()
    }
    /// Returns the number of holds of a shard.
    pub(crate) fn held_in(&self, shard: ShardId) -> usize {
        self.held_in.get(&shard).copied().unwrap_or_default()
    }
    /// Returns whether any removal is held.
    pub(crate) fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }
    /// Returns the hold of a fact.
    pub(crate) fn held(&self, key: &HoldKey) -> Option<&Hold> {
        self.holds.get(key)
    }
    /// Returns whether the removal of a fact is held.
    pub(crate) fn is_held(&self, key: &HoldKey) -> bool {
        self.holds.contains_key(key)
    }
    /// Returns when the next confirm request is due.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }
    /// Holds a removal. Returns false if it was already held. Only a source that `confirms` receives requests.
    pub(crate) fn hold(&mut self, key: HoldKey, now: Mono, reason: &'static str, confirms: bool) -> bool {
        if self.holds.contains_key(&key) {
            return false;
        }
        if confirms {
            self.due.insert((now, key.clone()));
        }
        self.changed.insert(key.clone());
        *self.held_in.entry(key.0).or_default() += 1;
        self.holds.insert(key, Hold { since: now, reason, requests: 0, next: now });
        true
    }
    /// Makes the confirm requests of these shards due at once, since a new run serves.
    pub(crate) fn request_again(&mut self, shards: &[ShardId], now: Mono) {
        for (key, hold) in self.holds.iter_mut().filter(|((shard, _), _)| shards.contains(shard)) {
            if !self.due.remove(&(hold.next, key.clone())) {
                continue;
            }
            (hold.next, hold.requests) = (now, 0);
            self.due.insert((now, key.clone()));
        }
    }
    /// Takes the next hold whose confirm request is due, and schedules the repetition.
    pub(crate) fn take_due(&mut self, now: Mono, first: Duration, most: Duration) -> Option<HoldKey> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(hold) = self.holds.get_mut(&key) {
            let wait = first.saturating_mul(1_u32 << hold.requests.min(16)).min(most);
            hold.requests = hold.requests.saturating_add(1);
            hold.next = now.plus(wait.max(Duration::from_millis(1)));
            self.due.insert((hold.next, key.clone()));
        }
        Some(key)
    }
}
