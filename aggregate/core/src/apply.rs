//! Taking facts in and out: the one place that changes facts of the state.
//!
//! Called by ingest for what ledgers accept, and by the removal guard. Each change marks what must
//! be built again, notes whether it may not wait, and leaves a record for the journal. A fact that
//! is already so changes nothing but ends a hold.

use std::sync::Arc;

use tributary_model::{
    CollectionKind, DeclKey, Declaration, EndpointGroup, EndpointGroupKey, Evidence, Fact, FactId, FactKey,
    FederatedService, Gateway, GatewayKey, Hostname, Mono, Record, Resolution, Settings, Workload,
    WorkloadKey,
};

use crate::removal::difference::loses;
use crate::state::State;
use crate::state::gateways::GatewayFact;
use crate::state::names::Moved;
use crate::state::services::{Decl, GroupFact};
use crate::state::shards::ShardId;
use crate::state::workloads::WorkloadFact;

impl State {
    /// This is now so, whatever was held.
    pub(crate) fn put(&mut self, shard: ShardId, fact: Fact, at: Mono) {
        if !self.guard.is_idle() {
            self.guard.end(&(shard, fact.item()));
        }
        match fact {
            Fact::Service(key, value) => self.put_declaration(shard, key, value, at),
            Fact::Group(key, value) => self.put_group(shard, &key, value, None, at),
            Fact::Workload(key, value) => self.put_workload(shard, &key, value, at),
            Fact::Gateway(key, value) => self.put_gateway(shard, &key, value),
            Fact::Settings(value) => self.put_settings(shard, value),
            Fact::Alias(host, value) => self.put_alias(shard, host, value),
            Fact::Waiting(key, addresses) => {
                let changed = self.waiting_addresses.put(shard, &key, addresses);
                self.counters.unchanged += u64::from(!changed);
            }
        }
    }

    fn put_declaration(&mut self, shard: ShardId, key: DeclKey, value: Arc<Declaration>, at: Mono) {
        let service = self.hosts.get_or_new(&key.service);
        let Some(known) = service.declaration_mut(shard, &key.object) else {
            self.note_put(shard, Fact::Service(key.clone(), Arc::clone(&value)));
            self.count(shard, CollectionKind::Services, 1);
            let selector = self.select(&key, shard, &value);
            let object = key.object;
            let decl = Decl { object, declaration: value, said: None, changed: at, held: false, selector };
            self.hosts.get_or_new(&key.service).add_declaration(shard, decl);
            self.dirty.services.insert(key.service);
            return;
        };
        let was_held = std::mem::take(&mut known.held);
        known.said = None;
        if known.declaration == value {
            self.counters.unchanged += 1;
            if was_held {
                self.dirty.services.insert(key.service);
            }
            return;
        }
        let before = std::mem::replace(&mut known.declaration, Arc::clone(&value));
        known.changed = at;
        let selector = known.selector;
        self.dirty.urgent |= takes_away(&before, &value);
        let selector = self.reselect(&key, shard, &before, &value, selector);
        if let Some(known) =
            self.hosts.get_mut(&key.service).and_then(|s| s.declaration_mut(shard, &key.object))
        {
            known.selector = selector;
        }
        self.dirty.services.insert(key.service.clone());
        self.note_put(shard, Fact::Service(key, value));
    }

    fn select(
        &mut self,
        key: &DeclKey,
        shard: ShardId,
        value: &Arc<Declaration>,
    ) -> Option<crate::state::selectors::SelectorId> {
        let world = &mut self.world;
        let (id, taken) = world.selection.declare(&key.service, shard, value, &mut world.workloads)?;
        self.dirty.workloads.extend(taken);
        Some(id)
    }

    fn reselect(
        &mut self,
        key: &DeclKey,
        shard: ShardId,
        before: &Declaration,
        value: &Arc<Declaration>,
        selector: Option<crate::state::selectors::SelectorId>,
    ) -> Option<crate::state::selectors::SelectorId> {
        match selector {
            Some(id) if before.selector == value.selector => {
                self.world.selection.redeclare(id, value);
                Some(id)
            }
            Some(id) => {
                self.unselect(id);
                self.select(key, shard, value)
            }
            None => self.select(key, shard, value),
        }
    }

    fn unselect(&mut self, id: crate::state::selectors::SelectorId) {
        let had = self.world.selection.undeclare(id, &mut self.world.workloads);
        self.dirty.workloads.extend(had);
    }

    /// A group is now this, with these of its addresses held.
    pub(crate) fn put_group(
        &mut self,
        shard: ShardId,
        key: &EndpointGroupKey,
        group: Arc<EndpointGroup>,
        held: Option<Arc<[u32]>>,
        at: Mono,
    ) {
        let service = self.hosts.get_or_new(&key.service);
        let more = group.addresses.len();
        let Some(known) = service.group_mut(shard, key) else {
            let fact = GroupFact {
                declaration: key.declaration.clone(),
                object: key.object.clone(),
                bucket: key.bucket,
                group: Arc::clone(&group),
                changed: at,
                held,
            };
            service.add_group(shard, fact);
            self.world.shards.weigh(shard, more, 0);
            self.count(shard, CollectionKind::Groups, 1);
            self.dirty.services.insert(key.service.clone());
            self.note_put(shard, Fact::Group(key.clone(), group));
            return;
        };
        let same_held = known.held == held;
        known.held = held;
        if known.group == group {
            self.counters.unchanged += 1;
            if !same_held {
                self.dirty.services.insert(key.service.clone());
            }
            return;
        }
        let before = std::mem::replace(&mut known.group, Arc::clone(&group));
        known.changed = at;
        // one loss is enough, and a list may replace every group
        self.dirty.urgent = self.dirty.urgent || loses(&before, &group);
        self.world.shards.weigh(shard, more, before.addresses.len());
        self.dirty.services.insert(key.service.clone());
        self.note_put(shard, Fact::Group(key.clone(), group));
    }

    fn put_workload(&mut self, shard: ShardId, key: &WorkloadKey, value: Arc<Workload>, at: Mono) {
        let world = &mut self.world;
        if let Some(known) = world.workloads.fact_mut(shard, key)
            && known.workload == value
        {
            self.counters.unchanged += 1;
            if std::mem::take(&mut known.held) {
                self.touch_workload(key);
            }
            return;
        }
        let is_new = world.workloads.fact(shard, key).is_none();
        let before = first_word(&world.workloads, key);
        let fact = WorkloadFact { shard, workload: Arc::clone(&value), changed: at, held: false };
        let Some(id) = world.workloads.put(key, fact, &world.shards) else {
            self.counters.refused += 1;
            return;
        };
        world.shards.weigh(shard, usize::from(is_new), 0);
        world.selection.follow(id, before.as_deref(), &mut world.workloads);
        self.dirty.workloads.insert(id);
        if is_new {
            self.count(shard, CollectionKind::Workloads, 1);
        }
        self.note_put(shard, Fact::Workload(key.clone(), value));
    }

    /// A workload says the same, but is served otherwise.
    pub(crate) fn touch_workload(&mut self, key: &WorkloadKey) {
        let world = &mut self.world;
        if let Some(slot) = world.workloads.id(key).and_then(|id| world.workloads.get(id)) {
            world.selection.touch_workload(slot);
        }
    }

    fn put_gateway(&mut self, shard: ShardId, key: &GatewayKey, value: Arc<Gateway>) {
        let fact = GatewayFact { shard, gateway: Arc::clone(&value), held: false };
        match self.world.gateways.get_mut(shard, key) {
            Some(known) if known.gateway == value => {
                known.held = false;
                self.counters.unchanged += 1;
                return;
            }
            Some(known) => {
                *known = fact;
                self.dirty.urgent = true;
            }
            None => {
                // with its first gateway a network is entered through it, no longer directly
                self.dirty.urgent |= !self.world.gateways.has(&key.network);
                let again = self.world.gateways.add(key, fact);
                self.dirty.services.extend(again);
                self.world.shards.weigh(shard, 1, 0);
                self.count(shard, CollectionKind::Gateways, 1);
            }
        }
        self.dirty.gateways.insert(key.clone());
        self.note_put(shard, Fact::Gateway(key.clone(), value));
    }

    fn put_settings(&mut self, shard: ShardId, value: Arc<Settings>) {
        if self.world.settings.get(shard) == Some(&value) {
            self.counters.unchanged += 1;
            return;
        }
        if self.world.settings.get(shard).is_none() {
            self.count(shard, CollectionKind::Settings, 1);
        }
        self.world.settings.put(shard, Arc::clone(&value));
        // who sees a service, and what leaves the mesh, may have become less
        (self.dirty.settings, self.dirty.urgent) = (true, true);
        self.note_put(shard, Fact::Settings(value));
    }

    fn put_alias(&mut self, shard: ShardId, host: Hostname, value: Arc<FederatedService>) {
        if self.world.names.join_of(shard, &host) == Some(&value) {
            self.counters.unchanged += 1;
            return;
        }
        if self.world.names.join_of(shard, &host).is_none() {
            self.count(shard, CollectionKind::Settings, 1);
        }
        let moved = self.world.declare_join(shard, &host, Some(Arc::clone(&value)));
        self.move_alias(&host, moved);
        self.touch_registry(shard);
        self.note_put(shard, Fact::Alias(host, value));
    }

    fn remove_alias(&mut self, shard: ShardId, host: &Hostname) -> bool {
        if self.world.names.join_of(shard, host).is_none() {
            return false;
        }
        let moved = self.world.declare_join(shard, host, None);
        self.move_alias(host, moved);
        self.touch_registry(shard);
        true
    }

    /// Another service of the host is its alias now; what else claims the host is served or not by that.
    pub(crate) fn move_alias(&mut self, host: &Hostname, moved: Moved) {
        self.dirty.urgent = true;
        if let Some(service) = moved.from.as_ref().and_then(|key| self.hosts.get_mut(key)) {
            service.alias = None;
            self.world.outages.allow(&service.key, None);
        }
        if let Some((key, alias)) = moved.to {
            self.world.outages.allow(&key, alias.standby_after_stale);
            self.hosts.get_or_new(&key).alias = Some(alias);
        }
        self.dirty.services.extend(self.hosts.of(host).iter().map(|service| service.key.clone()));
    }

    /// What is odd about the aliases of a registry may be something else.
    fn touch_registry(&mut self, shard: ShardId) {
        if let Some((registry, _)) = self.place_of(shard) {
            self.dirty.registries.insert(registry);
        }
    }

    /// This is no more; whether it was.
    pub(crate) fn remove(&mut self, shard: ShardId, item: &FactId, evidence: Evidence) -> bool {
        if let FactId::Waiting(key) = item {
            // no endpoint goes: it is neither counted nor recorded, and concerns no client
            return self.waiting_addresses.remove(shard, key);
        }
        if !self.guard.is_idle() {
            self.guard.end(&(shard, item.clone()));
        }
        let was = match item {
            FactId::Service(key) => self.remove_declaration(shard, key),
            FactId::Group(key) => self.remove_group(shard, key),
            FactId::Workload(key) => self.remove_workload(shard, key),
            FactId::Gateway(key) => self.remove_gateway(shard, key),
            FactId::Settings => self.world.settings.remove(shard).is_some(),
            FactId::Alias(host) => self.remove_alias(shard, host),
            FactId::Waiting(_) => false,
        };
        if !was {
            return false;
        }
        self.count(shard, item.kind(), -1);
        self.dirty.settings |= matches!(item, FactId::Settings);
        self.dirty.urgent = true;
        if let Some(info) = self.world.shards.get(shard) {
            let key = FactKey { scope: info.shard.scope.clone(), item: item.clone() };
            let name = info.shard.registry.name.clone();
            self.dirty.records.push(Record::Drop(name, key, evidence));
        }
        true
    }

    fn remove_declaration(&mut self, shard: ShardId, key: &DeclKey) -> bool {
        let gone = self.hosts.get_mut(&key.service).and_then(|s| s.remove_declaration(shard, &key.object));
        let Some(gone) = gone else { return false };
        if let Some(id) = gone.selector {
            self.unselect(id);
        }
        self.dirty.services.insert(key.service.clone());
        true
    }

    fn remove_group(&mut self, shard: ShardId, key: &EndpointGroupKey) -> bool {
        let gone = self.hosts.get_mut(&key.service).and_then(|s| s.remove_group(shard, key));
        let Some(gone) = gone else { return false };
        self.world.shards.weigh(shard, 0, gone.group.addresses.len());
        self.dirty.services.insert(key.service.clone());
        true
    }

    fn remove_workload(&mut self, shard: ShardId, key: &WorkloadKey) -> bool {
        let world = &mut self.world;
        let before = first_word(&world.workloads, key);
        if world.workloads.remove(shard, key).is_none() {
            return false;
        }
        world.shards.weigh(shard, 0, 1);
        if let Some(id) = world.workloads.id(key) {
            world.selection.follow(id, before.as_deref(), &mut world.workloads);
            self.dirty.workloads.insert(id);
        }
        true
    }

    fn remove_gateway(&mut self, shard: ShardId, key: &GatewayKey) -> bool {
        let Some(again) = self.world.gateways.remove(shard, key) else { return false };
        self.dirty.services.extend(again);
        self.world.shards.weigh(shard, 0, 1);
        self.dirty.gateways.insert(key.clone());
        true
    }

    fn note_put(&mut self, shard: ShardId, fact: Fact) {
        if let Some(info) = self.world.shards.get(shard) {
            let name = info.shard.registry.name.clone();
            self.dirty.records.push(Record::Put(name, info.shard.scope.clone(), fact));
        }
    }

    /// A fact as it is served.
    pub(crate) fn fact(&self, shard: ShardId, item: &FactId) -> Option<Fact> {
        Some(match item {
            FactId::Service(key) => {
                let known = self.hosts.get(&key.service)?.shard(shard)?.declaration(&key.object)?;
                Fact::Service(key.clone(), Arc::clone(&known.declaration))
            }
            FactId::Group(key) => {
                let known = self.hosts.get(&key.service)?.group(shard, key)?;
                Fact::Group(key.clone(), Arc::clone(&known.group))
            }
            FactId::Workload(key) => {
                Fact::Workload(key.clone(), Arc::clone(&self.world.workloads.fact(shard, key)?.workload))
            }
            FactId::Gateway(key) => {
                Fact::Gateway(key.clone(), Arc::clone(&self.world.gateways.get(shard, key)?.gateway))
            }
            FactId::Settings => Fact::Settings(Arc::clone(self.world.settings.get(shard)?)),
            FactId::Alias(host) => {
                Fact::Alias(host.clone(), Arc::clone(self.world.names.join_of(shard, host)?))
            }
            FactId::Waiting(_) => return None,
        })
    }

    fn count(&mut self, shard: ShardId, kind: CollectionKind, more: i64) {
        if let Some(info) = self.world.shards.get_mut(shard) {
            info.count(kind, more);
            self.dirty.lists.insert((shard, kind));
        }
    }
}

fn first_word(workloads: &crate::state::workloads::Workloads, key: &WorkloadKey) -> Option<Arc<Workload>> {
    let slot = workloads.get(workloads.id(key)?)?;
    slot.first().map(|f| Arc::clone(&f.workload))
}

/// Whether a declaration that was `before` may leave clients with less now, or send them elsewhere.
fn takes_away(before: &Declaration, now: &Declaration) -> bool {
    let kept = |port: &tributary_model::ServicePort| now.ports.contains(port);
    let stands_still = !matches!(now.resolution, Resolution::Alias(_))
        && before.selector == now.selector
        && before.export == now.export
        && before.attributes == now.attributes;
    !stands_still || !before.ports.iter().all(kept)
}
