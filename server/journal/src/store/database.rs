//! The database: its tables, commits, and compaction.
//!
//! The writer's thread owns it. A commit is atomic and synced; counters in memory change only with
//! it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};
use tributary_model::{Fingerprint, RegistryName, Scope};

use super::files::{Files, JOURNAL, NEXT};
use super::format::{FORMAT, LOWEST_READER, create_database, key, open_database};
use super::scan::{Piece, insert, remove, scan};
use super::{StoreError, guarded};
use crate::codec::entry::{
    EntryKey, EntryValue, Header, put_entry_key, registry_prefix, scope_prefix, split_key,
};
use crate::codec::{Encoder, Now, encode, encode_member, seal};
use crate::writer::pending::{Pending, RegistryChanges, ScopeChanges};

/// Facts and the state beside them.
pub(crate) const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// Values of the journal itself.
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Members by their name.
pub(crate) const MEMBERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("members");

/// Most bytes of a value in one entry. The database rounds a value beyond a page up to a power of two of pages; parts of
/// this size fill pages instead.
pub(crate) const PART: usize = 1200;
/// Most ended scopes kept for a registry.
const MOST_ENDED: usize = 256;

type Records<'txn> = Table<'txn, &'static [u8], &'static [u8]>;

/// Returns the key of a later part of a value. No field has number 0, so no other key has this form.
pub(crate) fn part_key(key: &[u8], number: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 3);
    out.extend_from_slice(key);
    out.push(0);
    out.extend_from_slice(&number.to_be_bytes());
    out
}

/// Summary of a registry's records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The registry's own record.
    pub(crate) header: Header,
    /// Bytes of its keys and values.
    pub(crate) bytes: u64,
    /// Ended scopes, the oldest first as far as known.
    pub(crate) ended: VecDeque<Scope>,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Store {
    files: Arc<dyn Files>,
    db: Database,
    known: BTreeMap<RegistryName, Known>,
}

impl Store {
    /// Wraps an open database; call [`Store::learn`] for its registries.
    pub(crate) fn new(files: Arc<dyn Files>, db: Database) -> Result<Self, StoreError> {
        Ok(Self { files, db, known: BTreeMap::new() })
    }
    /// Returns the summaries of the registries.
    pub(crate) const fn known(&self) -> &BTreeMap<RegistryName, Known> {
        &self.known
    }
    /// Sets the result of a scan.
    pub(crate) fn learn(&mut self, known: BTreeMap<RegistryName, Known>) {
        self.known = known;
    }
    /// Scans all registries, if nothing else has to be read.
    pub(crate) fn survey(&mut self) -> Result<(), StoreError> {
        let mut known: BTreeMap<RegistryName, Known> = BTreeMap::new();
        let mut decoder = crate::codec::Decoder::new(Now::EPOCH);
        self.scan(|piece| {
            let Some((name, scope, rest)) = named(piece.key) else { return Ok(true) };
            let known = known.entry(name).or_default();
            known.bytes += piece.bytes;
            note(&mut decoder, known, scope, rest, &piece);
            Ok(true)
        })?;
        self.known = known;
        Ok(())
    }
    /// Calls `visit` for every record, until it returns false.
    pub(crate) fn scan(
        &self,
        visit: impl FnMut(Piece<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let txn = self.db.begin_read().map_err(redb::Error::from)?;
        scan(&txn.open_table(RECORDS).map_err(redb::Error::from)?, visit)
    }
    /// Calls `visit` for every member.
    pub(crate) fn members(&self, mut visit: impl FnMut(&str, &[u8])) -> Result<(), StoreError> {
        guarded(|| {
            let txn = self.db.begin_read().map_err(redb::Error::from)?;
            let table = txn.open_table(MEMBERS).map_err(redb::Error::from)?;
            for entry in table.iter().map_err(redb::Error::from)? {
                let (name, value) = entry.map_err(redb::Error::from)?;
                visit(name.value(), value.value());
            }
            Ok(())
        })
    }
    /// Returns the bytes of keys and values.
    pub(crate) fn live(&self) -> u64 {
        self.known.values().map(|known| known.bytes).sum()
    }
    /// Returns the length of the file, in bytes.
    pub(crate) fn length(&self) -> Result<u64, StoreError> {
        Ok(self.files.length(JOURNAL)?)
    }
    /// Writes changes in one synced commit.
    pub(crate) fn commit(&mut self, changes: &Pending, now: Now) -> Result<(), StoreError> {
        let mut known = self.known.clone();
        guarded(|| {
            let mut txn = self.db.begin_write().map_err(redb::Error::from)?;
            // Each commit contains the state of the allocator: a crash costs no scan of the file at start.
            txn.set_quick_repair(true);
            write(&txn, changes, now, &mut known)?;
            Ok(txn.commit().map_err(redb::Error::from)?)
        })?;
        self.known = known;
        Ok(())
    }
    /// Copies live entries into a new file that replaces this one.
    pub(crate) fn compact(self) -> Result<Self, StoreError> {
        let Self { files, db, known } = self;
        guarded(|| {
            copy(&files, &db)?;
            let next = open_database(&files, NEXT)?;
            if digest(&next)? != digest(&db)? {
                return Err(StoreError::Disk("the copy differs from the journal".to_owned()));
            }
            drop((next, db));
            files.rename(NEXT, JOURNAL)?;
            Ok(Self { db: open_database(&files, JOURNAL)?, files, known })
        })
    }
}

/// Splits a key into registry, scope and the rest; `None` if a name is invalid.
pub(crate) fn named(key: &[u8]) -> Option<(RegistryName, Option<Scope>, &[u8])> {
    let (name, scope, rest) = split_key(key).ok()?;
    let scope = if scope.is_empty() { None } else { Some(Scope::new(scope).ok()?) };
    Some((RegistryName::new(name).ok()?, scope, rest))
}

/// Records a header or an ended scope in a summary.
pub(crate) fn note(
    decoder: &mut crate::codec::Decoder,
    known: &mut Known,
    scope: Option<Scope>,
    rest: &[u8],
    piece: &Piece<'_>,
) {
    match (scope, rest) {
        (None, [crate::codec::entry::kind::HEADER]) => {
            let record =
                piece.value.as_ref().ok().and_then(|value| crate::codec::unseal(piece.key, value).ok());
            let value =
                record.and_then(|record| crate::codec::decode(decoder, &EntryKey::Header, record).ok());
            if let Some(EntryValue::Header(header)) = value {
                known.header = header;
            }
        }
        (Some(scope), [crate::codec::entry::kind::ENDED]) => known.ended.push_back(scope),
        _ => {}
    }
}

fn copy(files: &Arc<dyn Files>, from: &Database) -> Result<(), StoreError> {
    files.remove(NEXT)?;
    let next = create_database(files, NEXT)?;
    let read = from.begin_read().map_err(redb::Error::from)?;
    let mut txn = next.begin_write().map_err(redb::Error::from)?;
    txn.set_quick_repair(true);
    {
        let mut records = txn.open_table(RECORDS).map_err(redb::Error::from)?;
        for entry in read.open_table(RECORDS).map_err(redb::Error::from)?.iter().map_err(redb::Error::from)? {
            let (key, value) = entry.map_err(redb::Error::from)?;
            if named(key.value()).is_none() {
                continue;
            }
            records.insert(key.value(), value.value()).map_err(redb::Error::from)?;
        }
        let mut members = txn.open_table(MEMBERS).map_err(redb::Error::from)?;
        for entry in read.open_table(MEMBERS).map_err(redb::Error::from)?.iter().map_err(redb::Error::from)? {
            let (name, value) = entry.map_err(redb::Error::from)?;
            members.insert(name.value(), value.value()).map_err(redb::Error::from)?;
        }
        let mut meta = txn.open_table(META).map_err(redb::Error::from)?;
        for entry in read.open_table(META).map_err(redb::Error::from)?.iter().map_err(redb::Error::from)? {
            let (name, value) = entry.map_err(redb::Error::from)?;
            meta.insert(name.value(), value.value()).map_err(redb::Error::from)?;
        }
    }
    Ok(txn.commit().map_err(redb::Error::from)?)
}

/// Returns number and digest of all entries of records and members.
fn digest(db: &Database) -> Result<(u64, u64), StoreError> {
    use tributary_model::Version;
    let txn = db.begin_read().map_err(redb::Error::from)?;
    let mut all = (0, 0);
    let mut add = |key: &[u8], value: &[u8]| {
        all = (all.0 + 1, Version::of_all([Version(all.1), Version::of(key), Version::of(value)]).0);
    };
    for entry in txn.open_table(RECORDS).map_err(redb::Error::from)?.iter().map_err(redb::Error::from)? {
        let (key, value) = entry.map_err(redb::Error::from)?;
        if named(key.value()).is_some() {
            add(key.value(), value.value());
        }
    }
    for entry in txn.open_table(MEMBERS).map_err(redb::Error::from)?.iter().map_err(redb::Error::from)? {
        let (name, value) = entry.map_err(redb::Error::from)?;
        add(name.value().as_bytes(), value.value());
    }
    Ok(all)
}

fn write(
    txn: &WriteTransaction,
    changes: &Pending,
    now: Now,
    known: &mut BTreeMap<RegistryName, Known>,
) -> Result<(), StoreError> {
    let mut enc = Encoder::new(now);
    let mut meta = txn.open_table(META).map_err(redb::Error::from)?;
    let set = |is_set: bool| is_set.then_some(1);
    let values = [
        (key::READY, set(changes.ready)),
        (key::MEMBERSHIP, set(changes.membership_synced)),
        (key::REMOTES, changes.remotes_known.map(u64::from)),
    ];
    for (name, value) in values.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        meta.insert(name, value).map_err(redb::Error::from)?;
    }
    // An older file gets the format of this release with the first write.
    meta.insert(key::FORMAT, FORMAT).map_err(redb::Error::from)?;
    meta.insert(key::READER, LOWEST_READER).map_err(redb::Error::from)?;
    let mut members = txn.open_table(MEMBERS).map_err(redb::Error::from)?;
    for (name, member) in &changes.members {
        let name = name.as_str();
        match member {
            Some(member) => {
                let value = seal(name.as_bytes(), &encode_member(&mut enc, member));
                members.insert(name, &value[..]).map_err(redb::Error::from)?;
            }
            None => drop(members.remove(name).map_err(redb::Error::from)?),
        }
    }
    let mut records = txn.open_table(RECORDS).map_err(redb::Error::from)?;
    for (name, changes) in &changes.registries {
        write_registry(&mut records, &mut enc, name, changes, known).map_err(|error| match error {
            StoreError::TooLarge(_) => StoreError::TooLarge(Some(name.clone())),
            error => error,
        })?;
    }
    Ok(())
}

fn write_registry(
    records: &mut Records<'_>,
    enc: &mut Encoder,
    name: &RegistryName,
    changes: &RegistryChanges,
    all: &mut BTreeMap<RegistryName, Known>,
) -> Result<(), StoreError> {
    if changes.cleared {
        clear(records, registry_prefix(name))?;
        let identity = all.remove(name).and_then(|known| known.header.identity).filter(|_| !changes.forget);
        if !changes.left {
            all.insert(name.clone(), Known { header: Header { whole: true, identity }, ..Known::default() });
        }
    }
    if changes.left {
        return Ok(());
    }
    let fresh = || Known { header: Header { whole: true, identity: None }, ..Known::default() };
    let known = all.entry(name.clone()).or_insert_with(fresh);
    write_header(records, enc, name, changes, known)?;
    let mut scopes: Vec<(&Scope, &ScopeChanges)> = changes.scopes.iter().collect();
    scopes.sort_unstable_by_key(|(scope, _)| *scope);
    for (scope, changes) in scopes {
        write_scope(records, enc, &scope_prefix(name, Some(scope)), changes, known, scope)?;
    }
    while known.ended.len() > MOST_ENDED {
        if let Some(scope) = known.ended.pop_front() {
            let mut key = scope_prefix(name, Some(&scope));
            put_entry_key(&mut key, &EntryKey::Ended);
            adjust(known, remove(records, &key)?);
        }
    }
    Ok(())
}

fn write_header(
    records: &mut Records<'_>,
    enc: &mut Encoder,
    name: &RegistryName,
    changes: &RegistryChanges,
    known: &mut Known,
) -> Result<(), StoreError> {
    let identity: Option<Fingerprint> = changes.identity.clone().or_else(|| {
        let pinned = known.header.identity.clone();
        pinned.filter(|_| !changes.forget)
    });
    let header = Header { whole: changes.whole.unwrap_or(known.header.whole), identity };
    if header == known.header && known.bytes > 0 {
        return Ok(());
    }
    let mut key = scope_prefix(name, None);
    put_entry_key(&mut key, &EntryKey::Header);
    let sealed = seal(&key, &encode(enc, &EntryValue::Header(header.clone())));
    adjust(known, insert(records, &key, &sealed)?);
    known.header = header;
    Ok(())
}

fn write_scope(
    records: &mut Records<'_>,
    enc: &mut Encoder,
    prefix: &[u8],
    changes: &ScopeChanges,
    known: &mut Known,
    scope: &Scope,
) -> Result<(), StoreError> {
    if changes.cleared {
        adjust(known, clear(records, prefix.to_vec())?);
    }
    let again = changes.entries.values().any(|value| matches!(value, Some(EntryValue::Fact(_))));
    if changes.cleared || again {
        known.ended.retain(|ended| ended != scope);
    }
    let key_of = |key: &EntryKey| {
        let mut out = prefix.to_vec();
        put_entry_key(&mut out, key).map(|()| out)
    };
    if let Some((evidence, at)) = changes.ended.clone() {
        known.ended.push_back(scope.clone());
        let key = key_of(&EntryKey::Ended).unwrap_or_default();
        let sealed = seal(&key, &encode(enc, &EntryValue::Ended(evidence, at)));
        adjust(known, insert(records, &key, &sealed)?);
    } else if again {
        adjust(known, remove(records, &key_of(&EntryKey::Ended).unwrap_or_default())?);
    }
    let keys = changes.entries.iter().filter_map(|(key, value)| key_of(key).map(|bytes| (bytes, value)));
    let mut keys: Vec<(Vec<u8>, &Option<EntryValue>)> = keys.collect();
    keys.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    for (key, value) in keys {
        adjust(
            known,
            match value {
                Some(value) => insert(records, &key, &seal(&key, &encode(enc, value)))?,
                None => remove(records, &key)?,
            },
        );
    }
    Ok(())
}

/// Removes all keys with a prefix, which ends with 0; returns the change in bytes of records.
fn clear(records: &mut Records<'_>, prefix: Vec<u8>) -> Result<i64, StoreError> {
    let mut end = prefix.clone();
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    let mut change = 0;
    let keep = |key: &[u8], value: &[u8]| {
        change -= (key.len() + value.len()) as i64;
        false
    };
    records.retain_in(&prefix[..]..&end[..], keep).map_err(redb::Error::from)?;
    Ok(change)
}

const fn adjust(known: &mut Known, change: i64) {
    known.bytes = known.bytes.saturating_add_signed(change);
}
