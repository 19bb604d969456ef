//! What the watch has delivered: a hash per name with a hash of its version, and no object.
//!
//! Owned by the machine. It is what makes an unchanged relist cheap and an audit possible. Sixteen bytes an
//! object: a mark of the list under way is kept in one bit of the version.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How an object compares with what was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It is not what was delivered, or nothing was.
    Changed,
    /// It was delivered in this version.
    Same,
}

/// The keys are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = tributary_model::Version::of(bytes).0;
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

const SEEN: u64 = 1;

/// The table.
#[derive(Default)]
pub(crate) struct VersionTable {
    stamps: HashMap<u64, u64, BuildHasherDefault<Same>>,
}

impl VersionTable {
    /// Nothing is marked as seen any more. Said of a sweep that is open already, it opens it again.
    pub(crate) fn open(&mut self) {
        for stamp in self.stamps.values_mut() {
            *stamp &= !SEEN;
        }
    }
    /// An object is delivered in this version, and seen.
    pub(crate) fn put(&mut self, key: u64, stamp: u64) -> Mark {
        let before = self.stamps.insert(key, stamp | SEEN);
        if before.is_some_and(|before| before | SEEN == stamp | SEEN) { Mark::Same } else { Mark::Changed }
    }
    /// Marks an object as seen and compares without changing what counts as delivered.
    pub(crate) fn see(&mut self, key: u64, stamp: u64) -> Mark {
        match self.stamps.get_mut(&key) {
            Some(held) => {
                *held |= SEEN;
                if *held == stamp | SEEN { Mark::Same } else { Mark::Changed }
            }
            None => Mark::Changed,
        }
    }
    /// An object is gone.
    pub(crate) fn remove(&mut self, key: u64) {
        self.stamps.remove(&key);
    }
    /// Whether an object is held in this version; without one, whether it is not held.
    pub(crate) fn holds(&self, key: u64, stamp: Option<u64>) -> bool {
        self.stamps.get(&key).map(|held| held | SEEN) == stamp.map(|stamp| stamp | SEEN)
    }
    /// What has not been seen since the sweep was opened.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = u64> {
        self.stamps.iter().filter(|(_, stamp)| **stamp & SEEN == 0).map(|(key, _)| *key)
    }
    /// Forgets what has not been seen.
    pub(crate) fn close(&mut self) {
        self.stamps.retain(|_, stamp| *stamp & SEEN != 0);
        self.stamps.shrink_to(self.stamps.len().saturating_mul(2));
    }
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.stamps = HashMap::default();
    }
    /// Whether no object is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }
    /// How many objects are held.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.stamps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_sweep_forgets_nothing() {
        let mut table = VersionTable::default();
        table.put(1, 10);
        table.put(2, 20);
        table.open();
        assert_eq!(table.put(1, 10), Mark::Same);
        table.open(); // broken off; 1 is deleted before the next list
        assert_eq!(table.put(2, 21), Mark::Same, "the lowest bit is the mark's");
        assert_eq!(table.put(2, 22), Mark::Changed);
        assert_eq!(table.unseen().collect::<Vec<_>>(), [1]);
        table.close();
        assert!(table.holds(1, None) && table.holds(2, Some(22)));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn to_see_is_not_to_deliver() {
        let mut table = VersionTable::default();
        assert_eq!(table.see(1, 10), Mark::Changed);
        assert_eq!(table.len(), 0);
        table.put(1, 10);
        assert_eq!(table.see(1, 12), Mark::Changed);
        assert_eq!(table.see(1, 10), Mark::Same);
    }
}
