//! Implements the commands of `tributary state` on a directory that no process holds.
//!
//! The command line calls it. A directory in use is rejected with its process id: then the command must be
//! sent to that process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tributary_model::{CollectionKind, Fingerprint, ListRecord, Record, RegistryName, Scope};

use crate::codec::{Decoder, Member, Now, decode_member, unseal};
use crate::restore::{Reader, RestoredRegistry};
use crate::store::directory::{DirectoryError, StateDirectory};
use crate::store::{Files, JOURNAL, Meta, Store, StoreError, UNREADABLE, guarded, open_existing};
use crate::writer::pending::Pending;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The journal in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory contains no journal.
    #[error("no journal found in the state directory")]
    Empty,
}

/// Content of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateReport {
    /// Values of the journal itself.
    pub meta: Meta,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of keys and values in it.
    pub live_bytes: u64,
    /// Configured registries.
    pub members: Vec<Member>,
    /// Content by registry.
    pub registries: Vec<RegistryReport>,
    /// Other files: journals that were set aside.
    pub set_aside: Vec<String>,
}

/// Content of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReport {
    /// Name.
    pub name: RegistryName,
    /// Pinned identity.
    pub identity: Option<Fingerprint>,
    /// Bytes of its keys and values.
    pub bytes: u64,
    /// Lists and number of facts, by scope and kind.
    pub lists: BTreeMap<(Scope, CollectionKind), ListReport>,
    /// Number of invalid objects.
    pub problems: usize,
    /// Number of held removals.
    pub holds: usize,
    /// Ended scopes.
    pub ended: Vec<Scope>,
    /// Scopes that a restart would not restore, with the reason.
    pub refused: Vec<(Scope, Arc<str>)>,
    /// Reason why a restart would restore nothing of it, if so.
    pub absent: Option<Arc<str>>,
}

/// A collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListReport {
    /// Last list, with times relative to `now`.
    pub list: ListRecord,
    /// Number of facts.
    pub found: u64,
}

impl InspectError {
    /// Whether the journal exists but cannot be read, so a restart would restore nothing.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Store(StoreError::Unreadable(_) | StoreError::Newer(_)))
    }
}

impl StateReport {
    /// Whether a restart would restore everything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.registries.iter().all(|registry| registry.absent.is_none() && registry.refused.is_empty())
    }
}

/// Whether a directory has a journal. A process may hold the directory.
#[must_use]
pub fn has_journal(path: &Path) -> bool {
    path.join(JOURNAL).exists()
}

/// Returns the names of the journals that were set aside in a directory, sorted. A process may hold the directory; one that cannot be
/// listed has none.
#[must_use]
pub fn set_aside(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(UNREADABLE)).collect();
    names.sort_unstable();
    names
}

/// Returns the content of a directory's journal. Reads every record, so it also verifies them.
pub fn show(path: &Path, now: Now) -> Result<StateReport, InspectError> {
    let directory = StateDirectory::open_existing(path)?;
    // Closing a damaged database may panic too.
    guarded(|| Ok(open(&directory).and_then(|(store, meta)| report(&directory, &store, meta, now))))?
}

/// Checks every record; the report lists what a restart would not restore.
pub fn verify(path: &Path, now: Now) -> Result<StateReport, InspectError> {
    show(path, now)
}

/// Removes the journal and files that were set aside; returns the names of the files.
pub fn clear(path: &Path) -> Result<Vec<String>, InspectError> {
    let files = StateDirectory::open_existing(path)?;
    let held = files.files();
    let ours = held.names().map_err(StoreError::from)?;
    let ours: Vec<String> = ours.into_iter().filter(|name| name.starts_with(JOURNAL)).collect();
    for name in &ours {
        held.remove(name).map_err(StoreError::from)?;
    }
    Ok(ours)
}

/// Removes a registry, one of its scopes, or one collection of a scope from the journal. Changes nothing unless
/// `really` is set. Returns the number of removed facts.
pub fn end(
    path: &Path,
    registry: &RegistryName,
    part: Option<(&Scope, Option<CollectionKind>)>,
    now: Now,
    really: bool,
) -> Result<u64, InspectError> {
    let directory = StateDirectory::open_existing(path)?;
    let (mut store, _) = open(&directory)?;
    store.survey()?;
    let (mut going, mut changes) = (0, Pending::default());
    let concerned = |record: &Record| {
        let scope = crate::restore::scope_of(record);
        part.is_none_or(|(only, kind)| {
            scope == Some(only) && kind.is_none_or(|kind| kind_of(record) == Some(kind))
        })
    };
    read(&store, now, |piece| {
        if piece.name != *registry {
            return;
        }
        for record in piece.records.into_iter().filter(concerned) {
            going += u64::from(matches!(record, Record::Put(..)));
            if let (Some((_, Some(_))), Some(removal)) = (part, removal(record)) {
                changes.add(removal);
            }
        }
    })?;
    match part {
        None => changes.add(Record::Left(registry.clone())),
        Some((scope, None)) => changes.clear_scope(registry.clone(), scope.clone()),
        Some((scope, Some(kind))) => changes.forget_list(registry.clone(), scope.clone(), kind),
    }
    if really {
        store.commit(&changes, now)?;
    }
    Ok(going)
}

/// Forgets the pinned identity of a registry, so that the next one is accepted; returns the previous one.
pub fn accept(path: &Path, registry: &RegistryName, now: Now) -> Result<Option<Fingerprint>, InspectError> {
    let directory = StateDirectory::open_existing(path)?;
    let (mut store, _) = open(&directory)?;
    store.survey()?;
    let Some(known) = store.known().get(registry) else { return Ok(None) };
    let pinned = known.header.identity.clone();
    let mut changes = Pending::default();
    changes.of(registry.clone()).forget = true;
    store.commit(&changes, now)?;
    Ok(pinned)
}

fn open(directory: &StateDirectory) -> Result<(Store, Meta), InspectError> {
    let files: Arc<dyn Files> = directory.files();
    if !files.names().map_err(StoreError::from)?.iter().any(|name| name == JOURNAL) {
        return Err(InspectError::Empty);
    }
    Ok(open_existing(&files)?)
}

fn read(
    store: &Store,
    now: Now,
    send: impl FnMut(RestoredRegistry),
) -> Result<crate::restore::Outcome, StoreError> {
    guarded(|| {
        let mut reader = Reader::new(now, send);
        store.scan(|piece| reader.take(piece))?;
        Ok(reader.finish())
    })
}

fn report(
    directory: &StateDirectory,
    store: &Store,
    meta: Meta,
    now: Now,
) -> Result<StateReport, InspectError> {
    let mut registries: Vec<RegistryReport> = Vec::new();
    let outcome =
        read(store, now, |piece| match registries.iter_mut().rfind(|known| known.name == piece.name) {
            Some(known) => add(known, piece),
            None => {
                let mut known = RegistryReport::new(&piece);
                add(&mut known, piece);
                registries.push(known);
            }
        })?;
    for registry in &mut registries {
        registry.bytes = outcome.known.get(&registry.name).map_or(0, |known| known.bytes);
    }
    let mut members = Vec::new();
    let mut decoder = Decoder::new(now);
    store.members(|name, sealed| {
        let member = unseal(name.as_bytes(), sealed).and_then(|record| decode_member(&mut decoder, record));
        members.extend(member);
    })?;
    let names = directory.files().names().map_err(StoreError::from)?;
    let set_aside = names.into_iter().filter(|name| name.starts_with(JOURNAL) && name != JOURNAL).collect();
    let live_bytes = outcome.known.values().map(|known| known.bytes).sum();
    Ok(StateReport { meta, bytes: store.length()?, live_bytes, members, registries, set_aside })
}

impl RegistryReport {
    fn new(piece: &RestoredRegistry) -> Self {
        Self {
            name: piece.name.clone(),
            identity: None,
            bytes: 0,
            lists: BTreeMap::new(),
            problems: 0,
            holds: 0,
            ended: Vec::new(),
            refused: Vec::new(),
            absent: None,
        }
    }
}

fn add(known: &mut RegistryReport, piece: RestoredRegistry) {
    known.identity = piece.identity.or_else(|| known.identity.take());
    known.absent = piece.absent.or_else(|| known.absent.take());
    known.refused.extend(piece.refused);
    for record in piece.records {
        match record {
            Record::List(_, of, list) => {
                known.lists.insert((of.scope, of.kind), ListReport { list, found: 0 });
            }
            Record::Put(_, ref scope, _) => {
                let list = kind_of(&record).and_then(|kind| known.lists.get_mut(&(scope.clone(), kind)));
                if let Some(list) = list {
                    list.found += 1;
                }
            }
            Record::Problem(..) => known.problems += 1,
            Record::Hold(..) => known.holds += 1,
            Record::Ended(_, scope, ..) => known.ended.push(scope),
            _ => {}
        }
    }
}

fn kind_of(record: &Record) -> Option<CollectionKind> {
    match record {
        Record::Put(_, scope, fact) => {
            Some(tributary_model::FactKey { scope: scope.clone(), item: fact.item() }.collection().kind)
        }
        Record::Hold(_, key, _) => Some(key.collection().kind),
        Record::List(_, of, _) => Some(of.kind),
        _ => None,
    }
}

/// Returns the record that removes another record.
fn removal(record: Record) -> Option<Record> {
    match record {
        Record::Put(name, scope, fact) => {
            let key = tributary_model::FactKey { scope, item: fact.item() };
            Some(Record::Remove(name, key, tributary_model::Evidence::Operator))
        }
        Record::Hold(name, key, _) => Some(Record::Hold(name, key, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::now;
    use crate::testing::{list, put, registry, scope};
    use crate::{Journal, JournalOptions};

    fn filled(path: &Path) {
        let directory = StateDirectory::open(path).unwrap();
        let (journal, restoring) =
            Journal::open(directory, JournalOptions::default(), Arc::new(now)).unwrap();
        drop(restoring);
        journal.record(vec![
            Record::Identity(registry("east"), Fingerprint::new("uid").unwrap()),
            put("east", "a", "pod-1", 1),
            put("east", "b", "pod-1", 1),
            list("east", "a", 1),
            list("east", "b", 1),
        ]);
        journal.ready();
        journal.close();
    }

    fn counts(report: &StateReport) -> Vec<(String, u64)> {
        let lists = report.registries.iter().flat_map(|registry| &registry.lists);
        lists.map(|((scope, _), list)| (scope.to_string(), list.found)).collect()
    }

    #[test]
    fn report_counts_facts_by_scope() {
        let base = tempfile::tempdir().unwrap();
        filled(base.path());
        let report = show(base.path(), now()).unwrap();
        assert!(report.is_sound() && report.meta.ready_once && report.bytes > report.live_bytes);
        assert_eq!(counts(&report), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    }

    #[test]
    fn directory_in_use_is_rejected() {
        let base = tempfile::tempdir().unwrap();
        filled(base.path());
        let _held = StateDirectory::open(base.path()).unwrap();
        let refused = [verify(base.path(), now()).map(drop), clear(base.path()).map(drop)];
        assert!(
            refused.iter().all(|r| matches!(r, Err(InspectError::Directory(DirectoryError::Held { .. }))))
        );
    }

    #[test]
    fn end_removes_one_scope_or_kind_after_a_dry_run() {
        let base = tempfile::tempdir().unwrap();
        filled(base.path());
        let (name, of) = (registry("east"), scope("a"));
        let part = Some((&of, Some(CollectionKind::Workloads)));
        assert_eq!(end(base.path(), &name, part, now(), false).unwrap(), 1);
        assert_eq!(counts(&show(base.path(), now()).unwrap()).len(), 2, "nothing changed");
        assert_eq!(end(base.path(), &name, part, now(), true).unwrap(), 1);
        let report = show(base.path(), now()).unwrap();
        assert!(report.is_sound());
        assert_eq!(counts(&report), [("b".to_owned(), 1)]);
        assert_eq!(end(base.path(), &name, None, now(), true).unwrap(), 1);
        assert!(show(base.path(), now()).unwrap().registries.is_empty());
    }

    #[test]
    fn accept_clears_only_the_identity() {
        let base = tempfile::tempdir().unwrap();
        filled(base.path());
        let pinned = accept(base.path(), &registry("east"), now()).unwrap();
        assert_eq!(pinned.unwrap().as_str(), "uid");
        let report = show(base.path(), now()).unwrap();
        assert_eq!((report.registries[0].identity.clone(), counts(&report).len()), (None, 2));
    }

    #[test]
    fn cleared_directory_has_no_journal() {
        let base = tempfile::tempdir().unwrap();
        filled(base.path());
        assert_eq!(clear(base.path()).unwrap(), [JOURNAL]);
        assert!(matches!(show(base.path(), now()), Err(InspectError::Empty)));
    }
}
