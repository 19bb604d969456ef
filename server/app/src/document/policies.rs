//! Policies as documents: their source, what they select, their spec, and the conditions that concern them.

mod facts;
mod listed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tributary_answer::{Beside, Selectable, policy_conditions};
use tributary_core::ProblemView;
use tributary_model::{
    AttributeMatch, AuthorizationRule, Catalog, Code, Collection, CollectionKind, Condition,
    ForwardingGateway, HostImport, Labels, Namespace, ObjectId, Policy, PolicyKey, PolicyKind, PolicyView,
    TokenKeys, TokenRule,
};
use tributary_xds::answers::{RefusedPatches, UsedPatches};

use super::endpoints::freshness_text;
use super::filter::Filter;
use super::policy_spec::spec;
use super::{ConditionItem, ObjectItem, Page, timestamp};
use listed::{Listed, matches};

/// One policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyItem {
    /// `Sidecar`, `DestinationRule`, `VirtualService`, `EnvoyFilter`, `Gateway`, `PeerAuthentication`,
    /// `AuthorizationPolicy` or `RequestAuthentication`; or a kind whose objects are not served, such as `Telemetry`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `Served`; `Quarantined`: the newest version is not valid, and an older one, or what stands in for it, is served; `NotServed`: no version was
    /// valid, or no object of the kind is served.
    #[serde(default)]
    pub status: String,
    /// Whether it is an AuthorizationPolicy that only reports what it would do, as its annotation `istio.io/dry-run` sets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Code of the reason why a version is not served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Why a version is not served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Registry that reports it.
    pub registry: String,
    /// Scope that reports it; empty if it is not served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// Freshness of that scope: `Live`, `Stale: why`, `Syncing`, `Unknown`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub freshness: String,
    /// Object that declares it.
    pub source: ObjectItem,
    /// Creation time; empty if the source has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Hosts that it concerns, if it is of a kind that concerns some: the first three, and the number of the others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Labels of the workloads that it selects; empty for all workloads of its namespace, or for all clients; absent if it is
    /// not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// Spec as it is served, without fields that have no effect.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionItem>,
}

/// Most items, such as egress hosts and subsets, in the specs of one list.
const MAX_SPEC_ITEMS: usize = 200_000;

/// Most hosts of a policy that are named one by one.
const SHOWN_HOSTS: usize = 3;

/// What the catalog does not have about policies.
#[derive(Debug, Default)]
pub struct PolicyFacts {
    /// Problems of policies: objects whose newest version is not valid; and of objects whose kind is not served.
    pub problems: Vec<ProblemView>,
    /// Connected clients.
    pub clients: Vec<Selectable>,
    /// Patches that changed something for a connected client.
    pub used_patches: UsedPatches,
    /// Patches that were left out of resources of a connected client.
    pub refused_patches: RefusedPatches,
    /// EnvoyFilters that changed resources which connected clients reject, and DestinationRules with files that they reject.
    pub rejected_patches: RejectedPatches,
}

/// Rejected resources by EnvoyFilter.
pub type RejectedPatches = BTreeMap<PolicyKey, RejectedPatch>;

/// Resources that an EnvoyFilter changed and that clients reject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedPatch {
    /// Number of clients that reject such a resource.
    pub clients: usize,
    /// Type and name of each, such as `RDS 80`, with the error text of a client.
    pub resources: BTreeMap<String, Arc<str>>,
    /// Most EnvoyFilters that changed one of them.
    pub filters: usize,
    /// Whether it may have been another resource that clients rejected.
    pub is_suspected: bool,
}

impl RejectedPatch {
    /// Adds what other clients reject, or other resources.
    pub fn add(&mut self, other: Self) {
        for (resource, text) in other.resources {
            self.resources.entry(resource).or_insert(text);
        }
        self.filters = self.filters.max(other.filters);
        self.is_suspected &= other.is_suspected;
    }
}

/// Returns the policies that match the filter, in order. Judges and describes those of the page only.
#[must_use]
pub fn list(catalog: &Catalog, facts: &PolicyFacts, filter: &Filter) -> Page<PolicyItem> {
    let page = Page::of(matches(catalog, facts, filter), filter, |one| one);
    let keys: BTreeSet<&PolicyKey> = page.items.iter().filter_map(Listed::key).collect();
    let beside = Beside { clients: &facts.clients, elsewhere: None };
    let more = policy_conditions(catalog, beside, &|key| keys.contains(key));
    let problems = facts.by_policy();
    let mut specs = MAX_SPEC_ITEMS;
    let mut build = |one: &Listed<'_>| match one {
        Listed::Served(key, view) => {
            let problem = problems.get(&(view.shard.registry.name.as_str(), (*key).clone())).copied();
            let mut conditions = more.get(*key).cloned().unwrap_or_default();
            conditions.extend(facts.conditions(key, view));
            let spec = bounded_spec(view, &mut specs);
            PolicyItem { spec, ..item(catalog, key, view, &conditions, problem) }
        }
        Listed::Invalid(problem) => without_version(problem, format!("not valid: {}", described(problem))),
        Listed::OtherKind(problem) => without_version(problem, described(problem)),
    };
    Page { items: page.items.iter().map(&mut build).collect(), total: page.total }
}

impl PolicyFacts {
    /// Returns the problems of policies, by registry and policy.
    fn by_policy(&self) -> BTreeMap<(&str, PolicyKey), &ProblemView> {
        let served = self.problems.iter().filter(|problem| !is_of_unserved_kind(problem));
        served.filter_map(|problem| Some((of_problem(problem)?, problem))).collect()
    }
}

/// Whether a problem is that no object of this kind is served.
#[must_use]
pub fn is_of_unserved_kind(problem: &ProblemView) -> bool {
    problem.problem.code == Code::KIND_NOT_SERVED && !problem.object.id.namespace.is_empty()
}

/// Returns the spec of a policy, as long as the specs of a list have not too many items.
fn bounded_spec(view: &PolicyView, left: &mut usize) -> Value {
    let items = items(view.policy());
    if items > *left {
        return "left out: the list has too many items; name one policy".into();
    }
    *left -= items;
    spec(view.policy())
}

/// Returns about how many items the spec of a policy has.
fn items(policy: &Policy) -> usize {
    match policy {
        Policy::Sidecar(of) => 1 + of.egress.iter().map(|one| 1 + one.hosts.len()).sum::<usize>(),
        Policy::DestinationRule(of) => {
            let subsets = of.subsets.iter().map(|subset| 1 + subset.policies.ports.len());
            1 + of.policies.ports.len() + subsets.sum::<usize>()
        }
        Policy::VirtualService(of) => {
            let l4 = of.tls.iter().map(|route| route.matches.len() + route.destinations.len());
            let l4 = l4.chain(of.tcp.iter().map(|route| route.matches.len() + route.destinations.len()));
            let http =
                of.http.iter().map(|route| 1 + route.matches.len() + route.action.destinations().len());
            1 + of.hosts.len() + l4.chain(http).sum::<usize>()
        }
        Policy::PeerAuthentication(of) => 1 + of.ports.len(),
        Policy::AuthorizationPolicy(of) => 1 + of.rules.iter().map(items_of_rule).sum::<usize>(),
        Policy::RequestAuthentication(of) => 1 + of.rules.iter().map(items_of_tokens).sum::<usize>(),
        Policy::Gateway(of) => 1 + of.servers.iter().map(|server| 1 + server.hosts.len()).sum::<usize>(),
        // an item has about 20 bytes
        Policy::EnvoyFilter(of) => {
            let patches = of.patches.iter();
            1 + patches
                .map(|patch| 1 + patch.value.as_ref().map_or(0, |value| value.len() / 20))
                .sum::<usize>()
        }
    }
}

fn items_of_rule(rule: &AuthorizationRule) -> usize {
    let clauses = rule.from.iter().chain(rule.to.iter()).flat_map(|clause| clause.iter());
    let values = |one: &AttributeMatch| 1 + one.values.len() + one.not.len();
    1 + clauses.chain(rule.when.iter()).map(values).sum::<usize>()
}

fn items_of_tokens(rule: &TokenRule) -> usize {
    let keys = if let TokenKeys::Inline(keys) = &rule.keys { keys.len() / 20 } else { 1 };
    let lists = [&rule.audiences, &rule.params, &rule.cookies, &rule.spaced_claims];
    let texts = lists.iter().map(|list| list.len()).sum::<usize>();
    1 + keys + texts + rule.headers.len() + rule.claim_headers.len()
}

/// Returns the hosts that a policy concerns.
fn host(policy: &Policy) -> String {
    match policy {
        Policy::Sidecar(_)
        | Policy::EnvoyFilter(_)
        | Policy::PeerAuthentication(_)
        | Policy::AuthorizationPolicy(_)
        | Policy::RequestAuthentication(_) => String::new(),
        Policy::DestinationRule(of) => of.host.to_string(),
        Policy::VirtualService(of) => named(of.hosts.iter().map(ToString::to_string)),
        Policy::Gateway(of) => named(forwarded(of).map(ToString::to_string)),
    }
}

/// Returns the hosts of services to which routers forward.
fn forwarded(gateway: &ForwardingGateway) -> impl Iterator<Item = &HostImport> {
    gateway.servers.iter().flat_map(|server| server.hosts.iter())
}

/// Names the first of some hosts.
fn named(mut hosts: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = hosts.by_ref().take(SHOWN_HOSTS).collect();
    let more = hosts.count();
    let more = if more > 0 { format!(" +{more}") } else { String::new() };
    shown.join(",") + &more
}

/// Returns the labels of the workloads or clients that a policy selects.
const fn selector(policy: &Policy) -> Option<&Labels> {
    match policy {
        Policy::Sidecar(of) => Some(&of.selector),
        Policy::DestinationRule(of) => Some(&of.selector),
        Policy::VirtualService(_) => None,
        Policy::EnvoyFilter(of) => Some(&of.selector),
        Policy::PeerAuthentication(of) => Some(&of.selector),
        Policy::AuthorizationPolicy(of) => Some(&of.selector),
        Policy::RequestAuthentication(of) => Some(&of.selector),
        Policy::Gateway(of) => Some(&of.selector),
    }
}

/// Returns the registry and the key of the policy that a problem is about.
#[must_use]
pub fn of_problem(problem: &ProblemView) -> Option<(&str, PolicyKey)> {
    // a Gateway of gateway-api, which is no policy, has problems as the gateway of a network
    if matches!(
        problem.problem.code,
        Code::GATEWAY_UNUSABLE | Code::GATEWAY_NAME_UNRESOLVED | Code::GATEWAY_NAME_FAILING
    ) {
        return None;
    }
    let id = &problem.object.id;
    let (kind, namespace) = (PolicyKind::parse(id.kind)?, Namespace::new(&*id.namespace).ok()?);
    Some((problem.registry.as_str(), PolicyKey { kind, namespace, name: Arc::clone(&id.name) }))
}

/// Describes a problem; its message has the position.
fn described(problem: &ProblemView) -> String {
    format!("{} {}", problem.problem.code, problem.problem.message)
}

/// Whether a problem is about a part of an object, which is served without it: a field of a patch, or of an object of a
/// cluster. Those of files are refused with another code.
#[must_use]
pub fn is_of_part(code: Code) -> bool {
    code == Code::PATCH_FIELD_UNKNOWN || code == Code::FIELD_UNKNOWN
}

/// Returns the state of a policy with a valid version. A Gateway without a server that is served does nothing.
fn status(policy: &Policy, is_kept: bool) -> &'static str {
    match policy {
        _ if is_kept => "Quarantined",
        Policy::Gateway(gateway) if gateway.servers.is_empty() => "NotServed",
        _ => "Served",
    }
}

/// Returns the item of an object of which no version is served, for this reason.
fn without_version(problem: &ProblemView, reason: String) -> PolicyItem {
    let ObjectId { kind, namespace, name } = &problem.object.id;
    PolicyItem {
        kind: (*kind).to_owned(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        status: "NotServed".to_owned(),
        code: problem.problem.code.to_string(),
        reason,
        registry: problem.registry.to_string(),
        source: ObjectItem::from(&problem.object),
        ..PolicyItem::default()
    }
}

fn item(
    catalog: &Catalog,
    key: &PolicyKey,
    view: &PolicyView,
    more: &[Condition],
    problem: Option<&ProblemView>,
) -> PolicyItem {
    let registry = &view.shard.registry.name;
    let of = Collection { scope: view.shard.scope.clone(), kind: CollectionKind::Policies };
    let collections = catalog.registries.get(registry).map(|known| &*known.collections).unwrap_or_default();
    let freshness = collections.iter().find(|(known, _)| *known == of).map(|(_, freshness)| freshness);
    let labels = selector(view.policy()).into_iter().flat_map(Labels::pairs);
    let is_kept = problem.is_some_and(|problem| !is_of_part(problem.problem.code));
    let kept = |problem: &ProblemView| match problem.problem.code {
        Code::DUPLICATE_OBJECT | Code::OBJECT_KEPT | Code::FILE_UNREADABLE => described(problem),
        code if is_of_part(code) => described(problem),
        _ if view.policy().is_stand_in() => {
            format!("no version is valid: {}", described(problem))
        }
        _ => format!("a newer version is not valid, this one stays served: {}", described(problem)),
    };
    PolicyItem {
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        status: status(view.policy(), is_kept).to_owned(),
        dry_run: view.authorization_policy().is_some_and(|policy| policy.is_dry_run),
        code: problem.map(|problem| problem.problem.code.to_string()).unwrap_or_default(),
        reason: problem.map(kept).unwrap_or_default(),
        registry: registry.to_string(),
        scope: view.shard.scope.to_string(),
        freshness: freshness.map_or_else(|| "Unknown".to_owned(), freshness_text),
        source: ObjectItem::from(&view.declared.source),
        created: view.declared.created.map(timestamp).unwrap_or_default(),
        host: host(view.policy()),
        selector: Some(labels.map(|(label, value)| (label.to_string(), value.to_string())).collect()),
        spec: Value::Null,
        conditions: view.conditions.iter().chain(more).map(ConditionItem::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        ClusterId, DeclaredPolicy, ObjectRef, Precedence, Problem, ProviderId, RegistryId, RegistryName,
        Scope, ShardRef, Sidecar, Source,
    };

    use super::*;

    pub(super) fn mk_view(id: &ObjectId, policy: Policy) -> PolicyView {
        let (name, cluster) = (RegistryName::new("c").unwrap(), ClusterId::new("c").unwrap());
        let registry = Arc::new(RegistryId { name, provider: ProviderId::MEMORY, cluster });
        let shard = ShardRef { registry, scope: Scope::new("all").unwrap() };
        let declared = DeclaredPolicy { source: Source::new(id.clone()), created: None, policy };
        PolicyView {
            shard: Arc::new(shard),
            precedence: Precedence::default(),
            declared: Arc::new(declared),
            conditions: Arc::default(),
        }
    }

    #[test]
    fn object_of_a_cluster_that_is_served_without_a_field_is_not_quarantined() {
        let id = ObjectId::new("Sidecar", "shop", "a");
        let key = PolicyKey {
            kind: PolicyKind::Sidecar,
            namespace: Namespace::new("shop").unwrap(),
            name: "a".into(),
        };
        let status = |code: Code| {
            let problem = ProblemView {
                registry: RegistryName::new("c").unwrap(),
                object: ObjectRef::new(id.clone()),
                problem: Problem { code, message: "spec.novelty is not a known field".into() },
                since: 0,
            };
            let item = item(
                &Catalog::default(),
                &key,
                &mk_view(&id, Policy::Sidecar(Sidecar::default())),
                &[],
                Some(&problem),
            );
            (item.status, item.reason)
        };
        let (served, why) = status(Code::FIELD_UNKNOWN);
        assert_eq!((&*served, &*why), ("Served", "TRB0328 spec.novelty is not a known field"));
        let (kept, why) = status(Code::UNKNOWN_FIELD);
        assert!(kept == "Quarantined" && why.starts_with("a newer version is not valid"), "{kept}: {why}");
        let (kept, why) = status(Code::FILE_UNREADABLE);
        assert!(
            kept == "Quarantined" && why.starts_with("TRB0317 "),
            "that version was never read: {kept}: {why}"
        );
    }
}
