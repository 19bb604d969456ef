//! Interned client classes: the client attributes that resources may depend on.
//!
//! Sessions intern a class when a stream opens and hold its key; equal classes share one allocation,
//! so caches compare pointers. The table holds at most one entry per class in use.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
pub use tributary_answer::ClientClass;

/// An interned class. Cheap to clone, to compare and to hash by value.
#[derive(Debug, Clone)]
pub struct ClientClassKey(Arc<ClientClass>, Option<Arc<ClientClass>>);

impl ClientClassKey {
    /// Creates a key outside any table; equal to an interned one by value.
    #[must_use]
    pub fn alone(class: ClientClass) -> Self {
        let plain = class.patches.is_some().then(|| Arc::new(without_patches(&class)));
        Self(Arc::new(class), plain)
    }
    /// Returns the key of the same class without patches.
    #[must_use]
    pub fn plain(&self) -> Self {
        self.1.as_ref().map_or_else(|| self.clone(), |plain| Self(Arc::clone(plain), None))
    }
    /// Returns the address of the class and a weak reference to it.
    pub(crate) fn user(&self) -> (usize, Weak<ClientClass>) {
        (self.address(), Arc::downgrade(&self.0))
    }
    /// Returns the address of the class.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
impl Deref for ClientClassKey {
    type Target = ClientClass;
    fn deref(&self) -> &ClientClass {
        &self.0
    }
}
impl PartialEq for ClientClassKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}
impl Eq for ClientClassKey {}
impl Hash for ClientClassKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

fn without_patches(class: &ClientClass) -> ClientClass {
    ClientClass { patches: None, ..class.clone() }
}

/// Classes in use. Entries without a live key are removed when the table doubles, which bounds it to
/// twice the classes in use.
#[derive(Debug, Default)]
pub struct ClientClasses {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<ClientClass, Weak<ClientClass>>,
    cleanup_at: usize,
}

impl ClientClasses {
    const FIRST_CLEANUP: usize = 64;

    /// Returns the key of this class.
    pub fn intern(&self, class: ClientClass) -> ClientClassKey {
        // the key holds it, so that what is kept for it stays
        let plain = class.patches.is_some().then(|| self.intern(without_patches(&class)).0);
        let mut table = self.table.lock();
        if let Some(found) = table.live.get(&class).and_then(Weak::upgrade) {
            return ClientClassKey(found, plain);
        }
        table.remove_unused();
        let fresh = Arc::new(class.clone());
        table.live.insert(class, Arc::downgrade(&fresh));
        ClientClassKey(fresh, plain)
    }
    /// Returns the number of entries, including those without a live key.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().live.len()
    }
    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    fn remove_unused(&mut self) {
        if self.live.len() < self.cleanup_at.max(ClientClasses::FIRST_CLEANUP) {
            return;
        }
        self.live.retain(|_, class| class.strong_count() > 0);
        self.cleanup_at = self.live.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{ClientKind, Namespace};

    fn mk_class(namespace: &str) -> ClientClass {
        ClientClass { namespace: Namespace::new(namespace).ok(), ..ClientClass::new(ClientKind::Sidecar) }
    }

    #[test]
    fn equal_classes_are_one_allocation() {
        let classes = ClientClasses::default();
        let (a, b) = (classes.intern(mk_class("shop")), classes.intern(mk_class("shop")));
        assert!(Arc::ptr_eq(&a.0, &b.0));
        assert_ne!(a, classes.intern(mk_class("web")));
    }

    #[test]
    fn unused_classes_are_removed() {
        let classes = ClientClasses::default();
        let held = classes.intern(mk_class("held"));
        for n in 0..10_000 {
            classes.intern(mk_class(&format!("ns-{n}")));
        }
        assert!(classes.len() <= 2 * ClientClasses::FIRST_CLEANUP, "{} classes held", classes.len());
        assert!(Arc::ptr_eq(&held.0, &classes.intern(mk_class("held")).0));
    }
}
