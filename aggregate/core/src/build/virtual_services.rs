//! Services and hosts that a changed VirtualService may concern.
//!
//! The build calls it before it builds services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{HostPattern, Hostname, PolicyKey, PolicyKind, RouteOwner, ServiceKey};

use crate::merge::destinations::only_port;
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
            self.mark_led_to(&key, merged.as_ref());
            let labels = merged.as_ref().map(MergedVirtualService::compared_labels).unwrap_or_default();
            relabeled |= self.context.labels.set(&key, labels);
            patterns.extend(self.context.virtual_services.set(&key, merged));
        }
        let services = self.concerned(&patterns);
        self.dirty.services.extend(services);
        relabeled
    }
    /// Completes short names again, after the domain changed. All services are built again then.
    pub(super) fn complete_virtual_services(&mut self) {
        let all: Vec<PolicyKey> = self.context.virtual_services.keys().cloned().collect();
        for key in all {
            let merged = merged(&self.context, &key);
            let patterns = self.context.virtual_services.set(&key, merged);
            self.dirty.hosts.extend(hosts_of(&patterns));
        }
    }
    /// Returns the services with routes to hosts of which the first claimant, its only port, or the end as an alias may have
    /// changed.
    pub(super) fn led_to<'h>(&mut self, hosts: impl Iterator<Item = &'h Hostname>) -> BTreeSet<ServiceKey> {
        let mut patterns = BTreeSet::new();
        for host in hosts {
            let leading = self.leading_to(host);
            if !leading.is_empty() && self.may_lead_elsewhere(host) {
                patterns.extend(leading);
            }
        }
        self.concerned(&patterns)
    }
    /// Returns the services with routes to these hosts, or to aliases that end at them.
    pub(super) fn routed_to<'h>(
        &mut self,
        hosts: impl Iterator<Item = &'h Hostname>,
    ) -> BTreeSet<ServiceKey> {
        let patterns = hosts.flat_map(|host| self.leading_to(host)).collect();
        self.concerned(&patterns)
    }
    /// Returns the services of which the host matches a pattern, and marks the hosts that are one.
    fn concerned(&mut self, patterns: &BTreeSet<HostPattern>) -> BTreeSet<ServiceKey> {
        self.dirty.hosts.extend(hosts_of(patterns));
        self.hosts.matching(patterns)
    }
    /// Returns the hosts of the VirtualServices with routes to a host, or to an alias that ends at it.
    fn leading_to(&self, host: &Hostname) -> Vec<HostPattern> {
        self.led_by(host).iter().flat_map(|owner| owner.hosts.iter()).cloned().collect()
    }
    /// Returns the VirtualServices with routes to a host, or to an alias that ends at it, by key.
    pub(super) fn led_by(&self, host: &Hostname) -> Vec<Arc<RouteOwner>> {
        let context = &self.context;
        if context.virtual_services.is_empty() {
            return Vec::new();
        }
        let aliases = context.names.aliases_of(host);
        let named = aliases.iter().map(|alias| &alias.host).chain([host]);
        let routed = named.flat_map(|host| context.virtual_services.leading_to(host));
        let by_key: BTreeMap<_, _> = routed.map(|routed| (&routed.owner.key, &routed.owner)).collect();
        by_key.into_values().cloned().collect()
    }
    /// Marks the hosts to which a VirtualService leads, or led, if that or whom it concerns changed.
    fn mark_led_to(&mut self, key: &PolicyKey, now: Option<&MergedVirtualService>) {
        let before = self.context.virtual_services.get(key);
        let hosts = |of: Option<&MergedVirtualService>| -> BTreeSet<Hostname> {
            of.into_iter().flat_map(|of| of.hosts_of_destinations().cloned()).collect()
        };
        let (had, has) = (hosts(before), hosts(now));
        let same_owner = before.map(|before| &before.owner) == now.map(|now| &now.owner);
        let changed: BTreeSet<Hostname> = if same_owner { &had ^ &has } else { &had | &has };
        for host in changed {
            // any claimant may be an alias, not only the first one; ends that change now mark their hosts themselves
            self.dirty.hosts.extend(self.context.names.aliases.ends_of(&host).cloned());
            self.dirty.hosts.insert(host);
        }
    }
    fn may_lead_elsewhere(&self, host: &Hostname) -> bool {
        let before = self.draft.hosts.get(host).and_then(|entry| entry.claimants.first());
        let all = outlines(&self.context, &self.hosts, host);
        let now = all.first().map(|outline| &outline.service.key);
        let port = before.and_then(|view| if let [only] = &*view.ports { Some(only.number) } else { None });
        before.map(|view| &view.key) != now
            || before.is_some_and(|view| view.alias_target().is_some())
            || port != only_port(&self.context, &self.hosts, host)
            || self.context.names.aliases.declares(host)
    }
}

/// Returns the hosts that are patterns, wildcards included.
fn hosts_of(patterns: &BTreeSet<HostPattern>) -> impl Iterator<Item = Hostname> {
    patterns.iter().filter_map(|pattern| Hostname::new(pattern.as_str()).ok())
}
