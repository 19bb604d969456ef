//! What is served and what it is built from: facts by service, selection, names, holds, the next catalog.
//!
//! Owned by [`Core`](crate::Core), which passes it to the phases of a turn: ingest and apply write
//! facts, the removal guard judges absences, build turns what is dirty into the next catalog. It
//! differs from the ledgers by held removals and by nothing else. Order does not matter: the state is
//! a function of the facts that were accepted.

pub(crate) mod bucket;
pub(crate) mod gateways;
pub(crate) mod names;
pub(crate) mod outage;
pub(crate) mod pending;
pub(crate) mod selectors;
pub(crate) mod services;
pub(crate) mod settings;
pub(crate) mod shards;
pub(crate) mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Catalog, CollectionKind, FederatedService, GatewayKey, Hostname, Mono, Record, RegistryName, Scope,
    ServiceKey,
};

use crate::counters::Counters;
use crate::removal::guard::RemovalGuard;
use gateways::Gateways;
use names::{Moved, NameGraph};
use outage::OutageTimers;
use pending::WaitingTable;
use selectors::Selection;
use services::Hosts;
use settings::SettingsTable;
use shards::{ShardId, Shards};
use workloads::{WorkloadId, Workloads};

/// Everything that a service's view is made from, beside the facts of the service itself.
#[derive(Debug, Default)]
pub(crate) struct MergeContext {
    /// Registry and scope of each shard.
    pub(crate) shards: Shards,
    /// What can be selected.
    pub(crate) workloads: Workloads,
    /// What is selected.
    pub(crate) selection: Selection,
    /// Which networks have gateways.
    pub(crate) gateways: Gateways,
    /// Mesh-wide values.
    pub(crate) settings: SettingsTable,
    /// Which names lead where, join others, or are one.
    pub(crate) names: NameGraph,
    /// For how long each source has not been followed.
    pub(crate) outages: OutageTimers,
}

impl MergeContext {
    /// A shard declares this join of a host, or none any more.
    pub(crate) fn declare_join(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        alias: Option<Arc<FederatedService>>,
    ) -> Moved {
        self.names.declare_join(shard, host, alias, &self.shards)
    }
}

/// What must be built again before the next catalog.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Services of which a fact changed.
    pub(crate) services: BTreeSet<ServiceKey>,
    /// Workloads that changed, or whose selection did.
    pub(crate) workloads: BTreeSet<WorkloadId>,
    /// Gateways that changed.
    pub(crate) gateways: BTreeSet<GatewayKey>,
    /// Registries whose freshness or standing may have changed.
    pub(crate) registries: BTreeSet<RegistryName>,
    /// Whether mesh-wide values may have changed.
    pub(crate) settings: bool,
    /// Whether clients lose something or are sent elsewhere, so that publication may not wait.
    pub(crate) urgent: bool,
    /// Accepted changes, for the journal.
    pub(crate) records: Vec<Record>,
    /// Hosts that services of one name begin or cease to share, or share otherwise.
    pub(crate) implied: BTreeSet<Hostname>,
    /// The hosts that the records concern, once they were asked for.
    pub(crate) explained: Option<BTreeSet<Hostname>>,
    /// Collections whose number of facts changed.
    pub(crate) lists: BTreeSet<(ShardId, CollectionKind)>,
    /// Shards that hold nothing any more; their numbers are free once the turn is built.
    pub(crate) freed: BTreeSet<ShardId>,
}

/// The state.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The latest time that was passed in.
    pub(crate) now: Mono,
    /// What views are made from.
    pub(crate) world: MergeContext,
    /// Facts by service.
    pub(crate) hosts: Hosts,
    /// Removals that rest on absence.
    pub(crate) guard: RemovalGuard,
    /// How many groups of each service wait for a declaration, by shard.
    pub(crate) waiting: BTreeMap<ShardId, BTreeMap<ServiceKey, usize>>,
    /// When time alone changes how a stale scope is served.
    pub(crate) policy_due: Option<Mono>,
    /// Addresses that wait for another object.
    pub(crate) waiting_addresses: WaitingTable,
    /// What must be built again.
    pub(crate) dirty: Dirty,
    /// The next catalog, always complete between calls.
    pub(crate) draft: Catalog,
    /// What was done.
    pub(crate) counters: Counters,
}

impl State {
    /// A turn begins.
    pub(crate) fn begin(&mut self, now: Mono) {
        self.now = self.now.max(now);
        self.world.shards.begin_turn(now);
    }

    /// The registry and scope of a shard.
    pub(crate) fn place_of(&self, shard: ShardId) -> Option<(RegistryName, Scope)> {
        let info = self.world.shards.get(shard)?;
        Some((info.shard.registry.name.clone(), info.shard.scope.clone()))
    }

    /// Frees the numbers of shards that hold nothing any more, once nothing built refers to them.
    pub(crate) fn free_shards(&mut self) {
        for shard in std::mem::take(&mut self.dirty.freed) {
            self.waiting.remove(&shard);
            self.world.outages.forget(shard);
            self.world.shards.free(shard);
        }
    }
}

#[cfg(test)]
impl State {
    /// Whether no index holds anything: what leaves must leave nothing behind.
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.iter().next().is_none()
            && self.world.names.is_empty()
            && self.world.outages.is_empty()
            && self.waiting.is_empty()
            && self.waiting_addresses.is_empty()
            && self.draft.pending.is_empty()
            && self.guard.holds().next().is_none()
            && self.world.workloads.iter().next().is_none()
            && self.world.selection.is_empty()
            && self.world.gateways.is_empty()
    }
}
