//! Finds keys that a complete list no longer contains. The core uses it for restarted collections,
//! adapters for relists.
//!
//! Opening a set that is already open keeps its unseen keys: an object deleted between two
//! interrupted lists is missing from the list that completes.

use std::collections::BTreeSet;

/// Keys not seen since the set was opened.
#[derive(Debug, Clone)]
pub struct StaleSet<K: Ord> {
    unseen: Option<BTreeSet<K>>,
}

impl<K: Ord> Default for StaleSet<K> {
    fn default() -> Self {
        Self::closed()
    }
}

impl<K: Ord> StaleSet<K> {
    /// Creates a closed set.
    #[must_use]
    pub const fn closed() -> Self {
        Self { unseen: None }
    }
    /// Whether the set is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.unseen.is_some()
    }
    /// Opens the set with the `live` keys as unseen, or extends an open set. After an interruption the
    /// next list must contain every live key again, so marks of the interrupted list are discarded.
    pub fn open(&mut self, live: impl IntoIterator<Item = K>) {
        self.unseen.get_or_insert_default().extend(live);
    }
    /// Marks a key as seen.
    pub fn mark_present<Q>(&mut self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(key);
        }
    }
    /// Closes the set after a complete list and returns the keys that were not seen.
    pub fn close(&mut self) -> impl Iterator<Item = K> + use<K> {
        self.unseen.take().unwrap_or_default().into_iter()
    }
    /// Closes the set without a result.
    pub fn abandon(&mut self) {
        self.unseen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_returns_the_unseen_keys() {
        let mut set = StaleSet::closed();
        set.open([1, 2, 3]);
        set.mark_present(&2);
        assert_eq!(set.close().collect::<Vec<_>>(), [1, 3]);
        assert!(!set.is_open());
    }

    #[test]
    fn interrupted_list_keeps_missing_keys_unseen() {
        let mut set = StaleSet::closed();
        set.open([1, 2]);
        set.mark_present(&1);
        set.open([1, 2]); // the list was interrupted and restarted; 1 was deleted in between
        set.mark_present(&2);
        assert_eq!(set.close().collect::<Vec<_>>(), [1]);
    }
}
