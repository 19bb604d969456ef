//! Values in use, by key; chunks of ropes and runs of route tables are found here while someone holds them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

/// A table that holds nothing alive. Entries of dropped values are removed when it has doubled.
#[derive(Debug)]
pub(crate) struct WeakTable<K, V> {
    live: HashMap<K, Weak<V>>,
    cleanup_at: usize,
}

impl<K, V> Default for WeakTable<K, V> {
    fn default() -> Self {
        Self { live: HashMap::new(), cleanup_at: Self::FIRST_CLEANUP }
    }
}

impl<K, V> WeakTable<K, V> {
    /// Number of entries of the first clean-up.
    pub(crate) const FIRST_CLEANUP: usize = 256;

    /// Returns the number of entries, dropped values among them.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }
}

impl<K: Hash + Eq, V> WeakTable<K, V> {
    /// Returns a value if it is in use.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.live.get(key).and_then(Weak::upgrade)
    }
    /// Adds a value; it stays as long as someone holds it.
    pub(crate) fn insert(&mut self, key: K, value: &Arc<V>) {
        if self.live.len() >= self.cleanup_at {
            self.live.retain(|_, held| held.strong_count() > 0);
            self.cleanup_at = (self.live.len() * 2).max(Self::FIRST_CLEANUP);
        }
        self.live.insert(key, Arc::downgrade(value));
    }
}
