//! What the core knows about its sources, for people: read-only, made when it is asked for.
//!
//! Called through the owner by admin and telemetry.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Collection, Evidence, FactKey, Fingerprint, Freshness, Generation, ListResult, ObjectRef, Problem,
    RegistryId, RegistryName, Scope, ShardPriority, SourceStatus, StalePolicy,
};

use crate::build::registries::WaitingGroup;
use crate::core::Core;
use crate::ledger::{DatedStatus, List, Obstacle, Registry};
use crate::state::shards::ShardId;

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
    /// Whether it cannot be read.
    pub withheld: bool,
    /// How many facts of it are served.
    pub facts: u64,
    /// When the source last confirmed it, in milliseconds since the process started.
    pub confirmed: Option<u64>,
}

/// A scope that has ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EndedScope {
    /// The scope.
    pub scope: Scope,
    /// How that is known.
    pub evidence: Evidence,
    /// When, in milliseconds since the process started.
    pub at: u64,
}

/// A source's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceView {
    /// The report.
    pub status: SourceStatus,
    /// When it was made, in milliseconds since the process started.
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
    /// What keeps that run from replacing it, for people.
    pub waits_for: Option<Arc<str>>,
    /// Whether that ends only when an operator accepts the run.
    pub needs_accept: bool,
    /// The source's identity, where it has one.
    pub identity: Option<Fingerprint>,
    /// Scopes that have ended, the oldest first.
    pub ended: Vec<EndedScope>,
    /// Whether something that counts was never known.
    pub unknown: bool,
    /// Whether everything that counts has a result in the served run, if only that it cannot be read.
    pub synced: bool,
    /// Normal, or one priority lower.
    pub standing: ShardPriority,
    /// What becomes of scopes that are stale.
    pub stale: StalePolicy,
    /// Scopes that this policy serves otherwise now.
    pub by_policy: BTreeMap<Scope, ShardPriority>,
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
    pub key: FactKey,
    /// Since when, in milliseconds since the process started.
    pub since: u64,
    /// Why it is doubted.
    pub reason: &'static str,
    /// How often the source was asked.
    pub confirm_attempts: u32,
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

impl Core {
    /// Every registry, by name.
    #[must_use]
    pub fn status(&self) -> Vec<RegistryStatus> {
        self.registries.values().map(|r| self.registry_status(r)).collect()
    }

    fn registry_status(&self, registry: &Registry) -> RegistryStatus {
        let (ledger, state) = (&registry.ledger, &self.state);
        let shards = state.world.shards.of(&registry.face.id.name);
        let own = |id| shards.iter().any(|(_, own)| *own == id);
        // what a journal restored has no run of its own, and one that ended reports nothing: what the run in the shadow
        // reports is all there is
        let reports = ledger.scopes.values().any(|scoped| scoped.status.is_some());
        let shadow = registry.shadow.as_ref().filter(|_| !reports);
        let reporting = shadow.map(|shadow| &shadow.ledger).into_iter().chain([ledger]);
        let sources = reporting.flat_map(|ledger| &ledger.scopes);
        let sources = sources.filter_map(|(scope, scoped)| Some((scope, scoped.status.as_ref()?)));
        RegistryStatus {
            id: Arc::clone(&registry.face.id),
            generation: ledger.generation,
            shadow: registry.shadow.as_ref().map(|shadow| shadow.ledger.generation),
            waits_for: waits_for(registry),
            needs_accept: registry.needs_accept(),
            identity: ledger.identity.clone(),
            ended: ledger.ended.iter().map(ended).collect(),
            unknown: ledger.is_unknown(),
            synced: ledger.is_synced(),
            standing: registry.face.standing,
            stale: registry.stale,
            by_policy: self.by_policy(registry),
            collections: ledger.collections().map(|(c, list)| self.collection(registry, c, list)).collect(),
            sources: sources.map(source).collect(),
            problems: ledger.problem_count(),
            held: state.guard.holds().filter(|((shard, _), _)| own(*shard)).count(),
            waiting: shards.iter().map(|(_, id)| state.waiting_in(*id)).sum(),
            weight: shards.iter().filter_map(|(_, id)| state.world.shards.get(*id)).map(|i| i.weight).sum(),
        }
    }

    fn by_policy(&self, registry: &Registry) -> BTreeMap<Scope, ShardPriority> {
        let shards = self.state.world.shards.of(&registry.face.id.name);
        let standing = |(scope, id): &(Scope, ShardId)| {
            let standing = self.state.world.shards.get(*id)?.standing;
            (standing != registry.face.standing).then(|| (scope.clone(), standing))
        };
        shards.iter().filter_map(standing).collect()
    }

    fn collection(&self, registry: &Registry, collection: Collection, list: &List) -> CollectionStatus {
        let shards = &self.state.world.shards;
        let shard = shards.find(&registry.face.id.name, &collection.scope).and_then(|id| shards.get(id));
        CollectionStatus {
            required: registry.ledger.requires(&collection),
            freshness: list.freshness.clone(),
            synced: list.result.is_some(),
            complete: list.result == Some(ListResult::Complete),
            withheld: list.result == Some(ListResult::Withheld),
            facts: shard.map_or(0, |info| info.counted(collection.kind)),
            confirmed: list.confirmed.map(|at| at.0),
            collection,
        }
    }

    /// Every removal that waits for proof.
    pub fn held(&self) -> impl Iterator<Item = HeldView> {
        self.state.guard.holds().filter_map(|((shard, item), hold)| {
            let (registry, scope) = self.state.place_of(*shard)?;
            let key = FactKey { scope, item: item.clone() };
            Some(HeldView {
                registry,
                key,
                since: hold.since.0,
                reason: hold.reason,
                confirm_attempts: hold.asked,
            })
        })
    }

    /// Every bad object.
    pub fn problems(&self) -> impl Iterator<Item = ProblemView> {
        self.registries.values().flat_map(|registry| {
            registry.ledger.problems().map(|record| ProblemView {
                registry: registry.face.id.name.clone(),
                object: record.object.clone(),
                problem: record.problem.clone(),
                since: record.since.0,
            })
        })
    }

    /// Every group that waits for its declaration.
    pub fn groups_waiting(&self) -> impl Iterator<Item = WaitingGroup> {
        let waiting = self.state.waiting.iter();
        let keys = waiting.flat_map(|(shard, keys)| keys.keys().map(|key| (*shard, key)));
        keys.flat_map(|(shard, key)| self.state.waiting_of(shard, key))
    }
}

/// What keeps a registry's shadow from serving, for operators. A changed identity is reported before everything is
/// listed.
fn waits_for(registry: &Registry) -> Option<Arc<str>> {
    if registry.stranger.is_some() {
        return Some(describe(&Obstacle::Identity));
    }
    let shadow = registry.shadow.as_ref()?;
    match registry.obstacle()? {
        Obstacle::NotSynced if shadow.ledger.is_of_another_source(&registry.ledger) => {
            Some("the source's identity changed, and the new run has not listed everything yet".into())
        }
        obstacle => Some(describe(&obstacle)),
    }
}

/// What keeps a shadow from serving, for people.
fn describe(obstacle: &Obstacle) -> Arc<str> {
    match obstacle {
        Obstacle::NotSynced => "the new run has not listed everything yet".into(),
        Obstacle::Identity => "the source's identity changed; accept it if that is intended".into(),
        Obstacle::Weaker(collections) => {
            const SHOWN: usize = 4;
            let named = collections.iter().take(SHOWN).map(|c| format!("{:?} of {}", c.kind, c.scope));
            let more = collections.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = named.collect::<Vec<_>>().join(", ");
            format!("the new run can read less of {named}{more}; accept it if that is intended").into()
        }
    }
}

fn ended(ended: &crate::ledger::Ended) -> EndedScope {
    EndedScope { scope: ended.scope.clone(), evidence: ended.evidence.clone(), at: ended.at.0 }
}

fn source((scope, (status, at)): (&Scope, &DatedStatus)) -> (Scope, SourceView) {
    (scope.clone(), SourceView { status: status.clone(), at: at.0 })
}
