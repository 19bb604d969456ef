//! The only module that adds, changes and removes facts of the state.
//!
//! Called by ingest for what ledgers accept, and by the removal guard. Each change marks what must
//! be built again, notes whether publication must not be delayed, and adds a record for the journal.
//! An equal fact changes nothing but ends a hold.

use std::sync::Arc;

use tributary_model::{
    CollectionKind, DeclKey, Declaration, DeclaredPolicy, EndpointGroup, EndpointGroupKey, Evidence, Fact,
    FactId, FactKey, FederatedService, Gateway, GatewayKey, Hostname, Mono, PolicyKey, Record, Resolution,
    ResolvedName, Settings, Workload, WorkloadKey,
};

use crate::removal::difference::loses;
use crate::state::State;
use crate::state::gateways::GatewayFact;
use crate::state::names::JoinChange;
use crate::state::policies::PolicyFact;
use crate::state::services::{Decl, GroupFact};
use crate::state::shards::ShardId;
use crate::state::workloads::WorkloadFact;

impl State {
    /// Sets a fact and ends any hold of it.
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
            Fact::FederatedService(host, value) => self.put_federated(shard, host, value),
            Fact::Policy(key, value) => self.put_policy(shard, key, value),
            Fact::GatewayName(name, value) => self.put_gateway_name(shard, name, value),
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
            let decl =
                Decl { object, declaration: value, reported: None, changed: at, held: false, selector };
            self.hosts.get_or_new(&key.service).add_declaration(shard, decl);
            self.dirty.services.insert(key.service);
            return;
        };
        let was_held = std::mem::take(&mut known.held);
        known.reported = None;
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
        self.dirty.urgent |= reduces(&before, &value);
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
        let context = &mut self.context;
        let (id, taken) = context.selection.declare(&key.service, shard, value, &mut context.workloads)?;
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
                self.context.selection.redeclare(id, value);
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
        let had = self.context.selection.undeclare(id, &mut self.context.workloads);
        self.dirty.workloads.extend(had);
    }

    /// Sets a group; `held` are the indexes of its addresses whose removal is held.
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
            self.context.shards.weigh(shard, more, 0);
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
        self.context.shards.weigh(shard, more, before.addresses.len());
        self.dirty.services.insert(key.service.clone());
        self.note_put(shard, Fact::Group(key.clone(), group));
    }

    fn put_workload(&mut self, shard: ShardId, key: &WorkloadKey, value: Arc<Workload>, at: Mono) {
        let context = &mut self.context;
        if let Some(known) = context.workloads.fact_mut(shard, key)
            && known.workload == value
        {
            self.counters.unchanged += 1;
            if std::mem::take(&mut known.held) {
                self.touch_workload(key);
            }
            return;
        }
        let is_new = context.workloads.fact(shard, key).is_none();
        let before = first_value(&context.workloads, key);
        let fact = WorkloadFact { shard, workload: Arc::clone(&value), changed: at, held: false };
        let Some(id) = context.workloads.put(key, fact, &context.shards) else {
            self.counters.refused += 1;
            return;
        };
        context.shards.weigh(shard, usize::from(is_new), 0);
        context.selection.follow(id, before.as_deref(), &mut context.workloads);
        self.dirty.workloads.insert(id);
        if is_new {
            self.count(shard, CollectionKind::Workloads, 1);
        }
        self.note_put(shard, Fact::Workload(key.clone(), value));
    }

    /// Marks the buckets of a workload whose value is unchanged but whose hold or priority changed.
    pub(crate) fn touch_workload(&mut self, key: &WorkloadKey) {
        let context = &mut self.context;
        if let Some(slot) = context.workloads.id(key).and_then(|id| context.workloads.get(id)) {
            context.selection.touch_workload(slot);
        }
    }

    fn put_gateway(&mut self, shard: ShardId, key: &GatewayKey, value: Arc<Gateway>) {
        let gateways = &mut self.context.gateways;
        if gateways.get(shard, key).is_some_and(|known| known.gateway == value) {
            gateways.hold(shard, key, false);
            self.counters.unchanged += 1;
            return;
        }
        let fact = GatewayFact { shard, gateway: Arc::clone(&value), held: false };
        match gateways.put(key, fact) {
            Some(_) => self.dirty.urgent = true,
            None => {
                // its first gateway makes a network reachable through gateways only
                self.dirty.urgent |= gateways.of(&key.network).is_none();
                self.context.shards.weigh(shard, 1, 0);
                self.count(shard, CollectionKind::Gateways, 1);
            }
        }
        self.dirty.gateways.insert(key.clone());
        self.note_put(shard, Fact::Gateway(key.clone(), value));
    }

    /// Sets the addresses of a host name. Those that gateways lose are removed from clients without delay.
    fn put_gateway_name(&mut self, shard: ShardId, name: Arc<str>, value: Arc<ResolvedName>) {
        let names = self.context.gateways.names_mut();
        match names.get(shard, &name) {
            Some(known) if *known == value => {
                self.counters.unchanged += 1;
                return;
            }
            Some(known) => {
                let stays = |address| value.addresses.binary_search(address).is_ok();
                self.dirty.urgent |= !known.addresses.iter().all(stays);
            }
            None => self.count(shard, CollectionKind::Gateways, 1),
        }
        self.context.gateways.names_mut().put(shard, &name, Arc::clone(&value));
        self.dirty.gateway_names.insert(Arc::clone(&name));
        self.note_put(shard, Fact::GatewayName(name, value));
    }

    fn put_policy(&mut self, shard: ShardId, key: PolicyKey, value: Arc<DeclaredPolicy>) {
        match self.context.policies.get_mut(shard, &key) {
            Some(known) if known.declared == value => {
                known.held = false;
                self.counters.unchanged += 1;
                return;
            }
            Some(known) => (known.declared, known.held) = (Arc::clone(&value), false),
            None => {
                let declared = Arc::clone(&value);
                self.context.policies.add(&key, PolicyFact { shard, declared, held: false });
                self.context.shards.weigh(shard, 1, 0);
                self.count(shard, CollectionKind::Policies, 1);
            }
        }
        self.dirty.policies.insert(key.clone());
        self.note_put(shard, Fact::Policy(key, value));
    }

    fn put_settings(&mut self, shard: ShardId, value: Arc<Settings>) {
        if self.context.settings.get(shard) == Some(&value) {
            self.counters.unchanged += 1;
            return;
        }
        if self.context.settings.get(shard).is_none() {
            self.count(shard, CollectionKind::Settings, 1);
        }
        self.context.settings.put(shard, Arc::clone(&value));
        // services may be visible to fewer clients now
        (self.dirty.settings, self.dirty.urgent) = (true, true);
        self.note_put(shard, Fact::Settings(value));
    }

    fn put_federated(&mut self, shard: ShardId, host: Hostname, value: Arc<FederatedService>) {
        if self.context.names.join_of(shard, &host) == Some(&value) {
            self.counters.unchanged += 1;
            return;
        }
        if self.context.names.join_of(shard, &host).is_none() {
            self.count(shard, CollectionKind::Settings, 1);
        }
        let change = self.context.declare_join(shard, &host, Some(Arc::clone(&value)));
        self.apply_join_change(&host, change);
        self.touch_registry(shard);
        self.note_put(shard, Fact::FederatedService(host, value));
    }

    fn remove_federated(&mut self, shard: ShardId, host: &Hostname) -> bool {
        if self.context.names.join_of(shard, host).is_none() {
            return false;
        }
        let change = self.context.declare_join(shard, host, None);
        self.apply_join_change(host, change);
        self.touch_registry(shard);
        true
    }

    /// Applies a change of the federated service of a host; the host's other claimants depend on it.
    pub(crate) fn apply_join_change(&mut self, host: &Hostname, change: JoinChange) {
        self.dirty.urgent = true;
        if let Some(service) = change.from.as_ref().and_then(|key| self.hosts.get_mut(key)) {
            service.federated = None;
            self.context.outages.allow(&service.key, None);
        }
        if let Some((key, federated)) = change.to {
            self.context.outages.allow(&key, federated.standby_after_stale);
            self.hosts.get_or_new(&key).federated = Some(federated);
        }
        self.dirty.services.extend(self.hosts.of(host).iter().map(|service| service.key.clone()));
    }

    /// Marks a registry: the conditions of its federated services may have changed.
    fn touch_registry(&mut self, shard: ShardId) {
        if let Some((registry, _)) = self.source_of(shard) {
            self.dirty.registries.insert(registry);
        }
    }

    /// Removes a fact. Returns whether it existed.
    pub(crate) fn remove(&mut self, shard: ShardId, item: &FactId, evidence: Evidence) -> bool {
        if let FactId::Waiting(key) = item {
            // no endpoint is removed: it is neither counted nor recorded, and no client reads it
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
            FactId::Settings => self.context.settings.remove(shard).is_some(),
            FactId::FederatedService(host) => self.remove_federated(shard, host),
            FactId::Policy(key) => self.remove_policy(shard, key),
            FactId::GatewayName(name) => self.remove_gateway_name(shard, name),
            FactId::Waiting(_) => false,
        };
        if !was {
            return false;
        }
        self.count(shard, item.kind(), -1);
        self.dirty.settings |= matches!(item, FactId::Settings);
        // of a policy the build decides
        self.dirty.urgent |= !matches!(item, FactId::Policy(_));
        if let Some(info) = self.context.shards.get(shard) {
            let key = FactKey { scope: info.shard.scope.clone(), item: item.clone() };
            let name = info.shard.registry.name.clone();
            self.dirty.records.push(Record::Remove(name, key, evidence));
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
        self.context.shards.weigh(shard, 0, gone.group.addresses.len());
        self.dirty.services.insert(key.service.clone());
        true
    }

    fn remove_workload(&mut self, shard: ShardId, key: &WorkloadKey) -> bool {
        let context = &mut self.context;
        let before = first_value(&context.workloads, key);
        if context.workloads.remove(shard, key).is_none() {
            return false;
        }
        context.shards.weigh(shard, 0, 1);
        if let Some(id) = context.workloads.id(key) {
            context.selection.follow(id, before.as_deref(), &mut context.workloads);
            self.dirty.workloads.insert(id);
        }
        true
    }

    fn remove_gateway(&mut self, shard: ShardId, key: &GatewayKey) -> bool {
        if !self.context.gateways.remove(shard, key) {
            return false;
        }
        self.context.shards.weigh(shard, 0, 1);
        self.dirty.gateways.insert(key.clone());
        true
    }

    fn remove_gateway_name(&mut self, shard: ShardId, name: &Arc<str>) -> bool {
        let was = self.context.gateways.names_mut().remove(shard, name);
        if was {
            self.dirty.gateway_names.insert(Arc::clone(name));
        }
        was
    }

    fn remove_policy(&mut self, shard: ShardId, key: &PolicyKey) -> bool {
        if !self.context.policies.remove(shard, key) {
            return false;
        }
        self.context.shards.weigh(shard, 0, 1);
        self.dirty.policies.insert(key.clone());
        true
    }

    pub(crate) fn note_put(&mut self, shard: ShardId, fact: Fact) {
        if let Some(info) = self.context.shards.get(shard) {
            let name = info.shard.registry.name.clone();
            self.dirty.records.push(Record::Put(name, info.shard.scope.clone(), fact));
        }
    }

    /// Returns a served fact.
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
                Fact::Workload(key.clone(), Arc::clone(&self.context.workloads.fact(shard, key)?.workload))
            }
            FactId::Gateway(key) => {
                Fact::Gateway(key.clone(), Arc::clone(&self.context.gateways.get(shard, key)?.gateway))
            }
            FactId::Settings => Fact::Settings(Arc::clone(self.context.settings.get(shard)?)),
            FactId::FederatedService(host) => {
                Fact::FederatedService(host.clone(), Arc::clone(self.context.names.join_of(shard, host)?))
            }
            FactId::Policy(key) => {
                Fact::Policy(key.clone(), Arc::clone(&self.context.policies.get(shard, key)?.declared))
            }
            FactId::GatewayName(name) => {
                let value = self.context.gateways.names().get(shard, name)?;
                Fact::GatewayName(Arc::clone(name), Arc::clone(value))
            }
            FactId::Waiting(_) => return None,
        })
    }

    fn count(&mut self, shard: ShardId, kind: CollectionKind, more: i64) {
        if let Some(info) = self.context.shards.get_mut(shard) {
            info.count(kind, more);
            self.dirty.lists.insert((shard, kind));
        }
    }
}

fn first_value(workloads: &crate::state::workloads::Workloads, key: &WorkloadKey) -> Option<Arc<Workload>> {
    let slot = workloads.get(workloads.id(key)?)?;
    slot.first().map(|f| Arc::clone(&f.workload))
}

/// Returns whether a changed declaration may remove something from clients or redirect them.
fn reduces(before: &Declaration, now: &Declaration) -> bool {
    let kept = |port: &tributary_model::ServicePort| now.ports.contains(port);
    let same_endpoints = !matches!(now.resolution, Resolution::Alias(_))
        && before.selector == now.selector
        && before.export == now.export
        && before.attributes == now.attributes;
    !same_endpoints || !before.ports.iter().all(kept)
}
