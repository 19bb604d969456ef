//! Reports one scope of a registry: its lists, problems, status, and the answers to confirm requests.
//!
//! Owned by a run, one for each scope. Callers read their source and pass what they read; the order and the number of updates
//! follow from the rules of [`Registry::run`](crate::Registry::run). Guarantees that a list is reported as a list once, that
//! later readings send differences only, and that an object with a problem keeps its last valid facts.

use std::collections::BTreeMap;

use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, Evidence, Fact, FactKey, ObjectId, ObjectRef, Problem,
    RegistryUpdate, Scope, SourceState, SourceStatus, Withheld,
};

use crate::differ::Differ;
use crate::update_channel::UpdateSender;

/// Everything that one reading of a scope returned.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Facts of valid objects.
    pub facts: Vec<Fact>,
    /// Objects that cannot be used. Their last valid facts stay served.
    pub problems: BTreeMap<ObjectId, Problem>,
}

/// Reports one scope.
#[derive(Debug)]
pub struct ScopeReporter {
    out: UpdateSender,
    kinds: &'static [CollectionKind],
    differ: Differ,
    problems: BTreeMap<ObjectId, Problem>,
    is_listed: bool,
}

impl ScopeReporter {
    /// A reporter for a scope whose facts are of these kinds. Nothing is sent yet.
    #[must_use]
    pub const fn new(out: UpdateSender, scope: Scope, kinds: &'static [CollectionKind]) -> Self {
        Self { out, kinds, differ: Differ::new(scope), problems: BTreeMap::new(), is_listed: false }
    }
    /// The scope.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        self.differ.scope()
    }
    /// The collections of the scope, for [`RegistryUpdate::Follows`].
    pub fn collections(&self) -> impl Iterator<Item = Collection> {
        self.kinds.iter().map(|kind| Collection { scope: self.scope().clone(), kind: *kind })
    }
    /// Reports a complete reading: the whole list at first and after [`withheld`](Self::withheld), then differences.
    pub fn complete(&mut self, reading: Reading) {
        let Reading { facts, problems } = reading;
        let mut updates = self.problem_updates(&problems);
        let keeps = |fact: &Fact| fact.object().is_some_and(|object| problems.contains_key(object));
        if self.is_listed {
            updates.extend(self.differ.replace(facts, &Evidence::AbsentFromList, keeps));
            updates.extend(self.collections().map(RegistryUpdate::Progress));
        } else {
            updates.extend(self.collections().map(RegistryUpdate::ListStarted));
            let _ = self.differ.replace(facts, &Evidence::AbsentFromList, keeps);
            let put =
                |fact: &Fact| RegistryUpdate::Put(self.scope().clone(), fact.clone(), Basis::Authoritative);
            updates.extend(self.differ.facts().map(put));
            updates.extend(self.collections().map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete)));
        }
        (self.is_listed, self.problems) = (true, problems);
        updates.push(RegistryUpdate::Status(self.scope().clone(), SourceStatus::new(SourceState::Live, "")));
        self.out.send_all(updates);
    }
    /// Reports that the source refuses this scope while others can be read. Facts stay, stale.
    pub fn withheld(&mut self, why: &Withheld, status: SourceStatus) {
        self.is_listed = false;
        let withheld = self.collections().map(|c| RegistryUpdate::Withheld(c, why.clone()));
        let status = RegistryUpdate::Status(self.scope().clone(), status);
        self.out.send_all(withheld.chain([status]));
    }
    /// Reports that the source cannot be read now. Facts stay, stale.
    pub fn unavailable(&self, status: SourceStatus) {
        self.out.send(RegistryUpdate::Status(self.scope().clone(), status));
    }
    /// Answers a confirm request from the last reading, which the caller made after the request.
    pub fn confirm(&self, key: &FactKey) {
        let update = match self.differ.get(&key.item) {
            Some(fact) => RegistryUpdate::Put(key.scope.clone(), fact.clone(), Basis::Authoritative),
            None => RegistryUpdate::Remove(key.clone(), Evidence::Confirmed),
        };
        self.out.send(update);
    }
    /// New, changed and solved problems.
    fn problem_updates(&self, new: &BTreeMap<ObjectId, Problem>) -> Vec<RegistryUpdate> {
        let changed = new.iter().filter(|(object, problem)| self.problems.get(*object) != Some(*problem));
        let solved = self.problems.keys().filter(|object| !new.contains_key(*object));
        let update = |object: &ObjectId, problem: Option<Problem>| {
            RegistryUpdate::Problem(self.scope().clone(), ObjectRef::new(object.clone()), problem)
        };
        let changed = changed.map(|(object, problem)| update(object, Some(problem.clone())));
        changed.chain(solved.map(|object| update(object, None))).collect()
    }
}
