//! Changed policies that leave a route without its subset.
//!
//! The build calls it when it has the changed rules and VirtualServices. A subset and the routes to it are two objects, and who renames it
//! writes one after the other: between the two, requests would fail.

use std::collections::BTreeSet;

use tributary_model::{HostPattern, Hostname, Policy, PolicyKind, Subset};

use crate::state::State;
use crate::state::virtual_services::MergedVirtualService;

impl State {
    /// Decides whether the changed policies may wait for another change; otherwise clients may receive less now. `ruled` are the hosts of
    /// changed rules.
    pub(super) fn judge_policies(&mut self, ruled: &BTreeSet<HostPattern>) {
        if self.dirty.policies.is_empty() {
            return;
        }
        let mut led_to = self.context.virtual_services.destinations_of(ruled).into_iter();
        let is_incomplete = led_to.any(|host| self.lacks_subset_of(host)) || self.has_incomplete_routes();
        self.dirty.incomplete |= is_incomplete;
        self.dirty.urgent |= !is_incomplete;
    }
    /// Returns whether a route leads to a subset of the host that no rule has.
    fn lacks_subset_of(&self, host: &Hostname) -> bool {
        let leading = self.context.virtual_services.leading_to(host);
        let subsets = leading.flat_map(|of| of.subsets()).filter(|(of, _)| *of == host);
        subsets.into_iter().any(|(_, subset)| !self.has_subset(host, subset))
    }
    /// Returns whether a changed VirtualService, or one with a changed delegate, leads to a subset that no rule has.
    fn has_incomplete_routes(&self) -> bool {
        let known = &self.context.virtual_services;
        let changed = self.dirty.policies.iter().filter(|key| key.kind == PolicyKind::VirtualService);
        let concerned = changed.flat_map(|key| known.naming(key).chain([key]));
        concerned
            .filter_map(|key| known.get(key))
            .flat_map(MergedVirtualService::subsets)
            .any(|(host, subset)| !self.has_subset(host, subset))
    }
    fn has_subset(&self, host: &Hostname, subset: &Subset) -> bool {
        let context = &self.context;
        let rules = context.rules.matching(host).into_iter().flat_map(|of| of.all());
        rules.filter_map(|key| context.policies.ranked(key, &context.shards).first().copied()).any(
            |(_, declared)| match &declared.policy {
                Policy::DestinationRule(rule) => rule.subsets.iter().any(|one| one.name == *subset),
                Policy::Sidecar(_)
                | Policy::VirtualService(_)
                | Policy::EnvoyFilter(_)
                | Policy::PeerAuthentication(_)
                | Policy::AuthorizationPolicy(_)
                | Policy::RequestAuthentication(_)
                | Policy::Gateway(_) => false,
            },
        )
    }
}
