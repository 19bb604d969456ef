//! Journal of plain maps: a restarted server restores the served facts from the records.

use std::collections::BTreeMap;

use tributary_model::{
    Collection, Fact, FactKey, HoldRecord, ListRecord, Mono, Record, RegistryName, RegistrySpec,
};

use super::fixtures::World;

/// Content of all records, by registry.
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
                Record::Remove(_, key, _) => drop(kept.facts.remove(&key)),
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
    /// Returns the collections whose list record has a wrong number of facts.
    pub(crate) fn miscounted(&self) -> Vec<String> {
        let wrong = |kept: &Kept| -> Vec<String> {
            let count =
                |of: &Collection| kept.facts.keys().filter(|key| key.collection() == *of).count() as u64;
            let wrong = kept.lists.iter().filter(|(of, list)| list.count != count(of));
            let unlisted = kept.facts.keys().filter(|key| !kept.lists.contains_key(&key.collection()));
            wrong
                .map(|(of, list)| format!("{of:?} has count {} and {} facts", list.count, count(of)))
                .chain(unlisted.map(|key| format!("{key:?} has no list")))
                .collect()
        };
        self.0.values().flat_map(wrong).collect()
    }
    /// Returns the records of a registry, lists before facts.
    pub(crate) fn records(&self, name: &RegistryName) -> Vec<Record> {
        let Some(kept) = self.0.get(name) else { return Vec::new() };
        let lists = kept.lists.iter().map(|(of, list)| Record::List(name.clone(), of.clone(), list.clone()));
        let facts = kept.facts.iter();
        let facts = facts.map(|(key, fact)| Record::Put(name.clone(), key.scope.clone(), fact.clone()));
        let holds = kept.holds.iter();
        let holds = holds.map(|(key, hold)| Record::Hold(name.clone(), key.clone(), Some(hold.clone())));
        lists.chain(facts).chain(holds).collect()
    }
    /// Returns a core that is restored from this journal.
    pub(crate) fn restored(&self, specs: &[RegistrySpec]) -> World {
        let mut world = World::default();
        for spec in specs {
            world.add_registry(spec);
            world.core.restore(Mono(1 << 40), &spec.id.name, self.records(&spec.id.name), false);
        }
        world
    }
}
