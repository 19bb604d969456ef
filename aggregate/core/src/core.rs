//! The core's public face: registries come, run anew and go; turns are applied; catalogs come out.
//!
//! Called by the one task that owns it, in any order. Every call that changes something returns a
//! [`Turn`]; the catalog of the moment is ready when it returns, and [`Core::publish`] hands it out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Ask, Catalog, Changed, Code, Delta, Evidence, Generation, Key, Mono, Record, Recorder, RegistryName,
    RegistrySpec, ServiceKey, Stamped, Standing,
};

use crate::counters::Counters;
use crate::gate::Gate;
use crate::intake::restarting;
use crate::joins::Joins;
use crate::merge::{World, merge};
use crate::precedence::RESTORED;
use crate::publish::Dirty;
use crate::registry::{Registry, Run};
use crate::service::Hosts;
use crate::shards::ShardId;

/// Bounds and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// How long after a question it is asked again; doubled each time.
    pub ask_first: Duration,
    /// The longest time between two questions.
    pub ask_most: Duration,
    /// How many questions one turn asks; the rest follow in the next.
    pub asks_per_turn: usize,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self { ask_first: Duration::from_secs(1), ask_most: Duration::from_secs(60), asks_per_turn: 1024 }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// Questions for the sources.
    pub asks: Vec<Ask>,
    /// Accepted changes, for the journal.
    pub records: Vec<Record>,
    /// What the next catalog says otherwise.
    pub changed: Changed,
    /// Whether an endpoint went or changed its health, so that publication may not wait.
    pub urgent: bool,
}

/// Two registries have one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry {name:?} is already there as {known}; give one of the two another name")]
pub struct JoinError {
    /// The name.
    pub name: RegistryName,
    /// What has it.
    pub known: String,
}

impl JoinError {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::REGISTRY_NAME_TAKEN
    }
}

/// The owner's state.
#[derive(Debug)]
pub struct Core {
    pub(crate) config: CoreConfig,
    /// The latest time that was passed in.
    pub(crate) now: Mono,
    pub(crate) registries: BTreeMap<RegistryName, Registry>,
    pub(crate) membership_known: bool,
    pub(crate) world: World,
    pub(crate) hosts: Hosts,
    /// Names that join services of several registries.
    pub(crate) joins: Joins,
    pub(crate) gate: Gate,
    /// Keys of objects that became good in this turn and have not named them again.
    pub(crate) unsaid: BTreeSet<(RegistryName, Key)>,
    /// How many groups of each service wait for a declaration, by shard.
    pub(crate) waiting: BTreeMap<ShardId, BTreeMap<ServiceKey, usize>>,
    pub(crate) dirty: Dirty,
    /// The next catalog, always complete between calls.
    pub(crate) draft: Catalog,
    published: Arc<Catalog>,
    unpublished: bool,
    pub(crate) counters: Counters,
}

impl Default for Core {
    fn default() -> Self {
        Self::new(CoreConfig::default())
    }
}

impl Core {
    /// Without registries.
    #[must_use]
    pub fn new(config: CoreConfig) -> Self {
        Self {
            config,
            now: Mono::default(),
            registries: BTreeMap::new(),
            membership_known: true,
            world: World::default(),
            hosts: Hosts::default(),
            joins: Joins::default(),
            gate: Gate::default(),
            unsaid: BTreeSet::new(),
            waiting: BTreeMap::new(),
            dirty: Dirty::default(),
            draft: Catalog::default(),
            published: Arc::default(),
            unpublished: false,
            counters: Counters::default(),
        }
    }

    /// A registry is configured. It is Unknown until its first run, begun by [`Core::restart`], has
    /// synced, or until what a journal kept of it was applied as generation 0. Joining again with
    /// the same identity changes nothing.
    pub fn join(&mut self, spec: &RegistrySpec) -> Result<Turn, JoinError> {
        let now = self.now;
        let name = &spec.id.name;
        if let Some(known) = self.registries.get(name) {
            return if known.id == spec.id {
                Ok(Turn::default())
            } else {
                Err(JoinError { name: name.clone(), known: known.id.to_string() })
            };
        }
        self.begin(now);
        let registry = Registry {
            id: Arc::clone(&spec.id),
            rank: spec.rank,
            can_confirm: spec.can_confirm,
            standing: Standing::Normal,
            run: Run::new(RESTORED),
            shadow: None,
        };
        self.registries.insert(name.clone(), registry);
        self.dirty.registries.insert(name.clone());
        Ok(self.finish(now))
    }

    /// A registry's run begins: its first, or one after a failure, on the same shards. What was
    /// served stays, stale; words of the generation before are late from now on.
    pub fn restart(&mut self, now: Mono, name: &RegistryName, generation: Generation) -> Turn {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.run.restart(generation, now, &restarting());
            self.dirty.registries.insert(name.clone());
            let shards: Vec<ShardId> = self.world.shards.of(name).into_iter().map(|(_, id)| id).collect();
            self.gate.ask_again(&shards, now);
        }
        self.finish(now)
    }

    /// A registry's run failed: what it served stays, stale since now.
    pub fn fail(&mut self, now: Mono, name: &RegistryName, why: &Arc<str>) -> Turn {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.run.go_stale(None, now, why);
            self.dirty.registries.insert(name.clone());
        }
        self.finish(now)
    }

    /// A registry is configured no more: all that it said goes.
    pub fn leave(&mut self, name: &RegistryName, evidence: &Evidence) -> Turn {
        let now = self.now;
        self.begin(now);
        if self.registries.contains_key(name) {
            self.counters.sweeping.departure += 1;
            for (key, _) in self.all_keys(name) {
                if let Some(shard) = self.world.shards.find(name, &key.scope) {
                    self.remove(shard, &key.item, evidence.clone());
                }
            }
            self.registries.remove(name);
            self.dirty.registries.insert(name.clone());
        }
        let turn = self.finish(now);
        for (_, shard) in self.world.shards.of(name) {
            self.waiting.remove(&shard);
        }
        self.world.shards.release(name);
        turn
    }

    /// Serves a registry as it is, or one priority lower.
    pub fn set_standing(&mut self, now: Mono, name: &RegistryName, standing: Standing) -> Turn {
        self.begin(now);
        let Some(registry) = self.registries.get_mut(name) else { return self.finish(now) };
        if std::mem::replace(&mut registry.standing, standing) != standing {
            self.counters.sweeping.standing += 1;
            self.dirty.registries.insert(name.clone());
            for (_, shard) in self.world.shards.of(name) {
                if let Some(info) = self.world.shards.get_mut(shard) {
                    info.standing = standing;
                }
                self.touch_shard(shard);
            }
        }
        self.finish(now)
    }

    fn touch_shard(&mut self, shard: ShardId) {
        for service in self.hosts.iter() {
            let Some(own) = service.shard(shard) else { continue };
            self.dirty.services.insert(service.key.clone());
            for selector in own.declarations.iter().filter_map(|d| d.selector) {
                self.world.selection.touch_selector(selector);
            }
        }
        for (_, slot) in self.world.workloads.iter().filter(|(_, s)| s.facts.iter().any(|f| f.shard == shard))
        {
            self.world.selection.touch_workload(slot);
        }
    }

    /// Whether it is known which registries there are; until then no catalog is complete.
    pub fn set_membership_known(&mut self, known: bool) -> Turn {
        let now = self.now;
        self.begin(now);
        self.membership_known = known;
        self.finish(now)
    }

    /// Takes what the inlets returned, whole, as one turn.
    pub fn apply(&mut self, now: Mono, deltas: Vec<Stamped<Delta>>) -> Turn {
        self.begin(now);
        self.counters.turns += 1;
        for delta in deltas {
            self.take(delta);
        }
        self.adopt_ready();
        self.drop_unsaid();
        self.judge(now);
        self.finish(now)
    }

    /// Time passed: asks again what is due, and lets aliases take over from sources that are silent.
    pub fn tick(&mut self, now: Mono) -> Turn {
        self.begin(now);
        self.finish(now)
    }

    /// When [`Core::tick`] has something to do, if nothing else happens.
    #[must_use]
    pub fn next_tick(&self) -> Option<Mono> {
        [self.gate.due(), self.world.silence.due()].into_iter().flatten().min()
    }

    pub(crate) fn begin(&mut self, now: Mono) {
        self.now = self.now.max(now);
        self.world.shards.begin_turn(now);
    }

    pub(crate) fn finish(&mut self, now: Mono) -> Turn {
        let changed = self.build();
        self.unpublished |= !changed.is_empty();
        self.dirty.explained = None;
        self.dirty.implied.clear();
        Turn {
            asks: self.take_asks(now),
            records: std::mem::take(&mut self.dirty.records),
            urgent: std::mem::take(&mut self.dirty.urgent),
            changed,
        }
    }

    /// The catalog of the moment: the last one again when nothing has changed since.
    pub fn publish(&mut self) -> Arc<Catalog> {
        if std::mem::take(&mut self.unpublished) {
            self.draft.generation += 1;
            self.counters.published += 1;
            self.published = Arc::new(self.draft.clone());
        }
        Arc::clone(&self.published)
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Merges a service again, for explain: the very function that serves, with a recorder.
    pub fn trace<R: Recorder>(&self, key: &ServiceKey, rec: &mut R) {
        if let Some(service) = self.hosts.get(key) {
            merge(&self.world, &self.hosts, service, rec);
        }
    }
}

#[cfg(test)]
impl Core {
    /// Every fact that is held, with whose it is.
    pub(crate) fn facts(&self) -> Vec<(RegistryName, tributary_model::Fact)> {
        use tributary_model::Fact;
        let whose = |shard: ShardId| self.place_of(shard).unwrap().0;
        let mut out = Vec::new();
        for service in self.hosts.iter() {
            for shard in &service.shards {
                for d in &shard.declarations {
                    let key = crate::service::decl_key(&service.key, &d.object);
                    out.push((whose(shard.id), Fact::Service(key, Arc::clone(&d.declaration))));
                }
                for g in &shard.groups {
                    let key = crate::service::group_key(&service.key, g);
                    out.push((whose(shard.id), Fact::Group(key, Arc::clone(&g.group))));
                }
            }
        }
        for (_, slot) in self.world.workloads.iter() {
            let facts = slot.facts.iter();
            out.extend(
                facts.map(|f| (whose(f.shard), Fact::Workload(slot.key.clone(), Arc::clone(&f.workload)))),
            );
        }
        out
    }
    /// Whether no index holds anything: what leaves must leave nothing behind.
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.iter().next().is_none()
            && self.joins.is_empty()
            && self.world.names.is_empty()
            && self.world.silence.is_empty()
            && self.waiting.is_empty()
            && self.gate.holds().next().is_none()
            && self.world.workloads.iter().next().is_none()
            && self.world.selection.is_empty()
            && self.world.gateways.is_empty()
            && self.world.aliases.is_empty()
    }
}
