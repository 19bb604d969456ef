//! Shares values that many instances have in common: topologies, labels, ports, names.
//!
//! One registry's run loop owns it. Bounded by twice the values in use.

use std::sync::Arc;

use tributary_model::{Labels, Topology};
use tributary_registry_api::Interned;

use super::ports::Ports;

/// Values shared by instances.
#[derive(Debug, Default)]
pub struct Interner {
    texts: Interned<Arc<str>>,
    topologies: Interned<Arc<Topology>>,
    labels: Interned<Labels>,
    ports: Interned<Arc<Ports>>,
}

impl Interner {
    /// Shares a string.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.get(text, || text.into())
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
        self.labels.share(labels)
    }
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len() + self.topologies.len() + self.labels.len() + self.ports.len()
    }
    /// Returns whether it holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: usize = Interned::<Labels>::LEAST;

    #[test]
    fn equal_values_are_shared_and_unused_ones_dropped() {
        let mut interner = Interner::default();
        let first = interner.text("web");
        assert!(Arc::ptr_eq(&first, &interner.text("web")));
        let labels: Labels = [("a", "1")].into_iter().collect();
        let kept = interner.labels(labels);
        for i in 0..3 * LEAST {
            interner.text(&i.to_string());
            interner.labels([("a", &*i.to_string())].into_iter().collect());
        }
        assert!(interner.len() <= 2 * LEAST + 2, "{}", interner.len());
        assert!(Arc::ptr_eq(&first, &interner.text("web")), "what is held stays");
        drop(kept);
    }
}
