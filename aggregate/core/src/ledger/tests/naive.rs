//! A naive ledger with plain maps and without epochs, handles or slices. After any updates, restarts and
//! rotations the real ledger has the same facts, and every loss has evidence.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::{
    Collection, CollectionKind, Completeness, EndEvidence, Evidence, Fact, FactKey, Generation, Mono,
    ObjectId, ObjectRef, Problem, RegistryUpdate, Scope, Scopes, Withheld,
};

use super::Applied;
use crate::ledger::Ledger;
use crate::tests::fixtures::{mk_scope, mk_workload};

const KIND: CollectionKind = CollectionKind::Workloads;

/// Naive ledger of one run.
#[derive(Debug, Clone, Default)]
struct Naive {
    facts: BTreeMap<FactKey, Fact>,
    /// Facts that an open list lacks so far; contains each scope whose list is open.
    open: BTreeMap<Scope, BTreeSet<FactKey>>,
    complete: BTreeSet<Scope>,
    /// Objects with a problem, with the run that reported it.
    bad: BTreeMap<(Scope, ObjectId), u32>,
    run: u32,
    spared: BTreeSet<FactKey>,
    ended: BTreeSet<Scope>,
    /// Scopes with a list that began in this run.
    begun: BTreeSet<Scope>,
    /// Scopes with an update since they ended.
    known: BTreeSet<Scope>,
}

impl Naive {
    fn scope(&self, scope: &Scope) -> BTreeSet<FactKey> {
        self.facts.keys().filter(|key| key.scope == *scope).cloned().collect()
    }
    /// Returns the run that reported a problem of a fact's object.
    fn reported(&self, key: &FactKey) -> Option<u32> {
        let object = self.facts.get(key).and_then(Fact::object)?;
        self.bad.get(&(key.scope.clone(), object.clone())).copied()
    }
    fn is_bad(&self, key: &FactKey) -> bool {
        self.reported(key) == Some(self.run)
    }
    fn see(&mut self, key: &FactKey) {
        self.spared.remove(key);
        if let Some(open) = self.open.get_mut(&key.scope) {
            open.remove(key);
        }
    }
    fn apply(&mut self, delta: &RegistryUpdate) {
        if let Some(scope) = scope_of(delta) {
            self.known.insert(scope.clone());
        }
        match delta {
            RegistryUpdate::Put(scope, fact, _) => {
                let key = FactKey { scope: scope.clone(), item: fact.item() };
                self.see(&key);
                self.facts.insert(key, fact.clone());
            }
            RegistryUpdate::Remove(key, _) => {
                self.see(key);
                self.facts.remove(key);
            }
            RegistryUpdate::ListStarted(c) => {
                self.begun.insert(c.scope.clone());
                self.open.insert(c.scope.clone(), self.scope(&c.scope));
            }
            RegistryUpdate::ListEnded(c, Completeness::Complete) => {
                self.complete.insert(c.scope.clone());
                for key in self.open.remove(&c.scope).unwrap_or_default() {
                    if self.is_bad(&key) {
                        self.spared.insert(key);
                    } else {
                        self.facts.remove(&key);
                    }
                }
            }
            RegistryUpdate::ListEnded(c, _) | RegistryUpdate::Withheld(c, _) => {
                self.complete.remove(&c.scope);
            }
            RegistryUpdate::Problem(scope, object, Some(_)) => {
                self.bad.insert((scope.clone(), object.id.clone()), self.run);
            }
            RegistryUpdate::Problem(scope, object, None) => {
                self.bad.remove(&(scope.clone(), object.id.clone()));
            }
            RegistryUpdate::End(scope, _) => {
                self.facts.retain(|key, _| key.scope != *scope);
                self.open.remove(scope);
                self.complete.remove(scope);
                self.known.remove(scope);
                self.begun.remove(scope);
                self.ended.insert(scope.clone());
                self.bad.retain(|(of, _), _| of != scope);
                self.spared.retain(|key| key.scope != *scope);
            }
            _ => {}
        }
    }
    /// Removes spared facts whose problem ended, unless they were reported again in the same batch.
    fn end_batch(&mut self) {
        let over: Vec<FactKey> =
            self.spared.iter().filter(|key| self.reported(key).is_none()).cloned().collect();
        for key in over {
            self.spared.remove(&key);
            self.facts.remove(&key);
        }
    }
    fn restart(&mut self, run: u32) {
        self.complete.clear();
        self.ended.clear();
        self.open.clear();
        self.begun.clear();
        self.run = run;
    }
    fn adopt(&mut self, next: Self) {
        let old = std::mem::replace(self, next);
        for (key, fact) in old.facts.clone() {
            let known = self.known.contains(&key.scope);
            if self.facts.contains_key(&key) || !known && self.ended.contains(&key.scope) {
                continue;
            }
            let begun = self.begun.contains(&key.scope) && !self.open.contains_key(&key.scope);
            let decided = begun && self.complete.contains(&key.scope);
            self.facts.insert(key.clone(), fact);
            if !decided {
                if let Some(open) = self.open.get_mut(&key.scope) {
                    open.insert(key.clone());
                }
                if old.spared.contains(&key) {
                    self.spared.insert(key);
                }
            } else if self.is_bad(&key) {
                self.spared.insert(key);
            } else {
                self.facts.remove(&key);
            }
        }
        for (object, run) in old.bad {
            if self.known.contains(&object.0) || !self.ended.contains(&object.0) {
                self.bad.entry(object).or_insert(run);
            }
        }
    }
}

/// Returns the scope that an update makes known.
fn scope_of(delta: &RegistryUpdate) -> Option<&Scope> {
    match delta {
        RegistryUpdate::Put(scope, ..) | RegistryUpdate::Problem(scope, ..) => Some(scope),
        RegistryUpdate::ListStarted(c) | RegistryUpdate::ListEnded(c, _) | RegistryUpdate::Withheld(c, _) => {
            Some(&c.scope)
        }
        _ => None,
    }
}

#[derive(Debug, Clone)]
enum Act {
    Served(Vec<RegistryUpdate>),
    Shadow(Vec<RegistryUpdate>),
    Restart,
    Adopt,
}

fn any_delta() -> impl Strategy<Value = RegistryUpdate> {
    let scope = || select(&["x", "y"][..]).prop_map(mk_scope);
    let fact = || {
        (select(&["a", "b", "c"][..]), 1..4_u8)
            .prop_map(|(name, n)| mk_workload(name, &format!("10.0.0.{n}"), ""))
    };
    let collection = move || scope().prop_map(|scope| Collection { scope, kind: KIND });
    let how = select(&[Completeness::Complete, Completeness::Filtered, Completeness::Partial][..]);
    let problem = || Problem { code: tributary_model::Code::INVALID_HOST, message: "bad".into() };
    let object =
        select(&["a", "b"][..]).prop_map(|name| ObjectRef::new(ObjectId::new("WorkloadEntry", "shop", name)));
    prop_oneof![
        8 => (scope(), fact()).prop_map(|(s, f)| RegistryUpdate::Put(s, f, tributary_model::Basis::Authoritative)),
        2 => (scope(), fact()).prop_map(|(scope, f)| RegistryUpdate::Remove(FactKey { scope, item: f.item() }, Evidence::Confirmed)),
        3 => collection().prop_map(RegistryUpdate::ListStarted),
        4 => (collection(), how).prop_map(|(c, how)| RegistryUpdate::ListEnded(c, how)),
        2 => collection().prop_map(|c| RegistryUpdate::Withheld(c, Withheld::failing("500"))),
        1 => (scope(), object, any::<bool>()).prop_map(move |(s, o, bad)| RegistryUpdate::Problem(s, o, bad.then(problem))),
        1 => scope().prop_map(|s| RegistryUpdate::End(s, EndEvidence::Confirmed("gone".into()))),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    let updates = || proptest::collection::vec(any_delta(), 1..5);
    prop_oneof![6 => updates().prop_map(Act::Served), 4 => updates().prop_map(Act::Shadow), 1 => Just(Act::Restart), 2 => Just(Act::Adopt)]
}

fn take(
    ledger: &mut Ledger,
    naive: &mut Naive,
    updates: Vec<RegistryUpdate>,
    out: &mut impl crate::ledger::Output,
) {
    for update in updates {
        naive.apply(&update);
        ledger.apply(Mono(1), update, out);
    }
    naive.end_batch();
    ledger.end_batch(&Scopes::Discovered, Mono(1), out);
}

fn held(ledger: &Ledger) -> BTreeMap<FactKey, Fact> {
    let of = |(scope, scoped): (&Scope, &crate::ledger::Scoped)| {
        let scope = scope.clone();
        let facts: Vec<Fact> = scoped.tables.iter(KIND).map(|(fact, _)| fact).collect();
        facts
            .into_iter()
            .map(move |fact| (FactKey { scope: scope.clone(), item: fact.item() }, fact))
            .collect::<Vec<_>>()
    };
    ledger.scopes.iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn ledger_equals_a_naive_ledger(acts in proptest::collection::vec(any_act(), 1..24)) {
        let (mut served, mut out) = (Ledger::new(Generation(1)), Applied::default());
        let (mut shadow, mut generation) = (Ledger::new(Generation(2)), 2);
        let (mut plain, mut plain_shadow) = (Naive { run: 1, ..Naive::default() }, Naive { run: 2, ..Naive::default() });
        for act in acts {
            match act {
                Act::Served(updates) => take(&mut served, &mut plain, updates, &mut out),
                Act::Shadow(updates) => take(&mut shadow, &mut plain_shadow, updates, &mut ()),
                Act::Restart => {
                    generation += 1;
                    served.restart(Generation(generation), Mono(2), &"over".into());
                    plain.restart(u32::try_from(generation).unwrap());
                }
                Act::Adopt => {
                    generation += 1;
                    let next = std::mem::replace(&mut shadow, Ledger::new(Generation(generation)));
                    served = served.adopt(next, &Scopes::Discovered, Mono(3), &mut out);
                    let run = u32::try_from(generation).unwrap();
                    plain.adopt(std::mem::replace(&mut plain_shadow, Naive { run, ..Naive::default() }));
                }
            }
            prop_assert_eq!(&held(&served), &plain.facts);
            prop_assert_eq!(&out.facts, &plain.facts, "the output equals the ledger");
        }
    }
}
