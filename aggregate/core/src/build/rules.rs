//! Services that a changed DestinationRule may concern, those with routes to them included, and what the rules set for
//! each of their ports.
//!
//! The build calls it before it builds services.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    ByNamespace, ClusterPolicy, ConnectionPolicy, DestinationRule, EndpointPolicy, HashKey, HostPattern,
    Policy, PolicyKind, PortNumber, ServiceKey,
};

use crate::merge::rules::{Applied, MergedRule, applied};
use crate::state::{MergeContext, State};

/// Values of a port, by the namespace of the client; `None` if no rule concerns it.
pub(super) type PortRules<T> = Option<Arc<ByNamespace<Option<Arc<T>>>>>;

impl State {
    /// Marks the services of changed rules. Returns whether the client labels changed by which rules order endpoints, and the hosts
    /// of the rules before and after their change.
    pub(super) fn follow_rules(&mut self) -> (bool, BTreeSet<HostPattern>) {
        let context = &mut self.context;
        let (mut patterns, mut relabeled) = (BTreeSet::new(), false);
        for key in self.dirty.policies.iter().filter(|key| key.kind == PolicyKind::DestinationRule) {
            let first = context.policies.ranked(key, &context.shards).first().map(|(_, declared)| *declared);
            let rule = first.and_then(|declared| match &declared.policy {
                Policy::DestinationRule(rule) => Some(rule),
                Policy::Sidecar(_)
                | Policy::VirtualService(_)
                | Policy::EnvoyFilter(_)
                | Policy::PeerAuthentication(_)
                | Policy::AuthorizationPolicy(_)
                | Policy::RequestAuthentication(_)
                | Policy::Gateway(_) => None,
            });
            let host = rule.map(|rule| &rule.host);
            relabeled |=
                context.labels.set(key, rule.map(DestinationRule::compared_labels).unwrap_or_default());
            patterns.extend(context.rules.set(key, host, &context.settings.effective));
        }
        let services = self.hosts.matching(&patterns);
        let routed = self.routed_to(services.iter().map(|key| &key.host));
        self.dirty.services.extend(routed);
        self.dirty.services.extend(services);
        (relabeled, patterns)
    }
}

/// What the rules of a service set for its ports.
pub(super) struct ServiceRules(Option<Applied>);

impl ServiceRules {
    pub(super) fn of(context: &MergeContext, key: &ServiceKey) -> Self {
        Self(if context.rules.is_empty() { None } else { applied(context, key) })
    }
    /// Returns what they set for the xDS clusters of a port.
    pub(super) fn of_clusters(
        &self,
        port: PortNumber,
        old: Option<&PortRules<ClusterPolicy>>,
    ) -> PortRules<ClusterPolicy> {
        self.made(old, |rule| Some(rule.of_clusters(port)))
    }
    /// Returns what they set for the assignments of a port.
    pub(super) fn of_endpoints(
        &self,
        port: PortNumber,
        is_gated: bool,
        old: Option<&PortRules<EndpointPolicy>>,
    ) -> PortRules<EndpointPolicy> {
        self.made(old, |rule| rule.of_endpoints(port, is_gated))
    }
    /// Returns what they set for the routes of a port.
    pub(super) fn of_routes(&self, port: PortNumber, old: Option<&PortRules<HashKey>>) -> PortRules<HashKey> {
        self.made(old, |rule| rule.of_routes(port))
    }
    /// Returns what they set for the connections of a port without a route table.
    pub(super) fn of_connections(
        &self,
        port: PortNumber,
        old: Option<&PortRules<ConnectionPolicy>>,
    ) -> PortRules<ConnectionPolicy> {
        self.made(old, |rule| rule.of_connections(port))
    }
    fn made<T: PartialEq>(
        &self,
        old: Option<&PortRules<T>>,
        make: impl Fn(&MergedRule) -> Option<T>,
    ) -> PortRules<T> {
        let values = self.0.as_ref()?.map(|rule| rule.as_deref().and_then(&make).map(Arc::new));
        if values.values().all(Option::is_none) {
            return None;
        }
        let same = old.and_then(Option::as_ref).filter(|old| ***old == values);
        Some(same.map_or_else(|| Arc::new(values), Arc::clone))
    }
}
