//! What a list of policies has: policies, those without a valid version, and objects of kinds that are not served.

use std::collections::BTreeMap;

use tributary_core::ProblemView;
use tributary_model::{Catalog, HostPattern, Hostname, ObjectId, Policy, PolicyKey, PolicyView};

use super::{PolicyFacts, forwarded, is_of_unserved_kind};
use crate::document::Filter;

/// Object of the list.
pub(super) enum Listed<'a> {
    /// Policy with a valid version.
    Served(&'a PolicyKey, &'a PolicyView),
    /// Policy without one.
    Invalid(&'a ProblemView),
    /// Object of a kind that is not served.
    OtherKind(&'a ProblemView),
}

impl<'a> Listed<'a> {
    /// Returns the key of a policy with a valid version.
    pub(super) const fn key(&self) -> Option<&'a PolicyKey> {
        match self {
            Self::Served(key, _) => Some(key),
            Self::Invalid(_) | Self::OtherKind(_) => None,
        }
    }
}

/// Returns everything that matches the filter: policies in the order of their keys, then objects of other kinds.
pub(super) fn matches<'a>(catalog: &'a Catalog, facts: &'a PolicyFacts, filter: &Filter) -> Vec<Listed<'a>> {
    let wanted = |key: &PolicyKey| takes(catalog, filter, key);
    let mut out: BTreeMap<PolicyKey, Listed<'_>> = BTreeMap::new();
    for (key, view) in catalog.policies.iter().filter(|(key, _)| wanted(key)) {
        if filter.takes_registry(view.shard.registry.name.as_str()) {
            out.insert(key.clone(), Listed::Served(key, view));
        }
    }
    for ((registry, key), problem) in facts.by_policy() {
        if wanted(&key) && filter.takes_registry(registry) && !catalog.policies.contains_key(&key) {
            out.entry(key).or_insert(Listed::Invalid(problem));
        }
    }
    out.into_values().chain(of_other_kinds(&facts.problems, filter)).collect()
}

/// Whether the filter matches. The filter's host is one of those that the policy concerns, also by a wildcard.
fn takes(catalog: &Catalog, filter: &Filter, key: &PolicyKey) -> bool {
    let policy = || catalog.policies.get(key).map(|view| view.policy());
    takes_object(filter, key.kind.as_str(), key.namespace.as_str(), &key.name)
        && filter.host.as_deref().is_none_or(|host| {
            policy().is_some_and(|policy| concerns(policy, key, catalog.settings.domain(), host))
        })
}

/// Whether a policy concerns a host.
fn concerns(policy: &Policy, key: &PolicyKey, domain: &str, host: &str) -> bool {
    let Ok(host) = Hostname::new(host) else { return false };
    let matches = |pattern: &HostPattern| pattern.completed(key.namespace.as_str(), domain).matches(&host);
    match policy {
        Policy::Sidecar(_)
        | Policy::EnvoyFilter(_)
        | Policy::PeerAuthentication(_)
        | Policy::AuthorizationPolicy(_)
        | Policy::RequestAuthentication(_) => false,
        Policy::Gateway(of) => forwarded(of).any(|import| import.host.matches(&host)),
        Policy::DestinationRule(of) => matches(&of.host),
        Policy::VirtualService(of) => of.hosts.iter().any(matches),
    }
}

/// Whether the filter matches; the name of a kind matches each object of it, which no object has as its own name.
fn takes_object(filter: &Filter, kind: &str, namespace: &str, name: &str) -> bool {
    let is_of_kind = filter.name.as_deref() == Some(kind);
    (is_of_kind || filter.takes_object(kind, namespace, name))
        && filter.takes_namespace(namespace)
        && filter.finds([kind, namespace, name])
}

/// Returns the objects whose kind is not served, in order.
fn of_other_kinds<'a>(problems: &'a [ProblemView], filter: &Filter) -> impl Iterator<Item = Listed<'a>> {
    let is_wanted = |problem: &&ProblemView| {
        let ObjectId { kind, namespace, name } = &problem.object.id;
        filter.host.is_none()
            && is_of_unserved_kind(problem)
            && takes_object(filter, kind, namespace, name)
            && filter.takes_registry(problem.registry.as_str())
    };
    let mut all: Vec<&ProblemView> = problems.iter().filter(is_wanted).collect();
    all.sort_by(|a, b| (&a.object.id, &a.registry).cmp(&(&b.object.id, &b.registry)));
    all.into_iter().map(Listed::OtherKind)
}
