//! A small owner with a known state, and a journal on a failing disk, for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::*;

use crate::codec::Now;
use crate::restore::RestoredRegistry;
use crate::samples::now;
use crate::store::directory::StateDirectory;
use crate::store::faulty::{FaultyDisk, Numbers};
use crate::store::{Meta, Opened, StoreError, open_or_copy};
use crate::writer::shared::Shared;
use crate::writer::{JournalOptions, Writer};

/// Served state by registry, scope and name: a fact with its weight, a list with its count.
pub(crate) type Served = BTreeMap<(String, String, String), u64>;

/// A journal whose writer passes are run by the test.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: Writer,
    pub(crate) now: Now,
    pub(crate) meta: Meta,
    pub(crate) notice: Option<String>,
    pub(crate) pieces: Vec<RestoredRegistry>,
}

pub(crate) fn options() -> JournalOptions {
    JournalOptions::default()
}

impl Bench {
    pub(crate) fn open(disk: &FaultyDisk, options: JournalOptions) -> Result<Self, StoreError> {
        let directory = StateDirectory::of(Arc::new(disk.clone()));
        let (opened, failing) = open_or_copy(&directory.files(), options.most_file())?;
        let Opened { store, meta, notice, .. } = opened;
        let shared = Arc::new(Shared::new(options.most_keys));
        let mut writer = Writer::new(shared.clone(), directory, options, (store, failing));
        let mut pieces = Vec::new();
        writer.restore(now(), |piece| pieces.push(piece));
        Ok(Self { shared, writer, now: now(), meta, notice, pieces })
    }
    /// Runs one writer pass, an interval later; returns whether it committed something.
    pub(crate) fn pass(&mut self) -> bool {
        self.now = self.now.plus(Duration::from_millis(500));
        let before = self.shared.stats().commits;
        self.writer.pass(self.now);
        self.shared.stats().commits > before
    }
    /// Returns the restored state, without rejected scopes.
    pub(crate) fn served(&self) -> Served {
        let mut served = Served::new();
        for piece in &self.pieces {
            for record in &piece.records {
                note(&mut served, record);
            }
        }
        for piece in &self.pieces {
            for (scope, _) in &piece.refused {
                served.retain(|(name, of, _), _| *name != piece.name.as_str() || *of != scope.as_str());
            }
        }
        served
    }
}

pub(crate) fn registry(text: &str) -> RegistryName {
    RegistryName::new(text).unwrap()
}

pub(crate) fn scope(text: &str) -> Scope {
    Scope::new(text).unwrap()
}

pub(crate) fn fact(name: &str, weight: u64) -> Fact {
    let (namespace, cluster) = (Namespace::new("shop").unwrap(), ClusterId::new("east").unwrap());
    let (kind, of_name): (_, Arc<str>) = (WorkloadKind::Pod, name.into());
    let key = WorkloadName { namespace, kind, name: of_name, cluster };
    // Some values take several parts.
    let path: Arc<str> = "p".repeat((weight % 7 * 600) as usize).as_str().into();
    let value = Workload {
        addresses: [WorkloadAddress::Unix(path)].into(),
        weight: weight as u32,
        ..Workload::new(Source::new(ObjectId::new("Pod", "shop", name)))
    };
    Fact::Workload(key.into(), Arc::new(value))
}

pub(crate) fn put(name: &str, of: &str, fact_name: &str, weight: u64) -> Record {
    Record::Put(registry(name), scope(of), fact(fact_name, weight))
}

pub(crate) fn list(name: &str, of: &str, count: u64) -> Record {
    let collection = Collection { scope: scope(of), kind: CollectionKind::Workloads };
    let result = Some(ListResult::Complete);
    Record::List(registry(name), collection, ListRecord { required: true, result, count, confirmed: None })
}

/// Applies a record to the served state.
pub(crate) fn note(served: &mut Served, record: &Record) {
    let id = |name: &RegistryName, scope: &Scope, item: String| {
        (name.as_str().to_owned(), scope.as_str().to_owned(), item)
    };
    let name_of = |item: &FactId| match item {
        FactId::Workload(key) => key.name.to_string(),
        other => format!("{other:?}"),
    };
    match record {
        Record::Put(name, scope, fact) => {
            let Fact::Workload(_, value) = fact else { return };
            served.remove(&id(name, scope, "ended".to_owned()));
            served.insert(id(name, scope, name_of(&fact.item())), value.weight.into());
        }
        Record::Remove(name, key, _) => drop(served.remove(&id(name, &key.scope, name_of(&key.item)))),
        Record::List(name, of, list) => {
            served.insert(id(name, &of.scope, "list".to_owned()), list.count);
        }
        Record::Ended(name, scope, ..) => {
            served.retain(|(of, part, _), _| *of != name.as_str() || *part != scope.as_str());
            served.insert(id(name, scope, "ended".to_owned()), 1);
        }
        Record::Left(name) => served.retain(|(of, ..), _| *of != name.as_str()),
        Record::Problem(..) | Record::Hold(..) | Record::Identity(..) => {}
    }
}

/// Runs one batch of an owner: some changes of one scope and its list, or the end of a scope or registry.
pub(crate) fn batch(numbers: &mut Numbers, served: &mut Served) -> Vec<Record> {
    let name = ["east", "west"][numbers.below(2) as usize];
    let of = ["a", "b"][numbers.below(2) as usize];
    let mut records = match numbers.below(12) {
        0 => vec![Record::Ended(registry(name), scope(of), Evidence::Operator, now().mono)],
        1 => vec![Record::Left(registry(name))],
        _ => (0..1 + numbers.below(6)).map(|_| change(numbers, name, of)).collect(),
    };
    for record in &records {
        note(served, record);
    }
    if matches!(records[0], Record::Put(..) | Record::Remove(..)) {
        let inside = served.keys().filter(|(n, s, item)| n == name && s == of && item.starts_with("pod"));
        records.push(list(name, of, inside.count() as u64));
        if let Some(list) = records.last() {
            note(served, list);
        }
    }
    records
}

fn change(numbers: &mut Numbers, name: &str, of: &str) -> Record {
    let fact_name = format!("pod-{}", numbers.below(12));
    if numbers.below(3) == 0 {
        let item = fact(&fact_name, 0).item();
        return Record::Remove(registry(name), FactKey { scope: scope(of), item }, Evidence::Confirmed);
    }
    put(name, of, &fact_name, numbers.below(1000))
}
