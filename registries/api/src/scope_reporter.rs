//! Reports one scope of a registry: its lists, problems, status, and the answers to confirm requests.
//!
//! Owned by a run, one for each scope. Callers read their source and pass what they read; the order and the number of updates
//! follow from the rules of [`Registry::run`](crate::Registry::run). Guarantees that a list is reported as a list once, that
//! later readings send differences only, and that an object with a problem keeps its last valid facts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, Evidence, Fact, FactId, FactKey, ObjectId, ObjectRef,
    Problem, RegistryUpdate, Scope, SourceState, SourceStatus, Withheld,
};

use crate::differ::Differ;
use crate::error::Reason;
use crate::update_channel::UpdateSender;

/// Readings in which a scope fails while another one is read, before its collections are withheld.
const FAILURES: u32 = 3;

/// Everything that one reading of a scope returned.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Facts of valid objects.
    pub facts: Vec<Fact>,
    /// Objects that cannot be used. Their last valid facts stay served.
    pub problems: BTreeMap<ObjectId, Problem>,
}

/// Why a scope could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailure {
    /// The source refuses it.
    Forbidden(Reason),
    /// No usable answer.
    Failing(Reason),
}

/// Reports one scope.
#[derive(Debug)]
pub struct ScopeReporter {
    out: UpdateSender,
    kinds: &'static [CollectionKind],
    differ: Differ,
    problems: BTreeMap<ObjectId, Problem>,
    status: Option<SourceStatus>,
    is_listed: bool,
    failures: u32,
}

impl ScopeReporter {
    /// A reporter for a scope whose facts are of these kinds. Nothing is sent yet.
    #[must_use]
    pub fn new(out: UpdateSender, scope: Scope, kinds: &'static [CollectionKind]) -> Self {
        let (differ, problems) = (Differ::new(scope), BTreeMap::new());
        Self { out, kinds, differ, problems, status: None, is_listed: false, failures: 0 }
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
        self.finish(problems, updates);
    }
    /// Begins a list whose facts come one by one, for a source that pages or streams more than fits in a [`Reading`].
    pub fn begin(&mut self) {
        self.is_listed = false;
        self.differ.begin();
        self.out.send_all(self.collections().map(RegistryUpdate::ListStarted).collect::<Vec<_>>());
    }
    /// Reports one fact of the list.
    pub fn put(&mut self, fact: Fact) {
        let put = RegistryUpdate::Put(self.scope().clone(), fact.clone(), Basis::Authoritative);
        let _ = self.differ.put(fact);
        self.out.send(put);
    }
    /// Ends the list: the scope holds its facts, and those of the objects with a problem, and no others. Without a call the list
    /// counts for nothing.
    pub fn end(&mut self, problems: BTreeMap<ObjectId, Problem>) {
        let mut updates = self.problem_updates(&problems);
        let before: BTreeSet<FactId> = self.differ.facts().map(Fact::item).collect();
        let keeps = |fact: &Fact| fact.object().is_some_and(|object| problems.contains_key(object));
        let _ = self.differ.end(&Evidence::AbsentFromList, keeps);
        let kept = self.differ.facts().filter(|fact| !before.contains(&fact.item()));
        let put = |fact: &Fact| RegistryUpdate::Put(self.scope().clone(), fact.clone(), Basis::Authoritative);
        updates.extend(kept.map(put));
        updates.extend(self.collections().map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete)));
        self.finish(problems, updates);
    }
    fn finish(&mut self, problems: BTreeMap<ObjectId, Problem>, mut updates: Vec<RegistryUpdate>) {
        (self.is_listed, self.problems, self.failures) = (true, problems, 0);
        updates.extend(self.changed_status(SourceStatus::new(SourceState::Live, "")));
        self.out.send_all(updates);
    }
    /// Reports that a reading failed and is repeated after `retry_in`. Facts stay, stale. A scope that is refused, or that
    /// fails several times while others can be read, is withheld: readiness does not wait for it.
    pub fn failed(&mut self, failure: &ReadFailure, others_are_read: bool, retry_in: Duration) {
        let (state, why) = match failure {
            ReadFailure::Forbidden(why) => (SourceState::Forbidden, why),
            ReadFailure::Failing(why) => (SourceState::Unreachable, why),
        };
        let status = SourceStatus { retry_in: Some(retry_in), ..SourceStatus::new(state, why.as_str()) };
        self.failures = if others_are_read { self.failures.saturating_add(1) } else { 0 };
        match failure {
            ReadFailure::Forbidden(why) => self.withheld(&Withheld::forbidden(why.as_str()), status),
            ReadFailure::Failing(why) if self.failures >= FAILURES => {
                self.withheld(&Withheld::failing(why.as_str()), status);
            }
            ReadFailure::Failing(_) => self.unavailable(status),
        }
    }
    /// Reports that the source refuses this scope while others can be read. Facts stay, stale.
    pub fn withheld(&mut self, why: &Withheld, status: SourceStatus) {
        self.is_listed = false;
        let status = self.changed_status(status);
        let withheld = self.collections().map(|c| RegistryUpdate::Withheld(c, why.clone()));
        self.out.send_all(withheld.chain(status).collect::<Vec<_>>());
    }
    /// Reports that the source cannot be read now. Facts stay, stale.
    pub fn unavailable(&mut self, status: SourceStatus) {
        let status = self.changed_status(status);
        self.out.send_all(status);
    }
    /// Returns the update of a status that differs from the last one.
    fn changed_status(&mut self, status: SourceStatus) -> Option<RegistryUpdate> {
        if self.status.as_ref() == Some(&status) {
            return None;
        }
        self.status = Some(status.clone());
        Some(RegistryUpdate::Status(self.scope().clone(), status))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Code, DeclKey, Declaration, Generation, Hostname, Namespace, RegistryName, ServiceKey, Source,
    };

    use super::*;
    use crate::clock::ManualClock;
    use crate::update_channel::{Run, UpdateReceiver, Wake, update_channel};

    fn mk_fact(name: &str) -> Fact {
        let object = ObjectId::new("Test", "shop", name);
        let host = Hostname::new(format!("{name}.test")).unwrap();
        let service = ServiceKey { host, namespace: Namespace::new("shop").unwrap() };
        let declaration = Declaration::new(Source::new(object.clone()));
        Fact::Service(DeclKey { service, object }, Arc::new(declaration))
    }

    fn mk_reporter() -> (ScopeReporter, UpdateReceiver) {
        let run = Run { registry: RegistryName::new("r").unwrap(), generation: Generation(1) };
        let (out, receiver) = update_channel(run, Arc::new(ManualClock::default()), Wake::default());
        (ScopeReporter::new(out, Scope::new("test").unwrap(), &[CollectionKind::Services]), receiver)
    }

    fn taken(receiver: &mut UpdateReceiver) -> Vec<RegistryUpdate> {
        receiver.take().into_iter().map(|stamped| stamped.value).collect()
    }

    fn mk_reading(names: &[&str], broken: &[&str]) -> Reading {
        let problem = || Problem { code: Code::OBJECT_UNREADABLE, message: "broken".into() };
        let object = |name: &&str| (ObjectId::new("Test", "shop", name), problem());
        let facts = names.iter().map(|name| mk_fact(name)).collect();
        Reading { facts, problems: broken.iter().map(object).collect() }
    }

    fn stream(reporter: &mut ScopeReporter, Reading { facts, problems }: Reading) {
        reporter.begin();
        facts.into_iter().for_each(|fact| reporter.put(fact));
        reporter.end(problems);
    }

    #[test]
    fn streamed_list_equals_a_complete_reading() {
        let ((mut streamed, mut one), (mut whole, mut other)) = (mk_reporter(), mk_reporter());
        stream(&mut streamed, mk_reading(&["a", "b"], &[]));
        whole.complete(mk_reading(&["a", "b"], &[]));
        assert_eq!(taken(&mut one), taken(&mut other));
        for reporter in [&mut streamed, &mut whole] {
            reporter.complete(mk_reading(&["b", "c"], &[]));
        }
        assert_eq!(taken(&mut one), taken(&mut other), "a later reading is reported as differences");
    }

    #[test]
    fn streamed_list_keeps_facts_of_objects_with_a_problem() {
        let (mut reporter, mut receiver) = mk_reporter();
        reporter.complete(mk_reading(&["a", "b", "c"], &[]));
        let _ = taken(&mut receiver);
        stream(&mut reporter, mk_reading(&["a"], &["b"]));
        let updates = taken(&mut receiver);
        let put = |name: &str| {
            let scope = reporter.scope().clone();
            updates.contains(&RegistryUpdate::Put(scope, mk_fact(name), Basis::Authoritative))
        };
        assert_eq!((put("a"), put("b"), put("c")), (true, true, false), "{updates:?}");
    }

    #[test]
    fn equal_status_is_sent_once() {
        let (mut reporter, mut receiver) = mk_reporter();
        let status = |updates: &[RegistryUpdate]| {
            updates.iter().filter(|update| matches!(update, RegistryUpdate::Status(..))).count()
        };
        let mut count = |reporter: &mut ScopeReporter, step: &dyn Fn(&mut ScopeReporter)| {
            step(reporter);
            status(&taken(&mut receiver))
        };
        let read = |reporter: &mut ScopeReporter| reporter.complete(mk_reading(&["a"], &[]));
        let fail = |reporter: &mut ScopeReporter| {
            reporter.failed(&ReadFailure::Failing(Reason::new("down")), true, Duration::from_secs(1));
        };
        let counts = [&read as &dyn Fn(&mut ScopeReporter), &read, &fail, &fail, &read]
            .map(|step| count(&mut reporter, step));
        assert_eq!(counts, [1, 0, 1, 0, 1]);
    }

    #[test]
    fn scope_that_fails_alone_is_withheld_after_three_readings() {
        let withheld = |others_are_read: bool| {
            let (mut reporter, mut receiver) = mk_reporter();
            let failure = ReadFailure::Failing(Reason::new("down"));
            (0..4).for_each(|_| reporter.failed(&failure, others_are_read, Duration::from_secs(1)));
            taken(&mut receiver).iter().any(|update| matches!(update, RegistryUpdate::Withheld(..)))
        };
        assert!(withheld(true) && !withheld(false));
    }
}
