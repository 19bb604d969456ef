//! Bad objects of one scope, and the facts that stay because of them.
//!
//! An object that is bad keeps its last good facts: a list that lacks them *spares* them. Once the
//! object is good, what it does not repeat within the same turn goes.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{FactId, Generation, Mono, ObjectId, ObjectRef, Problem, ProblemRecord, Scope};

use super::Output;

#[derive(Debug)]
struct Open {
    record: ProblemRecord,
    /// The run that reported it last.
    reported_in: Generation,
}

/// The bad objects of one scope.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    open: BTreeMap<ObjectId, Open>,
    /// Facts that a list lacked and that stay because their object is bad.
    spared: BTreeMap<ObjectId, BTreeSet<FactId>>,
    /// Facts of objects that have become good in this turn, until they are repeated.
    unrepeated: BTreeSet<FactId>,
}

impl Problems {
    /// How many problems of one scope are kept.
    const MOST: usize = 100_000;

    /// How many objects are bad.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
    /// Whether no object is bad.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
    /// Every bad object.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProblemRecord> {
        self.open.values().map(|open| &open.record)
    }
    /// An object is bad, or good again.
    pub(super) fn report(
        &mut self,
        scope: &Scope,
        object: ObjectRef,
        problem: Option<Problem>,
        (generation, at): (Generation, Mono),
        out: &mut impl Output,
    ) {
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
    /// Problems that only earlier runs reported are over.
    pub(super) fn end_older(&mut self, scope: &Scope, generation: Generation, out: &mut impl Output) {
        let old = self.open.iter().filter(|(_, open)| open.reported_in != generation);
        for object in old.map(|(object, _)| object.clone()).collect::<Vec<_>>() {
            self.repair(scope, &object, out);
        }
    }
    /// Whether an object is bad, whichever run reported it.
    pub(super) fn is_open(&self, object: &ObjectId) -> bool {
        self.open.contains_key(object)
    }
    /// Whether this run reports that the object is bad.
    pub(super) fn is_bad(&self, object: Option<&ObjectId>, generation: Generation) -> bool {
        object.and_then(|object| self.open.get(object)).is_some_and(|open| open.reported_in == generation)
    }
    /// Keeps a fact that a list lacks if its object is bad; whether it does.
    pub(super) fn spare(&mut self, object: Option<&ObjectId>, item: &FactId, generation: Generation) -> bool {
        let Some(object) = object.filter(|object| self.is_bad(Some(object), generation)) else {
            return false;
        };
        self.spared.entry(object.clone()).or_default().insert(item.clone());
        true
    }
    /// A fact was reported: nothing needs to spare it.
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
    /// Facts of repaired objects that were not repeated.
    pub(super) fn take_unrepeated(&mut self) -> BTreeSet<FactId> {
        std::mem::take(&mut self.unrepeated)
    }
    /// Takes a problem that a journal kept.
    pub(super) fn restore(&mut self, record: ProblemRecord) {
        if self.open.len() < Self::MOST {
            let id = record.object.id.clone();
            self.open.insert(id, Open { record, reported_in: Generation(0) });
        }
    }
    /// Takes problems of the run before that this one has not repeated; they spare what was `inherited` alone.
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
