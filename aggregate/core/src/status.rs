//! What the core knows about its sources, for people: read-only, made when it is asked for.
//!
//! Called through the owner by admin and telemetry.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Code, Collection, Completeness, Condition, Freshness, Generation, GroupKey, Key, ObjectId, ObjectRef,
    Problem, RegistryId, RegistryName, Scope, ServiceKey, SourceStatus, Standing,
};

use crate::core::Core;
use crate::registry::{Registry, Run, SaidStatus};
use crate::service::group_key;
use crate::shards::ShardId;

/// One collection of a registry.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CollectionStatus {
    /// Which.
    pub collection: Collection,
    /// Whether the registry's facts count as all only with it.
    pub required: bool,
    /// How fresh.
    pub freshness: Freshness,
    /// Whether this run has listed it, and how completely.
    pub synced: bool,
    /// Whether its last list was complete.
    pub complete: bool,
    /// When the source last confirmed it, in milliseconds since the process started.
    pub confirmed: Option<u64>,
}

/// A source's own word about itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceView {
    /// The word.
    pub status: SourceStatus,
    /// When it was said, in milliseconds since the process started.
    pub at: u64,
}

/// One registry.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RegistryStatus {
    /// Name, provider and cluster.
    pub id: Arc<RegistryId>,
    /// The run that is served.
    pub generation: Generation,
    /// The run that may replace it.
    pub shadow: Option<Generation>,
    /// Whether nothing is known yet of something that counts.
    pub unknown: bool,
    /// Normal, or one priority lower.
    pub standing: Standing,
    /// Its collections.
    pub collections: Vec<CollectionStatus>,
    /// The sources' own words, by scope.
    pub sources: BTreeMap<Scope, SourceView>,
    /// How many objects are bad.
    pub problems: usize,
    /// How many removals are held.
    pub held: usize,
    /// How many groups wait for their declaration.
    pub waiting: usize,
    /// How many addresses, workloads and gateways it has.
    pub weight: u64,
}

/// A removal that waits for proof.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HeldView {
    /// Whose.
    pub registry: RegistryName,
    /// What.
    pub key: Key,
    /// Since when, in milliseconds since the process started.
    pub since: u64,
    /// Why it is doubted.
    pub reason: &'static str,
    /// How often the source was asked.
    pub asked: u32,
}

/// A bad object.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ProblemView {
    /// Whose.
    pub registry: RegistryName,
    /// Which.
    pub object: ObjectRef,
    /// What is wrong.
    pub problem: Problem,
    /// Since when, in milliseconds since the process started.
    pub since: u64,
}

/// A group that is not served because its declaration is not there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WaitingGroup {
    /// Whose.
    pub registry: RegistryName,
    /// Its scope.
    pub scope: Scope,
    /// The group.
    pub key: GroupKey,
    /// How many addresses it has.
    pub addresses: usize,
}

impl Core {
    /// Every registry, by name.
    #[must_use]
    pub fn status(&self) -> Vec<RegistryStatus> {
        self.registries.values().map(|r| self.registry_status(r)).collect()
    }

    fn registry_status(&self, registry: &Registry) -> RegistryStatus {
        let shards = self.world.shards.of(&registry.id.name);
        let own = |id| self.world.shards.get(id).is_some_and(|i| i.shard.registry.name == registry.id.name);
        RegistryStatus {
            id: Arc::clone(&registry.id),
            generation: registry.run.generation,
            shadow: registry.shadow.as_ref().map(|s| s.run.generation),
            unknown: registry.run.is_unknown(),
            standing: registry.standing,
            collections: collections(&registry.run),
            sources: registry.run.status.iter().map(source).collect(),
            problems: registry.run.problems.len(),
            held: self.gate.holds().filter(|((shard, _), _)| own(*shard)).count(),
            waiting: shards.iter().map(|(_, id)| self.waiting_in(*id)).sum(),
            weight: shards.iter().filter_map(|(_, id)| self.world.shards.get(*id)).map(|i| i.weight).sum(),
        }
    }

    /// Every removal that waits for proof.
    pub fn held(&self) -> impl Iterator<Item = HeldView> {
        self.gate.holds().filter_map(|((shard, item), hold)| {
            let (registry, scope) = self.place_of(*shard)?;
            let key = Key { scope, item: item.clone() };
            Some(HeldView { registry, key, since: hold.since.0, reason: hold.reason, asked: hold.asked })
        })
    }

    /// Every bad object.
    pub fn problems(&self) -> impl Iterator<Item = ProblemView> {
        self.registries.values().flat_map(|r| {
            r.run.problems.values().map(|open| ProblemView {
                registry: r.id.name.clone(),
                object: open.object.clone(),
                problem: open.problem.clone(),
                since: open.since.0,
            })
        })
    }

    /// Every group that waits for its declaration.
    pub fn groups_waiting(&self) -> impl Iterator<Item = WaitingGroup> {
        let keys = self.waiting.iter().flat_map(|(shard, keys)| keys.keys().map(|key| (*shard, key)));
        keys.flat_map(|(shard, key)| self.waiting_of(shard, key))
    }

    fn waiting_of(&self, shard: ShardId, key: &ServiceKey) -> Vec<WaitingGroup> {
        let said = self.hosts.get(key).and_then(|s| s.shard(shard));
        let (Some(said), Some((registry, scope))) = (said, self.place_of(shard)) else { return Vec::new() };
        let view = |g: &crate::service::GroupFact| WaitingGroup {
            registry: registry.clone(),
            scope: scope.clone(),
            key: group_key(key, g),
            addresses: g.group.addresses.len(),
        };
        said.waiting().map(view).collect()
    }

    fn waiting_in(&self, shard: ShardId) -> usize {
        self.waiting.get(&shard).map_or(0, |keys| keys.values().sum())
    }

    /// Remembers how many groups of a service wait.
    pub(crate) fn note_waiting(&mut self, shard: ShardId, key: &ServiceKey, count: usize) {
        let keys = self.waiting.entry(shard).or_default();
        let before = if count == 0 { keys.remove(key) } else { keys.insert(key.clone(), count) };
        let some = before.is_some() || count > 0;
        if keys.is_empty() {
            self.waiting.remove(&shard);
        }
        if some && let Some((name, _)) = self.place_of(shard) {
            self.dirty.registries.insert(name);
        }
    }

    /// What is odd about a registry.
    pub(crate) fn registry_conditions(&self, name: &RegistryName) -> Vec<Condition> {
        const NAMED: usize = 16;
        let shards = self.world.shards.of(name);
        let mut out = self.empty_aliases(&shards);
        let count: usize = shards.iter().map(|(_, id)| self.waiting_in(*id)).sum();
        if count == 0 {
            return out;
        }
        let waiting = shards.iter().flat_map(|(_, id)| {
            let keys = self.waiting.get(id).into_iter().flat_map(BTreeMap::keys);
            keys.flat_map(|key| self.waiting_of(*id, key))
        });
        let objects: Vec<ObjectRef> = waiting.take(NAMED).map(|g| ObjectRef::new(g.key.object)).collect();
        let message = format!("the endpoints of {count} objects wait for their declaration");
        let code = Code::GROUP_WITHOUT_DECLARATION;
        out.push(Condition { code, objects: objects.into(), message: message.into() });
        out
    }

    /// The aliases none of whose members can be joined: they have no view that could say so.
    fn empty_aliases(&self, shards: &[(Scope, ShardId)]) -> Vec<Condition> {
        const NAMED: usize = 16;
        const SHOWN: usize = 4;
        let held = shards.iter().flat_map(|(_, id)| self.joins.held_by(*id));
        let empty = |key: &&ServiceKey| self.hosts.get(key).is_none_or(|service| !service.is_join);
        let empty: Vec<&ServiceKey> = held.filter(empty).collect();
        if empty.is_empty() {
            return Vec::new();
        }
        let object = |key: &&ServiceKey| ObjectId::new("Alias", key.namespace.as_str(), key.host.as_str());
        let objects = empty.iter().take(NAMED).map(|key| ObjectRef::new(object(key))).collect();
        let named: Vec<&str> = empty.iter().take(SHOWN).map(|key| key.host.as_str()).collect();
        let more =
            if empty.len() > SHOWN { format!(" and {} more", empty.len() - SHOWN) } else { String::new() };
        let message = format!(
            "not served, as no member can be joined: the aliases {}{more}; check their members' hosts",
            named.join(", ")
        );
        vec![Condition { code: Code::ALIAS_MEMBER_MISSING, objects, message: message.into() }]
    }
}

fn source((scope, (status, at)): (&Scope, &SaidStatus)) -> (Scope, SourceView) {
    (scope.clone(), SourceView { status: status.clone(), at: at.0 })
}

fn collections(run: &Run) -> Vec<CollectionStatus> {
    let view = |(collection, state): (&Collection, &crate::registry::CollectionState)| CollectionStatus {
        collection: collection.clone(),
        required: run.required.as_ref().is_some_and(|all| all.contains(collection)),
        freshness: state.freshness.clone(),
        synced: state.synced.is_some(),
        complete: state.synced == Some(Completeness::Complete),
        confirmed: state.confirmed.map(|at| at.0),
    };
    run.collections.iter().map(view).collect()
}
