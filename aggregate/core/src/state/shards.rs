//! Table of shards: one small number for each (registry, scope), with its properties and counts.
//!
//! Ingest adds a shard when its scope is first reported; the end of the scope or of its registry frees
//! it. A number is reused only after every fact under it was removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    CollectionKind, Mono, ObjectId, Precedence, PrecedenceKey, RegistryName, Scope, ShardPriority, ShardRef,
    Timestamp,
};

use crate::ledger::RegistryInfo;

/// Time within which the losses of a scope count together.
const WINDOW: Duration = Duration::from_secs(10);

/// Number of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShardId(u32);

/// Properties and counts of a shard.
#[derive(Debug)]
pub(crate) struct ShardInfo {
    /// Registry and scope.
    pub(crate) shard: Arc<ShardRef>,
    /// Position of its registry.
    pub(crate) precedence: Precedence,
    /// Priority at which it is served.
    pub(crate) priority: ShardPriority,
    /// Whether its registry answers confirm requests.
    pub(crate) can_confirm: bool,
    /// Whether the settings limit the visibility of its declarations.
    pub(crate) limited_visibility: bool,
    /// Whether its settings take precedence over those of all other registries.
    pub(crate) overrides_settings: bool,
    /// Number of its addresses, workloads, gateways and policies.
    pub(crate) weight: u64,
    /// Largest weight since the guard's window began.
    pub(crate) weight_before: u64,
    /// Weight that was removed by absence since then.
    pub(crate) lost: u64,
    window_ends: Mono,
    /// Number of served facts of each kind.
    counts: [u64; CollectionKind::ALL.len()],
    /// Time of the source's last confirmation of each collection. It is not part of compared values: an
    /// unchanged list changes one number per collection.
    confirmed: BTreeMap<CollectionKind, Mono>,
}

impl ShardInfo {
    /// Returns whether it is served at all.
    pub(crate) fn is_served(&self) -> bool {
        self.priority != ShardPriority::Withdrawn
    }
    /// Returns the precedence key of one of its objects.
    pub(crate) fn precedence<'a>(
        &'a self,
        created: Option<Timestamp>,
        object: &'a ObjectId,
    ) -> PrecedenceKey<'a> {
        PrecedenceKey { shard: &self.shard, precedence: self.precedence, created, object, federated: false }
    }
    /// Adds to the number of facts of a kind.
    pub(crate) fn count(&mut self, kind: CollectionKind, more: i64) {
        let count = &mut self.counts[kind.index()];
        *count = count.saturating_add_signed(more);
    }
    /// Returns the number of served facts of a kind.
    pub(crate) fn counted(&self, kind: CollectionKind) -> u64 {
        self.counts[kind.index()]
    }
    /// Records that the source confirmed a collection.
    pub(crate) fn confirm(&mut self, kind: CollectionKind, at: Mono) {
        self.confirmed.insert(kind, at);
    }
    /// Returns when a fact that last changed at `changed` was last confirmed.
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
    /// Most scopes of one registry.
    const MAX_SCOPES: usize = crate::ledger::Ledger::MOST_SCOPES;

    /// Returns the shard of a scope and adds it if it is new; `None` if the registry has too many.
    pub(crate) fn intern(&mut self, registry: &RegistryInfo, scope: &Scope) -> Option<ShardId> {
        let id = &registry.id;
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
            precedence: registry.precedence,
            priority: registry.priority,
            can_confirm: registry.can_confirm,
            limited_visibility: registry.limited_visibility,
            overrides_settings: registry.overrides_settings,
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
    /// Returns a shard by its number.
    pub(crate) fn get(&self, id: ShardId) -> Option<&ShardInfo> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
    /// Returns a shard by its number, mutable.
    pub(crate) fn get_mut(&mut self, id: ShardId) -> Option<&mut ShardInfo> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }
    /// Returns the shard of a scope.
    pub(crate) fn find(&self, registry: &RegistryName, scope: &Scope) -> Option<ShardId> {
        self.ids.get(registry)?.get(scope).copied()
    }
    /// Returns the shards of a registry, by scope.
    pub(crate) fn of(&self, registry: &RegistryName) -> Vec<(Scope, ShardId)> {
        let scopes = self.ids.get(registry).into_iter().flatten();
        scopes.map(|(scope, &id)| (scope.clone(), id)).collect()
    }
    /// Frees the number of an empty shard.
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
    /// Adds `more` to the weight of a shard and subtracts `less`.
    pub(crate) fn weigh(&mut self, id: ShardId, more: usize, less: usize) {
        if let Some(info) = self.get_mut(id) {
            info.weight = (info.weight + more as u64).saturating_sub(less as u64);
        }
    }
    /// Records each shard's weight for the removal guard. A source that is read service by service loses a scope in
    /// many small batches, which the window adds up.
    pub(crate) fn begin_batch(&mut self, now: Mono) {
        for info in self.slots.iter_mut().flatten() {
            if now >= info.window_ends {
                (info.weight_before, info.lost) = (0, 0);
                info.window_ends = now.plus(WINDOW);
            }
            info.weight_before = info.weight_before.max(info.weight);
        }
    }
    /// Adds to the weight that was removed by absence.
    pub(crate) fn lose(&mut self, id: ShardId, lost: u64) {
        if let Some(info) = self.get_mut(id) {
            info.lost += lost;
        }
    }
}
