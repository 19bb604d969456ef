//! Journal records: the accepted changes that a restart needs to serve the same catalog again.
//!
//! The core writes records at the end of every batch, in order of acceptance. The journal keeps the
//! last record per key and returns them to the core in one piece at start. Records describe *served*
//! facts: a fact whose removal is held stays recorded.

use std::sync::Arc;

use crate::evidence::Evidence;
use crate::id::{Fingerprint, RegistryName, Scope};
use crate::object::{ObjectId, ObjectRef};
use crate::status::Problem;
use crate::time::Mono;
use crate::update::{Collection, Fact, FactKey};

/// How completely a collection was listed; a later variant covers more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum ListResult {
    /// The collection could not be read.
    Withheld,
    /// The readable part.
    Partial,
    /// The part that the credential may see.
    Filtered,
    /// The whole collection.
    Complete,
}

/// Accepted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The server serves this fact.
    Put(RegistryName, Scope, Fact),
    /// The server no longer serves this fact; with the evidence.
    Remove(RegistryName, FactKey, Evidence),
    /// The state of a collection.
    List(RegistryName, Collection, ListRecord),
    /// An object is invalid, or (with `None`) valid again.
    Problem(RegistryName, Scope, ObjectId, Option<ProblemRecord>),
    /// A removal is held, or (with `None`) released.
    Hold(RegistryName, FactKey, Option<HoldRecord>),
    /// A scope has ended; its lists, problems and holds end with it.
    Ended(RegistryName, Scope, Evidence, Mono),
    /// The pinned identity of a source.
    Identity(RegistryName, Fingerprint),
    /// A registry was removed, with all its state.
    Left(RegistryName),
}

impl Record {
    /// Returns the registry concerned.
    #[must_use]
    pub const fn registry(&self) -> &RegistryName {
        match self {
            Self::Put(name, ..)
            | Self::Remove(name, ..)
            | Self::List(name, ..)
            | Self::Problem(name, ..)
            | Self::Hold(name, ..)
            | Self::Ended(name, ..)
            | Self::Identity(name, _)
            | Self::Left(name) => name,
        }
    }
}

/// State of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRecord {
    /// Whether the registry counts as complete only with this collection.
    pub required: bool,
    /// Result of the last list; `None` until a run lists it.
    pub result: Option<ListResult>,
    /// Number of served facts. A restore that finds a different number discards the collection.
    pub count: u64,
    /// Time of the source's last confirmation.
    pub confirmed: Option<Mono>,
}

impl ListRecord {
    /// Whether any run has read the collection: one that was never listed or only refused is unknown, not empty.
    #[must_use]
    pub fn was_read(&self) -> bool {
        let has_result = self.result.is_some_and(|result| result != ListResult::Withheld);
        has_result || self.count > 0 || self.confirmed.is_some()
    }
}

/// Invalid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemRecord {
    /// Object with its position.
    pub object: ObjectRef,
    /// Problem.
    pub problem: Problem,
    /// Start time.
    pub since: Mono,
}

/// Held removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRecord {
    /// Start time.
    pub since: Mono,
    /// Reason for the hold.
    pub reason: Arc<str>,
}
