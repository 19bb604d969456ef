//! Decides which DestinationRules apply to the clients of a service.
//!
//! As in Istio: the rules of the client's namespace decide, else those that the service's namespace exports, else those
//! that the root namespace exports; in each the most specific host. Rules of one host and namespace add their subsets to
//! those of the first in precedence. The build calls it for each changed service.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    ByNamespace, ClusterPolicy, ConnectionPolicy, DestinationRule, EndpointPolicy, EndpointUse, ExportTo,
    HashKey, Hostname, Namespace, Policy, PolicyKey, PortNumber, PortPolicies, PrecedenceKey, ServiceKey,
    Subset, SubsetRule, TrafficPolicy, Visibility,
};

use crate::state::MergeContext;
use crate::state::host_patterns::ByOwner;
use crate::state::policies::rank;

/// Rules of one host and namespace as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergedRule {
    /// Settings of all endpoints, from the first rule that has any.
    pub(crate) policies: PortPolicies,
    /// Subsets, from the first rule that has the name.
    pub(crate) subsets: Vec<SubsetRule>,
    /// Rules, the first in precedence first; of the others those that add something.
    pub(crate) from: Arc<[PolicyKey]>,
}

/// Rules of one host and namespace, and the clients that may use them.
struct Exported {
    owner: Namespace,
    to: ExportTo,
    rule: Arc<MergedRule>,
}

/// Rules of one host and namespace while they are merged.
struct Merging {
    policies: PortPolicies,
    subsets: Vec<SubsetRule>,
    names: BTreeSet<Subset>,
    from: Vec<PolicyKey>,
    export: ExportTo,
}

/// What applies to the clients of each namespace.
pub(crate) type Applied = ByNamespace<Option<Arc<MergedRule>>>;

/// Returns the rules that apply to a service; `None` if no client has any.
pub(crate) fn applied(context: &MergeContext, service: &ServiceKey) -> Option<Applied> {
    let found = Found::new(context, &service.host);
    if found.by_pattern.is_empty() {
        return None;
    }
    let exported = found.exported(&service.namespace);
    let choice = |client: Option<&Namespace>| found.choose(&exported, client);
    let named = found.namespaces().into_iter().map(|client| (client.clone(), choice(Some(client))));
    let named: Vec<_> = named.collect();
    let applied = ByNamespace::new(choice(None), named);
    let is_any = applied.values().any(Option::is_some);
    is_any.then_some(applied)
}

/// The rules whose host matches that of a service.
struct Found<'c> {
    context: &'c MergeContext,
    by_pattern: Vec<&'c ByOwner>,
    root: Option<Namespace>,
}

impl<'c> Found<'c> {
    fn new(context: &'c MergeContext, host: &Hostname) -> Self {
        let root = context.settings.effective.root_namespace();
        Self { context, by_pattern: context.rules.matching(host), root }
    }
    /// Returns the namespaces whose clients may have other rules than a client without one.
    fn namespaces(&self) -> BTreeSet<&Namespace> {
        let rules = || self.by_pattern.iter().flat_map(|owners| owners.all());
        let owners = rules().map(|key| &key.namespace);
        let exports = rules().filter_map(|key| match &self.ranked(key)?.rule.export {
            ExportTo::Set(Visibility::Namespaces(list)) => Some(list),
            _ => None,
        });
        owners.chain(exports.flat_map(|list| list.iter())).collect()
    }
    /// Returns what the namespace of the service exports, and what the root namespace exports. Computed once, because
    /// rules may name very many namespaces.
    fn exported(&self, own: &Namespace) -> [Vec<Exported>; 2] {
        let of = |owner: &Namespace| self.merged(owner, |rule| !is_private(rule, owner));
        [of(own), self.root.as_ref().map(of).unwrap_or_default()]
    }
    fn choose(&self, exported: &[Vec<Exported>; 2], client: Option<&Namespace>) -> Option<Arc<MergedRule>> {
        let of_client = client.and_then(|client| {
            let is_root = self.root.as_ref() == Some(client);
            // rules that the root namespace exports are meant for all, so those of the service's namespace precede them
            let is_local = |rule: &DestinationRule| {
                if is_root { is_private(rule, client) } else { concerns(rule, client) }
            };
            // as in Istio, the last of several
            self.merged(client, is_local).pop()
        });
        let sees = |of: &&Exported| admits(&of.to, &of.owner, client);
        let found = of_client.as_ref().or_else(|| exported.iter().find_map(|all| all.iter().rfind(sees)));
        found.map(|of| Arc::clone(&of.rule))
    }
    /// Returns the rules of a namespace and of the most specific host among those of a kind, one per set of clients.
    fn merged(&self, owner: &Namespace, is_of_kind: impl Fn(&DestinationRule) -> bool) -> Vec<Exported> {
        let of_pattern = |owners: &&ByOwner| {
            let rules = owners.of(owner).iter().filter_map(|key| self.ranked(key));
            let found: Vec<_> =
                rules.filter(|found| found.rule.selector.is_empty() && is_of_kind(found.rule)).collect();
            (!found.is_empty()).then(|| merged(found))
        };
        let merged = self.by_pattern.iter().find_map(of_pattern).unwrap_or_default();
        merged.into_iter().map(|of| of.finish(owner)).collect()
    }
    fn ranked(&self, key: &'c PolicyKey) -> Option<RankedRule<'c>> {
        let first = self.context.policies.ranked(key, &self.context.shards).first().copied()?;
        match &first.1.policy {
            Policy::DestinationRule(rule) => Some(RankedRule { key, rank: rank(first), rule }),
            Policy::Sidecar(_)
            | Policy::VirtualService(_)
            | Policy::EnvoyFilter(_)
            | Policy::PeerAuthentication(_)
            | Policy::AuthorizationPolicy(_)
            | Policy::RequestAuthentication(_)
            | Policy::Gateway(_) => None,
        }
    }
}

/// Rule with its place in the order of precedence.
struct RankedRule<'c> {
    key: &'c PolicyKey,
    rank: PrecedenceKey<'c>,
    rule: &'c DestinationRule,
}

/// Merges the rules of one host and namespace: a rule adds to those that are exported to some of its clients only.
fn merged(mut rules: Vec<RankedRule<'_>>) -> Vec<Merging> {
    rules.sort_by(|a, b| a.rank.order(&b.rank));
    let mut out: Vec<Merging> = Vec::new();
    for RankedRule { key, rule, .. } in rules {
        let mut is_apart = true;
        for known in &mut out {
            // the last comparison decides, as in Istio
            is_apart = !contains(&rule.export, &known.export);
            if !is_apart {
                known.add(key, rule);
            }
        }
        if is_apart {
            out.push(Merging::new(key, rule));
        }
    }
    out
}

impl Merging {
    fn new(key: &PolicyKey, rule: &DestinationRule) -> Self {
        Self {
            policies: rule.policies.clone(),
            subsets: rule.subsets.to_vec(),
            names: rule.subsets.iter().map(|subset| subset.name.clone()).collect(),
            from: vec![key.clone()],
            export: rule.export.clone(),
        }
    }
    fn add(&mut self, key: &PolicyKey, rule: &DestinationRule) {
        let names = &mut self.names;
        let subsets: Vec<SubsetRule> =
            rule.subsets.iter().filter(|subset| names.insert(subset.name.clone())).cloned().collect();
        let sets_all = self.policies.is_empty() && !rule.policies.is_empty();
        if !subsets.is_empty() || sets_all {
            self.from.push(key.clone());
        }
        self.subsets.extend(subsets);
        if sets_all {
            self.policies = rule.policies.clone();
        }
    }
    fn finish(self, owner: &Namespace) -> Exported {
        let Self { policies, subsets, from, export, .. } = self;
        let rule = Arc::new(MergedRule { policies, subsets, from: from.into() });
        Exported { owner: owner.clone(), to: export, rule }
    }
}

impl MergedRule {
    /// Returns the settings of a port's xDS clusters.
    pub(crate) fn of_clusters(&self, port: PortNumber) -> ClusterPolicy {
        let whole = self.policies.of(port).clone();
        let subset = |subset: &SubsetRule| (subset.name.clone(), subset.policies.of_under(port, &whole));
        let subsets = self.subsets.iter().map(subset).collect();
        ClusterPolicy { subsets, whole, from: Arc::clone(&self.from) }
    }
    /// Returns the property of a request that decides its endpoint: that of the port's settings, else that of all ports.
    /// As in Istio, settings of the port without a hash do not take it away.
    pub(crate) fn of_routes(&self, port: PortNumber) -> Option<HashKey> {
        self.policies.of(port).hash().or_else(|| self.policies.all.hash()).cloned()
    }
    /// Returns the settings of a port's connections. As in Istio, those of TCP are the rule's for all ports.
    pub(crate) fn of_connections(&self, port: PortNumber) -> Option<ConnectionPolicy> {
        let all = &self.policies.all;
        let policy = ConnectionPolicy {
            hash: self.of_routes(port),
            by_source: all.hash() == Some(&HashKey::SourceIp),
            ..self.tcp_limits()
        };
        (policy != ConnectionPolicy::default()).then_some(policy)
    }
    /// Returns the property of requests that decides their endpoint, for a route to a subset or to all endpoints. Settings
    /// of a port count for a route to that port; those without such a property take none away.
    pub(crate) fn hash_of(&self, port: Option<PortNumber>, subset: Option<&Subset>) -> Option<HashKey> {
        let subset = self.subsets.iter().find(|own| Some(&own.name) == subset).map(|own| &own.policies);
        let of_port = |policies: &PortPolicies| policies.ports.get(&port?)?.hash().cloned();
        let of = |policies: &PortPolicies| of_port(policies).or_else(|| policies.all.hash().cloned());
        subset.and_then(of).or_else(|| of(&self.policies))
    }
    /// Iterates over the ports whose settings have such a property, for a route to a subset or to all endpoints.
    pub(crate) fn hashed_ports(&self, subset: Option<&Subset>) -> impl Iterator<Item = PortNumber> {
        let subset = self.subsets.iter().find(|own| Some(&own.name) == subset).map(|own| &own.policies);
        let ports = subset.into_iter().chain([&self.policies]).flat_map(|policies| policies.ports.iter());
        ports.filter(|(_, policy)| policy.hash().is_some()).map(|(port, _)| *port)
    }
    /// Returns the settings of connections that a route leads to a subset or to all endpoints. As in Istio, a subset only
    /// decides whether the client's address decides the endpoint.
    pub(crate) fn of_routed_connections(&self, subset: Option<&Subset>) -> Option<ConnectionPolicy> {
        let all = &self.policies.all;
        let of_subset = self.subsets.iter().find(|own| Some(&own.name) == subset);
        let balances = of_subset.map(|own| &own.policies.all).filter(|own| own.balancer.is_some());
        let policy = ConnectionPolicy {
            hash: None,
            by_source: balances.unwrap_or(all).hash() == Some(&HashKey::SourceIp),
            ..self.tcp_limits()
        };
        (policy != ConnectionPolicy::default()).then_some(policy)
    }
    /// Returns the limits of TCP connections.
    fn tcp_limits(&self) -> ConnectionPolicy {
        let pool = self.policies.all.pool.as_ref();
        ConnectionPolicy {
            idle_timeout: pool.and_then(|pool| pool.tcp_idle_timeout),
            max_duration: pool.and_then(|pool| pool.max_duration),
            ..ConnectionPolicy::default()
        }
    }
    /// Returns the order and the subsets of a port's endpoints; `None` if they are as without a rule. TLS decides about endpoints behind
    /// gateways only.
    pub(crate) fn of_endpoints(&self, port: PortNumber, is_gated: bool) -> Option<EndpointPolicy> {
        let ClusterPolicy { whole, subsets, .. } = self.of_clusters(port);
        let order = |policy: &TrafficPolicy| {
            let order = EndpointUse::of(policy);
            if is_gated { order.with_tls(policy) } else { order }
        };
        let labels = self.subsets.iter().map(|subset| subset.labels.clone());
        let subsets =
            subsets.iter().zip(labels).map(|((name, policy), labels)| (name.clone(), labels, order(policy)));
        let policy = EndpointPolicy { whole: order(&whole), subsets: subsets.collect() };
        (policy != EndpointPolicy::default()).then_some(policy)
    }
}

/// Whether a rule concerns the clients of its own namespace.
fn concerns(rule: &DestinationRule, own: &Namespace) -> bool {
    admits(&rule.export, own, Some(own))
}

/// Whether a rule concerns no clients but those of its own namespace.
fn is_private(rule: &DestinationRule, own: &Namespace) -> bool {
    match &rule.export {
        ExportTo::Default | ExportTo::Set(Visibility::Public | Visibility::Hidden) => false,
        ExportTo::Set(Visibility::Own) => true,
        ExportTo::Set(Visibility::Namespaces(list)) => **list == [own.clone()],
    }
}

fn admits(export: &ExportTo, own: &Namespace, client: Option<&Namespace>) -> bool {
    export.resolve(&Visibility::Public).admits(own, client)
}

/// Whether all clients of `other` are clients of `export` too, as Istio compares their lists.
fn contains(export: &ExportTo, other: &ExportTo) -> bool {
    match (export, other) {
        (ExportTo::Set(Visibility::Namespaces(all)), ExportTo::Set(Visibility::Namespaces(some))) => {
            some.iter().all(|one| all.contains(one))
        }
        _ => export == other,
    }
}
