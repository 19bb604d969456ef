//! A journal as plain maps: what a server that restarts gives back to the core is what was served.

use std::collections::BTreeMap;

use tributary_model::{
    Collection, Fact, FactKey, HoldRecord, ListRecord, Mono, Record, RegistryName, RegistrySpec,
};

use super::fixtures::World;

/// What records come to, by registry.
#[derive(Debug, Default)]
pub(crate) struct Journal(BTreeMap<RegistryName, Kept>);

#[derive(Debug, Default)]
struct Kept {
    facts: BTreeMap<FactKey, Fact>,
    lists: BTreeMap<Collection, ListRecord>,
    holds: BTreeMap<FactKey, HoldRecord>,
    rest: Vec<Record>,
}

impl Journal {
    pub(crate) fn take(&mut self, records: impl IntoIterator<Item = Record>) {
        for record in records {
            let name = record.registry().clone();
            let kept = self.0.entry(name.clone()).or_default();
            match record {
                Record::Put(_, scope, fact) => {
                    drop(kept.facts.insert(FactKey { scope, item: fact.item() }, fact))
                }
                Record::Drop(_, key, _) => drop(kept.facts.remove(&key)),
                Record::List(_, collection, list) => drop(kept.lists.insert(collection, list)),
                Record::Hold(_, key, Some(hold)) => drop(kept.holds.insert(key, hold)),
                Record::Hold(_, key, None) => drop(kept.holds.remove(&key)),
                Record::Ended(_, scope, ..) => {
                    kept.facts.retain(|key, _| key.scope != scope);
                    kept.lists.retain(|collection, _| collection.scope != scope);
                    kept.holds.retain(|key, _| key.scope != scope);
                }
                Record::Left(_) => drop(self.0.remove(&name)),
                other => kept.rest.push(other),
            }
        }
    }
    /// Collections of which another number of facts is kept than their list says.
    pub(crate) fn miscounted(&self) -> Vec<String> {
        let wrong = |kept: &Kept| -> Vec<String> {
            let count =
                |of: &Collection| kept.facts.keys().filter(|key| key.collection() == *of).count() as u64;
            let wrong = kept.lists.iter().filter(|(of, list)| list.count != count(of));
            let unlisted = kept.facts.keys().filter(|key| !kept.lists.contains_key(&key.collection()));
            wrong
                .map(|(of, list)| format!("{of:?} is said to have {} and has {}", list.count, count(of)))
                .chain(unlisted.map(|key| format!("{key:?} has no list")))
                .collect()
        };
        self.0.values().flat_map(wrong).collect()
    }
    /// The records of a registry, lists before facts.
    pub(crate) fn records(&self, name: &RegistryName) -> Vec<Record> {
        let Some(kept) = self.0.get(name) else { return Vec::new() };
        let lists = kept.lists.iter().map(|(of, list)| Record::List(name.clone(), of.clone(), list.clone()));
        let facts = kept.facts.iter();
        let facts = facts.map(|(key, fact)| Record::Put(name.clone(), key.scope.clone(), fact.clone()));
        let holds = kept.holds.iter();
        let holds = holds.map(|(key, hold)| Record::Hold(name.clone(), key.clone(), Some(hold.clone())));
        lists.chain(facts).chain(holds).collect()
    }
    /// A server that restarts and finds only this.
    pub(crate) fn restored(&self, specs: &[RegistrySpec]) -> World {
        let mut world = World::default();
        for spec in specs {
            world.joins(spec);
            world.core.restore(Mono(1 << 40), &spec.id.name, self.records(&spec.id.name), false);
        }
        world
    }
}
