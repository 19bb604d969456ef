//! From stamped deltas to changes of the store or of a shadow: fencing, sweeps, problems.
//!
//! Called by [`Core::apply`] for each delta in order. A word of a generation that is neither served
//! nor a shadow is dropped (law 3). A sweep spares every key whose object is bad, and a list that is
//! not complete sweeps nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Basis, Collection, Completeness, Delta, Evidence, Fact, Generation, Item, Key, Mono, ObjectId, ObjectRef,
    Problem, RegistryName, Scope, Stamped,
};

use crate::core::Core;
use crate::gate::Proposal;
use crate::precedence::RESTORED;
use crate::registry::{Registry, Run};
use crate::shards::ShardId;

impl Core {
    /// Takes one delta.
    pub(crate) fn take(&mut self, delta: Stamped<Delta>) {
        let Stamped { registry, generation, at, value } = delta;
        let Some(known) = self.registries.get(&registry) else {
            self.counters.fenced += 1;
            return;
        };
        if known.run.generation == generation {
            self.counters.deltas += 1;
            self.take_live(&registry, generation, at, value);
        } else if known.shadow.as_ref().is_some_and(|s| s.run.generation == generation) {
            self.counters.deltas += 1;
            self.take_shadow(&registry, at, value);
        } else {
            self.counters.fenced += 1;
        }
    }

    fn run(&mut self, name: &RegistryName) -> Option<&mut Run> {
        self.registries.get_mut(name).map(|r| &mut r.run)
    }

    fn take_live(&mut self, name: &RegistryName, generation: Generation, at: Mono, delta: Delta) {
        match delta {
            Delta::Put(scope, fact, basis) => {
                return self.take_put(name, generation, &scope, fact, &basis, at);
            }
            Delta::Drop(key, evidence) => return self.take_drop(name, &key, evidence),
            Delta::Restart(collection) => self.open_sweep(name, &collection, at),
            Delta::Synced(collection, how) => self.take_synced(name, &collection, how, at),
            Delta::Problem(_, object, problem) => return self.take_problem(name, object, problem, at),
            Delta::Withheld(..) | Delta::End(..) | Delta::Identity(_) => return,
            Delta::Follows { required: list, .. } => {
                if let Some(run) = self.run(name) {
                    run.require(list);
                }
                self.settle_run(name);
            }
            Delta::Progress(collection) => {
                self.confirm(name, &collection, at);
                if !self.run(name).is_some_and(|run| run.progress(&collection, at)) {
                    return;
                }
            }
            Delta::LeftOut(scope, list) => {
                if let Some(run) = self.run(name) {
                    run.leave_out(&scope, list);
                }
            }
            Delta::Status(scope, status) => {
                if !self.run(name).is_some_and(|run| run.note(&scope, status, at)) {
                    return;
                }
            }
        }
        self.dirty.registries.insert(name.clone());
    }

    /// The source confirmed a collection: all of its facts are confirmed with it.
    pub(crate) fn confirm(&mut self, name: &RegistryName, collection: &Collection, at: Mono) {
        let shard = self.world.shards.find(name, &collection.scope);
        if let Some(info) = shard.and_then(|id| self.world.shards.get_mut(id)) {
            info.confirm(collection.kind, at);
        }
    }

    fn shard(&mut self, name: &RegistryName, scope: &Scope) -> Option<ShardId> {
        let Registry { id, rank, standing, .. } = self.registries.get(name)?;
        let shard = self.world.shards.intern(id, *rank, *standing, scope);
        self.counters.refused += u64::from(shard.is_none());
        shard
    }

    fn take_put(
        &mut self,
        name: &RegistryName,
        generation: Generation,
        scope: &Scope,
        fact: Fact,
        basis: &Basis,
        at: Mono,
    ) {
        let Some(shard) = self.shard(name, scope) else { return };
        let key = Key { scope: scope.clone(), item: fact.item() };
        let collection = key.collection();
        if !self.unsaid.is_empty() {
            self.unsaid.remove(&(name.clone(), key.clone()));
        }
        let Some(registry) = self.registries.get_mut(name) else { return };
        if registry.run.hear(&collection, &key.item) {
            self.dirty.registries.insert(name.clone());
        }
        unspare(&mut registry.run, fact.object(), &key);
        if generation == RESTORED && !registry.run.collections.get(&collection).is_some_and(is_stale) {
            registry.run.restored(&collection, at);
            self.dirty.registries.insert(name.clone());
        }
        let unsure = registry.can_confirm && !matches!(basis, Basis::Authoritative);
        let doubted = matches!(basis, Basis::Doubted(_));
        if unsure { self.put_unsure(shard, fact, doubted, at) } else { self.put(shard, fact, at) }
    }

    fn take_drop(&mut self, name: &RegistryName, key: &Key, evidence: Evidence) {
        let Some(registry) = self.registries.get_mut(name) else { return };
        registry.run.hear(&key.collection(), &key.item);
        self.withdraw(name, key, evidence);
    }

    /// Takes a key away, or asks the gate where its absence is all there is.
    pub(crate) fn withdraw(&mut self, name: &RegistryName, key: &Key, evidence: Evidence) {
        let can_confirm = self.registries.get(name).is_some_and(|r| r.can_confirm);
        let Some(shard) = self.world.shards.find(name, &key.scope) else { return };
        if evidence.is_absence() && can_confirm {
            self.gate.propose((shard, key.item.clone()), Proposal::Absent);
        } else {
            self.remove(shard, &key.item, evidence);
        }
    }

    fn open_sweep(&mut self, name: &RegistryName, collection: &Collection, at: Mono) {
        let shard = self.world.shards.find(name, &collection.scope);
        let live = shard.map(|id| self.live(id, collection.kind)).unwrap_or_default();
        self.counters.sweeping.restart += 1;
        let Some(state) = self.run(name).and_then(|run| run.collection(collection)) else { return };
        state.sweep.open(live);
        state.restart(at);
    }

    fn take_synced(&mut self, name: &RegistryName, collection: &Collection, how: Completeness, at: Mono) {
        let Some(run) = self.run(name) else { return };
        run.synced(collection, how, at);
        self.confirm(name, collection, at);
        let Some(run) = self.run(name) else { return };
        let unseen: Vec<Item> = match (how, run.collections.get_mut(collection)) {
            (Completeness::Complete, Some(state)) => state.sweep.close().collect(),
            _ => Vec::new(),
        };
        for item in unseen {
            let key = Key { scope: collection.scope.clone(), item };
            if !self.spare(name, &key) {
                self.withdraw(name, &key, Evidence::AbsentFromList);
            }
        }
        self.settle_run(name);
    }

    /// Keeps a key that a list did not name if its object is bad.
    fn spare(&mut self, name: &RegistryName, key: &Key) -> bool {
        let object = self.object_of(name, key);
        let Some(run) = self.run(name) else { return false };
        let Some(object) = object.filter(|o| run.is_bad(Some(o))) else { return false };
        run.spared.entry(object).or_default().insert(key.clone());
        true
    }

    /// The source object of a fact that is held.
    pub(crate) fn object_of(&self, name: &RegistryName, key: &Key) -> Option<ObjectId> {
        match &key.item {
            Item::Service(k) => Some(k.object.clone()),
            Item::Group(k) | Item::Waiting(k) => Some(k.object.clone()),
            Item::Gateway(k) => Some(k.object.clone()),
            Item::Workload(k) => {
                let shard = self.world.shards.find(name, &key.scope)?;
                self.world.workloads.fact(shard, k).map(|f| f.workload.source.object.clone())
            }
            Item::Settings | Item::Alias(_) => None,
        }
    }

    fn take_problem(&mut self, name: &RegistryName, object: ObjectRef, problem: Option<Problem>, at: Mono) {
        let Some(run) = self.run(name) else { return };
        if let Some(problem) = problem {
            let kept = run.problem(object, problem, at);
            self.counters.refused += u64::from(!kept);
            return;
        }
        run.problems.remove(&object.id);
        self.drop_spared(name, &object.id);
    }

    /// An object is good again: what it did not say again by then is gone.
    fn drop_spared(&mut self, name: &RegistryName, object: &ObjectId) {
        let spared = self.run(name).and_then(|run| run.spared.remove(object));
        for key in spared.unwrap_or_default() {
            self.unsaid.insert((name.clone(), key));
        }
    }

    /// Once a run has listed all that it requires: what it does not speak of is superseded, and
    /// problems that only runs before it knew are over.
    fn settle_run(&mut self, name: &RegistryName) {
        let Some(run) = self.run(name) else { return };
        if run.settled || !run.is_synced() || run.generation == RESTORED {
            return;
        }
        run.settled = true;
        let generation = run.generation;
        let over = run.problems.iter().filter(|(_, p)| p.said_in != generation);
        let over: Vec<ObjectId> = over.map(|(object, _)| object.clone()).collect();
        let strays = run.collections.iter().filter(|(c, state)| !requires(run, c) && !state.heard);
        let strays: BTreeSet<Collection> = strays.map(|(c, _)| c.clone()).collect();
        for object in over {
            if let Some(run) = self.run(name) {
                run.problems.remove(&object);
            }
            self.drop_spared(name, &object);
        }
        self.drop_strays(name, &strays, generation);
    }

    fn drop_strays(&mut self, name: &RegistryName, strays: &BTreeSet<Collection>, generation: Generation) {
        for collection in strays {
            self.counters.sweeping.departure += 1;
            let Some(shard) = self.world.shards.find(name, &collection.scope) else { continue };
            for item in self.live(shard, collection.kind) {
                self.remove(shard, &item, Evidence::Superseded(generation));
            }
            if let Some(run) = self.run(name) {
                run.collections.remove(collection);
            }
        }
    }

    /// Keys of objects that became good and did not name them again in this turn.
    pub(crate) fn drop_unsaid(&mut self) {
        for (name, key) in std::mem::take(&mut self.unsaid) {
            self.withdraw(&name, &key, Evidence::AbsentFromList);
        }
    }

    fn take_shadow(&mut self, name: &RegistryName, at: Mono, delta: Delta) {
        let Some(shadow) = self.registries.get_mut(name).and_then(|r| r.shadow.as_mut()) else { return };
        match delta {
            Delta::Put(scope, fact, basis) => {
                let key = Key { scope, item: fact.item() };
                shadow.run.hear(&key.collection(), &key.item);
                unspare(&mut shadow.run, fact.object(), &key);
                shadow.facts.insert(key, (fact, basis, at));
            }
            Delta::Drop(key, _) => {
                shadow.run.hear(&key.collection(), &key.item);
                shadow.facts.remove(&key);
            }
            Delta::Restart(collection) => shadow.open_sweep(&collection, at),
            Delta::Synced(collection, how) => shadow.synced(&collection, how, at),
            Delta::Follows { required: list, .. } => shadow.run.require(list),
            Delta::Withheld(..) | Delta::End(..) | Delta::Identity(_) => {}
            Delta::Progress(collection) => {
                shadow.run.progress(&collection, at);
            }
            Delta::Problem(_, object, Some(problem)) => {
                shadow.run.problem(object, problem, at);
            }
            Delta::Problem(_, object, None) => {
                shadow.run.problems.remove(&object.id);
                for key in shadow.run.spared.remove(&object.id).unwrap_or_default() {
                    shadow.facts.remove(&key);
                }
            }
            Delta::LeftOut(scope, list) => shadow.run.leave_out(&scope, list),
            Delta::Status(scope, status) => {
                shadow.run.note(&scope, status, at);
            }
        }
    }
}

fn requires(run: &Run, collection: &Collection) -> bool {
    run.required.as_ref().is_some_and(|all| all.contains(collection))
}

fn is_stale(state: &crate::registry::CollectionState) -> bool {
    matches!(state.freshness, tributary_model::Freshness::Stale { .. })
}

fn unspare(run: &mut Run, object: Option<&ObjectId>, key: &Key) {
    let Some(keys) = object.and_then(|o| run.spared.get_mut(o)) else { return };
    keys.remove(key);
    if keys.is_empty()
        && let Some(object) = object
    {
        run.spared.remove(object);
    }
}

/// Why what a run served is stale until the next has listed it.
pub(crate) fn restarting() -> Arc<str> {
    "its run ended and the next has not listed it yet".into()
}
