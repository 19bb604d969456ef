//! What the core accepts, for the journal: enough to serve after a restart what was served before.
//!
//! Written by the core at the end of every turn, in the order of acceptance; read by the journal,
//! which keeps the last record per key, and given back to the core in one piece at start. Records
//! describe what is *served*: a fact whose removal is held is still recorded.

use std::sync::Arc;

use crate::evidence::Evidence;
use crate::id::{Fingerprint, RegistryName, Scope};
use crate::object::{ObjectId, ObjectRef};
use crate::status::Problem;
use crate::time::Mono;
use crate::update::{Collection, Fact, FactKey};

/// How far a collection was listed; a later variant knows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum ListResult {
    /// It could not be read.
    Withheld,
    /// What could be read.
    Partial,
    /// What the credential may see.
    Filtered,
    /// All of it.
    Complete,
}

/// An accepted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// This fact is served.
    Put(RegistryName, Scope, Fact),
    /// This fact is served no longer, with its evidence.
    Drop(RegistryName, FactKey, Evidence),
    /// State of a collection.
    List(RegistryName, Collection, ListRecord),
    /// An object is bad, or (with `None`) good again.
    Problem(RegistryName, Scope, ObjectId, Option<ProblemRecord>),
    /// A removal is held, or (with `None`) held no longer.
    Hold(RegistryName, FactKey, Option<HoldRecord>),
    /// A scope has ended and is freed: its lists, problems and holds go with it.
    Ended(RegistryName, Scope, Evidence, Mono),
    /// The pinned identity of a source.
    Identity(RegistryName, Fingerprint),
    /// A registry has left; everything of it goes.
    Left(RegistryName),
}

impl Record {
    /// The registry concerned.
    #[must_use]
    pub const fn registry(&self) -> &RegistryName {
        match self {
            Self::Put(name, ..)
            | Self::Drop(name, ..)
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
    /// Whether the registry's facts count as all only with it.
    pub required: bool,
    /// Result of the last list; `None` where a run has not listed it yet.
    pub result: Option<ListResult>,
    /// How many facts of it are served; a restore that finds another number trusts none of them.
    pub count: u64,
    /// When the source last confirmed it.
    pub confirmed: Option<Mono>,
}

/// A bad object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemRecord {
    /// The object with its position.
    pub object: ObjectRef,
    /// What is wrong.
    pub problem: Problem,
    /// Since when.
    pub since: Mono,
}

/// A held removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRecord {
    /// Since when.
    pub since: Mono,
    /// Why it is doubted.
    pub reason: Arc<str>,
}
