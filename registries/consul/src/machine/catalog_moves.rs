//! Moves of the catalog's index, and which of them the lists of names and checks explain.
//!
//! `notify_and_fetch` records what the lists show. A registration with a check moves the index to the one at which its
//! check was created, a removal moves it once, and a name that comes or goes shows in the list. A move that nothing
//! explains within the given time is an edit without a name. A move by more than its explanations may hide one: Consul
//! answers several changes at once, and other data shares the index. A check whose status changed explains an index
//! in between, and never the last one, because it does not move the catalog's index.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;

use crate::content::{NEWEST, newest};

/// Maximum moves that wait. More are not distinguished: they ask for a full pass.
const MAX_WAITING: usize = 1_024;

/// What a move may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edit {
    /// The move has an explanation, and may hide an edit.
    Possible,
    /// Nothing explains the move.
    Certain,
}

/// Move of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    /// Time of the answer.
    pub(super) at: Mono,
    /// New index.
    pub(super) index: u64,
    /// Index before.
    pub(super) from: u64,
    /// Names that came, went or have other tags.
    pub(super) names: usize,
}

/// Moves that wait for an explanation. Bounded.
#[derive(Debug, Clone, Default)]
pub(super) struct CatalogMoves {
    /// In the order of their times.
    waiting: Vec<Move>,
    /// Creation indexes of the newest checks, ascending, also of those that are gone again.
    created: Arc<[u64]>,
    /// Indexes of the newest changes of a check's status, ascending.
    changed: Arc<[u64]>,
    /// Removals that explain no move yet.
    removed: Vec<(Mono, usize)>,
    /// Whether a move did not fit.
    too_many: bool,
}

impl CatalogMoves {
    /// Records a move.
    pub(super) fn moved(&mut self, moved: Move) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push(moved);
        } else {
            self.too_many = true;
        }
    }
    /// Records the newest checks, the indexes at which a status changed, and how many instances' checks are gone.
    pub(super) fn checks(&mut self, now: Mono, created: &[u64], changed: &[u64], removed: usize) {
        self.created = merged(&self.created, created);
        self.changed = merged(&self.changed, changed);
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
        self.waiting.first().map(|moved| moved.at.plus(within))
    }
    /// Judges the moves that have waited for this time.
    pub(super) fn take_edit(&mut self, now: Mono, within: Duration) -> Option<Edit> {
        let old = self.waiting.partition_point(|moved| moved.at.plus(within) <= now);
        if old == 0 {
            return None;
        }
        let judged: Vec<Move> = self.waiting.drain(..old).collect();
        let found = judged.into_iter().filter_map(|moved| self.judge(moved, within)).max();
        self.removed.retain(|(at, left)| *left > 0 && at.plus(within * 2) > now);
        if std::mem::take(&mut self.too_many) { Some(Edit::Certain) } else { found }
    }
    fn judge(&mut self, moved: Move, within: Duration) -> Option<Edit> {
        let Move { at, index, from, names } = moved;
        let created = between(&self.created, from, index);
        let changed = between(&self.changed, from, index.saturating_sub(1));
        let is_named = names > 0 || self.created.binary_search(&index).is_ok();
        let is_explained = is_named || self.is_crowded_out(index) || self.is_removal(at, within);
        // a name that comes with a check is counted once
        let explained = (names.max(created).max(1) + changed) as u64;
        match is_explained {
            false => Some(Edit::Certain),
            true => (index.saturating_sub(from) > explained).then_some(Edit::Possible),
        }
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

/// Returns how many of the indexes lie after `from`, up to `to`.
fn between(indexes: &[u64], from: u64, to: u64) -> usize {
    let up_to = |limit: u64| indexes.partition_point(|index| *index <= limit);
    up_to(to).saturating_sub(up_to(from))
}

/// Returns the newest of both.
fn merged(known: &Arc<[u64]>, more: &[u64]) -> Arc<[u64]> {
    if more.is_empty() || **known == *more {
        return Arc::clone(known);
    }
    newest(known.iter().chain(more).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(1_500);

    fn at(millis: u64) -> Mono {
        Mono::START.plus(Duration::from_millis(millis))
    }

    const fn mk_move(at: Mono, from: u64, index: u64, names: usize) -> Move {
        Move { at, index, from, names }
    }

    /// Moves (time, from, to, names), creation indexes, removals, and what is found.
    type Row = (&'static [(u64, u64, u64, usize)], &'static [u64], &'static [(u64, usize)], Option<Edit>);

    #[test]
    fn each_move_needs_its_own_explanation() {
        let table: [Row; 14] = [
            (&[(0, 19, 20, 0)], &[20], &[], None),
            (&[(0, 19, 20, 0)], &[19, 21], &[], Some(Edit::Certain)),
            (&[(0, 19, 20, 0), (10, 20, 21, 0)], &[21], &[], Some(Edit::Certain)),
            (&[(0, 19, 20, 0), (10, 20, 21, 0)], &[20, 21], &[], None),
            (&[(0, 19, 20, 0)], &[], &[(900, 1)], None),
            (&[(900, 19, 20, 0)], &[], &[(0, 1)], None),
            (&[(0, 19, 20, 0)], &[], &[(1_600, 1)], Some(Edit::Certain)),
            (&[(0, 19, 20, 0), (10, 20, 21, 0)], &[], &[(20, 1)], Some(Edit::Certain)),
            (&[(0, 19, 20, 0), (10, 20, 21, 0)], &[], &[(20, 2)], None),
            (&[(0, 18, 20, 0)], &[20], &[], Some(Edit::Possible)),
            (&[(0, 18, 20, 0)], &[19, 20], &[], None),
            (&[(0, 19, 20, 1)], &[], &[], None),
            (&[(0, 18, 20, 1)], &[20], &[], Some(Edit::Possible)),
            (&[(0, 18, 20, 2)], &[], &[], None),
        ];
        for (moves, created, removed, expected) in table {
            let mut all = CatalogMoves::default();
            let moved =
                |(millis, from, to, names): &(u64, u64, u64, usize)| mk_move(at(*millis), *from, *to, *names);
            moves.iter().map(moved).for_each(|moved| all.moved(moved));
            let created = newest(created.to_vec());
            all.checks(at(0), &created, &[], 0);
            removed.iter().for_each(|(millis, count)| all.checks(at(*millis), &created, &[], *count));
            assert_eq!(all.take_edit(at(1_499), WITHIN), None);
            assert_eq!(all.take_edit(at(3_000), WITHIN), expected, "{moves:?} {created:?} {removed:?}");
            assert_eq!(all.due(WITHIN), None);
        }
    }

    #[test]
    fn changed_status_explains_an_index_in_between_only() {
        let table: [(_, &[u64], _); 5] = [
            ((17, 20), &[18, 19], None),
            ((17, 20), &[18, 19, 19], None),
            ((17, 20), &[19], Some(Edit::Possible)),
            ((17, 20), &[16, 17, 21], Some(Edit::Possible)),
            ((16, 20), &[17, 18, 20], Some(Edit::Possible)),
        ];
        for ((from, to), changed, expected) in table {
            let mut all = CatalogMoves::default();
            all.moved(mk_move(at(0), from, to, 0));
            all.checks(at(0), &[to], changed, 0);
            assert_eq!(all.take_edit(at(3_000), WITHIN), expected, "{from} {to} {changed:?}");
        }
        let mut all = CatalogMoves::default();
        all.moved(mk_move(at(0), 19, 20, 0));
        all.checks(at(0), &[], &[20], 0);
        assert_eq!(
            all.take_edit(at(3_000), WITHIN),
            Some(Edit::Certain),
            "a status does not move the catalog"
        );
    }

    #[test]
    fn moves_before_many_new_checks_count_as_explained() {
        let mut all = CatalogMoves::default();
        all.moved(mk_move(at(0), 4, 5, 0));
        all.checks(at(0), &newest((10..10 + 2 * NEWEST as u64).collect()), &[], 0);
        assert_eq!(all.take_edit(at(1_500), WITHIN), None);
        assert_eq!(all.created.len(), NEWEST);
    }

    #[test]
    fn moves_that_do_not_fit_ask_for_a_full_pass() {
        let mut all = CatalogMoves::default();
        let indexes: Vec<u64> = (1..=MAX_WAITING as u64).collect();
        indexes.iter().for_each(|index| all.moved(mk_move(at(0), index - 1, *index, 0)));
        all.checks(at(0), &newest(indexes), &[], 0);
        all.moved(mk_move(at(1), 0, 1, 0));
        assert_eq!(all.take_edit(at(1_500), WITHIN), Some(Edit::Certain));
    }
}
