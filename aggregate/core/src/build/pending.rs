//! Pending parts of a host: addresses that wait for an object, groups that wait for their
//! declaration, and held removals.
//!
//! Called by build after the batch's services, for hosts that were built or whose waiting addresses
//! changed. Writes [`Catalog::pending`](tributary_model::Catalog::pending), which no resource reads: a
//! change of it concerns no client. Entries are sorted and equal on every replica.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    CatalogChanges, CollectionKind, FactId, Hostname, Mono, ObjectRef, Pending, PendingCause, ServiceKey,
    Shared,
};

use crate::removal::guard::HoldKey;
use crate::state::State;
use crate::state::services::{Decl, Service, ServiceShard, decl_key, group_key};
use crate::state::shards::ShardId;

impl State {
    /// Updates the pending parts of these hosts and of those whose waiting addresses changed.
    pub(super) fn build_pending(&mut self, built: &BTreeSet<Hostname>, changed: &mut CatalogChanges) {
        let mut hosts = self.waiting_addresses.take_dirty();
        let holds = self.guard.has_holds();
        let concerned = |host: &&Hostname| {
            holds
                || self.draft.pending.contains_key(*host)
                || self.hosts.of(host).iter().any(|service| !service.waiting.is_empty())
        };
        hosts.extend(built.iter().filter(concerned).cloned());
        for host in hosts {
            let old = self.draft.pending.get(&host).cloned();
            let now = self.pending_of(&host, old.as_deref().unwrap_or_default());
            if old.as_deref().unwrap_or_default() == now {
                continue;
            }
            changed.pending = true;
            if now.is_empty() {
                self.draft.pending.remove(&host);
            } else {
                self.draft.pending.insert(host, Shared(now.into()));
            }
        }
    }

    fn pending_of(&self, host: &Hostname, old: &[Pending]) -> Vec<Pending> {
        let mut out = Vec::new();
        for (shard, key, addresses) in self.waiting_addresses.of(host) {
            let cause = PendingCause::Objects(Arc::clone(addresses));
            out.extend(self.pending(shard, &key.service, ObjectRef::new(key.object.clone()), cause));
        }
        for service in self.hosts.of(host) {
            let shards = service.shards.iter().filter(|shard| service.waiting.contains(&shard.id));
            out.extend(shards.flat_map(|shard| self.undeclared(&service.key, shard)));
            if self.guard.has_holds() {
                out.extend(service.shards.iter().flat_map(|shard| self.held_of(service, shard)));
            }
        }
        for entry in &mut out {
            keep_since(entry, old);
        }
        out.sort_by(|a, b| a.key().cmp(&b.key()));
        out
    }

    fn pending(
        &self,
        shard: ShardId,
        service: &ServiceKey,
        object: ObjectRef,
        cause: PendingCause,
    ) -> Option<Pending> {
        let shard = Arc::clone(&self.context.shards.get(shard)?.shard);
        Some(Pending { shard, namespace: service.namespace.clone(), object, cause, since: self.now })
    }

    fn undeclared(&self, service: &ServiceKey, shard: &ServiceShard) -> Vec<Pending> {
        let pending = |group: &crate::state::services::GroupFact| {
            let cause = PendingCause::Declaration(group.declaration.clone(), Arc::clone(&group.group));
            self.pending(shard.id, service, group.group.source.reference(), cause)
        };
        shard.waiting().filter_map(pending).collect()
    }

    /// Returns the held removals of a shard's facts about a service and of the workloads that it selects.
    fn held_of(&self, service: &Service, shard: &ServiceShard) -> Vec<Pending> {
        let mut out = Vec::new();
        let mut add = |key: HoldKey, object: ObjectRef, kind: CollectionKind| {
            if let Some(hold) = self.guard.held(&key) {
                let cause = PendingCause::Held(kind, hold.reason);
                let pending = self.pending(key.0, &service.key, object, cause);
                out.extend(pending.map(|pending| Pending { since: hold.since, ..pending }));
            }
        };
        for decl in shard.declarations.iter().filter(|decl| decl.held) {
            let item = FactId::Service(decl_key(&service.key, &decl.object));
            add((shard.id, item), decl.declaration.source.reference(), CollectionKind::Services);
        }
        for fact in shard.groups.iter().filter(|fact| fact.held.is_some()) {
            let item = FactId::Group(group_key(&service.key, fact));
            add((shard.id, item), fact.group.source.reference(), CollectionKind::Groups);
        }
        for (key, object) in shard.declarations.iter().flat_map(|decl| self.held_workloads(decl)) {
            add(key, object, CollectionKind::Workloads);
        }
        out
    }

    fn held_workloads(&self, decl: &Decl) -> Vec<(HoldKey, ObjectRef)> {
        let members = decl.selector.map(|id| self.context.selection.members_beside_held(id));
        let slots = members.into_iter().flatten().filter_map(|id| self.context.workloads.get(id));
        let held = slots.filter_map(|slot| {
            let fact = slot.first().filter(|fact| fact.held)?;
            let key = (fact.shard, FactId::Workload(slot.key.clone()));
            Some((key, fact.workload.source.reference()))
        });
        held.collect()
    }
}

/// Keeps the start time of an entry that was already pending.
fn keep_since(entry: &mut Pending, old: &[Pending]) {
    if matches!(entry.cause, PendingCause::Held(..)) {
        return;
    }
    let before: Option<Mono> =
        old.binary_search_by(|old| old.key().cmp(&entry.key())).ok().and_then(|at| Some(old.get(at)?.since));
    entry.since = before.unwrap_or(entry.since);
}
