//! Services that a changed VirtualService may concern.
//!
//! The build calls it before it builds services.

use std::collections::BTreeSet;

use tributary_model::{PolicyKey, PolicyKind};

use crate::merge::virtual_services::merged;
use crate::state::State;
use crate::state::virtual_services::MergedVirtualService;

impl State {
    /// Merges changed VirtualServices and those with changed delegates, and marks their services. Returns whether the
    /// client labels changed that their conditions name.
    pub(super) fn follow_virtual_services(&mut self) -> bool {
        let changed = self.dirty.policies.iter().filter(|key| key.kind == PolicyKind::VirtualService);
        let known = &self.context.virtual_services;
        let again = changed.flat_map(|key| known.naming(key).chain([key]));
        let again: BTreeSet<PolicyKey> = again.cloned().collect();
        let (mut patterns, mut relabeled) = (BTreeSet::new(), false);
        for key in again {
            let merged = merged(&self.context, &key);
            let labels = merged.as_ref().map(MergedVirtualService::compared_labels).unwrap_or_default();
            relabeled |= self.context.labels.set(&key, labels);
            patterns.extend(self.context.virtual_services.set(&key, merged));
        }
        self.dirty.services.extend(self.hosts.matching(&patterns));
        relabeled
    }
    /// Completes short names again, after the domain changed. All services are built again then.
    pub(super) fn complete_virtual_services(&mut self) {
        let all: Vec<PolicyKey> = self.context.virtual_services.keys().cloned().collect();
        for key in all {
            let merged = merged(&self.context, &key);
            self.context.virtual_services.set(&key, merged);
        }
    }
}
