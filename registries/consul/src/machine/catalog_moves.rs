//! Moves of the catalog's index, and which of them the lists of names and checks explain.
//!
//! `notify_and_fetch` records what the lists show. A registration with a check moves the index to the one at which its
//! check was created, and a removal moves it once, so each explains one move. A move that nothing explains within the
//! given time is an edit without a name, and asks for a full pass. Edits that Consul answers together with a later
//! registration cannot be distinguished; the slow full pass finds them.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;

use crate::content::{NEWEST, newest};

/// Maximum moves that wait. More are not distinguished: they ask for a full pass.
const MAX_WAITING: usize = 1_024;

/// Moves that wait for an explanation. Bounded.
#[derive(Debug, Clone, Default)]
pub(super) struct CatalogMoves {
    /// In the order of their times.
    waiting: Vec<(Mono, u64)>,
    /// Creation indexes of the newest checks, ascending, also of those that are gone again.
    created: Arc<[u64]>,
    /// Removals that explain no move yet.
    removed: Vec<(Mono, usize)>,
    /// Whether a move did not fit.
    too_many: bool,
}

impl CatalogMoves {
    /// Records that the index moved, and no list of names shows why.
    pub(super) fn moved(&mut self, now: Mono, index: u64) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push((now, index));
        } else {
            self.too_many = true;
        }
    }
    /// Records the newest checks, and how many instances' checks are gone.
    pub(super) fn checks(&mut self, now: Mono, created: &[u64], removed: usize) {
        if *created != *self.created {
            self.created = newest(self.created.iter().chain(created).copied().collect());
        }
        if removed > 0 && self.removed.len() < MAX_WAITING {
            self.removed.push((now, removed));
        }
    }
    /// Drops every move: what they show is read anyway.
    pub(super) fn forget(&mut self) {
        (self.waiting, self.removed, self.too_many) = (Vec::new(), Vec::new(), false);
    }
    /// Returns when the first move has waited for this time.
    pub(super) fn due(&self, within: Duration) -> Option<Mono> {
        self.waiting.first().map(|(at, _)| at.plus(within))
    }
    /// Judges the moves that have waited for this time. Returns whether nothing explains one of them.
    pub(super) fn take_unexplained(&mut self, now: Mono, within: Duration) -> bool {
        let old = self.waiting.partition_point(|(at, _)| at.plus(within) <= now);
        if old == 0 {
            return false;
        }
        let judged: Vec<(Mono, u64)> = self.waiting.drain(..old).collect();
        let unexplained =
            judged.into_iter().filter(|(at, index)| !self.explains(*at, *index, within)).count();
        self.removed.retain(|(at, left)| *left > 0 && at.plus(within * 2) > now);
        std::mem::take(&mut self.too_many) || unexplained > 0
    }
    fn explains(&mut self, at: Mono, index: u64, within: Duration) -> bool {
        self.created.binary_search(&index).is_ok()
            || self.is_crowded_out(index)
            || self.is_removal(at, within)
    }
    /// Whether so many checks are newer that those of this index need not be among them.
    fn is_crowded_out(&self, index: u64) -> bool {
        self.created.len() >= NEWEST && self.created.first().is_some_and(|first| index < *first)
    }
    fn is_removal(&mut self, at: Mono, within: Duration) -> bool {
        let near = |of: Mono| of.plus(within) >= at && at.plus(within) >= of;
        let Some((_, left)) = self.removed.iter_mut().find(|(of, left)| *left > 0 && near(*of)) else {
            return false;
        };
        *left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(1_500);

    fn at(millis: u64) -> Mono {
        Mono::START.plus(Duration::from_millis(millis))
    }

    /// Moves, creation indexes, removals, and whether a move is unexplained.
    type Row = (&'static [(u64, u64)], &'static [u64], &'static [(u64, usize)], bool);

    #[test]
    fn each_move_needs_its_own_explanation() {
        let table: [Row; 9] = [
            (&[(0, 20)], &[20], &[], false),
            (&[(0, 20)], &[19, 21], &[], true),
            (&[(0, 20), (10, 21)], &[21], &[], true),
            (&[(0, 20), (10, 21)], &[20, 21], &[], false),
            (&[(0, 20)], &[], &[(900, 1)], false),
            (&[(900, 20)], &[], &[(0, 1)], false),
            (&[(0, 20)], &[], &[(1_600, 1)], true),
            (&[(0, 20), (10, 21)], &[], &[(20, 1)], true),
            (&[(0, 20), (10, 21)], &[], &[(20, 2)], false),
        ];
        for (moves, created, removed, expected) in table {
            let mut all = CatalogMoves::default();
            moves.iter().for_each(|(millis, index)| all.moved(at(*millis), *index));
            let created = newest(created.to_vec());
            all.checks(at(0), &created, 0);
            removed.iter().for_each(|(millis, count)| all.checks(at(*millis), &created, *count));
            assert!(!all.take_unexplained(at(1_499), WITHIN));
            assert_eq!(
                all.take_unexplained(at(3_000), WITHIN),
                expected,
                "{moves:?} {created:?} {removed:?}"
            );
            assert_eq!(all.due(WITHIN), None);
        }
    }

    #[test]
    fn moves_before_many_new_checks_count_as_explained() {
        let mut all = CatalogMoves::default();
        all.moved(at(0), 5);
        all.checks(at(0), &newest((10..10 + 2 * NEWEST as u64).collect()), 0);
        assert!(!all.take_unexplained(at(1_500), WITHIN));
        assert_eq!(all.created.len(), NEWEST);
    }

    #[test]
    fn moves_that_do_not_fit_ask_for_a_full_pass() {
        let mut all = CatalogMoves::default();
        let indexes: Vec<u64> = (1..=MAX_WAITING as u64).collect();
        indexes.iter().for_each(|index| all.moved(at(0), *index));
        all.checks(at(0), &newest(indexes), 0);
        all.moved(at(1), 1);
        assert!(all.take_unexplained(at(1_500), WITHIN));
    }
}
