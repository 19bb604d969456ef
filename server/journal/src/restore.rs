//! Restores a journal: decodes on one thread and passes on pieces meanwhile.
//!
//! The writer's thread runs it before its first commit; the task that starts the core receives the pieces.
//! It restores only what is provably a state that was served: a registry with all its records, a
//! scope with valid checksums and as many facts per collection as were recorded.

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

/// Approximate bound on the records of a piece.
pub(crate) const PIECE: usize = 4096;
/// Most pieces that wait for the receiver.
pub(crate) const WAITING: usize = 8;

/// A piece of a registry, as it was served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredRegistry {
    /// Name of the registry.
    pub name: RegistryName,
    /// Pinned identity.
    pub identity: Option<Fingerprint>,
    /// Records in an order in which they can be applied: the end of a scope, its lists, facts, problems, held removals.
    pub records: Vec<Record>,
    /// Scopes that are not restored, with the reason. Earlier pieces may contain records of them; ignore those.
    pub refused: Vec<(Scope, Arc<str>)>,
    /// Reason why nothing of the registry is restored, if so.
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

/// Content of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Values of the journal itself.
    pub meta: Meta,
    /// Configured registries.
    pub members: Vec<Member>,
    /// Their facts, without rejected scopes.
    pub registries: Vec<RestoredRegistry>,
    /// Fault of the journal as a whole, for operators.
    pub notice: Option<String>,
}

/// A journal that is being restored. Dropping it ends the restore; the journal itself continues.
#[derive(Debug)]
pub struct Restoring {
    /// Values of the journal itself.
    pub meta: Meta,
    /// Configured registries.
    pub members: Vec<Member>,
    /// Fate of an unusable file, for operators.
    pub notice: Option<String>,
    pub(crate) pieces: Arc<Handover>,
}

impl Iterator for Restoring {
    type Item = RestoredRegistry;

    /// Waits for the next piece and returns it; `None` at the end.
    fn next(&mut self) -> Option<RestoredRegistry> {
        self.pieces.receive()
    }
}

impl Restoring {
    /// Returns whether the next piece, or the end, is decoded, so that `next` does not wait.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.pieces.is_ready()
    }
    /// Waits for the end, and joins the pieces of each registry.
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

/// Returns the scope of a record, if any.
pub(crate) const fn scope_of(record: &Record) -> Option<&Scope> {
    match record {
        Record::Put(_, scope, _) | Record::Problem(_, scope, ..) | Record::Ended(_, scope, ..) => Some(scope),
        Record::Remove(_, key, _) | Record::Hold(_, key, _) => Some(&key.scope),
        Record::List(_, of, _) => Some(&of.scope),
        Record::Identity(..) | Record::Left(_) => None,
    }
}
