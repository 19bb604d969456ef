//! Opens the journal's file: checks its format, and sets unusable files aside.
//!
//! The start, the retry after a failed commit, and the inspection call it. An unreadable file is set aside,
//! never deleted at once and never written to; at most two such files are kept. A file of a later
//! release stays as it is, beside a new one.

use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, StorageBackend};

use super::database::{MEMBERS, META, RECORDS, Store};
use super::files::{Files, JOURNAL, NEXT};
use super::{StoreError, guarded};
use crate::store::backend::AnyBackend;

/// The format that this release writes.
pub const FORMAT: u64 = 1;
/// The oldest format whose readers can read this release's files.
pub(crate) const LOWEST_READER: u64 = 1;

/// Keys of the table of metadata.
pub(crate) mod key {
    /// Format of the file.
    pub(crate) const FORMAT: &str = "format";
    /// Lowest format whose readers can read the file.
    pub(crate) const READER: &str = "lowest_reader";
    /// Whether the process was ready once.
    pub(crate) const READY: &str = "ready_once";
    /// Whether the membership was synced.
    pub(crate) const MEMBERSHIP: &str = "membership_synced";
    /// Whether the remote clusters that are declared outside the configuration were known.
    pub(crate) const REMOTES: &str = "remotes_known";
}

/// Metadata of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// Format of the file.
    pub format: u64,
    /// Lowest format whose readers can read it.
    pub lowest_reader: u64,
    /// Whether a process was ready with this journal: then the next one is ready once it serves the restored facts.
    pub ready_once: bool,
    /// Whether all registries were known.
    pub membership_synced: bool,
    /// Whether the last process that read Secrets for remote clusters knew them all.
    pub remotes_known: bool,
}

/// An opened journal, and the fate of the previous file.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The journal.
    pub(crate) store: Store,
    /// Its metadata, as found.
    pub(crate) meta: Meta,
    /// Fate of an unusable file, for operators.
    pub(crate) notice: Option<String>,
    /// Whether the file is new.
    pub(crate) fresh: bool,
}

/// Most unreadable files that are kept.
const KEPT: usize = 2;
/// Start of the name of a journal that was set aside.
pub(crate) const UNREADABLE: &str = "journal.redb.unreadable-";
/// Memory of the database's page cache, in bytes.
const CACHE: usize = 32 << 20;

/// Opens the journal, or creates one beside an unusable file.
pub(crate) fn open_or_start(files: &Arc<dyn Files>) -> Result<Opened, StoreError> {
    files.remove(NEXT)?;
    if !files.names()?.iter().any(|name| name == JOURNAL) {
        return start(files, None);
    }
    match open_existing(files) {
        Ok((store, meta)) => Ok(Opened { store, meta, notice: None, fresh: false }),
        Err(error @ StoreError::Disk(_)) => Err(error),
        Err(error @ StoreError::Newer(format)) => {
            let kept = format!("journal.redb.format-{format}");
            files.rename(JOURNAL, &kept)?;
            start(files, Some(format!("{error}; it was kept as {kept}, and a new journal was created")))
        }
        Err(error) => {
            let kept = set_aside(files)?;
            start(files, Some(format!("{error}; it was set aside as {kept}, and a new journal was created")))
        }
    }
}

/// Opens the journal like [`open_or_start`]. While the disk fails, opens a copy in memory of a file of at most so many bytes, and returns
/// the failure: changes of the copy are lost.
pub(crate) fn open_or_copy(
    files: &Arc<dyn Files>,
    most: u64,
) -> Result<(Opened, Option<String>), StoreError> {
    match open_or_start(files) {
        Err(StoreError::Disk(why)) => {
            let copy = open_copy(files, most).map_err(|_| StoreError::Disk(why.clone()))?;
            let notice = format!("{why}; the state was read, and changes are kept once the disk works");
            Ok((Opened { notice: Some(notice), ..copy }, Some(why)))
        }
        opened => Ok((opened?, None)),
    }
}

fn open_copy(files: &Arc<dyn Files>, most: u64) -> Result<Opened, StoreError> {
    if files.length(JOURNAL)? > most {
        return Err(StoreError::Disk("the journal is too large for a copy in memory".to_owned()));
    }
    let bytes = files.read(JOURNAL)?;
    guarded(|| {
        let copy = InMemoryBackend::new();
        copy.set_len(bytes.len() as u64)?;
        copy.write(0, &bytes)?;
        let db = database(Box::new(copy))?;
        let meta = read_meta(&db)?;
        check_format(meta)?;
        Ok(Opened { store: Store::new(files.clone(), db)?, meta, notice: None, fresh: false })
    })
}

/// Opens an existing journal.
pub(crate) fn open_existing(files: &Arc<dyn Files>) -> Result<(Store, Meta), StoreError> {
    guarded(|| {
        let db = open_database(files, JOURNAL)?;
        let meta = read_meta(&db)?;
        check_format(meta)?;
        Ok((Store::new(files.clone(), db)?, meta))
    })
}

/// Renames the journal so that nothing reads it; removes the oldest such file beyond the limit.
pub(crate) fn set_aside(files: &Arc<dyn Files>) -> Result<String, StoreError> {
    let number = |name: &String| name.strip_prefix(UNREADABLE)?.parse::<u64>().ok();
    let mut taken: Vec<u64> = files.names()?.iter().filter_map(number).collect();
    taken.sort_unstable();
    while taken.len() >= KEPT {
        files.remove(&format!("{UNREADABLE}{}", taken.remove(0)))?;
    }
    let name = format!("{UNREADABLE}{}", taken.last().map_or(1, |last| last.saturating_add(1)));
    files.rename(JOURNAL, &name)?;
    Ok(name)
}

fn start(files: &Arc<dyn Files>, notice: Option<String>) -> Result<Opened, StoreError> {
    // Under a temporary name until it is complete: a crash leaves nothing that looks like a journal.
    drop(guarded(|| create_database(files, NEXT))?);
    files.rename(NEXT, JOURNAL)?;
    let (store, meta) = open_existing(files)?;
    Ok(Opened { store, meta, notice, fresh: true })
}

/// Creates a database with only its format.
pub(crate) fn create_database(files: &Arc<dyn Files>, name: &str) -> Result<Database, StoreError> {
    let db = open_database(files, name)?;
    let txn = db.begin_write().map_err(redb::Error::from)?;
    {
        let mut meta = txn.open_table(META).map_err(redb::Error::from)?;
        meta.insert(key::FORMAT, FORMAT).map_err(redb::Error::from)?;
        meta.insert(key::READER, LOWEST_READER).map_err(redb::Error::from)?;
        txn.open_table(RECORDS).map_err(redb::Error::from)?;
        txn.open_table(MEMBERS).map_err(redb::Error::from)?;
    }
    txn.commit().map_err(redb::Error::from)?;
    Ok(db)
}

pub(crate) fn open_database(files: &Arc<dyn Files>, name: &str) -> Result<Database, StoreError> {
    database(files.open(name)?)
}

fn database(backend: Box<dyn StorageBackend>) -> Result<Database, StoreError> {
    let backend = AnyBackend(backend);
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    Ok(builder.create_with_backend(backend).map_err(redb::Error::from)?)
}

fn read_meta(db: &Database) -> Result<Meta, StoreError> {
    let txn = db.begin_read().map_err(redb::Error::from)?;
    let table = match txn.open_table(META) {
        Err(redb::TableError::TableDoesNotExist(_)) => {
            return Err(StoreError::Unreadable("it has no format".to_owned()));
        }
        table => table.map_err(redb::Error::from)?,
    };
    let value = |name| -> Result<Option<u64>, StoreError> {
        Ok(table.get(name).map_err(redb::Error::from)?.map(|value| value.value()))
    };
    let missing = || StoreError::Unreadable("it has no format".to_owned());
    Ok(Meta {
        format: value(key::FORMAT)?.ok_or_else(missing)?,
        lowest_reader: value(key::READER)?.ok_or_else(missing)?,
        ready_once: value(key::READY)? == Some(1),
        membership_synced: value(key::MEMBERSHIP)? == Some(1),
        remotes_known: value(key::REMOTES)? == Some(1),
    })
}

/// Format N reads N-1, and a later one that its writer marks as readable by N.
fn check_format(meta: Meta) -> Result<(), StoreError> {
    if meta.lowest_reader > FORMAT {
        return Err(StoreError::Newer(meta.format));
    }
    if meta.format.saturating_add(1) < FORMAT {
        return Err(StoreError::Unreadable(format!("its format {} is too old", meta.format)));
    }
    Ok(())
}

/// Marks a journal as written by another release.
#[cfg(test)]
pub(crate) fn set_format(disk: &super::faulty::FaultyDisk, format: u64, reader: u64) {
    let files: Arc<dyn Files> = Arc::new(disk.clone());
    let db = open_database(&files, JOURNAL).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(META).unwrap().insert(key::FORMAT, format).unwrap();
    txn.open_table(META).unwrap().insert(key::READER, reader).unwrap();
    txn.commit().unwrap();
}
