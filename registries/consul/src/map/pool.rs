//! Shares values that many instances have in common: topologies, labels, ports, names.
//!
//! One registry's run loop owns it. Values without another owner are dropped when the pool has doubled, so it never
//! holds more than twice what is in use.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use tributary_model::{Labels, Topology};

use super::ports::Ports;

/// Values shared by instances.
#[derive(Debug, Default)]
pub struct Pool {
    texts: Table<str>,
    topologies: Table<Topology>,
    labels: HashSet<Labels>,
    label_limit: usize,
    ports: Table<Ports>,
}

impl Pool {
    /// Shares a string.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.share(text, || text.into())
    }
    /// Shares a topology.
    pub(super) fn topology(&mut self, topology: Topology) -> Arc<Topology> {
        self.topologies.share_owned(topology)
    }
    /// Shares ports.
    pub(super) fn ports(&mut self, ports: Ports) -> Arc<Ports> {
        self.ports.share_owned(ports)
    }
    /// Shares labels.
    pub(super) fn labels(&mut self, labels: Labels) -> Labels {
        if labels.is_empty() {
            return labels;
        }
        if let Some(known) = self.labels.get(&labels) {
            return known.clone();
        }
        if self.labels.len() >= self.label_limit.max(LEAST) {
            self.labels.retain(Labels::is_shared);
            self.label_limit = self.labels.len() * 2;
        }
        self.labels.insert(labels.clone());
        labels
    }
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.values.len() + self.topologies.values.len() + self.labels.len() + self.ports.values.len()
    }
    /// Returns whether it holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const LEAST: usize = 1024;

#[derive(Debug)]
struct Table<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    limit: usize,
}

impl<T: ?Sized + Eq + Hash> Default for Table<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), limit: LEAST }
    }
}

impl<T: ?Sized + Eq + Hash> Table<T> {
    fn share<Q: ?Sized + Eq + Hash>(&mut self, key: &Q, make: impl FnOnce() -> Arc<T>) -> Arc<T>
    where
        Arc<T>: Borrow<Q>,
    {
        if let Some(known) = self.values.get(key) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.limit {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.limit = (self.values.len() * 2).max(LEAST);
        }
        let value = make();
        self.values.insert(Arc::clone(&value));
        value
    }
}

impl<T: Eq + Hash> Table<T> {
    fn share_owned(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        let value = Arc::new(value);
        self.share(&*value, || Arc::clone(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_shared_and_unused_ones_dropped() {
        let mut pool = Pool::default();
        let first = pool.text("web");
        assert!(Arc::ptr_eq(&first, &pool.text("web")));
        let labels: Labels = [("a", "1")].into_iter().collect();
        let kept = pool.labels(labels);
        for i in 0..3 * LEAST {
            pool.text(&i.to_string());
            pool.labels([("a", &*i.to_string())].into_iter().collect());
        }
        assert!(pool.len() <= 2 * LEAST + 2, "{}", pool.len());
        assert!(Arc::ptr_eq(&first, &pool.text("web")), "what is held stays");
        drop(kept);
    }
}
