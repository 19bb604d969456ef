//! Status of registries, held removals and problems, for operators: read-only, created on request.
//!
//! Called by the core task for admin requests, metrics and the status log.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Collection, Evidence, FactKey, Fingerprint, Freshness, Generation, ListResult, ObjectRef, OverallStatus,
    Problem, RegistryId, RegistryName, Scope, ShardPriority, SourceState, SourceStatus, StalePolicy,
};

use crate::core::Core;
use crate::ledger::{DatedStatus, Ledger, List, Obstacle, Registries, Registry};
use crate::state::shards::ShardId;

/// One collection of a registry.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CollectionStatus {
    /// Kind and scope.
    pub collection: Collection,
    /// True if the registry is not synced without it.
    pub required: bool,
    /// Freshness of its facts.
    pub freshness: Freshness,
    /// True if this run has a result for it.
    pub synced: bool,
    /// True if its last list was complete.
    pub complete: bool,
    /// True if it cannot be read.
    pub withheld: bool,
    /// Number of its served facts.
    pub facts: u64,
    /// Time of the source's last confirmation, in milliseconds since the process started.
    pub confirmed: Option<u64>,
    /// False if no run has read it, also not before a restart.
    pub known: bool,
}

/// A scope that has ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EndedScope {
    /// The scope.
    pub scope: Scope,
    /// Evidence of its end.
    pub evidence: Evidence,
    /// Time of its end, in milliseconds since the process started.
    pub at: u64,
}

/// Status that a source reports.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceView {
    /// Reported status.
    pub status: SourceStatus,
    /// Time of the report, in milliseconds since the process started.
    pub at: u64,
    /// Time since which the scope has its overall state, in milliseconds since the process started; `None` if that is not
    /// known.
    pub since: Option<u64>,
}

/// Status of one registry.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RegistryStatus {
    /// Name, provider and cluster.
    pub id: Arc<RegistryId>,
    /// Generation of the served run.
    pub generation: Generation,
    /// Generation of the run that may replace it.
    pub shadow: Option<Generation>,
    /// Reason why that run does not replace it yet, for operators.
    pub waits_for: Option<Arc<str>>,
    /// Why that run could not read its source yet, while the served run still reports.
    pub shadow_failure: Option<Arc<str>>,
    /// True if the run waits until an operator accepts it.
    pub needs_accept: bool,
    /// Identity of the source, if it has one.
    pub identity: Option<Fingerprint>,
    /// Identity of the source that answers in its place, which is not accepted yet.
    pub found_identity: Option<Fingerprint>,
    /// Ended scopes, oldest first.
    pub ended: Vec<EndedScope>,
    /// True if a required collection was never known.
    pub unknown: bool,
    /// True if every required collection has a result in the served run, including "cannot be read", and any was ever
    /// known. A server that starts waits for this.
    pub synced: bool,
    /// True if a required collection that was never known keeps failing, which may pass. A server that starts waits for it, too,
    /// at most until its timeout.
    pub failing: bool,
    /// True if no collection is missing that decides what clients may reach, now or in the restored state.
    pub decided: bool,
    /// Configured priority of its facts.
    pub priority: ShardPriority,
    /// Policy for stale scopes.
    pub stale: StalePolicy,
    /// Scopes that this policy currently serves at a different priority.
    pub by_policy: BTreeMap<Scope, ShardPriority>,
    /// Its collections, ordered by scope.
    pub collections: Vec<CollectionStatus>,
    /// Statuses that the sources report, by scope.
    pub sources: BTreeMap<Scope, SourceView>,
    /// Number of objects with a problem.
    pub problems: usize,
    /// Number of held removals.
    pub held: usize,
    /// Number of groups that wait for their declaration.
    pub waiting: usize,
    /// Number of its addresses, workloads and gateways.
    pub weight: u64,
}

impl RegistryStatus {
    /// Returns the state of the registry: that of its sources, of the collections that it requires, and of stale facts
    /// that it serves.
    #[must_use]
    pub fn overall(&self) -> OverallStatus {
        self.overall_without(|_| false)
    }

    /// Returns the state of the registry without the sources that may not be read and of which nothing is required.
    #[must_use]
    pub fn overall_of_required(&self) -> OverallStatus {
        self.overall_without(|scope| self.is_spared(scope))
    }

    /// Returns the sources that may not be read and of which nothing is required.
    pub fn spared(&self) -> impl Iterator<Item = &SourceStatus> {
        let spared = self.sources.iter().filter(|(scope, _)| self.is_spared(scope));
        spared.map(|(_, source)| &source.status)
    }

    fn is_spared(&self, scope: &Scope) -> bool {
        let is_refused = |source: &SourceView| source.status.state == SourceState::Forbidden;
        let mut of_scope = self.collections.iter().filter(|one| one.collection.scope == *scope);
        self.sources.get(scope).is_some_and(is_refused) && !of_scope.any(|one| one.required)
    }

    fn overall_without(&self, is_left_out: impl Fn(&Scope) -> bool + Copy) -> OverallStatus {
        let is_stale = |c: &CollectionStatus| matches!(c.freshness, Freshness::Stale { .. });
        let counts = |c: &&CollectionStatus| c.required || c.facts > 0 && is_stale(c);
        let facts = self.collections.iter().filter(counts).map(|c| &c.freshness);
        let unknown = self.unknown.then_some(&Freshness::Unknown);
        let sources = self.sources.iter().filter(|(scope, _)| !is_left_out(scope));
        OverallStatus::of(sources.map(|(_, source)| &source.status), facts.chain(unknown))
    }

    /// Returns the state of one scope: that of its source and of all its collections.
    #[must_use]
    pub fn overall_of(&self, scope: &Scope) -> OverallStatus {
        let source = self.sources.get(scope).map(|source| &source.status);
        let first = self.collections.partition_point(|one| one.collection.scope < *scope);
        let own = self.collections[first..].iter().take_while(|one| one.collection.scope == *scope);
        OverallStatus::of(source.into_iter(), own.map(|one| &one.freshness))
    }
}

/// Held removal.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HeldView {
    /// Registry that reported the fact.
    pub registry: RegistryName,
    /// Key of the fact.
    pub key: FactKey,
    /// Start of the hold, in milliseconds since the process started.
    pub since: u64,
    /// Why the removal is doubted.
    pub reason: &'static str,
    /// Number of confirm requests to the source.
    pub confirm_attempts: u32,
}

/// Problem of one object.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ProblemView {
    /// Registry that reported the object.
    pub registry: RegistryName,
    /// Object with the problem.
    pub object: ObjectRef,
    /// Code and message.
    pub problem: Problem,
    /// Start of the problem, in milliseconds since the process started.
    pub since: u64,
}

impl Core {
    /// Returns the status of every registry, by name.
    #[must_use]
    pub fn status(&self) -> Vec<RegistryStatus> {
        self.registries.values().map(|r| self.registry_status(r)).collect()
    }

    fn registry_status(&self, registry: &Registry) -> RegistryStatus {
        let (ledger, state) = (&registry.ledger, &self.state);
        let shards = state.context.shards.of(&registry.info.id.name);
        let decided = ledger.knows_deciding(registry.info.services_decide);
        RegistryStatus {
            id: Arc::clone(&registry.info.id),
            generation: ledger.generation,
            shadow: registry.shadow.as_ref().map(|shadow| shadow.ledger.generation),
            waits_for: waits_for(registry).or_else(|| waits_for_others(registry, &self.registries)),
            shadow_failure: shadow_failure(registry).map(Into::into),
            needs_accept: registry.needs_accept(),
            identity: ledger.identity.clone(),
            found_identity: found_identity(registry),
            ended: ledger.ended.iter().map(ended).collect(),
            unknown: ledger.is_unknown(),
            synced: ledger.is_synced() && ledger.knows_any() && decided,
            failing: ledger.awaits_failing(),
            decided,
            priority: registry.info.priority,
            stale: registry.stale,
            by_policy: self.by_policy(registry),
            collections: ledger.collections().map(|(c, list)| self.collection(registry, c, list)).collect(),
            sources: registry.sources().map(|(scope, dated)| source(registry, scope, dated)).collect(),
            problems: ledger.problem_count(),
            held: shards.iter().map(|(_, id)| state.guard.held_in(*id)).sum(),
            waiting: shards.iter().map(|(_, id)| state.waiting_in(*id)).sum(),
            weight: shards.iter().filter_map(|(_, id)| state.context.shards.get(*id)).map(|i| i.weight).sum(),
        }
    }

    fn by_policy(&self, registry: &Registry) -> BTreeMap<Scope, ShardPriority> {
        let shards = self.state.context.shards.of(&registry.info.id.name);
        let priority = |(scope, id): &(Scope, ShardId)| {
            let priority = self.state.context.shards.get(*id)?.priority;
            (priority != registry.info.priority).then(|| (scope.clone(), priority))
        };
        shards.iter().filter_map(priority).collect()
    }

    fn collection(&self, registry: &Registry, collection: Collection, list: &List) -> CollectionStatus {
        let shards = &self.state.context.shards;
        let shard = shards.find(&registry.info.id.name, &collection.scope).and_then(|id| shards.get(id));
        CollectionStatus {
            required: registry.ledger.requires(&collection),
            freshness: list.freshness.clone(),
            synced: list.result.is_some(),
            complete: list.result == Some(ListResult::Complete),
            withheld: list.result == Some(ListResult::Withheld),
            facts: shard.map_or(0, |info| info.counted(collection.kind)),
            confirmed: list.confirmed.map(|at| at.0),
            known: registry.ledger.is_known(&collection),
            collection,
        }
    }

    /// Returns every held removal.
    pub fn held(&self) -> impl Iterator<Item = HeldView> {
        self.state.guard.holds().filter_map(|((shard, item), hold)| {
            let (registry, scope) = self.state.source_of(*shard)?;
            let key = FactKey { scope, item: item.clone() };
            Some(HeldView {
                registry,
                key,
                since: hold.since.0,
                reason: hold.reason,
                confirm_attempts: hold.requests,
            })
        })
    }

    /// Returns the number of held removals.
    #[must_use]
    pub fn held_count(&self) -> usize {
        self.state.guard.holds().len()
    }

    /// Returns every problem.
    pub fn problems(&self) -> impl Iterator<Item = ProblemView> {
        self.registries.values().flat_map(|registry| {
            registry.ledger.problems().map(|record| ProblemView {
                registry: registry.info.id.name.clone(),
                object: record.object.clone(),
                problem: record.problem.clone(),
                since: record.since.0,
            })
        })
    }
}

/// Returns why a registry's shadow does not serve, for operators. A changed identity is reported even before the run
/// has listed everything.
fn waits_for(registry: &Registry) -> Option<Arc<str>> {
    if let Some(identity) = &registry.rejected_identity {
        return Some(describe(&Obstacle::Identity(identity.clone())));
    }
    let shadow = registry.shadow.as_ref()?;
    match registry.obstacle()? {
        Obstacle::NotSynced if shadow.ledger.is_of_another_source(&registry.ledger) => {
            Some("the source's identity changed, and the new run has not listed everything yet".into())
        }
        obstacle @ (Obstacle::NotSynced | Obstacle::NotFollowed) => {
            let failure = failure(&shadow.ledger).map(|why| format!(": {why}")).unwrap_or_default();
            Some(format!("{}{failure}", describe(&obstacle)).into())
        }
        obstacle => Some(describe(&obstacle)),
    }
}

/// Returns the identity that the source has in place of the served one.
fn found_identity(registry: &Registry) -> Option<Fingerprint> {
    let shadow = registry.shadow.as_ref().map(|shadow| &shadow.ledger);
    let other = shadow.filter(|shadow| shadow.is_of_another_source(&registry.ledger));
    registry.rejected_identity.clone().or_else(|| other?.identity.clone())
}

/// Returns which run a shadow waits for that may serve itself.
fn waits_for_others(registry: &Registry, registries: &Registries) -> Option<Arc<str>> {
    let group = &registry.shadow.as_ref()?.group;
    let is_ready = |name: &RegistryName| registries.get(name).is_some_and(|other| other.is_ready_for(group));
    let other = group.names.iter().find(|name| !is_ready(name))?;
    Some(
        format!("the new run of registry {other}, which is to serve from the same moment, is not ready")
            .into(),
    )
}

/// Returns why a shadow has not listed everything or does not follow it, if it fails. Without a status of the served run, that of the shadow is
/// the registry's own.
fn shadow_failure(registry: &Registry) -> Option<&str> {
    let reports = registry.ledger.scopes.values().any(|scoped| scoped.status.is_some());
    let shadow = registry.shadow.as_ref().filter(|_| reports)?;
    let is_failing = matches!(registry.obstacle()?, Obstacle::NotSynced | Obstacle::NotFollowed);
    failure(&shadow.ledger).filter(|_| is_failing)
}

/// Returns the reason of the worst status that a run has reported, if it fails.
fn failure(ledger: &Ledger) -> Option<&str> {
    let statuses = ledger.scopes.values().filter_map(|scoped| Some(&scoped.status.as_ref()?.status));
    let worst = statuses.max_by_key(|status| status.state)?;
    (worst.state > SourceState::Syncing && !worst.reason.is_empty()).then_some(&*worst.reason)
}

/// Returns the text of an obstacle, for operators.
fn describe(obstacle: &Obstacle) -> Arc<str> {
    match obstacle {
        Obstacle::NotSynced => "the new run has not listed everything yet".into(),
        Obstacle::NotFollowed => "the new run does not follow everything that it has listed".into(),
        Obstacle::Behind => "the last changes have not reached the new run yet".into(),
        Obstacle::Identity(identity) => format!("the source's identity changed to {identity}").into(),
        Obstacle::Weaker(less) if less.parts.is_empty() => {
            let named = less.collections.iter();
            let named = named.map(|c| format!("the {} of scope {}", c.kind.plain_name(), c.scope));
            format!("the new run can read less of {}", first_of(named)).into()
        }
        Obstacle::Weaker(less) => {
            format!("the new run may not read {}", first_of(less.parts.iter().map(ToString::to_string)))
                .into()
        }
    }
}

/// Joins the first of these names, with the number of the others.
fn first_of(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 4;
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<String> = names.take(SHOWN).collect();
    format!("{}{more}", named.join(", "))
}

fn ended(ended: &crate::ledger::Ended) -> EndedScope {
    EndedScope { scope: ended.scope.clone(), evidence: ended.evidence.clone(), at: ended.at.0 }
}

fn source(registry: &Registry, scope: &Scope, dated: &DatedStatus) -> (Scope, SourceView) {
    let since = registry.since(scope, dated).map(|at| at.0);
    (scope.clone(), SourceView { status: dated.status.clone(), at: dated.at.0, since })
}
