//! Keys of the client labels that policies compare: those by which rules order endpoints, and those that conditions of
//! VirtualServices name.
//!
//! The build writes them with each changed policy, and publishes them if they changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Labels, PolicyKey};

/// Label keys of each policy that compares any.
#[derive(Debug, Default)]
pub(crate) struct ComparedLabels(BTreeMap<PolicyKey, BTreeSet<Arc<str>>>);

impl ComparedLabels {
    /// Sets the keys that a policy compares. Returns whether they changed.
    pub(crate) fn set(&mut self, policy: &PolicyKey, keys: BTreeSet<Arc<str>>) -> bool {
        if keys.is_empty() {
            return self.0.remove(policy).is_some();
        }
        self.0.insert(policy.clone(), keys.clone()) != Some(keys)
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
