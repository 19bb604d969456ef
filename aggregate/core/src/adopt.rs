//! Rotation: a shadow that is complete replaces the served run, in one turn (law 3).
//!
//! Called at the end of a turn's deltas. Until then the old generation serves, with no time limit.
//! What the new generation does not name is superseded, except where it has not looked (a filtered
//! or partial list) or where the object is bad.

use std::collections::BTreeSet;

use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, Evidence, Generation, Item, Key, Mono, RegistryName,
};

use crate::core::{Core, Turn};
use crate::registry::{Run, Shadow};

const KINDS: [CollectionKind; 5] = [
    CollectionKind::Services,
    CollectionKind::Groups,
    CollectionKind::Workloads,
    CollectionKind::Gateways,
    CollectionKind::Settings,
];

impl Core {
    /// Everything of this generation fills a shadow, until all that it requires is synced. A shadow
    /// that was there is forgotten.
    pub fn begin_shadow(&mut self, now: Mono, name: &RegistryName, generation: Generation) -> Turn {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.shadow = Some(Shadow::new(generation));
        }
        self.finish(now)
    }
    /// Forgets the shadow of a rotation that was given up.
    pub fn drop_shadow(&mut self, name: &RegistryName) {
        if let Some(registry) = self.registries.get_mut(name) {
            registry.shadow = None;
        }
    }
    /// Adopts every shadow that is complete.
    pub(crate) fn adopt_ready(&mut self) {
        let ready = |r: &&crate::registry::Registry| r.shadow.as_ref().is_some_and(|s| s.run.is_synced());
        let ready = self.registries.values().filter(ready).map(|r| r.id.name.clone());
        for name in ready.collect::<Vec<_>>() {
            self.adopt(&name);
        }
    }

    fn adopt(&mut self, name: &RegistryName) {
        let Some(registry) = self.registries.get_mut(name) else { return };
        let Some(shadow) = registry.shadow.take() else { return };
        self.counters.sweeping.adoption += 1;
        let Shadow { mut run, facts } = shadow;
        run.settled = true;
        let (generation, can_confirm) = (run.generation, registry.can_confirm);
        let (id, rank, standing) = (registry.id.clone(), registry.rank, registry.standing);
        let named: BTreeSet<Key> = facts.keys().cloned().collect();
        let gone = self.superseded(name, &run, |key| named.contains(key));
        for key in &gone {
            if let Some(shard) = self.world.shards.find(name, &key.scope) {
                self.remove(shard, &key.item, Evidence::Superseded(generation));
            }
        }
        for (key, (fact, basis, at)) in facts {
            let Some(shard) = self.world.shards.intern(&id, rank, standing, &key.scope) else {
                self.counters.refused += 1;
                continue;
            };
            let unsure = can_confirm && !matches!(basis, Basis::Authoritative);
            let doubted = matches!(basis, Basis::Doubted(_));
            if unsure { self.put_unsure(shard, fact, doubted, at) } else { self.put(shard, fact, at) }
        }
        self.spare_kept(name, &mut run);
        self.sweep_on(name, &mut run, &named);
        let shards: Vec<_> = self.world.shards.of(name).into_iter().map(|(_, id)| id).collect();
        for (collection, state) in &run.collections {
            if let Some(at) = state.confirmed {
                self.confirm(name, collection, at);
            }
        }
        let now = self.now;
        self.gate.ask_again(&shards, now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.run = run;
        }
        self.dirty.registries.insert(name.clone());
    }

    /// What the served run holds and the new one does not, having looked.
    fn superseded(&self, name: &RegistryName, run: &Run, named: impl Fn(&Key) -> bool) -> BTreeSet<Key> {
        let looked = |collection: &Collection| match run.collections.get(collection) {
            None => true,
            Some(state) => state.synced == Some(Completeness::Complete),
        };
        let mut gone = BTreeSet::new();
        for (key, collection) in self.all_keys(name) {
            let bad = || self.object_of(name, &key).is_some_and(|o| run.is_bad(Some(&o)));
            if looked(&collection) && !named(&key) && !bad() {
                gone.insert(key);
            }
        }
        gone
    }

    /// A list that was under way in the shadow goes on: what it has not named of the old facts is
    /// unseen too.
    fn sweep_on(&self, name: &RegistryName, run: &mut Run, named: &BTreeSet<Key>) {
        for (key, collection) in self.all_keys(name) {
            let state = run.collections.get_mut(&collection).filter(|state| state.sweep.is_open());
            if let Some(state) = state
                && !named.contains(&key)
            {
                state.sweep.open([key.item]);
            }
        }
    }

    /// Remembers what stays only because its object is bad, so that it goes when the object is good.
    fn spare_kept(&self, name: &RegistryName, run: &mut Run) {
        for (key, _) in self.all_keys(name) {
            let Some(object) = self.object_of(name, &key) else { continue };
            if run.is_bad(Some(&object)) {
                run.spared.entry(object).or_default().insert(key);
            }
        }
    }

    /// Every key that a registry holds.
    pub(crate) fn all_keys(&self, name: &RegistryName) -> Vec<(Key, Collection)> {
        let mut out = Vec::new();
        for (scope, shard) in self.world.shards.of(name) {
            for kind in KINDS {
                let collection = Collection { scope: scope.clone(), kind };
                let items: Vec<Item> = self.live(shard, kind);
                let keys = items.into_iter().map(|item| Key { scope: scope.clone(), item });
                out.extend(keys.map(|key| (key, collection.clone())));
            }
        }
        out
    }
}
