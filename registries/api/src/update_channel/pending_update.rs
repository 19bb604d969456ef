//! Pending updates of one key, and which of them a later update supersedes.
//!
//! Used by `pending` only. A *sure* update (an authoritative `Put`, a `Remove` with proof) repositions all earlier
//! updates of its key. A *doubtful* one (a `Put` of a partial answer, a `Remove` for absence) repositions doubtful ones
//! only: the core compares it with the last sure value, which must stay.

use smallvec::SmallVec;

/// Position of an update in the log, and whether it is sure.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingUpdate {
    pub(super) position: u64,
    pub(super) sure: bool,
}

/// Boundaries that the lists of one collection set. Updates after `open` belong to the list in progress; updates
/// before `fence` may have been checked by an earlier list that ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fences {
    /// Last complete end that a `ListStarted` follows; 0 without one.
    pub(super) fence: u64,
    /// Last `ListStarted`; 0 without one.
    pub(super) open: u64,
}

/// Pending updates of one key, in order.
#[derive(Debug, Default)]
pub(super) struct PendingUpdates(SmallVec<[PendingUpdate; 1]>);

impl PendingUpdates {
    /// Adds an update and returns its position: that of the update it repositions, if that one belongs to the same
    /// list. So an update never moves before a `ListStarted`, but may move before the end of its list, where it has
    /// the same effect.
    pub(super) fn file(&mut self, sure: bool, fences: Fences, next: u64) -> u64 {
        let is_replaced = |w: &PendingUpdate| w.position > fences.open && (sure || !w.sure);
        let position = self.0.iter().find(|w| is_replaced(w)).map_or(next, |w| w.position);
        self.0.retain(|w| !(is_replaced(w) && w.position == position));
        let at = self.0.partition_point(|w| w.position < position);
        self.0.insert(at, PendingUpdate { position, sure });
        if sure {
            self.0.truncate(at + 1);
        }
        position
    }
    /// Returns the positions of the updates.
    pub(super) fn positions(&self) -> SmallVec<[u64; 4]> {
        self.0.iter().map(|w| w.position).collect()
    }
    /// Keeps, on either side of the fence, the last sure update and the last doubtful one after it: at most
    /// four updates, and two if no list ended before the list in progress.
    pub(super) fn fold(&mut self, fences: Fences) {
        let mut kept: SmallVec<[PendingUpdate; 1]> = SmallVec::new();
        let (mut sure, mut doubt, mut beyond) = (false, false, false);
        for update in self.0.iter().rev().copied() {
            if update.position < fences.fence && !beyond {
                (sure, doubt, beyond) = (false, false, true);
            }
            let superseded = sure || (doubt && !update.sure);
            if superseded {
                continue;
            }
            (sure, doubt) = (update.sure, true);
            kept.push(update);
        }
        kept.reverse();
        self.0 = kept;
    }
}
