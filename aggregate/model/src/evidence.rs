//! Evidence for removals. The types do not allow a removal without evidence (law 2).

use std::sync::Arc;

use crate::id::Generation;
use crate::object::ObjectRef;

/// Proof attached to a removal; the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Evidence {
    /// The source reported the deletion of this object.
    Deleted(ObjectRef),
    /// A complete list did not contain it.
    AbsentFromList,
    /// The source confirmed the removal on request.
    Confirmed,
    /// An operator accepted the removal.
    Operator,
    /// A configured staleness policy withdrew it.
    Withdrawn,
    /// A newer registry generation replaced the served one and does not contain it.
    Superseded(Generation),
    /// A new version of this object no longer contains it.
    Changed(ObjectRef),
    /// The source confirmed the end of the whole scope; with the reason.
    Ended(Arc<str>),
}

/// Proof that a whole scope has ended. Absence from a list of scopes is not a proof.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum EndEvidence {
    /// The source confirmed it; with the reason.
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
    /// Whether it rests on absence only. The removal guard may hold such removals.
    #[must_use]
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::AbsentFromList | Self::Superseded(_))
    }
}
