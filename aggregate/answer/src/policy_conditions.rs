//! Conditions of policies that only the whole catalog and the clients show: egress hosts that match nothing, an
//! egress proxy that is not reached, selectors that select no workload or several policies for one client,
//! DestinationRules without effect, and routes of VirtualServices that lead nowhere. Computed on request, for diagnosis.
//!
//! A list of policies calls it once. It walks the hosts and workloads once each, and only if a policy needs them; looking
//! up egress hosts is bounded by [`MAX_LOOKS`]. While a registry has not synced, or could never read its services or
//! workloads, it reports none as missing: they may still come.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, Code, CollectionKind, Condition, HostImport, HostPattern, ImportNamespace, Labels,
    Namespace, Policy, PolicyKey, PolicyKind, PolicyView, PortNumber, ServiceView, Sidecar,
};

use crate::peer_modes::peer_policies;
use crate::resolve::is_exported;
use crate::scope::{Scope, attach};

mod authorization;
mod clients;
mod found;
mod grpc_servers;
mod peers;
mod proxy;
mod resolved;
mod routes;
mod rules;
mod services;
mod tokens;

/// Most services that one request compares with egress hosts. Policies beyond it have no condition of their hosts.
const MAX_LOOKS: usize = 4_000_000;
/// Most egress hosts in a message.
const MAX_NAMED: usize = 8;
/// Most policies that are compared for one client, the first by name.
const MAX_SELECTING: usize = 16;

/// Conditions by policy.
pub type PolicyConditions = BTreeMap<PolicyKey, Vec<Condition>>;

/// Labels of a connected client by which policies select it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selectable {
    /// Kind.
    pub kind: ClientKind,
    /// Whether it requests the listener of a gRPC server.
    pub is_grpc_server: bool,
    /// Namespace.
    pub namespace: Namespace,
    /// Labels of its workload, else of its node.
    pub labels: Labels,
    /// Whether a workload is known for it.
    pub is_known: bool,
}

/// What there is beside the catalog.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Connected clients.
    pub clients: &'a [Selectable],
    /// Hosts of services that are declared elsewhere, such as `*.svc.cluster.local`. They do not count as missing, and
    /// neither do workloads.
    pub elsewhere: Option<&'a [HostPattern]>,
}

/// Returns the conditions of the wanted policies that concern hosts, workloads and clients.
#[must_use]
pub fn policy_conditions(
    catalog: &Catalog,
    beside: Beside<'_>,
    wanted: &dyn Fn(&PolicyKey) -> bool,
) -> PolicyConditions {
    let mut out = PolicyConditions::new();
    let Beside { clients, elsewhere } = beside;
    if !catalog.complete || catalog.policies.is_empty() {
        return out;
    }
    let mut add = |key: &PolicyKey, found: Option<Condition>| {
        if let Some(found) = found {
            out.entry(key.clone()).or_default().push(found);
        }
    };
    let mut hosts = Hosts::new(catalog);
    let policies = || catalog.policies.iter().filter(|(key, _)| wanted(key));
    let unread = |kind: CollectionKind| catalog.unread().any(|unread| unread.collection.kind == kind);
    let services_known = !unread(CollectionKind::Services);
    let has_hosts = services_known && elsewhere.is_none();
    for (key, view) in policies().filter(|(key, view)| has_hosts && has_effect(catalog, key, view)) {
        add(key, view.sidecar().and_then(|sidecar| hosts.unmatched(key, view, sidecar)));
        add(key, proxy::unreachable_proxy(catalog, key, view));
    }
    for (key, view) in policies().filter(|_| has_hosts) {
        add(key, hosts.unmatched_servers(view));
    }
    if services_known {
        let mut rules = rules::RuleConditions::new(catalog, beside, wanted);
        for (key, view) in policies() {
            rules.of(key, view).into_iter().for_each(|found| add(key, Some(found)));
        }
        for (key, view) in policies() {
            let found = tokens::without_keys(catalog, beside, key, view);
            found.into_iter().for_each(|found| add(key, Some(found)));
        }
        let mut routes = routes::RouteConditions::new(catalog, beside, wanted);
        for (key, view) in policies() {
            routes.of(key, view).into_iter().for_each(|found| add(key, Some(found)));
        }
    }
    for (key, view) in policies() {
        add(key, authorization::undecided(catalog, key, view));
        add(key, grpc_servers::applied_in_part(catalog, beside, key, view));
    }
    let selects = |view: &PolicyView| view.policy().selector().is_some_and(|labels| !labels.is_empty());
    if !policies().any(|(_, view)| selects(view)) {
        out.values_mut().for_each(|all| all.sort_by_key(|one| one.code));
        return out;
    }
    for (key, view) in policies() {
        add(key, peers::without_scope(catalog, key, view));
    }
    let selected = selected(catalog, clients);
    let workloads_known = !unread(CollectionKind::Workloads) && elsewhere.is_none();
    for (key, view) in policies().filter(|_| workloads_known) {
        add(key, (selects(view) && !selected.contains(key)).then(|| without_workload(catalog, key, view)));
    }
    for (key, rivals) in rivals(catalog, clients).into_iter().filter(|(key, _)| wanted(key)) {
        add(key, Some(conflict(catalog, key, &rivals)));
    }
    out.values_mut().for_each(|all| all.sort_by_key(|one| one.code));
    out
}

/// Whether a policy applies to some workload that it selects: of those without a selector only the first of a namespace
/// does.
fn has_effect(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> bool {
    let first = || attach(catalog, ClientKind::Sidecar, Some(&key.namespace), &Labels::default());
    view.policy().selector().is_some_and(|labels| !labels.is_empty())
        || first().is_none_or(|(first, _)| first == key)
}

/// Returns the policies that select a known workload or a connected client.
fn selected<'c>(catalog: &'c Catalog, clients: &[Selectable]) -> BTreeSet<&'c PolicyKey> {
    let selectors = Selectors::of(catalog);
    let mut found = BTreeSet::new();
    if selectors.by_pair.is_empty() {
        return found;
    }
    for client in clients {
        found.extend(selectors.matching(&client.namespace, &client.labels));
    }
    let may_have = |namespace: &Namespace| selectors.is_wide || selectors.namespaces.contains(namespace);
    let workloads = catalog.workloads.iter().filter(|(key, _)| may_have(&key.namespace));
    for (key, view) in workloads {
        found.extend(selectors.matching(&key.namespace, &view.workload.labels));
    }
    found
}

/// Namespace, label and value; without a namespace for policies that select workloads of every one.
type Pair<'c> = (Option<&'c Namespace>, &'c str, &'c str);

/// Policies with a selector, under the first pair of labels of each.
struct Selectors<'c> {
    by_pair: HashMap<Pair<'c>, Vec<(&'c PolicyKey, &'c Labels)>>,
    namespaces: BTreeSet<&'c Namespace>,
    /// Whether some policy selects workloads of every namespace.
    is_wide: bool,
}

impl<'c> Selectors<'c> {
    fn of(catalog: &'c Catalog) -> Self {
        let mut out = Self { by_pair: HashMap::new(), namespaces: BTreeSet::new(), is_wide: false };
        for (key, view) in &catalog.policies {
            let Some(labels) = view.policy().selector() else { continue };
            if let Some((label, value)) = labels.pairs().next() {
                let is_wide = is_wide(catalog, key);
                let namespace = (!is_wide).then_some(&key.namespace);
                out.by_pair.entry((namespace, label, value)).or_default().push((key, labels));
                out.namespaces.extend(namespace);
                out.is_wide |= is_wide;
            }
        }
        out
    }
    /// Iterates over the policies that select a workload with these labels.
    fn matching<'s>(
        &'s self,
        namespace: &'s Namespace,
        labels: &'s Labels,
    ) -> impl Iterator<Item = &'c PolicyKey> + use<'c, 's> {
        let filed = |(label, value): (&'s Arc<str>, &'s Arc<str>)| {
            let pairs: [Pair<'_>; 2] = [(Some(namespace), label, value), (None, label, value)];
            pairs.into_iter().filter_map(|pair| self.by_pair.get(&pair))
        };
        let candidates = labels.pairs().flat_map(filed).flatten();
        candidates.filter(|(_, own)| own.is_subset_of(labels)).map(|(key, _)| *key)
    }
}

/// Whether a policy selects workloads of every namespace: those of the root namespace that apply together do, and Gateways.
fn is_wide(catalog: &Catalog, key: &PolicyKey) -> bool {
    let of_root = || catalog.settings.root_namespace().as_ref() == Some(&key.namespace);
    match key.kind {
        PolicyKind::Gateway => true,
        PolicyKind::AuthorizationPolicy | PolicyKind::RequestAuthentication => of_root(),
        _ => false,
    }
}

fn without_workload(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> Condition {
    let pairs = view.policy().selector().into_iter().flat_map(Labels::pairs);
    let labels: Vec<String> = pairs.map(|(label, value)| format!("{label}={value}")).collect();
    let namespace = match is_wide(catalog, key) {
        true => "any namespace".to_owned(),
        false => format!("namespace {}", key.namespace),
    };
    let message = format!(
        "no known workload and no connected client of {namespace} has its labels: {}",
        labels.join(", ")
    );
    condition(Code::SELECTOR_UNMATCHED, view, message)
}

/// Returns the policies of a kind that select a client of no known workload together with others; the one that applies first.
fn rivals<'c>(catalog: &'c Catalog, clients: &[Selectable]) -> BTreeMap<&'c PolicyKey, Vec<PolicyKey>> {
    let selectors = Selectors::of(catalog);
    let mut out = BTreeMap::new();
    for client in clients.iter().filter(|client| !client.is_known) {
        let mut keys: Vec<&PolicyKey> = selectors.matching(&client.namespace, &client.labels).collect();
        keys.sort();
        keys.dedup();
        for keys in keys.chunk_by(|a, b| a.kind == b.kind).filter(|keys| keys.len() > 1) {
            let keys = keys.get(..MAX_SELECTING).unwrap_or(keys);
            let Some(first) = keys.first().and_then(|key| applied(catalog, key.kind, client)) else {
                continue;
            };
            let others = keys.iter().filter(|key| **key != first);
            let all: Vec<PolicyKey> = std::iter::once(first).chain(others.copied()).cloned().collect();
            for key in keys {
                out.entry(*key).or_insert_with(|| all.clone());
            }
        }
    }
    out
}

/// Returns the policy of a kind that applies to a client by its labels.
fn applied<'c>(catalog: &'c Catalog, kind: PolicyKind, client: &Selectable) -> Option<&'c PolicyKey> {
    let Selectable { kind: of, namespace, labels, .. } = client;
    match kind {
        PolicyKind::Sidecar => attach(catalog, *of, Some(namespace), labels).map(|(key, _)| key),
        PolicyKind::PeerAuthentication => {
            peer_policies(catalog, Some(namespace), labels).workload.map(|peer| peer.key)
        }
        PolicyKind::DestinationRule
        | PolicyKind::VirtualService
        | PolicyKind::EnvoyFilter
        | PolicyKind::AuthorizationPolicy
        | PolicyKind::RequestAuthentication
        | PolicyKind::Gateway => None,
    }
}

fn conflict(catalog: &Catalog, key: &PolicyKey, rivals: &[PolicyKey]) -> Condition {
    let message = match rivals.first() {
        Some(first) if first == key => {
            "it applies to connected clients that another one also selects".to_owned()
        }
        Some(first) => format!("{first} applies to connected clients that it also selects"),
        None => String::new(),
    };
    let views = rivals.iter().filter_map(|key| catalog.policies.get(key));
    let objects = views.map(|view| view.declared.source.reference()).collect();
    Condition { code: Code::POLICY_CONFLICT, objects, message: message.into() }
}

/// Returns a message about some hosts, of which it names a few.
fn named(about: &str, lost: &[String]) -> String {
    let shown = lost.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = lost.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{about}: {shown}{more}")
}

fn condition(code: Code, view: &PolicyView, message: String) -> Condition {
    Condition { code, objects: [view.declared.source.reference()].into(), message: message.into() }
}

/// Services by reversed host, so that a suffix is a range: of all namespaces, and of each.
struct Index<'c> {
    all: ByHost<'c>,
    by_namespace: HashMap<&'c Namespace, ByHost<'c>>,
}

type ByHost<'c> = BTreeMap<String, Vec<&'c Arc<ServiceView>>>;

impl<'c> Index<'c> {
    fn of(catalog: &'c Catalog) -> Self {
        let mut out = Self { all: ByHost::new(), by_namespace: HashMap::new() };
        for view in catalog.services() {
            let host = reversed(view.key.host.as_str());
            let own = out.by_namespace.entry(&view.key.namespace).or_default();
            own.entry(host.clone()).or_default().push(view);
            out.all.entry(host).or_default().push(view);
        }
        out
    }
    /// Iterates over the services of one or all namespaces whose host ends in a suffix.
    fn ending(
        &self,
        namespace: Option<&Namespace>,
        suffix: &str,
    ) -> impl Iterator<Item = &'c Arc<ServiceView>> + use<'_, 'c> {
        let hosts = namespace.map_or(Some(&self.all), |namespace| self.by_namespace.get(namespace));
        let start = reversed(suffix);
        let from = (Bound::Included(start.clone()), Bound::Unbounded);
        let ranges = hosts.map(|hosts| hosts.range(from)).into_iter().flatten();
        ranges
            .take_while(move |(host, _)| host.starts_with(&start))
            .flat_map(|(_, views)| views.iter().copied())
    }
}

fn reversed(host: &str) -> String {
    host.chars().rev().collect()
}

/// How the catalog answers an egress host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    /// Declared, and not exported to the namespace of the Sidecar.
    Hidden,
    /// Visible, without the port of the egress listener.
    WithoutPort(PortNumber),
    Visible,
}

/// Looks up egress hosts.
struct Hosts<'c> {
    catalog: &'c Catalog,
    /// Built when a wildcard is first looked up.
    index: Option<Index<'c>>,
    /// Services that were compared.
    looks: usize,
}

impl<'c> Hosts<'c> {
    const fn new(catalog: &'c Catalog) -> Self {
        Self { catalog, index: None, looks: 0 }
    }
    /// Returns the condition of a Sidecar with egress hosts that match nothing.
    fn unmatched(&mut self, key: &PolicyKey, view: &PolicyView, sidecar: &Sidecar) -> Option<Condition> {
        let root = self.catalog.settings.root_namespace();
        // Clients of every namespace have a Sidecar without labels of the root namespace.
        let is_everywhere = sidecar.selector.is_empty() && root.as_ref() == Some(&key.namespace);
        let own = (!is_everywhere).then_some(&key.namespace);
        let imports = sidecar.egress.iter().flat_map(|listener| {
            let port = listener.port.as_ref().map(|port| port.number);
            listener.hosts.iter().map(move |import| (import, port))
        });
        let imports: BTreeSet<(&HostImport, Option<PortNumber>)> =
            imports.filter(|(one, _)| !is_usual(one, root.as_ref(), own)).collect();
        let mut lost: Vec<String> = Vec::new();
        for (import, port) in imports {
            match self.find(import, own, port) {
                Found::Visible => {}
                Found::WithoutPort(port) => lost.push(format!("{import} (no port {port})")),
                Found::Hidden => lost.push(format!("{import} (not exported to {})", key.namespace)),
                Found::Nothing => lost.push(import.to_string()),
            }
            if self.looks > MAX_LOOKS {
                return None;
            }
        }
        let about = "these egress hosts match no service that its workloads may see";
        (!lost.is_empty()).then(|| condition(Code::EGRESS_HOST_UNMATCHED, view, named(about, &lost)))
    }
    /// Returns the condition of a Gateway whose servers have hosts that match no service at all. Which services its routers may
    /// see depends on their namespaces.
    fn unmatched_servers(&mut self, view: &PolicyView) -> Option<Condition> {
        let Policy::Gateway(gateway) = view.policy() else { return None };
        let hosts = gateway.servers.iter().flat_map(|server| server.hosts.iter());
        let hosts: BTreeSet<&HostImport> = hosts.filter(|one| !is_usual(one, None, None)).collect();
        let mut lost: Vec<String> = Vec::new();
        for import in hosts {
            if matches!(self.find(import, None, None), Found::Nothing) {
                lost.push(import.to_string());
            }
            if self.looks > MAX_LOOKS {
                return None;
            }
        }
        let about = "these hosts of its servers match no service";
        (!lost.is_empty()).then(|| condition(Code::SERVER_HOST_UNMATCHED, view, named(about, &lost)))
    }
    fn find(&mut self, import: &HostImport, own: Option<&Namespace>, port: Option<PortNumber>) -> Found {
        let namespace = match &import.namespace {
            ImportNamespace::Named(namespace) => Some(namespace),
            ImportNamespace::Own => own,
            ImportNamespace::Any | ImportNamespace::None => None,
        };
        let (catalog, looks) = (self.catalog, &mut self.looks);
        if let Some(suffix) = import.host.as_str().strip_prefix('*') {
            let index = self.index.get_or_insert_with(|| Index::of(catalog));
            return best(index.ending(namespace, suffix), (own, port), looks);
        }
        let entry = catalog.hosts.get(import.host.as_str());
        let claimants = entry.into_iter().flat_map(|entry| entry.claimants.iter());
        let named = claimants.filter(|view| namespace.is_none_or(|of| view.key.namespace == *of));
        best(named, (own, port), looks)
    }
}

/// Returns what is best of some services, and counts those that it looks at. Without an own namespace, any is visible.
fn best<'v>(
    views: impl Iterator<Item = &'v Arc<ServiceView>>,
    (own, port): (Option<&Namespace>, Option<PortNumber>),
    looks: &mut usize,
) -> Found {
    let mut best = Found::Nothing;
    for view in views {
        *looks += 1;
        let is_seen = own.is_none_or(|own| is_exported(view, Scope::of(Some(own))));
        best = best.max(match port.filter(|port| view.port(*port).is_none()) {
            _ if !is_seen => Found::Hidden,
            Some(port) => Found::WithoutPort(port),
            None => Found::Visible,
        });
        if best == Found::Visible || *looks > MAX_LOOKS {
            break;
        }
    }
    best
}

/// Whether an import that matches nothing is no mistake: nothing, everything, all of the client's own namespace, which may
/// have clients only, or all of the root namespace.
fn is_usual(import: &HostImport, root: Option<&Namespace>, own: Option<&Namespace>) -> bool {
    let all = import.host.as_str() == "*";
    match &import.namespace {
        ImportNamespace::None => true,
        ImportNamespace::Any => all,
        ImportNamespace::Own => all || own.is_none(),
        ImportNamespace::Named(namespace) => all && (root == Some(namespace) || own == Some(namespace)),
    }
}

#[cfg(test)]
mod tests;
