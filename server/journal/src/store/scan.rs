//! Scans all records of a database, in order, with their parts joined.
//!
//! Opening, restore, compaction and inspection of a journal call it.

use redb::{ReadableTable, Table};

use super::StoreError;
use super::database::{PART, part_key};
use crate::codec::Fault;

/// One record as it is stored.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// Key.
    pub(crate) key: &'a [u8],
    /// Sealed value, or the fault of its parts.
    pub(crate) value: Result<&'a [u8], Fault>,
    /// Bytes of its keys and values.
    pub(crate) bytes: u64,
}

/// Length of the prefix of a value's first part: the number of further parts.
pub(crate) const COUNT: usize = 2;

/// Returns the number of parts after the first one.
pub(crate) fn more_parts(first: &[u8]) -> Result<(u16, &[u8]), Fault> {
    let (count, rest) = first.split_first_chunk::<COUNT>().ok_or(Fault::Truncated)?;
    Ok((u16::from_le_bytes(*count), rest))
}

/// Calls `visit` for every record, until it returns false.
pub(crate) fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    mut visit: impl FnMut(Piece<'_>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let mut joined = Vec::new();
    let mut range = table.iter().map_err(redb::Error::from)?;
    let mut waiting = None;
    loop {
        let next = match waiting.take() {
            Some(next) => Some(next),
            None => range.next().transpose().map_err(redb::Error::from)?,
        };
        let Some((key, value)) = next else { return Ok(()) };
        let mut bytes = (key.value().len() + value.value().len()) as u64;
        let go_on = match more_parts(value.value()) {
            Ok((0, whole)) => visit(Piece { key: key.value(), value: Ok(whole), bytes })?,
            Ok((more, first)) => {
                joined.clear();
                joined.extend_from_slice(first);
                let mut found = 0;
                while found < more {
                    let Some(next) = range.next().transpose().map_err(redb::Error::from)? else { break };
                    if next.0.value() != part_key(key.value(), found + 1) {
                        waiting = Some(next);
                        break;
                    }
                    bytes += (next.0.value().len() + next.1.value().len()) as u64;
                    joined.extend_from_slice(next.1.value());
                    found += 1;
                }
                let value = if found == more { Ok(&joined[..]) } else { Err(Fault::Truncated) };
                visit(Piece { key: key.value(), value, bytes })?
            }
            Err(fault) => visit(Piece { key: key.value(), value: Err(fault), bytes })?,
        };
        if !go_on {
            return Ok(());
        }
    }
}

/// Writes a value in parts that fill pages well; returns the change in bytes of the record.
pub(crate) fn insert(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    sealed: &[u8],
) -> Result<i64, StoreError> {
    let rest = sealed.len().saturating_sub(PART).div_ceil(PART);
    let more = u16::try_from(rest).map_err(|_| StoreError::TooLarge(None))?;
    let mut parts = sealed.chunks(PART);
    let mut first = more.to_le_bytes().to_vec();
    first.extend_from_slice(parts.next().unwrap_or_default());
    let mut change = (key.len() + first.len()) as i64;
    let old = table.insert(key, &first[..]).map_err(redb::Error::from)?.map(|old| {
        change -= (key.len() + old.value().len()) as i64;
        more_parts(old.value()).map_or(0, |(more, _)| more)
    });
    for (number, part) in (1..).zip(parts) {
        let key = part_key(key, number);
        change += (key.len() + part.len()) as i64;
        if let Some(old) = table.insert(&key[..], part).map_err(redb::Error::from)? {
            change -= (key.len() + old.value().len()) as i64;
        }
    }
    Ok(change + remove_parts(table, key, more, old.unwrap_or(0))?)
}

/// Removes a record; returns the change in bytes of records.
pub(crate) fn remove(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<i64, StoreError> {
    let old = table.remove(key).map_err(redb::Error::from)?.map(|old| {
        let bytes = (key.len() + old.value().len()) as i64;
        (bytes, more_parts(old.value()).map_or(0, |(more, _)| more))
    });
    let Some((bytes, more)) = old else { return Ok(0) };
    Ok(remove_parts(table, key, 0, more)? - bytes)
}

fn remove_parts(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    kept: u16,
    old: u16,
) -> Result<i64, StoreError> {
    let mut change = 0;
    for number in kept..old {
        let key = part_key(key, number + 1);
        if let Some(part) = table.remove(&key[..]).map_err(redb::Error::from)? {
            change -= (key.len() + part.value().len()) as i64;
        }
    }
    Ok(change)
}
