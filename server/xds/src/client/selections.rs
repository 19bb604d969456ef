//! What policies select for clients, kept for all clients of one kind and namespace with equal labels.
//!
//! Every node has [`OwnPolicies`], which remembers what it had last. While the policies of the catalog stay, that is its answer;
//! when they change, the first client with its labels reads them, and the others find the result in the table of the server.
//! Tables hold nothing alive: an entry stays as long as a client has it. No lock is held while policies are read.

use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use parking_lot::Mutex;
use tributary_answer::{ClientPatches, KeyServers, ProxyFacts, SelectedPolicies};
use tributary_model::{Catalog, ClientKind, Labels, Namespace, PolicyKey, PolicyView, Shared};

use crate::answers::weak_table::WeakTable;
use crate::counters::Counters;

/// By what policies select clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SelectionKey {
    pub(super) kind: ClientKind,
    pub(super) namespace: Option<Namespace>,
    pub(super) labels: Labels,
}

/// Policies of one or more generations, with what they select.
#[derive(Debug)]
struct PolicySet {
    policies: OrdMap<PolicyKey, Shared<PolicyView>>,
    root: Option<Namespace>,
    /// What else they are read with.
    key_servers: KeyServers,
    /// Generation in which they were first read.
    generation: u64,
    selections: Mutex<WeakTable<SelectionKey, Selection>>,
}

impl PolicySet {
    fn new(catalog: &Catalog) -> Self {
        let (policies, root) = (catalog.policies.clone(), catalog.settings.root_namespace());
        let (generation, key_servers) = (catalog.generation, KeyServers::of(catalog));
        Self { policies, root, key_servers, generation, selections: Mutex::default() }
    }
    /// Whether a catalog has these policies.
    fn is_of(&self, catalog: &Catalog) -> bool {
        let same = || self.policies.is_empty() && catalog.policies.is_empty();
        (self.policies.ptr_eq(&catalog.policies) || same())
            && self.root == catalog.settings.root_namespace()
            && self.key_servers.is_of(catalog)
    }
    fn selection(self: &Arc<Self>, key: &SelectionKey) -> Arc<Selection> {
        let mut table = self.selections.lock();
        if let Some(found) = table.get(key) {
            return found;
        }
        let (key, set) = (key.clone(), Arc::clone(self));
        let fresh = Arc::new(Selection { key, set, selected: OnceLock::new(), patches: Mutex::default() });
        table.insert(fresh.key.clone(), &fresh);
        fresh
    }
}

/// Policies that select the clients of a key.
#[derive(Debug)]
struct Selection {
    key: SelectionKey,
    set: Arc<PolicySet>,
    selected: OnceLock<Arc<SelectedPolicies>>,
    /// Patches of proxies, by the facts that patches compare.
    patches: Mutex<WeakTable<ProxyFacts, ClientPatches>>,
}

impl Selection {
    /// Returns the policies; the first caller reads them.
    fn selected(
        &self,
        earlier: Option<&SelectedPolicies>,
        catalog: &Catalog,
        counters: &Counters,
    ) -> Arc<SelectedPolicies> {
        let read = || {
            counters.policies_selected.inc();
            let SelectionKey { kind, namespace, labels } = &self.key;
            Arc::new(SelectedPolicies::after(earlier, catalog, *kind, namespace.as_ref(), labels))
        };
        Arc::clone(self.selected.get_or_init(read))
    }
    /// Returns the patches that apply to a proxy; those that it had if they are equal.
    fn patches(
        &self,
        selected: &SelectedPolicies,
        proxy: &ProxyFacts,
        held: Option<&Arc<ClientPatches>>,
    ) -> Option<Arc<ClientPatches>> {
        let compared = selected.filters.compared(proxy);
        if let Some(found) = self.patches.lock().get(&compared) {
            return Some(found);
        }
        let found = selected.filters.patches(&compared)?;
        let same = held.filter(|held| ***held == found);
        let fresh = same.map_or_else(|| Arc::new(found), Arc::clone);
        self.patches.lock().insert(compared, &fresh);
        Some(fresh)
    }
}

/// What policies select for the clients of a server.
#[derive(Debug, Default)]
pub struct Selections {
    /// The newest policies, the newest first.
    sets: Mutex<Vec<Arc<PolicySet>>>,
    counters: Arc<Counters>,
}

impl Selections {
    /// Most sets of policies that are kept: streams may still read those of the generation before.
    const KEPT: usize = 3;

    /// Creates an empty table.
    #[must_use]
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { sets: Mutex::default(), counters }
    }
    fn set(&self, catalog: &Catalog) -> Arc<PolicySet> {
        let mut sets = self.sets.lock();
        if let Some(found) = sets.iter().find(|set| set.is_of(catalog)) {
            return Arc::clone(found);
        }
        let fresh = Arc::new(PolicySet::new(catalog));
        sets.insert(0, Arc::clone(&fresh));
        sets.sort_by_key(|set| std::cmp::Reverse(set.generation));
        sets.truncate(Self::KEPT);
        fresh
    }
}

/// What policies select for one client. As long as it is held, other clients find it.
#[derive(Debug, Clone)]
pub(super) struct Selected {
    selection: Arc<Selection>,
    pub(super) policies: Arc<SelectedPolicies>,
    pub(super) patches: Option<Arc<ClientPatches>>,
}

/// What policies select for a client of a server, remembered.
#[derive(Debug, Default)]
pub struct OwnPolicies {
    shared: Arc<Selections>,
    last: Mutex<Option<Selected>>,
}

impl OwnPolicies {
    /// Creates what a client of a server remembers.
    pub(super) fn of(shared: &Arc<Selections>) -> Self {
        Self { shared: Arc::clone(shared), last: Mutex::default() }
    }
    /// Returns what the policies of a catalog select.
    pub(super) fn at(&self, catalog: &Catalog, key: SelectionKey, proxy: &ProxyFacts) -> Selected {
        let last = self.last.lock().clone();
        let is_current = |last: &&Selected| last.selection.key == key && last.selection.set.is_of(catalog);
        if let Some(current) = last.as_ref().filter(is_current) {
            return current.clone();
        }
        let selection = self.shared.set(catalog).selection(&key);
        let earlier = last.as_ref().map(|last| &*last.policies);
        let policies = selection.selected(earlier, catalog, &self.shared.counters);
        let held = last.as_ref().and_then(|last| last.patches.as_ref());
        let patches = selection.patches(&policies, proxy, held);
        let fresh = Selected { selection, policies, patches };
        *self.last.lock() = Some(fresh.clone());
        fresh
    }
}

impl Clone for OwnPolicies {
    fn clone(&self) -> Self {
        Self::of(&self.shared)
    }
}

/// What is remembered does not make nodes differ.
impl PartialEq for OwnPolicies {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for OwnPolicies {}

#[cfg(test)]
mod tests {
    use tributary_fixtures::{mk_host, mk_policy, mk_port, mk_token_rule};
    use tributary_model::{KeysUri, Policy, RequestAuthentication, Resolution, TokenKeys};

    use super::*;
    use crate::fixtures::{Svc, World, mk_svc};

    #[test]
    fn policies_are_read_again_when_the_cluster_of_their_keys_changes() {
        let mut world = World::default();
        let policies = |uri: &str| {
            let from = KeysUri {
                uri: uri.into(),
                is_tls: uri.starts_with("https"),
                host: mk_host("keys.test"),
                port: mk_port(80),
            };
            let rules = [mk_token_rule("iss", TokenKeys::Fetched(from))].into();
            let policy = RequestAuthentication { rules, ..RequestAuthentication::default() };
            OrdMap::from_iter([mk_policy("shop", "a", Policy::RequestAuthentication(policy))])
        };
        let (secure, plain) = (policies("https://keys.test:80/"), policies("http://keys.test/"));
        let mut at = |services: &[Svc], policies: &OrdMap<PolicyKey, Shared<PolicyView>>| Catalog {
            policies: policies.clone(),
            ..(*world.next(services)).clone()
        };
        let keys = || mk_svc("keys.test");
        let (set, open) = (PolicySet::new(&at(&[keys()], &secure)), PolicySet::new(&at(&[keys()], &plain)));
        let moved = [keys().at(&["10.9.9.9"]), mk_svc("other.test")];
        assert!(set.is_of(&at(&moved, &secure)), "endpoints and other services do not count");
        let resolved = [keys().resolved(Resolution::DnsStrict)];
        assert!(!set.is_of(&at(&resolved, &secure)) && !set.is_of(&at(&[], &secure)));
        assert!(open.is_of(&at(&resolved, &plain)), "of http nothing counts");
    }
}
