//! Staleness policies: how a scope is served after its source has been unreachable for a configured time.
//!
//! A phase of every batch, after facts were applied and before the catalog is built. `hold` is the
//! default: reported facts stay served. Only a configured policy serves a scope one priority lower or
//! withdraws it, and both end as soon as the source is followed again. Facts stay in the ledger and
//! in the journal in each case.

use tributary_model::{
    CollectionKind, FactId, Freshness, Mono, RegistryName, Scope, ShardPriority, StalePolicy,
};

use crate::ledger::{Registries, Registry, Scoped};
use crate::state::State;

/// Returns since when a scope is stale: the earliest time of its stale collections.
fn stale_since(scoped: &Scoped) -> Option<Mono> {
    let since = |kind| match scoped.list(kind).freshness {
        Freshness::Stale { since, .. } => Some(since.0),
        Freshness::Unknown | Freshness::Syncing | Freshness::Live => None,
    };
    CollectionKind::ALL.into_iter().filter_map(since).min()
}

/// Returns how a scope is served now, and when time alone changes that.
fn priority_of(registry: &Registry, scoped: &Scoped, now: Mono) -> (ShardPriority, Option<Mono>) {
    let usual = registry.info.priority;
    let (after, then) = match registry.stale {
        StalePolicy::Hold => return (usual, None),
        StalePolicy::Degrade(after) => (after, ShardPriority::Demoted),
        StalePolicy::Withdraw(after) => (after, ShardPriority::Withdrawn),
    };
    match stale_since(scoped).map(|since| since.max(registry.restored).plus(after)) {
        Some(due) if due > now => (usual, Some(due)),
        Some(_) => (usual.max(then), None),
        None => (usual, None),
    }
}

impl State {
    /// Serves each scope as its registry's staleness policy requires.
    pub(crate) fn apply_policies(&mut self, registries: &Registries) {
        let now = self.now;
        let due = self.policy_due.is_some_and(|due| due <= now);
        let mut next = None;
        for (name, registry) in registries {
            let timed = registry.stale != StalePolicy::Hold;
            if !self.dirty.registries.contains(name) && !(timed && (due || self.policy_due.is_some())) {
                continue;
            }
            for (scope, scoped) in &registry.ledger.scopes {
                let (priority, at) = priority_of(registry, scoped, now);
                next = [next, at].into_iter().flatten().min();
                self.serve_as(name, scope, scoped, priority);
            }
        }
        self.policy_due = next;
    }

    fn serve_as(&mut self, name: &RegistryName, scope: &Scope, scoped: &Scoped, priority: ShardPriority) {
        let Some(shard) = self.context.shards.find(name, scope) else { return };
        let Some(info) = self.context.shards.get_mut(shard) else { return };
        let before = std::mem::replace(&mut info.priority, priority);
        if before == priority {
            return;
        }
        self.counters.full_passes.priority += 1;
        self.dirty.registries.insert(name.clone());
        self.dirty.urgent |= priority > before;
        let held = self.guard.of_shard(shard);
        let facts = CollectionKind::ALL.into_iter().flat_map(|kind| scoped.tables.iter(kind));
        for item in facts.map(|(fact, _)| fact.item()).chain(held) {
            self.touch(&item);
        }
    }

    /// Marks a fact whose value is unchanged but whose priority changed.
    fn touch(&mut self, item: &FactId) {
        match item {
            FactId::Service(key) => {
                let service = self.hosts.get(&key.service);
                let declarations = service.into_iter().flat_map(|s| &s.shards).flat_map(|s| &s.declarations);
                for selector in declarations.filter_map(|declaration| declaration.selector) {
                    self.context.selection.touch_selector(selector);
                }
                self.dirty.services.insert(key.service.clone());
            }
            FactId::Group(key) => drop(self.dirty.services.insert(key.service.clone())),
            FactId::Workload(key) => {
                self.touch_workload(key);
                self.dirty.workloads.extend(self.context.workloads.id(key));
            }
            FactId::Gateway(key) => drop(self.dirty.gateways.insert(key.clone())),
            FactId::GatewayName(name) => drop(self.dirty.gateway_names.insert(name.clone())),
            // never withdrawn: without mesh-wide values and policies, clients would receive more
            FactId::Settings | FactId::FederatedService(_) | FactId::Waiting(_) | FactId::Policy(_) => {}
        }
    }
}
