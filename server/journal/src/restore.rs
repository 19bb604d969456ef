//! What a journal held, decoded on one thread and handed over in pieces while decoding goes on.
//!
//! Run by the writer's thread before its first commit; received by the task that starts the core. Only
//! what is provably a state that was served comes back: a registry whose records are all there, a
//! scope whose checksums hold and whose collections count as many facts as were recorded.

pub(crate) mod handover;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tributary_model::{Fingerprint, Record, RegistryName, Scope};

use crate::codec::Member;
use crate::store::Meta;
use handover::Handover;
pub(crate) use reader::{Outcome, Reader};

/// How many records a piece holds at most, about.
pub(crate) const PIECE: usize = 4096;
/// How many pieces wait for the owner.
pub(crate) const WAITING: usize = 8;

/// A piece of a registry, as it was served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredRegistry {
    /// Its name.
    pub name: RegistryName,
    /// The identity that was pinned.
    pub identity: Option<Fingerprint>,
    /// Records in an order in which they can be applied: that a scope ended, its lists, facts, problems, holds.
    pub records: Vec<Record>,
    /// Scopes that are not restored, with the reason. Earlier pieces may hold records of them, which must not be used.
    pub refused: Vec<(Scope, Arc<str>)>,
    /// Why nothing of the registry is restored, where that is so.
    pub absent: Option<Arc<str>>,
}

impl RestoredRegistry {
    pub(crate) fn new(name: RegistryName, identity: Option<Fingerprint>) -> Self {
        Self { name, identity, records: Vec::new(), refused: Vec::new(), absent: None }
    }
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.refused.is_empty() && self.absent.is_none()
    }
}

/// All that a journal held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Values of the journal itself.
    pub meta: Meta,
    /// Registries that were configured.
    pub members: Vec<Member>,
    /// What they served, without scopes that were refused.
    pub registries: Vec<RestoredRegistry>,
    /// What is wrong with the journal as a whole, for people.
    pub notice: Option<String>,
}

/// A journal that is being restored. Dropping it ends the restore; the journal itself goes on.
#[derive(Debug)]
pub struct Restoring {
    /// Values of the journal itself.
    pub meta: Meta,
    /// Registries that were configured.
    pub members: Vec<Member>,
    /// What happened to a file that could not be used, for people.
    pub notice: Option<String>,
    pub(crate) pieces: Arc<Handover>,
}

impl Iterator for Restoring {
    type Item = RestoredRegistry;

    /// The next piece; waits for it. `None` once everything was handed over.
    fn next(&mut self) -> Option<RestoredRegistry> {
        self.pieces.receive()
    }
}

impl Restoring {
    /// Waits for all of it, and joins the pieces of each registry.
    #[must_use]
    pub fn all(mut self) -> Restored {
        let mut registries: Vec<RestoredRegistry> = Vec::new();
        for piece in self.by_ref() {
            match registries.iter_mut().rfind(|known| known.name == piece.name) {
                Some(known) => known.join(piece),
                None => registries.push(piece),
            }
        }
        for registry in &mut registries {
            registry.drop_refused();
        }
        let (members, notice) = (std::mem::take(&mut self.members), self.notice.take());
        Restored { meta: self.meta, members, registries, notice }
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        self.pieces.refuse();
    }
}

impl RestoredRegistry {
    fn join(&mut self, piece: Self) {
        self.records.extend(piece.records);
        self.refused.extend(piece.refused);
        self.absent = piece.absent.or_else(|| self.absent.take());
    }
    fn drop_refused(&mut self) {
        let refused = &self.refused;
        let stays = |record: &Record| !refused.iter().any(|(scope, _)| scope_of(record) == Some(scope));
        self.records.retain(stays);
    }
}

/// The scope that a record is about, where it is about one.
pub(crate) const fn scope_of(record: &Record) -> Option<&Scope> {
    match record {
        Record::Put(_, scope, _) | Record::Problem(_, scope, ..) | Record::Ended(_, scope, ..) => Some(scope),
        Record::Drop(_, key, _) | Record::Hold(_, key, _) => Some(&key.scope),
        Record::List(_, of, _) => Some(&of.scope),
        Record::Identity(..) | Record::Left(_) => None,
    }
}
