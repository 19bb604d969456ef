//! A journal in memory: hands the records of a stopped server to the next one on the same stage.
//!
//! The runtime writes into [`Sink`]; the stage reads [`Kept`] when it opens again.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_model::{
    Collection, Fact, FactKey, HoldRecord, ListRecord, ObjectId, Record, RegistryName, Scope,
};
use tributary_runtime::JournalSink;

#[derive(Debug, Default)]
struct Tables {
    facts: BTreeMap<(RegistryName, FactKey), Fact>,
    lists: BTreeMap<(RegistryName, Collection), ListRecord>,
    holds: BTreeMap<(RegistryName, FactKey), HoldRecord>,
    problems: BTreeMap<(RegistryName, Scope, ObjectId), Record>,
    identities: BTreeMap<RegistryName, Record>,
}

/// Records that the journal holds; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Tables>>);

impl Kept {
    /// Returns all records, lists before facts.
    pub(crate) fn records(&self) -> Vec<Record> {
        let tables = self.0.lock();
        let lists = tables
            .lists
            .iter()
            .map(|((name, of), list)| Record::List(name.clone(), of.clone(), list.clone()));
        let facts = tables.facts.iter();
        let facts =
            facts.map(|((name, key), fact)| Record::Put(name.clone(), key.scope.clone(), fact.clone()));
        let holds = tables.holds.iter();
        let holds =
            holds.map(|((name, key), hold)| Record::Hold(name.clone(), key.clone(), Some(hold.clone())));
        let identities = tables.identities.values().cloned();
        identities.chain(lists).chain(facts).chain(tables.problems.values().cloned()).chain(holds).collect()
    }
    /// Returns a sink that writes into this journal.
    pub(crate) fn sink(&self) -> Box<Sink> {
        Box::new(Sink(self.clone()))
    }
}

impl Tables {
    fn take(&mut self, record: Record) {
        match record {
            Record::Put(name, scope, fact) => {
                drop(self.facts.insert((name, FactKey { scope, item: fact.item() }), fact));
            }
            Record::Remove(name, key, _) => drop(self.facts.remove(&(name, key))),
            Record::List(name, collection, list) => drop(self.lists.insert((name, collection), list)),
            Record::Hold(name, key, Some(hold)) => drop(self.holds.insert((name, key), hold)),
            Record::Hold(name, key, None) => drop(self.holds.remove(&(name, key))),
            Record::Problem(name, scope, object, None) => drop(self.problems.remove(&(name, scope, object))),
            Record::Problem(ref name, ref scope, ref object, Some(_)) => {
                let key = (name.clone(), scope.clone(), object.clone());
                self.problems.insert(key, record);
            }
            Record::Ended(name, scope, ..) => self.forget(&name, &scope),
            Record::Identity(ref name, _) => drop(self.identities.insert(name.clone(), record)),
            Record::Left(_) => *self = Self::default(),
        }
    }
    fn forget(&mut self, name: &RegistryName, scope: &Scope) {
        self.facts.retain(|(of, key), _| of != name || key.scope != *scope);
        self.lists.retain(|(of, collection), _| of != name || collection.scope != *scope);
        self.holds.retain(|(of, key), _| of != name || key.scope != *scope);
        self.problems.retain(|(of, within, _), _| of != name || within != scope);
    }
}

/// Sink that the runtime writes to.
#[derive(Debug)]
pub(crate) struct Sink(Kept);

impl JournalSink for Sink {
    fn record(&mut self, records: Vec<Record>) {
        let mut tables = self.0.0.lock();
        records.into_iter().for_each(|record| tables.take(record));
    }
}
