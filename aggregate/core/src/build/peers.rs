//! Services whose endpoints a changed PeerAuthentication may concern.
//!
//! The build calls it before it builds services.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Namespace, PolicyKind};

use crate::state::State;

impl State {
    /// Follows changed PeerAuthentications, and marks the services of their namespaces if modes of endpoints may change.
    pub(super) fn follow_peers(&mut self) {
        let kind = PolicyKind::PeerAuthentication;
        let dirty = self.dirty.policies.iter().filter(|key| key.kind == kind);
        let namespaces: BTreeSet<Namespace> = dirty.map(|key| key.namespace.clone()).collect();
        let context = &mut self.context;
        let root = context.settings.effective.root_namespace();
        let changed = |namespace: &Namespace| {
            let all = context.policies.in_order(kind, namespace, &context.shards);
            let all = all.into_iter().map(|(_, declared)| Arc::clone(declared)).collect();
            context.peers.set(root.as_ref(), namespace, all)
        };
        let namespaces: BTreeSet<Namespace> = namespaces.into_iter().filter(changed).collect();
        if namespaces.is_empty() {
            return;
        }
        let is_mesh = root.is_some_and(|root| namespaces.contains(&root));
        let keys = self.hosts.iter().map(|service| &service.key);
        let concerned = keys.filter(|key| is_mesh || namespaces.contains(&key.namespace));
        self.dirty.services.extend(concerned.cloned());
    }
}
