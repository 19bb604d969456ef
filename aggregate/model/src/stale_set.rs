//! The one mark-and-sweep, used by the core for restarted collections and by adapters for relists.
//!
//! A sweep opened over an open one keeps the first one's unseen set: an object deleted between two
//! interrupted lists is still found missing by the one that completes.

use std::collections::BTreeSet;

/// What has not been seen since the sweep was opened.
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
    /// No sweep is open.
    #[must_use]
    pub const fn closed() -> Self {
        Self { unseen: None }
    }
    /// Whether a sweep is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.unseen.is_some()
    }
    /// Opens a sweep over `live`, or continues the open one: keys marked before an interruption
    /// must be seen again by the list that replaces it, so all that lives is unseen again.
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
    /// Closes the sweep after a complete list: what was not seen is gone.
    pub fn close(&mut self) -> impl Iterator<Item = K> + use<K> {
        self.unseen.take().unwrap_or_default().into_iter()
    }
    /// Forgets the sweep without a verdict.
    pub fn abandon(&mut self) {
        self.unseen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_is_gone() {
        let mut sweep = StaleSet::closed();
        sweep.open([1, 2, 3]);
        sweep.mark_present(&2);
        assert_eq!(sweep.close().collect::<Vec<_>>(), [1, 3]);
        assert!(!sweep.is_open());
    }

    #[test]
    fn an_interrupted_list_forgets_nothing() {
        let mut sweep = StaleSet::closed();
        sweep.open([1, 2]);
        sweep.mark_present(&1);
        sweep.open([1, 2]); // interrupted and begun again; 1 was deleted in between
        sweep.mark_present(&2);
        assert_eq!(sweep.close().collect::<Vec<_>>(), [1]);
    }
}
