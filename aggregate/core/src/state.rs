//! State of all served facts: services, selection, names, held removals, and the next catalog.
//!
//! Owned by [`Core`](crate::Core), which passes it to the phases of a batch: ingest and apply write
//! facts, the removal guard judges absences, build puts dirty parts into the next catalog. It differs
//! from the ledgers only by held removals. Order does not matter: the state is a function of the
//! accepted facts.

pub(crate) mod bucket;
pub(crate) mod compared_labels;
pub(crate) mod gateway_names;
pub(crate) mod gateways;
pub(crate) mod host_patterns;
pub(crate) mod identity_sets;
pub(crate) mod names;
pub(crate) mod outage;
pub(crate) mod peers;
pub(crate) mod pending;
pub(crate) mod policies;
pub(crate) mod rules;
pub(crate) mod selectors;
pub(crate) mod services;
pub(crate) mod settings;
pub(crate) mod shards;
pub(crate) mod virtual_services;
pub(crate) mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Catalog, CollectionKind, FederatedService, GatewayKey, Hostname, Mono, PolicyKey, Record, RegistryName,
    Scope, ServiceKey,
};

use crate::counters::Counters;
use crate::removal::guard::RemovalGuard;
use compared_labels::ComparedLabels;
use gateways::Gateways;
use identity_sets::IdentitySets;
use names::{JoinChange, NameGraph};
use outage::OutageTimers;
use peers::Peers;
use pending::WaitingTable;
use policies::Policies;
use rules::Rules;
use selectors::Selection;
use services::Hosts;
use settings::SettingsTable;
use shards::{ShardId, Shards};
use virtual_services::VirtualServices;
use workloads::{WorkloadId, Workloads};

/// Everything that a service's view is built from, except the facts of the service itself.
#[derive(Debug, Default)]
pub(crate) struct MergeContext {
    /// Registry and scope of each shard.
    pub(crate) shards: Shards,
    /// Workloads that can be selected.
    pub(crate) workloads: Workloads,
    /// Selectors and the workloads that they select.
    pub(crate) selection: Selection,
    /// Gateways by network.
    pub(crate) gateways: Gateways,
    /// Policies, and workloads that several of them select.
    pub(crate) policies: Policies,
    /// PeerAuthentications by namespace.
    pub(crate) peers: Peers,
    /// DestinationRules by host.
    pub(crate) rules: Rules,
    /// VirtualServices by host, with the routes of their delegates.
    pub(crate) virtual_services: VirtualServices,
    /// Keys of the client labels that policies compare.
    pub(crate) labels: ComparedLabels,
    /// Mesh-wide values.
    pub(crate) settings: SettingsTable,
    /// Aliases, federated services and services with the same name.
    pub(crate) names: NameGraph,
    /// Outages of sources, for standby members.
    pub(crate) outages: OutageTimers,
}

impl MergeContext {
    /// Sets or removes (`None`) the federated service that a shard declares for a host.
    pub(crate) fn declare_join(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        federated: Option<Arc<FederatedService>>,
    ) -> JoinChange {
        self.names.declare_join(shard, host, federated, &self.shards)
    }
}

/// Parts that must be built again before the next catalog.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Services with a changed fact.
    pub(crate) services: BTreeSet<ServiceKey>,
    /// Hosts of VirtualServices of which the routes may have changed, and those to which routes lead or led.
    pub(crate) hosts: BTreeSet<Hostname>,
    /// Workloads that changed or whose selection changed.
    pub(crate) workloads: BTreeSet<WorkloadId>,
    /// Gateways that changed.
    pub(crate) gateways: BTreeSet<GatewayKey>,
    /// Host names of gateways whose addresses changed.
    pub(crate) gateway_names: BTreeSet<Arc<str>>,
    /// Policies that changed.
    pub(crate) policies: BTreeSet<PolicyKey>,
    /// Whether a changed policy leaves a route without its subset.
    pub(crate) incomplete: bool,
    /// Registries whose status or priority may have changed.
    pub(crate) registries: BTreeSet<RegistryName>,
    /// Registries whose reported status may have changed, in addition to `registries`.
    pub(crate) statuses: BTreeSet<RegistryName>,
    /// Whether mesh-wide values may have changed.
    pub(crate) settings: bool,
    /// True if clients lose endpoints or are redirected, so publication must not be delayed.
    pub(crate) urgent: bool,
    /// Accepted changes, for the journal.
    pub(crate) records: Vec<Record>,
    /// Hosts whose merge by name began, changed or ended.
    pub(crate) implied: BTreeSet<Hostname>,
    /// Hosts that the records concern; computed on first use.
    pub(crate) explained: Option<BTreeSet<Hostname>>,
    /// Collections whose number of facts changed.
    pub(crate) lists: BTreeSet<(ShardId, CollectionKind)>,
    /// Empty shards; their numbers are freed once the batch is built.
    pub(crate) freed: BTreeSet<ShardId>,
}

/// Groups of one shard that wait for a declaration.
#[derive(Debug, Default)]
pub(crate) struct WaitingGroups {
    /// Number of each service's groups.
    pub(crate) services: BTreeMap<ServiceKey, usize>,
    /// Sum of these numbers.
    pub(crate) total: usize,
}

/// State of all served facts.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Latest time that a caller passed.
    pub(crate) now: Mono,
    /// Inputs of views.
    pub(crate) context: MergeContext,
    /// Facts by service.
    pub(crate) hosts: Hosts,
    /// Proposed and held removals.
    pub(crate) guard: RemovalGuard,
    /// Groups that wait for a declaration, by shard.
    pub(crate) waiting: BTreeMap<ShardId, WaitingGroups>,
    /// Time at which a staleness policy next changes a priority.
    pub(crate) policy_due: Option<Mono>,
    /// Addresses that wait for a different object.
    pub(crate) waiting_addresses: WaitingTable,
    /// Parts to build again.
    pub(crate) dirty: Dirty,
    /// Sets of identities that services share.
    pub(crate) identity_sets: IdentitySets,
    /// Next catalog; complete between calls.
    pub(crate) draft: Catalog,
    /// Counts of what was done.
    pub(crate) counters: Counters,
}

impl State {
    /// Begins a batch.
    pub(crate) fn begin(&mut self, now: Mono) {
        self.now = self.now.max(now);
        self.context.shards.begin_batch(now);
    }

    /// Returns the registry and scope of a shard.
    pub(crate) fn source_of(&self, shard: ShardId) -> Option<(RegistryName, Scope)> {
        let info = self.context.shards.get(shard)?;
        Some((info.shard.registry.name.clone(), info.shard.scope.clone()))
    }

    /// Marks a registry whose reported status may have changed.
    pub(crate) fn note_status(&mut self, name: &RegistryName) {
        if !self.dirty.statuses.contains(name) {
            self.dirty.statuses.insert(name.clone());
        }
    }

    /// Frees the numbers of empty shards, after no built view refers to them.
    pub(crate) fn free_shards(&mut self) {
        for shard in std::mem::take(&mut self.dirty.freed) {
            self.waiting.remove(&shard);
            self.context.outages.forget(shard);
            self.context.shards.free(shard);
        }
    }
}

#[cfg(test)]
impl State {
    /// Returns whether every index is empty: a removed registry must leave nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.iter().next().is_none()
            && self.context.names.is_empty()
            && self.context.outages.is_empty()
            && self.waiting.is_empty()
            && self.waiting_addresses.is_empty()
            && self.draft.pending.is_empty()
            && self.guard.holds().next().is_none()
            && self.context.workloads.iter().next().is_none()
            && self.context.selection.is_empty()
            && self.context.gateways.is_empty()
            && self.context.policies.is_empty()
            && self.context.rules.is_empty()
            && self.context.virtual_services.is_empty()
            && self.context.labels.is_empty()
    }
}
