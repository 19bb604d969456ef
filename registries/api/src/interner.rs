//! Interned values: equal values that many facts have in common are held once.
//!
//! The run of a registry owns one set per type, and passes it to the functions that decode and derive. Interning never
//! changes a value, only which copy is held, so these remain functions of their inputs. A set drops the values that
//! nothing else holds whenever its size has doubled, so it is bounded by the values in use.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use tributary_model::{Identity, Labels, Namespace};

/// Reference-counted handle to a value.
pub trait Handle: Clone + Hash + Eq {
    /// Whether another handle to the same value exists.
    fn is_held(&self) -> bool;
}

impl<T: ?Sized + Hash + Eq> Handle for Arc<T> {
    fn is_held(&self) -> bool {
        Self::strong_count(self) > 1
    }
}

macro_rules! handles {
    ($($type:ty),*) => {$(impl Handle for $type {
        fn is_held(&self) -> bool {
            self.is_shared()
        }
    })*};
}
handles!(Labels, Identity, Namespace);

/// Interned values of one type.
#[derive(Debug)]
pub struct Interned<T> {
    known: HashSet<T>,
    /// Size at which unused values are dropped.
    full: usize,
}

impl<T> Interned<T> {
    /// Number of values up to which unused ones are kept.
    pub const LEAST: usize = 1024;

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }
    /// Whether no value is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), full: Self::LEAST }
    }
}

impl<T: Handle> Interned<T> {
    /// Returns the held copy of a value.
    #[must_use]
    pub fn find<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Option<T>
    where
        T: Borrow<Q>,
    {
        self.known.get(value).cloned()
    }
    /// Returns the held copy of a value; makes one first if the set holds no copy.
    pub fn get<Q: ?Sized + Hash + Eq>(&mut self, value: &Q, make: impl FnOnce() -> T) -> T
    where
        T: Borrow<Q>,
    {
        self.find(value).unwrap_or_else(|| self.keep(make()))
    }
    /// Returns the held copy of a handle's value, which becomes this handle if the set holds no copy.
    pub fn share(&mut self, value: T) -> T {
        self.find(&value).unwrap_or_else(|| self.keep(value))
    }
    /// Holds a value that [`Interned::find`] did not find.
    pub fn keep(&mut self, value: T) -> T {
        if self.known.len() >= self.full {
            self.sweep();
            self.full = (self.known.len() * 2).max(Self::LEAST);
        }
        self.known.insert(value.clone());
        value
    }
    /// Drops the values that nothing else holds, and their memory.
    pub fn sweep(&mut self) {
        self.known.retain(Handle::is_held);
        self.known.shrink_to(self.known.len() * 2);
    }
}

impl<T: Hash + Eq> Interned<Arc<T>> {
    /// Returns the held copy of an owned value.
    pub fn share_owned(&mut self, value: T) -> Arc<T> {
        self.find(&value).unwrap_or_else(|| self.keep(Arc::new(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_copy_and_unused_ones_are_dropped() {
        let mut texts: Interned<Arc<str>> = Interned::default();
        let one = texts.get("a", || "a".into());
        assert!(Arc::ptr_eq(&one, &texts.get("a", || panic!("it is known"))));
        assert!(Arc::ptr_eq(&one, &texts.share("a".into())));
        texts.share("b".into());
        texts.sweep();
        assert_eq!((texts.len(), texts.find("b")), (1, None));
        drop(one);
        texts.sweep();
        assert!(texts.is_empty());
    }

    #[test]
    fn set_is_bounded_by_twice_the_values_in_use() {
        let mut numbers: Interned<Arc<usize>> = Interned::default();
        let held: Vec<Arc<usize>> = (0..2_000).map(|i| numbers.share_owned(i)).collect();
        for i in 0..100_000 {
            numbers.share_owned(i);
        }
        assert!(numbers.len() <= 2 * held.len(), "{}", numbers.len());
        assert!(
            held.iter().all(|value| Arc::ptr_eq(value, &numbers.share_owned(**value))),
            "held values stay"
        );
    }
}
