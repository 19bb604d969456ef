//! Values built once per key, kept while a connected class uses them.
//!
//! Every cache of sets and differences is one of these. A limit binds only what no class uses, so it never
//! makes a connected client fold again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::{ClientClass, ClientClassKey};

/// Classes that use a value. Holds only weak references.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users(HashMap<usize, Weak<ClientClass>>);

impl Users {
    /// Adds a class.
    pub(crate) fn add(&mut self, class: &ClientClassKey) {
        let (id, user) = class.user();
        if self.0.len().is_power_of_two() && !self.0.contains_key(&id) {
            self.0.retain(|_, user| user.strong_count() > 0);
        }
        self.0.insert(id, user);
    }
    /// Whether a class that uses the value is connected.
    pub(crate) fn any(&self) -> bool {
        self.0.values().any(|user| user.strong_count() > 0)
    }
}

/// Values by key.
#[derive(Debug)]
pub(crate) struct Held<K, T>(Mutex<Table<K, T>>);

#[derive(Debug)]
struct Table<K, T> {
    entries: HashMap<K, Entry<T>>,
    cleanup_at: usize,
}

#[derive(Debug)]
struct Entry<T> {
    cell: Arc<OnceLock<T>>,
    users: Users,
    /// Whether it was requested since the last cleanup.
    fresh: bool,
}

impl<K, T> Default for Held<K, T> {
    fn default() -> Self {
        Self(Mutex::new(Table { entries: HashMap::new(), cleanup_at: 0 }))
    }
}

impl<K: Clone + Eq + Hash, T: Clone> Held<K, T> {
    /// Number of entries that are kept without a user.
    const UNUSED: usize = 256;

    /// Returns the value of a key for a class; the first caller builds it. No lock is held meanwhile.
    pub(crate) fn get_or_make(&self, key: &K, user: &ClientClassKey, make: impl FnOnce() -> T) -> T {
        self.cell(key, user).get_or_init(make).clone()
    }
    /// Returns the value of a key, if it was built.
    pub(crate) fn get(&self, key: &K) -> Option<T> {
        self.0.lock().entries.get(key)?.cell.get().cloned()
    }
    fn cell(&self, key: &K, user: &ClientClassKey) -> Arc<OnceLock<T>> {
        let mut table = self.0.lock();
        if !table.entries.contains_key(key) {
            table.remove_unused();
        }
        let new = || Entry { cell: Arc::default(), users: Users::default(), fresh: true };
        let entry = table.entries.entry(key.clone()).or_insert_with(new);
        entry.users.add(user);
        entry.fresh = true;
        Arc::clone(&entry.cell)
    }
}

impl<K: Clone + Eq + Hash, T> Table<K, T> {
    /// Removes the entries without a user, at first those that were not requested since the last time.
    fn remove_unused(&mut self) {
        if self.entries.len() < self.cleanup_at.max(Held::<K, ()>::UNUSED) {
            return;
        }
        self.entries.retain(|_, entry| std::mem::take(&mut entry.fresh) || entry.users.any());
        if self.entries.len() >= self.cleanup_at.max(Held::<K, ()>::UNUSED) {
            self.entries.retain(|_, entry| entry.users.any());
        }
        self.cleanup_at = self.entries.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{ClientKind, Namespace};

    fn mk_class(n: usize) -> ClientClassKey {
        let namespace = Namespace::new(format!("n{n}")).ok();
        ClientClassKey::alone(ClientClass { namespace, ..ClientClass::new(ClientKind::Sidecar) })
    }

    #[test]
    fn no_limit_removes_what_a_class_uses() {
        let held: Held<usize, usize> = Held::default();
        let users: Vec<ClientClassKey> = (0..2_000).map(mk_class).collect();
        for (n, user) in users.iter().enumerate() {
            held.get_or_make(&n, user, || n);
        }
        for n in 2_000..20_000 {
            held.get_or_make(&n, &mk_class(n), || n);
        }
        assert!((0..2_000).all(|n| held.get(&n) == Some(n)), "a value in use was removed");
        let kept = held.0.lock().entries.len();
        assert!(kept <= 2 * 2_000 + Held::<usize, usize>::UNUSED, "{kept} are kept");
        drop(users);
        for n in 30_000..40_000 {
            held.get_or_make(&n, &mk_class(n), || n);
        }
        let kept = held.0.lock().entries.len();
        assert!(kept < 5_000, "{kept} are kept without a user");
    }
}
