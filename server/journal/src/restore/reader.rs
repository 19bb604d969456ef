//! Reads the records of a journal one by one and decides what is restored.
//!
//! The restoring thread owns it. A fault affects only its scope. The writer gets the list of rejected
//! scopes and removes them: facts that the core does not have must not stay on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{Collection, FactKey, Record, RegistryName, Scope};

use super::{PIECE, RestoredRegistry};
use crate::codec::entry::{EntryKey, EntryValue, collection_of, kind, read_entry_key};
use crate::codec::{Decoder, Fault, Now, decode, unseal};
use crate::store::{Known, Piece, StoreError, named};

/// Number of collections of a scope.
const KINDS: usize = 6;

/// Result of a restore.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Content of the journal by registry.
    pub(crate) known: BTreeMap<RegistryName, Known>,
    /// Registries and scopes that were not restored.
    pub(crate) refused: Vec<(RegistryName, Option<Scope>)>,
    /// Whether some entries belong to no registry.
    pub(crate) stray: bool,
}

/// State of a restore.
#[derive(Debug)]
pub(crate) struct Reader<S> {
    decoder: Decoder,
    send: S,
    outcome: Outcome,
    prefix: Vec<u8>,
    at: Option<Position>,
    piece: Option<RestoredRegistry>,
}

/// Current registry and scope of the restore.
#[derive(Debug)]
struct Position {
    name: RegistryName,
    scope: Option<Scope>,
    /// Number of records in the piece before this scope's.
    start: usize,
    fault: Option<Arc<str>>,
    listed: [Option<u64>; KINDS],
    found: [u64; KINDS],
}

impl<S: FnMut(RestoredRegistry)> Reader<S> {
    /// Creates a restore at `now` that passes pieces to `send`.
    pub(crate) fn new(now: Now, send: S) -> Self {
        let (outcome, prefix) = (Outcome::default(), Vec::new());
        Self { decoder: Decoder::new(now), send, outcome, prefix, at: None, piece: None }
    }
    /// Reads one record.
    pub(crate) fn take(&mut self, piece: Piece<'_>) -> Result<bool, StoreError> {
        let same = !self.prefix.is_empty() && piece.key.starts_with(&self.prefix);
        if !same && !self.move_to(piece.key) {
            self.outcome.stray = true;
            return Ok(true);
        }
        let rest = piece.key.get(self.prefix.len()..).unwrap_or_default();
        let Some(at) = &mut self.at else { return Ok(true) };
        let known = self.outcome.known.entry(at.name.clone()).or_default();
        known.bytes += piece.bytes;
        if at.scope.is_none() {
            if let Err(fault) = header(&mut self.decoder, known, rest, &piece) {
                at.fault = Some(fault.to_string().into());
            }
            return Ok(true);
        }
        if at.fault.is_some() || !known.header.whole {
            return Ok(true);
        }
        match record(&mut self.decoder, at, rest, &piece) {
            Ok(record) => {
                if let Record::Ended(_, scope, ..) = &record {
                    known.ended.push_back(scope.clone());
                }
                self.push(record);
            }
            Err(fault) => at.fault = Some(fault.to_string().into()),
        }
        Ok(true)
    }
    /// Passes on the rest.
    pub(crate) fn finish(mut self) -> Outcome {
        self.end_scope();
        self.flush();
        self.outcome
    }
    /// Passes on the rest after the file proved unreadable: rejects the current scope.
    pub(crate) fn abort(mut self, why: &str) -> Outcome {
        if let Some(at) = &mut self.at {
            at.fault = Some(why.into());
        }
        self.finish()
    }

    fn push(&mut self, record: Record) {
        let Some(piece) = &mut self.piece else { return };
        piece.records.push(record);
        if piece.records.len() >= PIECE {
            self.flush();
        }
    }
    /// Begins the registry or scope of a key; false if the key has neither.
    fn move_to(&mut self, key: &[u8]) -> bool {
        let Some((name, scope, rest)) = named(key) else { return false };
        self.end_scope();
        self.prefix.clear();
        self.prefix.extend_from_slice(&key[..key.len() - rest.len()]);
        if self.piece.as_ref().is_none_or(|piece| piece.name != name) {
            self.flush();
            self.piece = Some(RestoredRegistry::new(name.clone(), None));
        }
        let start = self.piece.as_ref().map_or(0, |piece| piece.records.len());
        let (listed, found) = ([None; KINDS], [0; KINDS]);
        self.at = Some(Position { name, scope, start, fault: None, listed, found });
        true
    }
    /// Checks the scope that was read.
    fn end_scope(&mut self) {
        let (Some(at), Some(piece)) = (self.at.take(), &mut self.piece) else { return };
        let known = self.outcome.known.entry(at.name.clone()).or_default();
        piece.identity.clone_from(&known.header.identity);
        if !known.header.whole {
            if self.outcome.refused.last() != Some(&(at.name.clone(), None)) {
                let why = at.fault.unwrap_or_else(|| "the journal was behind".into());
                piece.absent = Some(why);
                self.outcome.refused.push((at.name, None));
            }
            return;
        }
        let Some(scope) = at.scope else { return };
        let wrong = (0..KINDS).find(|&kind| at.listed[kind].unwrap_or(0) != at.found[kind]);
        let miscounted = || wrong.map(|kind| miscount(at.listed[kind], at.found[kind]));
        if let Some(why) = at.fault.or_else(miscounted) {
            piece.records.truncate(at.start.min(piece.records.len()));
            piece.refused.push((scope.clone(), why));
            self.outcome.refused.push((at.name, Some(scope)));
        }
    }
    fn flush(&mut self) {
        let Some(piece) = &mut self.piece else { return };
        let next = RestoredRegistry::new(piece.name.clone(), piece.identity.clone());
        let mut full = std::mem::replace(piece, next);
        if let Some(known) = self.outcome.known.get(&full.name) {
            full.identity.clone_from(&known.header.identity);
        }
        if let Some(at) = &mut self.at {
            at.start = 0;
        }
        if !full.is_empty() {
            (self.send)(full);
        }
    }
}

fn miscount(listed: Option<u64>, found: u64) -> Arc<str> {
    match listed {
        Some(listed) => format!("a collection has {found} facts; {listed} were recorded").into(),
        None => "a collection has facts but no list".into(),
    }
}

fn header(decoder: &mut Decoder, known: &mut Known, rest: &[u8], piece: &Piece<'_>) -> Result<(), Fault> {
    if rest != [kind::HEADER] {
        return Err(Fault::Unknown("kind of record"));
    }
    decoder.begin();
    let record = unseal(piece.key, piece.value.clone()?)?;
    if let EntryValue::Header(header) = decode(decoder, &EntryKey::Header, record)? {
        known.header = header;
    }
    Ok(())
}

fn record(d: &mut Decoder, at: &mut Position, rest: &[u8], piece: &Piece<'_>) -> Result<Record, Fault> {
    let sealed = unseal(piece.key, piece.value.clone()?)?;
    d.begin();
    let key = read_entry_key(d, rest)?;
    let value = decode(d, &key, sealed)?;
    let (name, scope) = (at.name.clone(), at.scope.clone().ok_or(Fault::Missing("scope"))?);
    Ok(match (key, value) {
        (EntryKey::Ended, EntryValue::Ended(evidence, since)) => Record::Ended(name, scope, evidence, since),
        (EntryKey::List(kind), EntryValue::List(list)) => {
            if let Some(slot) = at.listed.get_mut(kind as usize) {
                *slot = Some(list.count);
            }
            Record::List(name, Collection { scope, kind }, list)
        }
        (EntryKey::Fact(_), EntryValue::Fact(fact)) => {
            count(at, rest);
            Record::Put(name, scope, fact)
        }
        (EntryKey::Problem(object), EntryValue::Problem(problem)) => {
            Record::Problem(name, scope, object, Some(problem))
        }
        (EntryKey::Hold(item), EntryValue::Hold(hold)) => {
            Record::Hold(name, FactKey { scope, item }, Some(hold))
        }
        _ => return Err(Fault::Unknown("kind of record")),
    })
}

fn count(at: &mut Position, rest: &[u8]) {
    let kind = rest.first().and_then(|&kind| collection_of(kind));
    if let Some(found) = kind.and_then(|kind| at.found.get_mut(kind as usize)) {
        *found += 1;
    }
}
