//! Batches that are too large for one call: the ledger reads them slice by slice, between other registries' batches.
//!
//! Used by ingest. The effects of a slice wait here until the batch ends and then reach the state
//! together: no catalog generation between has fewer endpoints than both the old and the new state.
//! A first list only adds facts and is applied slice by slice.

use tributary_model::{Collection, Evidence, Fact, FactKey, Mono, ObjectId, ProblemRecord, Scope};

use super::{BasisKind, Change, Output};

/// Batch that has not ended.
#[derive(Debug)]
pub(crate) enum SlicedBatch {
    /// The registry had no facts before: each slice is applied at once.
    First,
    /// Effects of its slices.
    Later(Vec<Effect>),
}

/// Effect that a ledger accepted, one variant per method of [`Output`].
#[derive(Debug)]
pub(crate) enum Effect {
    Put(Scope, Fact, BasisKind, Mono, Change),
    Remove(FactKey, Evidence),
    Confirm(Collection, Mono),
    Free(Scope, Evidence, Mono),
    Problem(Scope, ObjectId, Option<ProblemRecord>),
}

impl Effect {
    /// Applies the effect.
    pub(crate) fn apply(self, out: &mut impl Output) {
        match self {
            Self::Put(scope, fact, basis, at, change) => out.put(&scope, fact, basis, at, change),
            Self::Remove(key, evidence) => out.remove(&key, &evidence),
            Self::Confirm(collection, at) => out.confirm(&collection, at),
            Self::Free(scope, evidence, at) => out.free(&scope, &evidence, at),
            Self::Problem(scope, object, problem) => out.problem(&scope, &object, problem.as_ref()),
        }
    }
}

/// Collects the effects of a ledger until the batch ends.
pub(crate) struct Deferred<'a> {
    pub(crate) effects: &'a mut Vec<Effect>,
    /// Whether a fact that did not change needs no effect.
    pub(crate) idle: bool,
    pub(crate) unchanged: &'a mut u64,
    pub(crate) refused: &'a mut u64,
}

impl Output for Deferred<'_> {
    fn put(&mut self, scope: &Scope, fact: Fact, basis: BasisKind, at: Mono, change: Change) {
        if change == Change::Same && self.idle {
            *self.unchanged += 1;
        } else {
            self.effects.push(Effect::Put(scope.clone(), fact, basis, at, change));
        }
    }
    fn remove(&mut self, key: &FactKey, evidence: &Evidence) {
        self.effects.push(Effect::Remove(key.clone(), evidence.clone()));
    }
    fn confirm(&mut self, collection: &Collection, at: Mono) {
        self.effects.push(Effect::Confirm(collection.clone(), at));
    }
    fn free(&mut self, scope: &Scope, evidence: &Evidence, at: Mono) {
        self.effects.push(Effect::Free(scope.clone(), evidence.clone(), at));
    }
    fn problem(&mut self, scope: &Scope, object: &ObjectId, problem: Option<&ProblemRecord>) {
        self.effects.push(Effect::Problem(scope.clone(), object.clone(), problem.cloned()));
    }
    fn refuse(&mut self) {
        *self.refused += 1;
    }
    // the registry is noted when the batch ends
    fn note(&mut self) {}
    fn note_status(&mut self) {}
}
