//! Problems of one scope's objects, and the facts that stay because of them.
//!
//! Owned by the ledger. An object with a problem keeps its last good facts: a list that lacks them
//! *spares* them. When the problem ends, facts that are not reported again in the same batch are removed.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Code, FactId, Generation, Mono, ObjectId, ObjectRef, Problem, ProblemRecord, Scope};

use super::Output;

/// Open problem.
#[derive(Debug)]
struct Open {
    record: ProblemRecord,
    /// Run that reported it last.
    reported_in: Generation,
}

/// Problems of one scope.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    open: BTreeMap<ObjectId, Open>,
    /// Facts that a list lacked and that stay because their object has a problem.
    spared: BTreeMap<ObjectId, BTreeSet<FactId>>,
    /// Spared facts whose problem ended in this batch, until they are reported again.
    unrepeated: BTreeSet<FactId>,
    /// Objects with a problem because the list lacked them and may have lacked them for an invalid document.
    kept: BTreeSet<ObjectId>,
}

impl Problems {
    /// Most problems that one scope keeps.
    const MOST: usize = 100_000;

    /// Returns the number of problems.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
    /// Returns whether there is no problem.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
    /// Returns every problem.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProblemRecord> {
        self.open.values().map(|open| &open.record)
    }
    /// Sets or ends (`None`) the problem of an object.
    pub(super) fn report(
        &mut self,
        scope: &Scope,
        object: ObjectRef,
        problem: Option<Problem>,
        (generation, at): (Generation, Mono),
        out: &mut impl Output,
    ) {
        self.kept.remove(&object.id);
        let Some(problem) = problem else { return self.repair(scope, &object.id, out) };
        let since = self.open.get(&object.id).map_or(at, |known| known.record.since);
        if self.open.len() >= Self::MOST && !self.open.contains_key(&object.id) {
            return out.refuse();
        }
        let id = object.id.clone();
        let record = ProblemRecord { object, problem, since };
        out.problem(scope, &id, Some(&record));
        self.open.insert(id, Open { record, reported_in: generation });
    }
    fn repair(&mut self, scope: &Scope, object: &ObjectId, out: &mut impl Output) {
        if self.open.remove(object).is_some() {
            out.problem(scope, object, None);
        }
        self.unrepeated.extend(self.spared.remove(object).unwrap_or_default());
    }
    /// Gives objects that a list lacked the problem that explains why they stay, unless they have one.
    pub(super) fn keep(
        &mut self,
        scope: &Scope,
        objects: impl IntoIterator<Item = ObjectId>,
        now: (Generation, Mono),
        out: &mut impl Output,
    ) {
        for object in objects {
            if self.is_bad(Some(&object), now.0) || self.open.len() >= Self::MOST {
                continue;
            }
            let message = format!(
                "{object} stays as it was last read: no document names it, and a document of {scope} does not identify its \
                 object; correct that document, or remove it"
            );
            let problem = Problem { code: Code::OBJECT_KEPT, message: message.into() };
            self.report(scope, ObjectRef::new(object.clone()), Some(problem), now, out);
            self.kept.insert(object);
        }
    }
    /// Ends the problem that [`Self::keep`] gave to an object: it is listed again.
    pub(super) fn release(&mut self, scope: &Scope, object: Option<&ObjectId>, out: &mut impl Output) {
        if let Some(object) = object.filter(|object| self.kept.remove(*object)) {
            self.repair(scope, object, out);
        }
    }
    /// Ends every problem that [`Self::keep`] gave: a complete list decides about the objects.
    pub(super) fn release_all(&mut self, scope: &Scope, out: &mut impl Output) {
        for object in std::mem::take(&mut self.kept) {
            self.repair(scope, &object, out);
        }
    }
    /// Ends the problems that only earlier runs reported.
    pub(super) fn end_older(&mut self, scope: &Scope, generation: Generation, out: &mut impl Output) {
        let old = self.open.iter().filter(|(_, open)| open.reported_in != generation);
        for object in old.map(|(object, _)| object.clone()).collect::<Vec<_>>() {
            self.repair(scope, &object, out);
        }
    }
    /// Returns whether an object has a problem, reported by any run.
    pub(super) fn is_open(&self, object: &ObjectId) -> bool {
        self.open.contains_key(object)
    }
    /// Returns whether this run reported a problem of the object.
    pub(super) fn is_bad(&self, object: Option<&ObjectId>, generation: Generation) -> bool {
        object.and_then(|object| self.open.get(object)).is_some_and(|open| open.reported_in == generation)
    }
    /// Spares a fact that a list lacks if its object has a problem. Returns whether it did.
    pub(super) fn spare(&mut self, object: Option<&ObjectId>, item: &FactId, generation: Generation) -> bool {
        let Some(object) = object.filter(|object| self.is_bad(Some(object), generation)) else {
            return false;
        };
        self.spared.entry(object.clone()).or_default().insert(item.clone());
        true
    }
    /// Stops sparing a fact that was reported.
    pub(super) fn unspare(&mut self, object: Option<&ObjectId>, item: &FactId) {
        if !self.unrepeated.is_empty() {
            self.unrepeated.remove(item);
        }
        let Some((object, items)) = object.and_then(|object| Some((object, self.spared.get_mut(object)?)))
        else {
            return;
        };
        items.remove(item);
        if items.is_empty() {
            self.spared.remove(object);
        }
    }
    /// Takes the facts of repaired objects that were not reported again.
    pub(super) fn take_unrepeated(&mut self) -> BTreeSet<FactId> {
        std::mem::take(&mut self.unrepeated)
    }
    /// Restores a problem from a journal.
    pub(super) fn restore(&mut self, record: ProblemRecord) {
        if self.open.len() < Self::MOST {
            let id = record.object.id.clone();
            self.open.insert(id, Open { record, reported_in: Generation(0) });
        }
    }
    /// Inherits problems of the previous run that this run has not reported; they spare only facts that are `inherited`.
    pub(super) fn inherit(&mut self, before: Self, inherited: impl Fn(&FactId) -> bool) {
        for (id, open) in before.open {
            self.open.entry(id).or_insert(open);
        }
        for (id, mut items) in before.spared {
            items.retain(&inherited);
            if !items.is_empty() {
                self.spared.entry(id).or_default().extend(items);
            }
        }
    }
}
