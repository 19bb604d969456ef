//! Shared values that compare by pointer.

use std::ops::Deref;
use std::sync::Arc;

/// `Arc` whose equality is pointer identity. Persistent maps of these diff without comparing contents.
#[derive(Debug, Default)]
pub struct Shared<T: ?Sized>(pub Arc<T>);

impl<T> Shared<T> {
    /// Wraps a new value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}
impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
impl<T: ?Sized> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl<T: ?Sized> Eq for Shared<T> {}
impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T: ?Sized> From<Arc<T>> for Shared<T> {
    fn from(arc: Arc<T>) -> Self {
        Self(arc)
    }
}
