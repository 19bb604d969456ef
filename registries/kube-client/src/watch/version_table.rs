//! Versions that the watch delivered: a hash per name with a hash of its version, and no object.
//!
//! Owned by the machine. It makes an unchanged relist cheap and an audit possible. Sixteen bytes per object: the lowest
//! bit of the version hash marks objects of the current list.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Comparison of an object with its delivered version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Another version was delivered, or none.
    Changed,
    /// This version was delivered.
    Same,
}

/// Identity hasher: the keys are hashes.
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

/// Delivered versions by name.
#[derive(Default)]
pub(crate) struct VersionTable {
    stamps: HashMap<u64, u64, BuildHasherDefault<Same>>,
}

impl VersionTable {
    /// Begins a list: unmarks all objects. A second call restarts the list.
    pub(crate) fn open(&mut self) {
        for stamp in self.stamps.values_mut() {
            *stamp &= !SEEN;
        }
    }
    /// Records an object as delivered in this version and marks it.
    pub(crate) fn put(&mut self, key: u64, stamp: u64) -> Mark {
        let before = self.stamps.insert(key, stamp | SEEN);
        if before.is_some_and(|before| before | SEEN == stamp | SEEN) { Mark::Same } else { Mark::Changed }
    }
    /// Marks an object and compares its version; does not change the delivered version.
    pub(crate) fn see(&mut self, key: u64, stamp: u64) -> Mark {
        match self.stamps.get_mut(&key) {
            Some(held) => {
                *held |= SEEN;
                if *held == stamp | SEEN { Mark::Same } else { Mark::Changed }
            }
            None => Mark::Changed,
        }
    }
    /// Removes an object.
    pub(crate) fn remove(&mut self, key: u64) {
        self.stamps.remove(&key);
    }
    /// Whether this version is held; for `None`, whether the name is not held.
    pub(crate) fn holds(&self, key: u64, stamp: Option<u64>) -> bool {
        self.stamps.get(&key).map(|held| held | SEEN) == stamp.map(|stamp| stamp | SEEN)
    }
    /// Returns the names without a mark.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = u64> {
        self.stamps.iter().filter(|(_, stamp)| **stamp & SEEN == 0).map(|(key, _)| *key)
    }
    /// Ends a list: removes objects without a mark.
    pub(crate) fn close(&mut self) {
        self.stamps.retain(|_, stamp| *stamp & SEEN != 0);
        self.stamps.shrink_to(self.stamps.len().saturating_mul(2));
    }
    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.stamps = HashMap::default();
    }
    /// Whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }
    /// Returns the number of objects.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.stamps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_list_removes_nothing() {
        let mut table = VersionTable::default();
        table.put(1, 10);
        table.put(2, 20);
        table.open();
        assert_eq!(table.put(1, 10), Mark::Same);
        table.open(); // the list broke off; 1 is deleted before the next list
        assert_eq!(table.put(2, 21), Mark::Same, "the lowest bit is the mark");
        assert_eq!(table.put(2, 22), Mark::Changed);
        assert_eq!(table.unseen().collect::<Vec<_>>(), [1]);
        table.close();
        assert!(table.holds(1, None) && table.holds(2, Some(22)));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn seeing_a_version_does_not_deliver_it() {
        let mut table = VersionTable::default();
        assert_eq!(table.see(1, 10), Mark::Changed);
        assert_eq!(table.len(), 0);
        table.put(1, 10);
        assert_eq!(table.see(1, 12), Mark::Changed);
        assert_eq!(table.see(1, 10), Mark::Same);
    }
}
