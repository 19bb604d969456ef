//! Published facts, and the differences of a new derivation.
//!
//! Owned by the index. The facts of an output start with its own, followed by offers to other clusters, which belong to
//! another scope. A fact is published again when a doubt about it begins or ends, even if it is equal: a run that takes over from
//! another one ends what it reported without a doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Basis, Code, Evidence, Fact, FactKey, ObjectId, ObjectRef, Problem, RegistryUpdate, Scope, ServiceKey,
};

use crate::collections::Part;
use crate::derive::{Derived, workload};
use crate::interner::Interner;
use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::state::DerivedKey;

/// Facts and problems that the core received.
#[derive(Debug)]
pub(super) struct PublishedFacts {
    options: Arc<Options>,
    /// Facts of every output except workloads, which [`Interner`] holds.
    facts: BTreeMap<DerivedKey, Box<[Fact]>>,
    /// Invalid objects, with the reason.
    unreadable: BTreeMap<(Kind, Name), Arc<str>>,
    /// Valid objects that yield no facts, with the problem.
    refused: BTreeMap<ObjectId, Problem>,
    /// Outputs that may be incomplete.
    doubted: BTreeSet<DerivedKey>,
    /// Number of published waiting addresses, and numbers of the others by output.
    waiting: usize,
    unlisted: BTreeMap<DerivedKey, usize>,
    puts: Vec<RegistryUpdate>,
    drops: Vec<RegistryUpdate>,
    problems: Vec<RegistryUpdate>,
    count: u64,
}

impl PublishedFacts {
    /// Largest number of published waiting addresses of a registry.
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

    /// Records an invalid object; its published facts stay.
    pub(super) fn bad(&mut self, kind: Kind, name: &Name, why: Arc<str>) {
        let key = (kind, name.clone());
        if self.unreadable.get(&key) != Some(&why) {
            self.problem(kind, &name.object(kind), Some(&unreadable(&why)));
            self.unreadable.insert(key, why);
        }
    }
    /// Records a valid or deleted object.
    pub(super) fn good(&mut self, kind: Kind, name: &Name) {
        let key = (kind, name.clone());
        if self.unreadable.remove(&key).is_some() {
            let object = name.object(kind);
            let refused = self.refused.get(&object).cloned();
            self.problem(kind, &object, refused.as_ref());
        }
    }
    /// Returns the names of a watch's invalid objects.
    pub(super) fn bad_names(&self, scope: &WatchScope) -> impl Iterator<Item = Name> {
        let names = self.unreadable.keys().filter(|(kind, name)| *kind == scope.kind && scope.covers(name));
        names.map(|(_, name)| name.clone())
    }

    /// Publishes the differences of an output's new derivation.
    pub(super) fn publish(
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
        let is_news = is_settled || doubt.is_some() && !self.doubted.contains(&output);
        let basis = doubt.map_or(Basis::Authoritative, Basis::KnownPartial);
        let own = owner(facts.first());
        let mut kept: Vec<Fact> = Vec::with_capacity(facts.len());
        for fact in facts {
            // an equal value is not published again, and the copy that the core holds is kept
            let known = old.iter().find(|known| **known == fact);
            let fact = known.cloned().unwrap_or(fact);
            let is_waiting = matches!(fact, Fact::Waiting(..));
            if known.is_none() || (is_news && !is_waiting) {
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
    /// Takes out the published facts of an output; clones them for a pod.
    fn recall(&mut self, options: &Options, shared: &Interner, output: &DerivedKey) -> Vec<Fact> {
        let DerivedKey::Workload(name) = output else {
            return self.facts.remove(output).map(<[Fact]>::into_vec).unwrap_or_default();
        };
        let published = shared.pod(name).zip(workload::key(options, name));
        published.map(|(pod, key)| Fact::Workload(key, pod.workload.clone())).into_iter().collect()
    }
    fn keep(&mut self, shared: &mut Interner, output: DerivedKey, kept: Vec<Fact>) {
        match (output, &kept[..]) {
            (DerivedKey::Workload(name), [Fact::Workload(_, workload)]) => {
                shared.set_pod(name, Some(workload))
            }
            (DerivedKey::Workload(name), _) => shared.set_pod(name, None),
            (_, []) => {}
            (output, _) => drop(self.facts.insert(output, kept.into())),
        }
    }
    /// Returns the scope of a fact: offers to other clusters have their own.
    fn scope(&self, output: &DerivedKey, fact: &Fact, own: Option<&ServiceKey>) -> &Scope {
        let own_part = output.listing().part;
        let is_offered = own_part == Part::Cluster && service(fact).is_some_and(|key| Some(key) != own);
        self.options.scope(if is_offered { Part::Exports } else { own_part })
    }
    /// Removes waiting addresses beyond the limit.
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
    /// Returns the number of waiting addresses beyond the limit.
    pub(super) fn unlisted_waiting(&self) -> usize {
        self.unlisted.values().sum()
    }
    /// Returns the outputs that were published in doubt.
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
    /// Reports an invalid object to every scope that may hold facts of it.
    fn problem(&mut self, kind: Kind, object: &ObjectId, problem: Option<&Problem>) {
        let part = Part::of(kind);
        let is_reported = self.options.parts().any(|reported| reported == part);
        self.problem_in(if is_reported { part } else { Part::Cluster }, object, problem);
        if matches!(kind, Kind::Service | Kind::Slice) {
            self.problem_in_exports(object, problem);
        }
    }
    fn problem_in_exports(&mut self, object: &ObjectId, problem: Option<&Problem>) {
        if self.options.mcs.serves_hosts() && self.options.parts().any(|part| part == Part::Exports) {
            self.problem_in(Part::Exports, object, problem);
        }
    }
    fn problem_in(&mut self, part: Part, object: &ObjectId, problem: Option<&Problem>) {
        let scope = self.options.scope(part).clone();
        self.problems.push(RegistryUpdate::Problem(scope, ObjectRef::new(object.clone()), problem.cloned()));
    }

    /// Returns the pending updates. Problems come first, so that the end of a list spares their objects; removals last, so
    /// that a moving endpoint is never missing.
    pub(super) fn take(&mut self) -> Vec<RegistryUpdate> {
        let mut out = std::mem::take(&mut self.problems);
        self.count += self.puts.len() as u64;
        out.append(&mut self.puts);
        out.append(&mut self.drops);
        out
    }
    /// Returns the number of published facts.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
}

/// Returns the service of a declaration or of its endpoints.
fn service(fact: &Fact) -> Option<&ServiceKey> {
    match fact {
        Fact::Service(key, _) => Some(&key.service),
        Fact::Group(key, _) | Fact::Waiting(key, _) => Some(&key.service),
        _ => None,
    }
}

/// Returns the service of an output's own fact, which comes first.
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
