//! Registries in the catalog: freshness, conditions, excluded objects; and groups that wait for a declaration.
//!
//! Called by build after the batch's services, and by reports.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    CatalogChanges, Code, Collection, Condition, Freshness, ListRecord, ObjectId, ObjectRef, Record,
    RegistryName, RegistryView, Scope, ServiceKey, Shared,
};

use crate::ledger::{Registries, Registry};
use crate::state::State;
use crate::state::services::{GroupFact, ServiceShard};
use crate::state::shards::ShardId;

impl State {
    /// Updates the views of marked registries and the completeness of the catalog.
    pub(super) fn build_registries(
        &mut self,
        registries: &Registries,
        complete: bool,
        changed: &mut CatalogChanges,
    ) {
        for name in std::mem::take(&mut self.dirty.registries) {
            let now = registries.get(&name).map(|registry| self.registry_view(registry));
            self.dirty.statuses.insert(name.clone());
            let before = self.draft.registries.get(&name);
            if before.map(|old| &**old) == now.as_ref() {
                continue;
            }
            let unread = |view: &RegistryView| Arc::clone(&view.unread);
            changed.complete |= before.map(|old| unread(old)).unwrap_or_default()
                != now.as_ref().map(unread).unwrap_or_default();
            changed.registries = true;
            match now {
                Some(view) => self.draft.registries.insert(name, Shared::new(view)),
                None => self.draft.registries.remove(&name),
            };
        }
        changed.complete |= complete != self.draft.complete;
        self.draft.complete = complete;
    }

    fn registry_view(&self, registry: &Registry) -> RegistryView {
        let ledger = &registry.ledger;
        let collections: Vec<(_, Freshness)> =
            ledger.collections().map(|(c, list)| (c, list.freshness.clone())).collect();
        let conditions = self.registry_conditions(&registry.info.id.name).into_iter();
        RegistryView {
            id: Arc::clone(&registry.info.id),
            generation: ledger.generation,
            collections: collections.into(),
            unread: ledger.unread().collect(),
            priority: registry.info.priority,
            conditions: conditions.chain(ledger.unread_conditions()).collect(),
            excluded: ledger.scopes.values().filter_map(|scoped| scoped.excluded.clone()).collect(),
        }
    }

    /// Records the state of every collection that may have changed, for the journal.
    pub(crate) fn record_lists(&mut self, registries: &Registries) {
        let changed = std::mem::take(&mut self.dirty.lists);
        let collection = |(shard, kind)| {
            let (name, scope) = self.source_of(shard)?;
            Some((name, Collection { scope, kind }))
        };
        let mut lists: BTreeSet<(RegistryName, Collection)> =
            changed.into_iter().filter_map(collection).collect();
        for name in &self.dirty.registries {
            let all = registries.get(name).into_iter().flat_map(|registry| registry.ledger.collections());
            lists.extend(all.map(|(collection, _)| (name.clone(), collection)));
        }
        for (name, collection) in lists {
            let record = registries.get(&name).and_then(|registry| self.list_record(registry, collection));
            self.dirty.records.extend(record);
        }
    }

    /// Returns the list records of every collection of a registry.
    pub(crate) fn list_records(&self, registry: &Registry) -> Vec<Record> {
        let all = registry.ledger.collections();
        all.filter_map(|(collection, _)| self.list_record(registry, collection)).collect()
    }

    /// Returns the list record of a collection. An empty collection has one too: it is known, not unknown.
    fn list_record(&self, registry: &Registry, collection: Collection) -> Option<Record> {
        let (name, shards) = (&registry.info.id.name, &self.context.shards);
        let info = shards.find(name, &collection.scope).and_then(|shard| shards.get(shard));
        let count = info.map_or(0, |info| info.counted(collection.kind));
        let list = registry.ledger.list(&collection)?;
        let required = registry.ledger.requires(&collection);
        let record = ListRecord { required, result: list.result, count, confirmed: list.confirmed };
        Some(Record::List(name.clone(), collection, record))
    }

    /// Returns a service's groups of a shard that wait for their declaration.
    fn waiting_of(&self, shard: ShardId, key: &ServiceKey) -> impl Iterator<Item = &GroupFact> {
        let facts = self.hosts.get(key).and_then(|service| service.shard(shard));
        facts.into_iter().flat_map(ServiceShard::waiting)
    }

    /// Returns the number of a shard's groups that wait for their declaration.
    pub(crate) fn waiting_in(&self, shard: ShardId) -> usize {
        self.waiting.get(&shard).map_or(0, |waiting| waiting.total)
    }

    /// Sets the number of a service's groups that wait.
    pub(crate) fn note_waiting(&mut self, shard: ShardId, key: &ServiceKey, count: usize) {
        let waiting = self.waiting.entry(shard).or_default();
        let keys = &mut waiting.services;
        let before = if count == 0 { keys.remove(key) } else { keys.insert(key.clone(), count) };
        let some = before.is_some() || count > 0;
        waiting.total = waiting.total + count - before.unwrap_or_default();
        if keys.is_empty() {
            self.waiting.remove(&shard);
        }
        if some && let Some((name, _)) = self.source_of(shard) {
            self.dirty.registries.insert(name);
        }
    }

    /// Returns the conditions of a registry.
    pub(crate) fn registry_conditions(&self, name: &RegistryName) -> Vec<Condition> {
        const NAMED: usize = 16;
        let shards = self.context.shards.of(name);
        let mut out = self.empty_federated(&shards);
        let count: usize = shards.iter().map(|(_, id)| self.waiting_in(*id)).sum();
        if count == 0 {
            return out;
        }
        let waiting = shards.iter().flat_map(|(_, id)| {
            let keys = self.waiting.get(id).into_iter().flat_map(|waiting| waiting.services.keys());
            keys.flat_map(|key| self.waiting_of(*id, key))
        });
        let objects: Vec<ObjectRef> =
            waiting.take(NAMED).map(|group| ObjectRef::new(group.object.clone())).collect();
        let message = format!("the endpoints of {count} objects wait for their declaration");
        let code = Code::GROUP_WITHOUT_DECLARATION;
        out.push(Condition { code, objects: objects.into(), message: message.into() });
        out
    }

    /// Returns the condition for federated services without a usable member, which have no view of their own.
    fn empty_federated(&self, shards: &[(Scope, ShardId)]) -> Vec<Condition> {
        const NAMED: usize = 16;
        const SHOWN: usize = 4;
        let held = shards.iter().flat_map(|(_, id)| self.context.names.joins_of(*id));
        let empty = |key: &&ServiceKey| self.hosts.get(key).is_none_or(|service| !service.is_join);
        let empty: Vec<&ServiceKey> = held.filter(empty).collect();
        if empty.is_empty() {
            return Vec::new();
        }
        let object =
            |key: &&ServiceKey| ObjectId::new("FederatedService", key.namespace.as_str(), key.host.as_str());
        let objects = empty.iter().take(NAMED).map(|key| ObjectRef::new(object(key))).collect();
        let named: Vec<&str> = empty.iter().take(SHOWN).map(|key| key.host.as_str()).collect();
        let more =
            if empty.len() > SHOWN { format!(" and {} more", empty.len() - SHOWN) } else { String::new() };
        let message = format!(
            "not served, as no member can be joined: the federated services {}{more}; check their members' hosts",
            named.join(", ")
        );
        vec![Condition { code: Code::FEDERATED_MEMBER_MISSING, objects, message: message.into() }]
    }
}
