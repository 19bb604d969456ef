//! What is pending about one key, and which of its words a later word makes superfluous.
//!
//! Used by `pending` only. A *sure* word (an authoritative Put, a Drop with proof) replaces all
//! that was said of its key before. A *doubtful* one (an unsure Put, a Drop for absence) replaces
//! doubtful ones only: the core judges it against the last sure value, which must not be lost.

use smallvec::SmallVec;

/// A word's place in the log and its weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingUpdate {
    pub(super) place: u64,
    pub(super) sure: bool,
}

/// The lists of one collection that separate words. A word after `open` was said to the list that
/// is under way; a word before `fence` may have been judged by an earlier list that ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fences {
    /// The last complete end that a Restart follows; 0 where there is none.
    pub(super) fence: u64,
    /// The last Restart; 0 where there is none.
    pub(super) open: u64,
}

/// The pending words about one key, in order.
#[derive(Debug, Default)]
pub(super) struct PendingUpdates(SmallVec<[PendingUpdate; 1]>);

impl PendingUpdates {
    /// Files a word and returns its place: that of the word which it replaces, where that one was
    /// said to the same list. So a word never moves to before a Restart, but may move to before
    /// the end of its list, where it says the same.
    pub(super) fn say(&mut self, sure: bool, fences: Fences, next: u64) -> u64 {
        let replaced = |w: &PendingUpdate| w.place > fences.open && (sure || !w.sure);
        let place = self.0.iter().find(|w| replaced(w)).map_or(next, |w| w.place);
        self.0.retain(|w| !(replaced(w) && w.place == place));
        let at = self.0.partition_point(|w| w.place < place);
        self.0.insert(at, PendingUpdate { place, sure });
        if sure {
            self.0.truncate(at + 1);
        }
        place
    }
    /// The places filed here.
    pub(super) fn places(&self) -> SmallVec<[u64; 4]> {
        self.0.iter().map(|w| w.place).collect()
    }
    /// Keeps, on either side of the fence, the last sure word and the last doubtful one after it:
    /// at most four words, and two where no list ended before the one that is under way.
    pub(super) fn fold(&mut self, fences: Fences) {
        let mut kept: SmallVec<[PendingUpdate; 1]> = SmallVec::new();
        let (mut sure, mut doubt, mut beyond) = (false, false, false);
        for word in self.0.iter().rev().copied() {
            if word.place < fences.fence && !beyond {
                (sure, doubt, beyond) = (false, false, true);
            }
            let superfluous = sure || (doubt && !word.sure);
            if superfluous {
                continue;
            }
            (sure, doubt) = (word.sure, true);
            kept.push(word);
        }
        kept.reverse();
        self.0 = kept;
    }
}
