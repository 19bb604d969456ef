//! What was reported, and how a new derivation differs from it.
//!
//! Owned by the index. An output's facts are its own first, then what is offered to other clusters, which another
//! scope holds. What was reported in doubt is reported again once there is none, even where it is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Basis, Code, Evidence, Fact, FactKey, ObjectId, ObjectRef, Problem, RegistryUpdate, Scope, ServiceKey,
};

use super::DerivedKey;
use crate::derive::{Derived, workload};
use crate::input::{Kind, Name, WatchScope};
use crate::interner::Interner;
use crate::options::Options;
use crate::part::Part;

/// The facts and problems that the core was told.
#[derive(Debug)]
pub(super) struct PublishedFacts {
    options: Arc<Options>,
    /// Of every output but pods' workloads, which [`Interner`] has.
    facts: BTreeMap<DerivedKey, Box<[Fact]>>,
    /// Objects that cannot be read, in their last version.
    unreadable: BTreeMap<(Kind, Name), Arc<str>>,
    /// Objects that can be read and come to nothing.
    refused: BTreeMap<ObjectId, Problem>,
    /// Outputs that may lack something.
    doubted: BTreeSet<DerivedKey>,
    /// How many waiting addresses were reported, and how many of which outputs were not.
    waiting: usize,
    unlisted: BTreeMap<DerivedKey, usize>,
    puts: Vec<RegistryUpdate>,
    drops: Vec<RegistryUpdate>,
    problems: Vec<RegistryUpdate>,
    count: u64,
}

impl PublishedFacts {
    /// How many waiting addresses one registry lists.
    const MOST_WAITING: usize = 65_536;

    pub(super) fn new(options: &Options) -> Self {
        Self {
            options: Arc::new(options.clone()),
            facts: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            refused: BTreeMap::new(),
            doubted: BTreeSet::new(),
            waiting: 0,
            unlisted: BTreeMap::new(),
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
            self.problem(kind, &name.object(kind), Some(&unreadable(&why)));
            self.unreadable.insert(key, why);
        }
    }
    /// An object can be read, or is gone.
    pub(super) fn good(&mut self, kind: Kind, name: &Name) {
        let key = (kind, name.clone());
        if self.unreadable.remove(&key).is_some() {
            let object = name.object(kind);
            let refused = self.refused.get(&object).cloned();
            self.problem(kind, &object, refused.as_ref());
        }
    }
    /// The names of a feed's objects that cannot be read.
    pub(super) fn bad_names(&self, feed: &WatchScope) -> impl Iterator<Item = Name> {
        let names = self.unreadable.keys().filter(|(kind, name)| *kind == feed.kind && feed.covers(name));
        names.map(|(_, name)| name.clone())
    }

    /// An output comes to this now.
    pub(super) fn say(
        &mut self,
        options: &Options,
        shared: &mut Interner,
        output: DerivedKey,
        derived: Derived,
        (evidence, doubt): (&Evidence, Option<Arc<str>>),
    ) {
        let Derived { facts, problem, .. } = derived;
        self.refuse(&output, problem);
        let old = self.recall(options, shared, &output);
        let facts = self.bounded(&output, &old, facts);
        let own = owner(old.first());
        for fact in &old {
            let item = fact.item();
            if !facts.iter().any(|new| new.item() == item) {
                let scope = self.scope(&output, fact, own.as_ref()).clone();
                self.drops.push(RegistryUpdate::Remove(FactKey { scope, item }, evidence.clone()));
            }
        }
        let is_settled = doubt.is_none() && self.doubted.remove(&output);
        let basis = doubt.map_or(Basis::Authoritative, Basis::KnownPartial);
        let own = owner(facts.first());
        let mut kept: Vec<Fact> = Vec::with_capacity(facts.len());
        for fact in facts {
            // an equal value is not said again, and the copy that the core holds is the one that is kept
            let known = old.iter().find(|known| **known == fact);
            let fact = known.cloned().unwrap_or(fact);
            let is_waiting = matches!(fact, Fact::Waiting(..));
            if known.is_none() || (is_settled && !is_waiting) {
                let scope = self.scope(&output, &fact, own.as_ref()).clone();
                let basis = if is_waiting { Basis::Authoritative } else { basis.clone() };
                if matches!(basis, Basis::KnownPartial(_)) {
                    self.doubted.insert(output.clone());
                }
                self.puts.push(RegistryUpdate::Put(scope, fact.clone(), basis));
            }
            kept.push(fact);
        }
        self.keep(shared, output, kept);
    }
    /// What an output came to; taken out, but for a pod.
    fn recall(&mut self, options: &Options, shared: &Interner, output: &DerivedKey) -> Vec<Fact> {
        let DerivedKey::Workload(name) = output else {
            return self.facts.remove(output).map(<[Fact]>::into_vec).unwrap_or_default();
        };
        let said = shared.pod(name).zip(workload::key(options, name));
        said.map(|(pod, key)| Fact::Workload(key, pod.workload.clone())).into_iter().collect()
    }
    fn keep(&mut self, shared: &mut Interner, output: DerivedKey, kept: Vec<Fact>) {
        match (output, &kept[..]) {
            (DerivedKey::Workload(name), [Fact::Workload(_, workload)]) => {
                shared.said_pod(name, Some(workload))
            }
            (DerivedKey::Workload(name), _) => shared.said_pod(name, None),
            (_, []) => {}
            (output, _) => drop(self.facts.insert(output, kept.into())),
        }
    }
    /// The scope that holds a fact of an output: what is offered to other clusters has one of its own.
    fn scope(&self, output: &DerivedKey, fact: &Fact, own: Option<&ServiceKey>) -> &Scope {
        let own_part = output.listing().part;
        let is_offered = own_part == Part::Cluster && service(fact).is_some_and(|key| Some(key) != own);
        self.options.scope(if is_offered { Part::Exports } else { own_part })
    }
    /// The facts without waiting addresses beyond those that are listed.
    fn bounded(&mut self, output: &DerivedKey, old: &[Fact], mut facts: Vec<Fact>) -> Vec<Fact> {
        let was = waiting(old);
        let is = waiting(&facts);
        if was == 0 && is == 0 && self.unlisted.is_empty() {
            return facts;
        }
        self.waiting -= was;
        self.unlisted.remove(output);
        if self.waiting + is > Self::MOST_WAITING {
            facts.retain(|fact| !matches!(fact, Fact::Waiting(..)));
            self.unlisted.insert(output.clone(), is);
        } else {
            self.waiting += is;
        }
        facts
    }
    /// How many waiting addresses are not listed, because there are too many.
    pub(super) fn unlisted_waiting(&self) -> usize {
        self.unlisted.values().sum()
    }
    /// Outputs that were reported in doubt.
    pub(super) fn doubted(&self) -> impl Iterator<Item = &DerivedKey> {
        self.doubted.iter()
    }
    fn refuse(&mut self, output: &DerivedKey, problem: Option<Problem>) {
        let Some(object) = output.object() else { return };
        if self.refused.get(&object) == problem.as_ref() {
            return;
        }
        match &problem {
            Some(problem) => self.refused.insert(object.clone(), problem.clone()),
            None => self.refused.remove(&object),
        };
        self.problem_in(output.listing().part, &object, problem.as_ref());
        if matches!(output, DerivedKey::Service(_) | DerivedKey::Group(_)) {
            self.problem_in_exports(&object, problem.as_ref());
        }
    }
    /// A bad object is reported to every scope that may hold facts of it.
    fn problem(&mut self, kind: Kind, object: &ObjectId, problem: Option<&Problem>) {
        let part = Part::of(kind);
        let is_reported = self.options.parts().any(|reported| reported == part);
        self.problem_in(if is_reported { part } else { Part::Cluster }, object, problem);
        if matches!(kind, Kind::Service | Kind::Slice) {
            self.problem_in_exports(object, problem);
        }
    }
    fn problem_in_exports(&mut self, object: &ObjectId, problem: Option<&Problem>) {
        if self.options.mcs.host && self.options.parts().any(|part| part == Part::Exports) {
            self.problem_in(Part::Exports, object, problem);
        }
    }
    fn problem_in(&mut self, part: Part, object: &ObjectId, problem: Option<&Problem>) {
        let scope = self.options.scope(part).clone();
        self.problems.push(RegistryUpdate::Problem(scope, ObjectRef::new(object.clone()), problem.cloned()));
    }

    /// What is to be said. Problems come first, so that a sweep spares what they are about; drops last, so
    /// that what moves is never without both.
    pub(super) fn take(&mut self) -> Vec<RegistryUpdate> {
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

/// The service of a declaration or of its endpoints.
fn service(fact: &Fact) -> Option<&ServiceKey> {
    match fact {
        Fact::Service(key, _) => Some(&key.service),
        Fact::Group(key, _) | Fact::Waiting(key, _) => Some(&key.service),
        _ => None,
    }
}

/// The service of an output's own fact, which comes first.
fn owner(first: Option<&Fact>) -> Option<ServiceKey> {
    first.and_then(service).cloned()
}

fn waiting(facts: &[Fact]) -> usize {
    let count = |fact: &Fact| match fact {
        Fact::Waiting(_, addresses) => addresses.len(),
        _ => 0,
    };
    facts.iter().map(count).sum()
}

fn unreadable(why: &str) -> Problem {
    Problem { code: Code::OBJECT_UNREADABLE, message: why.into() }
}
