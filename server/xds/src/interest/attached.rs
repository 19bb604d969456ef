//! Streams whose class may change: with the policies of their namespace or the root namespace, and with the
//! workloads at their addresses.
//!
//! A changed policy wakes a stream only if its class changes, so a policy that selects no client wakes none. Classes are computed
//! for the clients alone that the policy selects before or after the change. Sidecars, EnvoyFilters, PeerAuthentications,
//! AuthorizationPolicies, RequestAuthentications and Gateways change classes; other kinds wake the readers of the services that they change.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use imbl::ordmap::DiffItem;
use tributary_model::{
    Catalog, ClientKind, Namespace, ObservedSince, PolicyKey, PolicyKind, Shared, WorkloadAddress,
    WorkloadView,
};

use super::{Waiters, Wake, wake_each};
use crate::answers::ClientClassKey;
use crate::client::ClientNode;

/// Most policies that a publication reads for all streams; beyond them every stream of the namespaces is woken.
const MAX_READS: usize = 1 << 20;

#[derive(Debug)]
struct Member {
    wake: Arc<Wake>,
    node: Arc<ClientNode>,
    class: ClientClassKey,
    /// Number of publications before it was registered.
    since: u64,
}

impl Member {
    fn moves(&self, now: &Catalog) -> bool {
        self.node.at(now).0 != *self.class
    }
    /// Whether a policy selects the client in a generation.
    fn is_selected(&self, catalog: &Catalog, key: &PolicyKey) -> bool {
        let selector = catalog.policies.get(key).map(|view| view.policy().selector());
        selector.is_some_and(|of| of.is_none_or(|labels| self.node.has_labels(catalog, labels)))
    }
    fn is_router(&self) -> bool {
        self.class.kind == ClientKind::Router
    }
}

/// Streams by namespace, and by address those with a workload.
#[derive(Debug, Default)]
pub(super) struct Attached {
    members: DashMap<Namespace, HashMap<u64, Member>>,
    addresses: DashMap<IpAddr, Waiters>,
    /// Number of publications that changed policies.
    publications: AtomicU64,
}

/// What a publication changes.
struct Publication<'a> {
    before: &'a Catalog,
    now: &'a Catalog,
    /// Policies that may change classes.
    changed: Vec<&'a PolicyKey>,
    number: u64,
    observed: ObservedSince,
}

impl Publication<'_> {
    /// Whether a client's class may change. A stream that was registered since the publication before may have its class from a
    /// generation between the two.
    fn concerns(&self, member: &Member) -> bool {
        let selects = |catalog, key: &&PolicyKey| member.is_selected(catalog, key);
        member.since + 1 >= self.number
            || self.changed.iter().any(|key| selects(self.before, key) || selects(self.now, key))
    }
    /// Wakes those of some members whose class changes.
    fn wake_moved(&self, members: &HashMap<u64, Member>, wakes: fn(&Member) -> bool) -> usize {
        let concerned: Vec<&Member> =
            members.values().filter(|member| wakes(member) && self.concerns(member)).collect();
        let most = MAX_READS / concerned.len().max(1);
        let read = self.now.policies.keys().filter(|key| changes_classes(key.kind));
        let all = read.take(most + 1).count() > most;
        let moved = concerned.into_iter().filter(|member| all || member.moves(self.now));
        moved.map(|member| member.wake.wake(self.observed)).count()
    }
}

impl Attached {
    /// Adds the addresses of a client with a workload.
    pub(super) fn watch(&self, node: &ClientNode, id: u64, wake: &Arc<Wake>) {
        for ip in addresses(node) {
            self.addresses.entry(*ip).or_default().push((id, Arc::clone(wake)));
        }
    }
    /// Adds or replaces a stream, if policies may concern it.
    pub(super) fn insert(&self, id: u64, wake: &Arc<Wake>, node: &Arc<ClientNode>, class: &ClientClassKey) {
        let Some(namespace) = class.namespace.as_ref().filter(|_| class.kind != ClientKind::Envoy) else {
            return;
        };
        let mut members = self.members.entry(namespace.clone()).or_default();
        // read under the lock, which a publication takes after it has counted itself
        let since = self.publications.load(Ordering::Acquire);
        let (wake, node, class) = (Arc::clone(wake), Arc::clone(node), class.clone());
        members.insert(id, Member { wake, node, class, since });
    }
    pub(super) fn remove(&self, id: u64, node: &ClientNode) {
        if let Some(namespace) = &node.class.namespace {
            if let Some(mut members) = self.members.get_mut(namespace) {
                members.remove(&id);
            }
            self.members.remove_if(namespace, |_, members| members.is_empty());
        }
        for ip in addresses(node) {
            if let Some(mut waiters) = self.addresses.get_mut(ip) {
                waiters.retain(|(waiter, _)| *waiter != id);
            }
            self.addresses.remove_if(ip, |_, waiters| waiters.is_empty());
        }
    }
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.addresses.is_empty()
    }
    /// Wakes the streams whose class changes with these policies between two generations, and returns their number.
    pub(super) fn wake(
        &self,
        (before, now): (&Catalog, &Catalog),
        changed: &BTreeSet<PolicyKey>,
        observed: ObservedSince,
    ) -> usize {
        let changed: Vec<&PolicyKey> = changed.iter().filter(|key| changes_classes(key.kind)).collect();
        let number = self.publications.fetch_add(1, Ordering::AcqRel) + 1;
        let publication = Publication { before, now, changed, number, observed };
        let (gateways, others): (Vec<&PolicyKey>, Vec<&PolicyKey>) =
            publication.changed.iter().partition(|key| key.kind == PolicyKind::Gateway);
        let namespaces: BTreeSet<&Namespace> = others.into_iter().map(|key| &key.namespace).collect();
        let root = now.settings.root_namespace();
        let of_all = |wakes: fn(&Member) -> bool| -> usize {
            self.members.iter().map(|members| publication.wake_moved(&members, wakes)).sum()
        };
        if root.is_some_and(|root| namespaces.contains(&root)) {
            return of_all(|_| true);
        }
        // a Gateway selects routers of every namespace, and no other client
        let routers = if gateways.is_empty() { 0 } else { of_all(Member::is_router) };
        let of =
            |namespace| self.members.get(namespace).map_or(0, |all| publication.wake_moved(&all, |_| true));
        routers + namespaces.into_iter().map(of).sum::<usize>()
    }
    /// Wakes the streams at the addresses of workloads that differ between two generations.
    pub(super) fn wake_workloads(&self, before: &Catalog, now: &Catalog, observed: ObservedSince) -> usize {
        let mut changed = BTreeSet::new();
        for item in before.workloads.diff(&now.workloads) {
            match item {
                DiffItem::Add(_, view) | DiffItem::Remove(_, view) => changed.extend(ips(view)),
                DiffItem::Update { old: (_, old), new: (_, new) } => changed.extend(ips(old).chain(ips(new))),
            }
        }
        let of = |ip| self.addresses.get(&ip).map_or(0, |all| wake_each(&all, |wake| wake.wake(observed)));
        changed.into_iter().map(of).sum()
    }
}

const fn changes_classes(kind: PolicyKind) -> bool {
    match kind {
        PolicyKind::Sidecar
        | PolicyKind::EnvoyFilter
        | PolicyKind::PeerAuthentication
        | PolicyKind::AuthorizationPolicy
        | PolicyKind::RequestAuthentication
        | PolicyKind::Gateway => true,
        PolicyKind::DestinationRule | PolicyKind::VirtualService => false,
    }
}

fn ips(view: &Shared<WorkloadView>) -> impl Iterator<Item = IpAddr> {
    view.workload.addresses.iter().filter_map(|address| match address {
        WorkloadAddress::Ip(ip) => Some(*ip),
        WorkloadAddress::Name(_) | WorkloadAddress::Unix(_) => None,
    })
}

/// Returns the addresses by which the client's workload is found.
fn addresses(node: &ClientNode) -> &[IpAddr] {
    if node.workload.is_some() { &node.ips } else { &[] }
}
