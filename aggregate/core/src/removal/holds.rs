//! Holding what is doubted, and letting go of it.
//!
//! Called by [`State::judge`] and by the operator. A held fact is served as it was; of an unsure
//! answer, what it named is served beside what it did not.

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
    /// Keeps a fact whose removal is doubted.
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
                let Some(known) = self.world.workloads.fact_mut(*shard, workload) else { return };
                known.held = true;
                self.touch_workload(&workload.clone());
            }
            FactId::Gateway(gateway) => {
                let Some(known) = self.world.gateways.get_mut(*shard, gateway) else { return };
                known.held = true;
            }
            FactId::Settings | FactId::Alias(_) | FactId::Waiting(_) => {
                self.remove(*shard, &item.clone(), Evidence::AbsentFromList);
                return;
            }
        }
        let confirms = self.can_confirm(key.0);
        self.counters.held += u64::from(self.guard.hold(key, now, reason, confirms));
    }

    /// Whether the source of a shard answers a question about a removal.
    pub(crate) fn can_confirm(&self, shard: ShardId) -> bool {
        self.world.shards.get(shard).is_some_and(|info| info.can_confirm)
    }

    /// An unsure answer: what was held before stays held, what goes now goes or is held too.
    pub(super) fn settle_fewer(
        &mut self,
        key: HoldKey,
        said: &EndpointGroup,
        at: Mono,
        reason: Option<&'static str>,
        now: Mono,
    ) {
        let (shard, FactId::Group(group)) = &key else { return };
        let known = self.hosts.get(&group.service).and_then(|s| s.group(*shard, group));
        let Some(known) = known else { return };
        let held_before = |at: &u32| known.held.as_ref().is_some_and(|h| h.binary_search(at).is_ok());
        let mut kept = missing(&known.group, said);
        if reason.is_none() {
            kept.retain(held_before);
        }
        let (merged, held) = with_kept(said, &known.group, &kept);
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

    /// An unsure Put: applied at once unless something is missing from it.
    pub(crate) fn put_unsure(&mut self, shard: ShardId, fact: Fact, doubted: bool, at: Mono) {
        let (key, said) = match &fact {
            Fact::Group(key, said) => (key, said),
            Fact::Service(key, said) if doubted && self.says_otherwise(shard, key, said) => {
                return self.widen(shard, key, said, at);
            }
            Fact::Service(key, said) if self.says_otherwise(shard, key, said) => {
                return self.guard.redeclare((shard, FactId::Service(key.clone())), Arc::clone(said), at);
            }
            Fact::Workload(key, reported) if doubted => {
                let both = self.keep_listed(shard, key, reported);
                return self.put(shard, Fact::Workload(key.clone(), both), at);
            }
            _ => return self.put(shard, fact, at),
        };
        let known = self.hosts.get(&key.service).and_then(|s| s.group(shard, key));
        if known.is_none_or(|known| missing(&known.group, said).is_empty()) {
            return self.put(shard, fact, at);
        }
        let key = (shard, FactId::Group(key.clone()));
        let said = Arc::clone(said);
        self.guard.propose(key, Proposal::Fewer { said, at, doubted });
    }

    /// A workload as reported in doubt, with the services that listed it before.
    fn keep_listed(&self, shard: ShardId, key: &WorkloadKey, reported: &Arc<Workload>) -> Arc<Workload> {
        let known = self.world.workloads.fact(shard, key).map(|known| &*known.workload.listed);
        let lacks = |service: &&ServiceKey| !reported.listed.contains(service);
        let kept: Vec<&ServiceKey> = known.into_iter().flatten().filter(lacks).collect();
        if kept.is_empty() {
            return Arc::clone(reported);
        }
        let mut listed: Vec<ServiceKey> = reported.listed.iter().chain(kept).cloned().collect();
        listed.sort();
        Arc::new(Workload { listed: listed.into(), ..Workload::clone(reported) })
    }

    fn says_otherwise(&self, shard: ShardId, key: &DeclKey, said: &Declaration) -> bool {
        self.known_declaration(shard, key).is_some_and(|known| *known.declaration != *said)
    }

    fn known_declaration(&self, shard: ShardId, key: &DeclKey) -> Option<&Decl> {
        self.hosts.get(&key.service)?.shard(shard)?.declaration(&key.object)
    }

    /// Judged after the groups: while endpoints behind a declaration are held, it stays as it was and only gains
    /// ports. It was made of instances that the answer may lack.
    pub(super) fn redeclare(&mut self, (shard, item): HoldKey, said: &Arc<Declaration>, at: Mono) {
        let FactId::Service(key) = item else { return };
        if self.known_declaration(shard, &key).is_none() {
            return;
        }
        let holds = |s: &ServiceShard| s.groups_of(&key.object).iter().any(|group| group.held.is_some());
        let held = self.hosts.get(&key.service).and_then(|s| s.shard(shard)).is_some_and(holds);
        if !held {
            return self.put(shard, Fact::Service(key, Arc::clone(said)), at);
        }
        self.widen(shard, &key, said, at);
    }

    /// A declaration stays as it was, and gains the ports of one that is known to be short.
    fn widen(&mut self, shard: ShardId, key: &DeclKey, said: &Arc<Declaration>, at: Mono) {
        let Some(known) = self.known_declaration(shard, key) else { return };
        let known = Arc::clone(&known.declaration);
        let more = said.ports.iter().filter(|port| !declares(&known, port));
        let ports = known.ports.iter().chain(more).cloned().collect();
        let both = Declaration { ports, ..Declaration::clone(&known) };
        self.put(shard, Fact::Service(key.clone(), Arc::new(both)), at);
        let service = self.hosts.get_mut(&key.service);
        if let Some(decl) = service.and_then(|s| s.declaration_mut(shard, &key.object)) {
            decl.said = Some(Arc::clone(said));
        }
    }

    /// What a declaration was said to be goes for it, once nothing behind it is held.
    fn settle_declaration(&mut self, shard: ShardId, group: &EndpointGroupKey, now: Mono) {
        let key = DeclKey { service: group.service.clone(), object: group.declaration.clone() };
        if let Some(said) = self.known_declaration(shard, &key).and_then(|decl| decl.said.clone()) {
            self.redeclare((shard, FactId::Service(key)), &said, now);
        }
    }

    /// An operator lets a held removal happen; whether it was held.
    pub(crate) fn release(&mut self, registry: &RegistryName, key: &FactKey) -> bool {
        let now = self.now;
        let Some(shard) = self.world.shards.find(registry, &key.scope) else { return false };
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
        self.put(shard, Fact::Group(key.clone(), Arc::new(left)), now);
    }
}

/// Whether a declaration has a port of this number, or one of this name where it selects: the endpoints of workloads
/// find their port by its name.
fn declares(declaration: &Declaration, port: &ServicePort) -> bool {
    let selects = declaration.selector.is_some();
    declaration.ports.iter().any(|own| own.number == port.number || (selects && own.name == port.name))
}
