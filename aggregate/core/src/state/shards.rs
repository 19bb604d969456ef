//! The table of shards: one small number for each (registry, scope), with what the core keeps of it.
//!
//! Filled by ingest when a scope is first reported, freed when the scope or its registry has ended. A
//! number is given again only after every fact under it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    CollectionKind, Mono, ObjectId, PrecedenceKey, RegistryName, Scope, ShardPriority, ShardRef, Timestamp,
};

use crate::ledger::Face;

/// Within what time the losses of a scope count together.
const WINDOW: Duration = Duration::from_secs(10);

/// A shard's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShardId(u32);

/// What the core keeps of a shard beside its facts.
#[derive(Debug)]
pub(crate) struct ShardInfo {
    /// Its registry and scope.
    pub(crate) shard: Arc<ShardRef>,
    /// Its registry's rank.
    pub(crate) rank: u16,
    /// Normal or demoted.
    pub(crate) standing: ShardPriority,
    /// Whether its registry answers a question about a removal.
    pub(crate) can_confirm: bool,
    /// How many addresses, workloads and gateways it has.
    pub(crate) weight: u64,
    /// The same when the gate's window began, or later where it was more then.
    pub(crate) weight_before: u64,
    /// How much has gone on absence alone since then.
    pub(crate) lost: u64,
    window_ends: Mono,
    /// How many facts of each kind are served.
    counts: [u64; CollectionKind::ALL.len()],
    /// When the source last confirmed each collection: lies outside what is compared, so that an
    /// unchanged list touches one number per collection.
    confirmed: BTreeMap<CollectionKind, Mono>,
}

impl ShardInfo {
    /// Whether it is served at all.
    pub(crate) fn is_served(&self) -> bool {
        self.standing != ShardPriority::Withdrawn
    }
    /// The claim of one of its objects.
    pub(crate) fn claim<'a>(&'a self, created: Option<Timestamp>, object: &'a ObjectId) -> PrecedenceKey<'a> {
        PrecedenceKey { shard: &self.shard, rank: self.rank, created, object, joined: false }
    }
    /// So many facts of a kind came or went.
    pub(crate) fn count(&mut self, kind: CollectionKind, more: i64) {
        let count = &mut self.counts[kind.index()];
        *count = count.saturating_add_signed(more);
    }
    /// How many facts of a kind are served.
    pub(crate) fn counted(&self, kind: CollectionKind) -> u64 {
        self.counts[kind.index()]
    }
    /// The source confirmed a collection.
    pub(crate) fn confirm(&mut self, kind: CollectionKind, at: Mono) {
        self.confirmed.insert(kind, at);
    }
    /// When a fact that last said something new at `changed` was last confirmed.
    pub(crate) fn confirmed(&self, kind: CollectionKind, changed: Mono) -> Mono {
        self.confirmed.get(&kind).map_or(changed, |at| changed.max(*at))
    }
}

/// All shards.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    slots: Vec<Option<ShardInfo>>,
    free: Vec<u32>,
    ids: BTreeMap<RegistryName, BTreeMap<Scope, ShardId>>,
}

impl Shards {
    /// How many scopes one registry may have.
    const MAX_SCOPES: usize = crate::ledger::Ledger::MOST_SCOPES;

    /// The shard of a scope, made when it is new; `None` when the registry has too many.
    pub(crate) fn intern(&mut self, registry: &Face, scope: &Scope) -> Option<ShardId> {
        let Face { id, rank, can_confirm, standing } = registry;
        if let Some(known) = self.find(&id.name, scope) {
            return Some(known);
        }
        let scopes = self.ids.entry(id.name.clone()).or_default();
        if scopes.len() >= Self::MAX_SCOPES {
            return None;
        }
        let shard = Arc::new(ShardRef { registry: Arc::clone(id), scope: scope.clone() });
        let info = ShardInfo {
            shard,
            rank: *rank,
            standing: *standing,
            can_confirm: *can_confirm,
            weight: 0,
            weight_before: 0,
            lost: 0,
            window_ends: Mono(0),
            counts: [0; CollectionKind::ALL.len()],
            confirmed: BTreeMap::new(),
        };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        *self.slots.get_mut(at as usize)? = Some(info);
        scopes.insert(scope.clone(), ShardId(at));
        Some(ShardId(at))
    }
    /// A shard by its number.
    pub(crate) fn get(&self, id: ShardId) -> Option<&ShardInfo> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
    /// A shard by its number, to change.
    pub(crate) fn get_mut(&mut self, id: ShardId) -> Option<&mut ShardInfo> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }
    /// The shard of a scope.
    pub(crate) fn find(&self, registry: &RegistryName, scope: &Scope) -> Option<ShardId> {
        self.ids.get(registry)?.get(scope).copied()
    }
    /// The shards of a registry, by scope.
    pub(crate) fn of(&self, registry: &RegistryName) -> Vec<(Scope, ShardId)> {
        let scopes = self.ids.get(registry).into_iter().flatten();
        scopes.map(|(scope, &id)| (scope.clone(), id)).collect()
    }
    /// Frees the number of a shard that holds nothing any more.
    pub(crate) fn free(&mut self, id: ShardId) {
        let Some(info) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else { return };
        self.free.push(id.0);
        let name = &info.shard.registry.name;
        if let Some(scopes) = self.ids.get_mut(name) {
            scopes.remove(&info.shard.scope);
            if scopes.is_empty() {
                self.ids.remove(name);
            }
        }
    }
    /// Adds to what a shard has.
    pub(crate) fn weigh(&mut self, id: ShardId, more: usize, less: usize) {
        if let Some(info) = self.get_mut(id) {
            info.weight = (info.weight + more as u64).saturating_sub(less as u64);
        }
    }
    /// Remembers what each shard has, for the gate's judgement: a source that is asked service by service loses a
    /// scope in many small turns.
    pub(crate) fn begin_turn(&mut self, now: Mono) {
        for info in self.slots.iter_mut().flatten() {
            if now >= info.window_ends {
                (info.weight_before, info.lost) = (0, 0);
                info.window_ends = now.plus(WINDOW);
            }
            info.weight_before = info.weight_before.max(info.weight);
        }
    }
    /// So much has gone on absence alone.
    pub(crate) fn lose(&mut self, id: ShardId, lost: u64) {
        if let Some(info) = self.get_mut(id) {
            info.lost += lost;
        }
    }
}
