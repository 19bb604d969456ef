//! Objects that the runs of one registry pass on: the last objects of the kinds that affect all others.
//!
//! Shared by a factory and its runs. A run that may not read such a kind derives from the objects of the last run, so
//! that a narrower credential changes no fact: an unreadable mesh configuration must not open what it closed, and
//! nodes, namespaces and exports must not move or hide endpoints. Kept for the lifetime of the process; these kinds have
//! few objects compared with slices and pods, and share them with the tables of the run.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tributary_model::Fingerprint;

use crate::kind::{Kind, Name, WatchScope};
use crate::project::Object;

/// Objects of earlier runs.
#[derive(Debug, Default)]
pub struct RunMemory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    identity: Option<Fingerprint>,
    scopes: BTreeMap<WatchScope, BTreeMap<Name, Object>>,
}

impl RunMemory {
    /// Whether objects of a kind are passed on.
    #[must_use]
    pub const fn keeps(kind: Kind) -> bool {
        matches!(kind, Kind::MeshConfig | Kind::Namespace | Kind::Node | Kind::Export)
    }
    /// Returns the last known objects of a watch; `None` if it never listed.
    #[must_use]
    pub fn recall(&self, scope: &WatchScope) -> Option<Vec<Object>> {
        self.0.lock().scopes.get(scope).map(|objects| objects.values().cloned().collect())
    }
    /// Records the complete list of a watch.
    pub fn keep(&self, scope: &WatchScope, objects: impl IntoIterator<Item = Object>) {
        if Self::keeps(scope.kind) {
            let objects = objects.into_iter().map(|object| (object.name().clone(), object)).collect();
            self.0.lock().scopes.insert(scope.clone(), objects);
        }
    }
    /// Records a changed or (with `None`) deleted object of a watch that has listed.
    pub fn note(&self, scope: &WatchScope, name: &Name, object: Option<Object>) {
        if let Some(objects) = self.0.lock().scopes.get_mut(scope) {
            match object {
                Some(object) => drop(objects.insert(name.clone(), object)),
                None => drop(objects.remove(name)),
            }
        }
    }
    /// Records the identity of the cluster; removes what is known of any other cluster.
    pub fn identify(&self, identity: &Fingerprint) {
        let mut known = self.0.lock();
        if known.identity.as_ref().is_some_and(|was| was != identity) {
            known.scopes.clear();
        }
        known.identity = Some(identity.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{mk_namespace, mk_service};
    use serde_json::json;

    #[test]
    fn objects_of_kept_kinds_last_until_the_cluster_changes() {
        let memory = RunMemory::default();
        let scope = WatchScope::all(Kind::Namespace);
        assert_eq!(memory.recall(&scope), None);
        memory.note(&scope, &Name::new("", "early"), Some(mk_namespace("early", json!({}))));
        assert_eq!(memory.recall(&scope), None, "a list comes first");
        memory.keep(&scope, [mk_namespace("a", json!({}))]);
        memory.note(&scope, &Name::new("", "b"), Some(mk_namespace("b", json!({}))));
        memory.note(&scope, &Name::new("", "a"), None);
        assert_eq!(memory.recall(&scope), Some(vec![mk_namespace("b", json!({}))]));
        memory.keep(&WatchScope::all(Kind::Service), [mk_service("pay", json!({}))]);
        assert_eq!(memory.recall(&WatchScope::all(Kind::Service)), None);
        let uid = |text: &str| Fingerprint::new(text).unwrap();
        memory.identify(&uid("one"));
        memory.identify(&uid("one"));
        assert!(memory.recall(&scope).is_some());
        memory.identify(&uid("two"));
        assert_eq!(memory.recall(&scope), None);
    }
}
