//! Takes that are too large for one turn: the ledger reads them slice by slice, other registries between.
//!
//! What a slice changes waits here until the take ends, and then reaches the state in one turn, so
//! that no generation between shows a host poorer than both ends. A first list, which merely adds, is
//! applied slice by slice.

use tributary_model::{Collection, Evidence, Fact, FactKey, Mono, ObjectId, ProblemRecord, Scope};

use super::{BasisKind, Change, Output};

/// A take that has not ended.
#[derive(Debug)]
pub(crate) enum Take {
    /// Nothing was known before it: its slices are applied as they come.
    First,
    /// What its slices change.
    Later(Vec<Effect>),
}

/// Something that a ledger accepted.
#[derive(Debug)]
pub(crate) enum Effect {
    Put(Scope, Fact, BasisKind, Mono, Change),
    Remove(FactKey, Evidence),
    Confirm(Collection, Mono),
    Free(Scope, Evidence, Mono),
    Problem(Scope, ObjectId, Option<ProblemRecord>),
}

impl Effect {
    /// Applies it.
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

/// Keeps what a ledger accepts until the take ends.
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
    // the registry is built again when the take ends
    fn note(&mut self) {}
}
