//! Holds doubted removals and releases them.
//!
//! Called by [`State::judge`] and by operator commands. A held fact stays served as it was; after a
//! partial answer, the reported endpoints are served together with the held ones.

use std::sync::Arc;

use tributary_model::{
    DeclKey, Declaration, EndpointGroup, EndpointGroupKey, Evidence, Fact, FactId, FactKey, Mono,
    RegistryName, ServiceKey, ServicePort, Workload, WorkloadKey,
};

use super::guard::{HoldKey, Proposal};
use crate::removal::difference::{missing, with_kept};
use crate::state::State;
use crate::state::services::{Decl, ServiceShard};
use crate::state::shards::ShardId;

impl State {
    /// Holds the removal of a whole fact.
    pub(crate) fn hold_all(&mut self, key: HoldKey, reason: &'static str, now: Mono) {
        let (shard, item) = &key;
        match item {
            FactId::Service(decl) => {
                let service = self.hosts.get_mut(&decl.service);
                let Some(known) = service.and_then(|s| s.declaration_mut(*shard, &decl.object)) else {
                    return;
                };
                known.held = true;
                self.dirty.services.insert(decl.service.clone());
            }
            FactId::Group(group) => {
                let service = self.hosts.get_mut(&group.service);
                let Some(known) = service.and_then(|s| s.group_mut(*shard, group)) else { return };
                let all = u32::try_from(known.group.addresses.len()).unwrap_or(u32::MAX);
                known.held = Some((0..all).collect());
                self.dirty.services.insert(group.service.clone());
            }
            FactId::Workload(workload) => {
                let Some(known) = self.context.workloads.fact_mut(*shard, workload) else { return };
                known.held = true;
                self.touch_workload(&workload.clone());
            }
            FactId::Gateway(gateway) => {
                if !self.context.gateways.hold(*shard, gateway, true) {
                    return;
                }
            }
            FactId::Policy(policy) => {
                let Some(known) = self.context.policies.get_mut(*shard, policy) else { return };
                known.held = true;
            }
            FactId::Settings | FactId::FederatedService(_) | FactId::Waiting(_) | FactId::GatewayName(_) => {
                self.remove(*shard, &item.clone(), Evidence::AbsentFromList);
                return;
            }
        }
        let confirms = self.can_confirm(key.0);
        self.counters.held += u64::from(self.guard.hold(key, now, reason, confirms));
    }

    /// Returns whether the source of a shard answers confirm requests.
    pub(crate) fn can_confirm(&self, shard: ShardId) -> bool {
        self.context.shards.get(shard).is_some_and(|info| info.can_confirm)
    }

    /// Applies a partial answer: endpoints held before stay held; newly missing ones are held if there is a `reason`.
    pub(super) fn settle_fewer(
        &mut self,
        key: HoldKey,
        reported: &EndpointGroup,
        at: Mono,
        reason: Option<&'static str>,
        now: Mono,
    ) {
        let (shard, FactId::Group(group)) = &key else { return };
        let known = self.hosts.get(&group.service).and_then(|s| s.group(*shard, group));
        let Some(known) = known else { return };
        let held_before = |at: &u32| known.held.as_ref().is_some_and(|h| h.binary_search(at).is_ok());
        let mut kept = missing(&known.group, reported);
        if reason.is_none() {
            kept.retain(held_before);
        }
        let (merged, held) = with_kept(reported, &known.group, &kept);
        let held = (!held.is_empty()).then_some(held);
        let (shard, group) = (*shard, group.clone());
        if held.is_some() {
            let confirms = self.can_confirm(shard);
            self.counters.held += u64::from(self.guard.hold(key, now, reason.unwrap_or_default(), confirms));
        } else {
            self.guard.end(&key);
        }
        self.put_group(shard, &group, Arc::new(merged), held, at);
    }

    /// Applies a partial Put at once if it lacks nothing, else proposes what it lacks for removal.
    pub(crate) fn put_unsure(&mut self, shard: ShardId, fact: Fact, doubted: bool, at: Mono) {
        let (key, reported) = match &fact {
            Fact::Group(key, reported) => (key, reported),
            Fact::Service(key, reported) if doubted && self.differs(shard, key, reported) => {
                return self.widen(shard, key, reported, at);
            }
            Fact::Service(key, reported) if self.differs(shard, key, reported) => {
                return self.guard.redeclare((shard, FactId::Service(key.clone())), Arc::clone(reported), at);
            }
            Fact::Workload(key, reported) if doubted => {
                let both = self.keep_listed(shard, key, reported);
                return self.put(shard, Fact::Workload(key.clone(), both), at);
            }
            _ => return self.put(shard, fact, at),
        };
        let known = self.hosts.get(&key.service).and_then(|s| s.group(shard, key));
        if known.is_none_or(|known| missing(&known.group, reported).is_empty()) {
            return self.put(shard, fact, at);
        }
        let key = (shard, FactId::Group(key.clone()));
        let reported = Arc::clone(reported);
        self.guard.propose(key, Proposal::Fewer { reported, at, doubted });
    }

    /// Returns a workload of a known-partial answer, with the services that listed it before.
    fn keep_listed(&self, shard: ShardId, key: &WorkloadKey, reported: &Arc<Workload>) -> Arc<Workload> {
        let known = self.context.workloads.fact(shard, key).map(|known| &*known.workload.listed);
        let lacks = |service: &&ServiceKey| !reported.listed.contains(service);
        let kept: Vec<&ServiceKey> = known.into_iter().flatten().filter(lacks).collect();
        if kept.is_empty() {
            return Arc::clone(reported);
        }
        let mut listed: Vec<ServiceKey> = reported.listed.iter().chain(kept).cloned().collect();
        listed.sort();
        Arc::new(Workload { listed: listed.into(), ..Workload::clone(reported) })
    }

    fn differs(&self, shard: ShardId, key: &DeclKey, reported: &Declaration) -> bool {
        self.known_declaration(shard, key).is_some_and(|known| *known.declaration != *reported)
    }

    fn known_declaration(&self, shard: ShardId, key: &DeclKey) -> Option<&Decl> {
        self.hosts.get(&key.service)?.shard(shard)?.declaration(&key.object)
    }

    /// Applies a partial declaration after its groups are judged. While any of its endpoints is held, the declaration
    /// stays and only gains ports: it was derived from instances that the answer may lack.
    pub(super) fn redeclare(&mut self, (shard, item): HoldKey, reported: &Arc<Declaration>, at: Mono) {
        let FactId::Service(key) = item else { return };
        if self.known_declaration(shard, &key).is_none() {
            return;
        }
        let holds = |s: &ServiceShard| s.groups_of(&key.object).iter().any(|group| group.held.is_some());
        let held = self.hosts.get(&key.service).and_then(|s| s.shard(shard)).is_some_and(holds);
        if !held {
            return self.put(shard, Fact::Service(key, Arc::clone(reported)), at);
        }
        self.widen(shard, &key, reported, at);
    }

    /// Keeps a declaration and adds the ports of a partial one.
    fn widen(&mut self, shard: ShardId, key: &DeclKey, reported: &Arc<Declaration>, at: Mono) {
        let Some(known) = self.known_declaration(shard, key) else { return };
        let known = Arc::clone(&known.declaration);
        let more = reported.ports.iter().filter(|port| !declares(&known, port));
        let ports = known.ports.iter().chain(more).cloned().collect();
        let both = Declaration { ports, ..Declaration::clone(&known) };
        self.put(shard, Fact::Service(key.clone(), Arc::new(both)), at);
        let service = self.hosts.get_mut(&key.service);
        if let Some(decl) = service.and_then(|s| s.declaration_mut(shard, &key.object)) {
            decl.reported = Some(Arc::clone(reported));
        }
    }

    /// Applies the last reported value of a declaration once none of its endpoints is held.
    fn settle_declaration(&mut self, shard: ShardId, group: &EndpointGroupKey, now: Mono) {
        let key = DeclKey { service: group.service.clone(), object: group.declaration.clone() };
        if let Some(reported) = self.known_declaration(shard, &key).and_then(|decl| decl.reported.clone()) {
            self.redeclare((shard, FactId::Service(key)), &reported, now);
        }
    }

    /// Applies a held removal at an operator's request. Returns whether it was held.
    pub(crate) fn release(&mut self, registry: &RegistryName, key: &FactKey) -> bool {
        let now = self.now;
        let Some(shard) = self.context.shards.find(registry, &key.scope) else { return false };
        if !self.guard.is_held(&(shard, key.item.clone())) {
            return false;
        }
        match &key.item {
            FactId::Group(group) => {
                self.release_group(shard, group, now);
                self.settle_declaration(shard, group, now);
            }
            item => {
                self.remove(shard, item, Evidence::Operator);
            }
        }
        true
    }

    fn release_group(&mut self, shard: ShardId, key: &EndpointGroupKey, now: Mono) {
        let Some(known) = self.hosts.get(&key.service).and_then(|s| s.group(shard, key)) else { return };
        let stays = |at: usize| {
            let held = |at| known.held.as_ref().is_some_and(|h| h.binary_search(&at).is_ok());
            !u32::try_from(at).is_ok_and(held)
        };
        let kept = known.group.addresses.iter().enumerate().filter(|(at, _)| stays(*at));
        let kept: Vec<_> = kept.map(|(_, address)| address.clone()).collect();
        if kept.is_empty() {
            self.remove(shard, &FactId::Group(key.clone()), Evidence::Operator);
            return;
        }
        let group = &known.group;
        let left =
            EndpointGroup::new(group.source.clone(), group.port_sets.to_vec(), group.names.to_vec(), kept);
        let left = left.in_unit(group.weight_unit);
        self.put(shard, Fact::Group(key.clone(), Arc::new(left)), now);
    }
}

/// Returns whether a declaration has a port of this number. Selected endpoints find their port by name, so a selecting
/// declaration also matches by name.
fn declares(declaration: &Declaration, port: &ServicePort) -> bool {
    let selects = declaration.selector.is_some();
    declaration.ports.iter().any(|own| own.number == port.number || (selects && own.name == port.name))
}
