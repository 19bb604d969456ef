//! Poll budget: which services of a scope have a long poll of their own. The others are read when the lists of names
//! and checks report a change.
//!
//! The machine adds each listed service, and carries out the moves that [`PollBudget::balance`] returns. A free poll
//! goes to the service of the highest rank, and a smaller budget takes polls from those of the lowest rank. Otherwise
//! a service keeps its poll until it is removed; only a service that the configuration names displaces another one.
//! Every operation costs at most the logarithm of the number of services.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::watch::Follow;

/// Rank of a service; the highest gets a poll first. Services that changed recently are likely to change again, and a
/// service with a poll needs no further read after a change. The first list is opened in the order of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Whether a federated service or the selection names it.
    named: bool,
    /// Number of its last change among all changes; 0 before the first.
    changed: u64,
    /// Number of the service; earlier ones rank higher.
    id: Reverse<u32>,
}

/// Services with and without a poll.
#[derive(Debug, Clone, Default)]
pub(super) struct PollBudget {
    ranks: HashMap<u32, Rank>,
    polled: BTreeSet<Rank>,
    notified: BTreeSet<Rank>,
    /// Numbers of the services in `notified`.
    without: BTreeSet<u32>,
    changes: u64,
}

impl PollBudget {
    /// Adds a service without a poll, or records whether it is named.
    pub(super) fn add(&mut self, id: u32, named: bool) {
        let rank = Rank { named, changed: 0, id: Reverse(id) };
        let Some(before) = self.ranks.get(&id).copied() else {
            self.ranks.insert(id, rank);
            self.notified.insert(rank);
            self.without.insert(id);
            return;
        };
        self.replace(before, Rank { named, ..before });
    }
    /// Removes a service.
    pub(super) fn remove(&mut self, id: u32) {
        if let Some(rank) = self.ranks.remove(&id) {
            self.polled.remove(&rank);
            self.notified.remove(&rank);
            self.without.remove(&id);
        }
    }
    /// Records a change of a service.
    pub(super) fn changed(&mut self, id: u32) {
        if let Some(before) = self.ranks.get(&id).copied() {
            self.changes += 1;
            self.replace(before, Rank { changed: self.changes, ..before });
        }
    }
    /// Moves polls until at most `limit` services have one, and none is free while a service lacks one. Returns the
    /// services that moved.
    pub(super) fn balance(&mut self, limit: usize) -> Vec<(u32, Follow)> {
        std::iter::from_fn(|| self.next_move(limit)).collect()
    }
    /// Returns the number of services with a poll.
    pub(super) fn polled(&self) -> usize {
        self.polled.len()
    }
    /// Returns the number of services without a poll.
    pub(super) fn notified(&self) -> usize {
        self.notified.len()
    }
    /// Returns whether a service lacks a poll.
    pub(super) fn is_notified(&self, id: u32) -> bool {
        self.without.contains(&id)
    }
    /// Returns the first service without a poll from this number on, in a circle.
    pub(super) fn next_notified(&self, from: u32) -> Option<u32> {
        self.without.range(from..).next().or_else(|| self.without.first()).copied()
    }

    fn next_move(&mut self, limit: usize) -> Option<(u32, Follow)> {
        let (last, next) = (self.polled.first().copied(), self.notified.last().copied());
        let displaced = last.zip(next).is_some_and(|(last, next)| next.named && !last.named);
        if self.polled.len() > limit || (displaced && self.polled.len() == limit) {
            return last.map(|rank| self.take(rank));
        }
        next.filter(|_| self.polled.len() < limit).map(|rank| self.give(rank))
    }

    fn give(&mut self, rank: Rank) -> (u32, Follow) {
        self.notified.remove(&rank);
        self.without.remove(&rank.id.0);
        self.polled.insert(rank);
        (rank.id.0, Follow::Poll)
    }

    fn take(&mut self, rank: Rank) -> (u32, Follow) {
        self.polled.remove(&rank);
        self.notified.insert(rank);
        self.without.insert(rank.id.0);
        (rank.id.0, Follow::Demand)
    }

    fn replace(&mut self, before: Rank, now: Rank) {
        let set = if self.polled.remove(&before) { &mut self.polled } else { &mut self.notified };
        set.remove(&before);
        set.insert(now);
        self.ranks.insert(now.id.0, now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn mk_budget(services: u32, limit: usize) -> PollBudget {
        let mut budget = PollBudget::default();
        (0..services).for_each(|id| budget.add(id, false));
        assert_eq!(budget.balance(limit).len(), limit.min(services as usize));
        budget
    }

    fn polled(budget: &PollBudget) -> BTreeSet<u32> {
        budget.polled.iter().map(|rank| rank.id.0).collect()
    }

    #[test]
    fn first_services_get_the_polls_and_keep_them() {
        let mut budget = mk_budget(5, 3);
        assert_eq!(polled(&budget), [0, 1, 2].into());
        budget.add(5, false);
        budget.changed(5);
        assert_eq!(budget.balance(3), [], "growth and changes move no poll");
        assert_eq!((budget.polled(), budget.notified(), budget.next_notified(6)), (3, 3, Some(3)));
    }

    #[test]
    fn free_poll_goes_to_the_service_that_changed_last() {
        let mut budget = mk_budget(5, 2);
        budget.changed(4);
        budget.changed(3);
        budget.remove(0);
        assert_eq!(budget.balance(2), [(3, Follow::Poll)]);
        assert_eq!(budget.balance(3), [(4, Follow::Poll)], "a larger budget gives more");
    }

    #[test]
    fn smaller_budget_takes_polls_of_services_at_rest() {
        let mut budget = mk_budget(4, 4);
        budget.changed(3);
        assert_eq!(budget.balance(2), [(2, Follow::Demand), (1, Follow::Demand)]);
        assert_eq!(polled(&budget), [0, 3].into());
        assert_eq!(budget.balance(0).len(), 2);
    }

    #[test]
    fn named_service_displaces_one_that_is_not() {
        let mut budget = mk_budget(3, 2);
        budget.add(2, true);
        assert_eq!(budget.balance(2), [(1, Follow::Demand), (2, Follow::Poll)]);
        budget.add(3, true);
        budget.add(4, true);
        assert_eq!(budget.balance(2), [(0, Follow::Demand), (3, Follow::Poll)]);
        assert_eq!(budget.balance(0).len(), 2);
        assert_eq!(budget.balance(0), [], "without a budget nothing is displaced");
    }

    #[derive(Debug, Clone)]
    enum Change {
        Add(u32, bool),
        Remove(u32),
        Changed(u32),
        Limit(usize),
    }

    fn changes() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (0_u32..12, prop::bool::weighted(0.2)).prop_map(|(id, named)| Change::Add(id, named)),
            2 => (0_u32..12).prop_map(Change::Remove),
            2 => (0_u32..12).prop_map(Change::Changed),
            2 => (0_usize..10).prop_map(Change::Limit),
        ]
    }

    proptest! {
        #[test]
        fn polls_fill_the_budget_and_move_only_with_a_reason(all in prop::collection::vec(changes(), 0..60)) {
            let (mut budget, mut limit) = (PollBudget::default(), 3);
            let mut known: BTreeMap<u32, bool> = BTreeMap::new();
            for change in all {
                let before = polled(&budget);
                let mut removed = None;
                let smaller = matches!(change, Change::Limit(to) if to < limit);
                match change {
                    Change::Add(id, named) => {
                        budget.add(id, named);
                        known.insert(id, named);
                    }
                    Change::Remove(id) => {
                        budget.remove(id);
                        known.remove(&id);
                        removed = Some(id);
                    }
                    Change::Changed(id) => budget.changed(id),
                    Change::Limit(to) => limit = to,
                }
                let moves = budget.balance(limit);
                let now = polled(&budget);
                prop_assert_eq!(now.len(), limit.min(known.len()));
                prop_assert_eq!(budget.notified(), known.len() - now.len());
                prop_assert!(known.keys().all(|id| now.contains(id) != budget.is_notified(*id)));
                let named = |id: &u32| known.get(id) == Some(&true);
                let lost = before.iter().filter(|id| !now.contains(id) && removed != Some(**id)).count();
                let gained = now.iter().filter(|id| !before.contains(id) && named(id)).count();
                prop_assert!(smaller || lost <= gained, "{:?}", moves);
                prop_assert!(now.iter().all(&named) || !known.keys().any(|id| named(id) && !now.contains(id)));
            }
        }
    }
}
