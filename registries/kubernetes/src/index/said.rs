//! What was said, and how a new derivation differs from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{Basis, Code, Delta, Evidence, Fact, Item, Key, ObjectId, ObjectRef, Problem, Scope};

use super::Output;
use crate::derive::{Derived, workload};
use crate::input::{Feed, Kind, Name};
use crate::options::Options;
use crate::shared::Shared;

/// The facts and problems that the core was told.
#[derive(Debug)]
pub(super) struct Said {
    scope: Scope,
    /// Of every output but pods' workloads, which [`Shared`] has.
    facts: BTreeMap<Output, Box<[Fact]>>,
    /// Objects that cannot be read, in their last version.
    unreadable: BTreeMap<(Kind, Name), Arc<str>>,
    /// Objects that can be read and come to nothing.
    refused: BTreeMap<ObjectId, Problem>,
    puts: Vec<Delta>,
    drops: Vec<Delta>,
    problems: Vec<Delta>,
    count: u64,
}

impl Said {
    pub(super) const fn new(scope: Scope) -> Self {
        Self {
            scope,
            facts: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            refused: BTreeMap::new(),
            puts: Vec::new(),
            drops: Vec::new(),
            problems: Vec::new(),
            count: 0,
        }
    }

    /// An object cannot be read; what it said before stays said.
    pub(super) fn bad(&mut self, kind: Kind, name: &Name, why: Arc<str>) {
        let key = (kind, name.clone());
        if self.unreadable.get(&key) != Some(&why) {
            self.problem(name.object(kind), Some(unreadable(&why)));
            self.unreadable.insert(key, why);
        }
    }
    /// An object can be read, or is gone.
    pub(super) fn good(&mut self, kind: Kind, name: &Name) {
        let key = (kind, name.clone());
        if self.unreadable.remove(&key).is_some() {
            let object = name.object(kind);
            let refused = self.refused.get(&object).cloned();
            self.problem(object, refused);
        }
    }
    /// The names of a feed's objects that cannot be read.
    pub(super) fn bad_names(&self, feed: &Feed) -> impl Iterator<Item = Name> {
        let names = self.unreadable.keys().filter(|(kind, name)| *kind == feed.kind && feed.covers(name));
        names.map(|(_, name)| name.clone())
    }

    /// An output comes to this now.
    pub(super) fn say(
        &mut self,
        options: &Options,
        shared: &mut Shared,
        output: Output,
        derived: Derived,
        evidence: &Evidence,
    ) {
        let Derived { facts, problem } = derived;
        self.refuse(&output, problem);
        let old = self.recall(options, shared, &output);
        for fact in &old {
            let item = fact.item();
            if !facts.iter().any(|new| new.item() == item) {
                self.drops.push(Delta::Drop(self.key(item), evidence.clone()));
            }
        }
        let mut kept: Vec<Fact> = Vec::with_capacity(facts.len());
        for fact in facts {
            // an equal value is not said again, and the copy that the core holds is the one that is kept
            match old.iter().find(|known| **known == fact) {
                Some(known) => kept.push(known.clone()),
                None => {
                    self.puts.push(Delta::Put(self.scope.clone(), fact.clone(), Basis::Authoritative));
                    kept.push(fact);
                }
            }
        }
        self.keep(shared, output, kept);
    }
    /// What an output came to; taken out, but for a pod.
    fn recall(&mut self, options: &Options, shared: &Shared, output: &Output) -> Vec<Fact> {
        let Output::Workload(name) = output else {
            return self.facts.remove(output).map(<[Fact]>::into_vec).unwrap_or_default();
        };
        let said = shared.pod(name).zip(workload::key(options, name));
        said.map(|(pod, key)| Fact::Workload(key, pod.workload.clone())).into_iter().collect()
    }
    fn keep(&mut self, shared: &mut Shared, output: Output, kept: Vec<Fact>) {
        match (output, &kept[..]) {
            (Output::Workload(name), [Fact::Workload(_, workload)]) => shared.said_pod(name, Some(workload)),
            (Output::Workload(name), _) => shared.said_pod(name, None),
            (_, []) => {}
            (output, _) => drop(self.facts.insert(output, kept.into())),
        }
    }
    fn key(&self, item: Item) -> Key {
        Key { scope: self.scope.clone(), item }
    }
    fn refuse(&mut self, output: &Output, problem: Option<Problem>) {
        let Some(object) = output.object() else { return };
        if self.refused.get(&object) == problem.as_ref() {
            return;
        }
        match &problem {
            Some(problem) => self.refused.insert(object.clone(), problem.clone()),
            None => self.refused.remove(&object),
        };
        self.problem(object, problem);
    }
    fn problem(&mut self, object: ObjectId, problem: Option<Problem>) {
        self.problems.push(Delta::Problem(self.scope.clone(), ObjectRef::new(object), problem));
    }

    /// What is to be said. Problems come first, so that a sweep spares what they are about; drops last, so
    /// that what moves is never without both.
    pub(super) fn take(&mut self) -> Vec<Delta> {
        let mut out = std::mem::take(&mut self.problems);
        self.count += self.puts.len() as u64;
        out.append(&mut self.puts);
        out.append(&mut self.drops);
        out
    }
    /// How many facts were said.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
}

fn unreadable(why: &str) -> Problem {
    Problem { code: Code::OBJECT_UNREADABLE, message: why.into() }
}
