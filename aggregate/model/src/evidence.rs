//! Why something may be taken away. A removal without evidence cannot be written down (law 2).

use std::sync::Arc;

use crate::id::Generation;
use crate::object::ObjectRef;

/// The proof that a removal carries, kept with the change and shown by explain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Evidence {
    /// The source said that the object was deleted.
    Deleted(ObjectRef),
    /// A complete list did not hold it.
    AbsentFromList,
    /// The source was asked again and confirmed it.
    Confirmed,
    /// A person said so.
    Operator,
    /// An opted-in policy withdrew it.
    Withdrawn,
    /// A newer generation was adopted without it.
    Superseded(Generation),
    /// The object no longer says so (its new version was read).
    Changed(ObjectRef),
    /// The source confirmed that the whole scope is gone; the reason, for people.
    Ended(Arc<str>),
}

/// Proof that a whole scope is gone. Absence from a listing of scopes is not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum EndEvidence {
    /// The source confirmed it; the reason, for people.
    Confirmed(Arc<str>),
    /// An operator ended it.
    Operator,
}

impl From<EndEvidence> for Evidence {
    fn from(evidence: EndEvidence) -> Self {
        match evidence {
            EndEvidence::Confirmed(reason) => Self::Ended(reason),
            EndEvidence::Operator => Self::Operator,
        }
    }
}

impl Evidence {
    /// Whether it rests on absence only, so that the removal gate may doubt it.
    #[must_use]
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::AbsentFromList | Self::Superseded(_))
    }
}
