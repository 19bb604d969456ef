//! Keys of the client labels that policies compare: those by which rules and the mesh order endpoints, and those that
//! conditions of VirtualServices name.
//!
//! The build writes them with each changed policy, and publishes them if they changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Labels, LocalityBalancing, PolicyKey};

/// Label keys of each policy that compares any, and those of the mesh, which have no policy.
#[derive(Debug, Default)]
pub(crate) struct ComparedLabels(BTreeMap<Option<PolicyKey>, BTreeSet<Arc<str>>>);

impl ComparedLabels {
    /// Sets the keys that a policy compares. Returns whether they changed.
    pub(crate) fn set(&mut self, policy: &PolicyKey, keys: BTreeSet<Arc<str>>) -> bool {
        self.replace(Some(policy.clone()), keys)
    }
    /// Sets the keys that the mesh compares. Returns whether they changed.
    pub(crate) fn set_mesh(&mut self, locality: Option<&LocalityBalancing>) -> bool {
        let keys = locality.into_iter().flat_map(LocalityBalancing::compared_labels);
        self.replace(None, keys.cloned().collect())
    }
    fn replace(&mut self, of: Option<PolicyKey>, keys: BTreeSet<Arc<str>>) -> bool {
        if keys.is_empty() {
            return self.0.remove(&of).is_some();
        }
        self.0.insert(of, keys.clone()) != Some(keys)
    }
    /// Returns the keys of all policies, sorted. Beyond the limit of a set of labels, the greatest keys do not count.
    pub(crate) fn all(&self) -> Arc<[Arc<str>]> {
        let all: BTreeSet<&Arc<str>> = self.0.values().flatten().collect();
        all.into_iter().take(Labels::MAX).cloned().collect()
    }
    /// Whether no policy compares any label.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{Namespace, PolicyKind};

    use super::*;

    fn mk_key(kind: PolicyKind) -> PolicyKey {
        PolicyKey { kind, namespace: Namespace::new("shop").unwrap(), name: "p".into() }
    }
    fn keys<const N: usize>(keys: [&str; N]) -> BTreeSet<Arc<str>> {
        keys.into_iter().map(Arc::from).collect()
    }

    #[test]
    fn keys_of_rules_and_of_virtual_services_count_together() {
        let (rule, route) = (mk_key(PolicyKind::DestinationRule), mk_key(PolicyKind::VirtualService));
        let mut labels = ComparedLabels::default();
        assert!(labels.set(&rule, keys(["b", "c"])) && labels.set(&route, keys(["a", "b"])));
        assert_eq!(*labels.all(), ["a", "b", "c"].map(Arc::from));
        assert!(!labels.set(&route, keys(["a", "b"])), "nothing changed");
        assert!(labels.set(&rule, keys([])));
        assert_eq!(*labels.all(), ["a", "b"].map(Arc::from));
        assert!(labels.set(&route, keys([])) && !labels.set(&route, keys([])) && labels.is_empty());
    }
}
