//! Services that a changed VirtualService may concern.
//!
//! The build calls it before it builds services.

use std::collections::BTreeSet;

use tributary_model::{HostPattern, Hostname, PolicyKey, PolicyKind, ServiceKey};

use crate::merge::outline::outlines;
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
    /// Returns the services with routes to hosts of which the first claimant, or the end as an alias, may have changed.
    pub(super) fn led_to<'h>(&self, hosts: impl Iterator<Item = &'h Hostname>) -> BTreeSet<ServiceKey> {
        let context = &self.context;
        let led = hosts.filter(|host| {
            context.virtual_services.leading_to(host).next().is_some() && self.may_lead_elsewhere(host)
        });
        let routed = led.flat_map(|host| context.virtual_services.leading_to(host));
        let patterns: BTreeSet<HostPattern> =
            routed.flat_map(|routed| routed.owner.hosts.iter()).cloned().collect();
        self.hosts.matching(&patterns)
    }
    fn may_lead_elsewhere(&self, host: &Hostname) -> bool {
        let before = self.draft.hosts.get(host).and_then(|entry| entry.claimants.first());
        let now = outlines(&self.context, &self.hosts, host);
        let now = now.first().map(|outline| &outline.service.key);
        before.map(|view| &view.key) != now || self.context.names.aliases.declares(host)
    }
}
