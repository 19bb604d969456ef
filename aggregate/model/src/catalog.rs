//! The catalog: the immutable snapshot that the core publishes.
//!
//! Persistent maps share structure between generations, and values compare by pointer, so the cost of
//! a diff is proportional to the changes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::declaration::ServiceKey;
use crate::excluded_object::ExcludedObject;
use crate::gateway::{Gateway, GatewayKey};
use crate::gateway_name::ResolvedName;
use crate::hostname::Hostname;
use crate::id::{Generation, Namespace, RegistryId, RegistryName};
use crate::pending::Pending;
use crate::policy::{PolicyKey, PolicyView};
use crate::resource_inputs::ResourceInputs;
use crate::route_candidate::RouteOwner;
use crate::separate::SameName;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::status::{Freshness, ShardPriority};
use crate::time::Mono;
use crate::update::Collection;
use crate::view::{Condition, RouteInputs, ServiceView, ShardRef};
use crate::workload::{Workload, WorkloadKey};

/// One catalog generation.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Number of publications; 0 is the empty catalog before the first publication.
    pub generation: u64,
    /// Whether every configured registry is known and the list of registries itself is synced.
    pub complete: bool,
    /// Every host with its claimants, and every host of a VirtualService.
    pub hosts: OrdMap<Hostname, Shared<HostEntry>>,
    /// Overlay of each namespace: the hosts that its clients may see differently from a client without
    /// a namespace, because they are declared there, or exported to it and not to all.
    pub scoped: OrdMap<Namespace, Shared<OrdSet<Hostname>>>,
    /// Hosts that a declaration makes aliases of a host, by that host; whether a client sees the declaration does not
    /// matter.
    pub aliases: OrdMap<Hostname, Shared<OrdSet<Hostname>>>,
    /// Hosts of VirtualServices with routes of requests, and hosts that have a service and to which routes lead, by the
    /// namespace of the VirtualService.
    pub led_to: OrdMap<Namespace, Shared<OrdSet<Hostname>>>,
    /// All workloads.
    pub workloads: OrdMap<WorkloadKey, Shared<WorkloadView>>,
    /// Workloads by address.
    pub workload_ips: OrdMap<IpAddr, Shared<Box<[WorkloadKey]>>>,
    /// Gateways into networks.
    pub gateways: OrdMap<GatewayKey, Shared<Gateway>>,
    /// Addresses of the host names of gateways, for names that were asked for.
    pub gateway_names: OrdMap<Arc<str>, Shared<ResolvedName>>,
    /// Policies, each from the first shard in precedence.
    pub policies: OrdMap<PolicyKey, Shared<PolicyView>>,
    /// Keys of the client labels that policies name, sorted; at most [`Labels::MAX`](crate::Labels::MAX).
    pub compared_labels: Arc<[Arc<str>]>,
    /// Registries with their freshness.
    pub registries: OrdMap<RegistryName, Shared<RegistryView>>,
    /// Services of the same name in a cluster and in Consul, if the settings enable the search.
    pub same_names: OrdMap<Arc<str>, Shared<SameName>>,
    /// Mesh-wide values; the config file overrides other sources.
    pub settings: Shared<Settings>,
    /// Endpoints not served yet, and held removals, by host; for diagnosis only.
    pub pending: OrdMap<Hostname, Shared<[Pending]>>,
}

/// Services that claim one host, in order of precedence. The first that a client may see
/// serves it. A host without claimants has routes.
#[derive(Debug, Clone)]
pub struct HostEntry {
    /// Claimants.
    pub claimants: Arc<[Arc<ServiceView>]>,
    /// VirtualServices with routes to the host, or to an alias that ends at it, by key. They lead clients to it whose Sidecar
    /// does not import it.
    pub led_by: Arc<[Arc<RouteOwner>]>,
    /// Routes of requests of the VirtualServices that name the host, for clients for which no service has it on port 80.
    pub routes: Option<Shared<ResourceInputs<RouteInputs>>>,
}

impl HostEntry {
    /// Whether any service claims the host.
    #[must_use]
    pub fn has_service(&self) -> bool {
        !self.claimants.is_empty()
    }
}

/// Workload and the services that select it.
#[derive(Debug, Clone)]
pub struct WorkloadView {
    /// Shard that reports it.
    pub shard: Arc<ShardRef>,
    /// Workload.
    pub workload: Arc<Workload>,
    /// Services that select it, sorted.
    pub services: Arc<[ServiceKey]>,
}

/// Published state of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryView {
    /// Registry.
    pub id: Arc<RegistryId>,
    /// Served run.
    pub generation: Generation,
    /// Freshness per collection, sorted.
    pub collections: Arc<[(Collection, Freshness)]>,
    /// Collections that no run has read, sorted: nothing is known of them, which is not the same as empty.
    pub unread: Arc<[Collection]>,
    /// Priority of its shards, as the staleness policy sets it.
    pub priority: ShardPriority,
    /// Conditions of the registry itself (such as groups that wait for a declaration).
    pub conditions: Arc<[Condition]>,
    /// Excluded objects, by scope.
    pub excluded: Arc<[Arc<[ExcludedObject]>]>,
}

impl Catalog {
    /// Whether any service claims a host.
    #[must_use]
    pub fn has_service(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|entry| entry.has_service())
    }
    /// Returns the service of this key.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Arc<ServiceView>> {
        self.hosts.get(&key.host)?.claimants.iter().find(|view| view.key == *key)
    }
    /// Returns the hosts that may be aliases of a host to some client, directly or through other aliases.
    #[must_use]
    pub fn aliases_of<'c>(&'c self, host: &Hostname) -> BTreeSet<&'c Hostname> {
        let mut out = BTreeSet::new();
        let mut open: Vec<&Hostname> = self.aliases.get(host).into_iter().flat_map(|of| of.iter()).collect();
        while let Some(alias) = open.pop() {
            if alias != host && out.insert(alias) {
                open.extend(self.aliases.get(alias).into_iter().flat_map(|of| of.iter()));
            }
        }
        out
    }
    /// Iterates over every service, by host and precedence.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceView>> {
        self.hosts.values().flat_map(|entry| entry.claimants.iter())
    }
    /// Returns why clients of other networks do not use a gateway; `None` if they do.
    #[must_use]
    pub fn lack_of(&self, gateway: &Gateway) -> Option<Cow<'static, str>> {
        let is_direct = self.settings.cross_network_direct == Some(true);
        let direct = is_direct.then_some("`crossNetwork: direct` is set, so that no gateway is used");
        let own = gateway.lack().map(Cow::Borrowed).or_else(|| self.name_lack(gateway));
        own.or_else(|| direct.map(Cow::Borrowed))
    }
    /// Returns what DNS answered for the host name of a gateway; `None` if it has none, or the name was not asked for yet.
    #[must_use]
    pub fn resolved(&self, gateway: &Gateway) -> Option<&ResolvedName> {
        self.gateway_names.get(gateway.name()?).map(|shared| &**shared)
    }
    /// Returns why the host name of a gateway has no address.
    fn name_lack(&self, gateway: &Gateway) -> Option<Cow<'static, str>> {
        gateway.name()?;
        let resolved = self.resolved(gateway);
        if resolved.is_some_and(|of| !of.addresses.is_empty()) {
            return None;
        }
        Some(match resolved.and_then(|of| of.failure.as_ref()) {
            Some(failure) => format!("its host name has no address: {}", failure.reason).into(),
            None => "its host name is not resolved yet".into(),
        })
    }
}

/// Changes of one or more batches. The server uses them to wake the sessions concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogChanges {
    /// Hosts whose entry changed.
    pub hosts: BTreeSet<Hostname>,
    /// Workloads whose view changed.
    pub workloads: BTreeSet<WorkloadKey>,
    /// Policies that clients may be served differently.
    pub policies: BTreeSet<PolicyKey>,
    /// Whether a policy has other conditions; clients do not depend on it.
    pub policy_facts: bool,
    /// Whether any gateway changed.
    pub gateways: bool,
    /// Whether a host name of gateways was resolved otherwise; clients depend on the hosts that this changes, not on the name.
    pub gateway_names: bool,
    /// Whether any setting changed.
    pub settings: bool,
    /// Whether [`Catalog::complete`] changed, or which collections were never read.
    pub complete: bool,
    /// Whether a registry's freshness or priority changed. Clients read neither: endpoints that a changed priority
    /// demotes are changed hosts.
    pub registries: bool,
    /// Whether [`Catalog::pending`] changed; clients do not depend on it.
    pub pending: bool,
}

impl CatalogChanges {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
    /// Whether the answers of any client may have changed.
    #[must_use]
    pub fn concerns_clients(&self) -> bool {
        self.concerns_resources() || self.complete
    }
    /// Whether any resource, or the class of any client, may have changed.
    #[must_use]
    pub fn concerns_resources(&self) -> bool {
        let Self {
            hosts,
            workloads,
            policies,
            policy_facts: _,
            gateways,
            gateway_names: _,
            settings,
            complete: _,
            registries: _,
            pending: _,
        } = self;
        let named = !hosts.is_empty() || !workloads.is_empty() || !policies.is_empty();
        named || *gateways || *settings
    }
    /// Adds the changes of another batch.
    pub fn merge(&mut self, more: Self) {
        self.hosts.extend(more.hosts);
        self.workloads.extend(more.workloads);
        self.policies.extend(more.policies);
        self.policy_facts |= more.policy_facts;
        self.gateways |= more.gateways;
        self.gateway_names |= more.gateway_names;
        self.settings |= more.settings;
        self.complete |= more.complete;
        self.registries |= more.registries;
        self.pending |= more.pending;
    }
}

/// Observation times of the changes in a generation: the time when the oldest update of each kind
/// of change was received from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObservedSince {
    /// Oldest update of batches that remove an endpoint or change its health.
    pub removal: Option<Mono>,
    /// Oldest update of all other batches.
    pub addition: Option<Mono>,
}

impl ObservedSince {
    /// Creates the value for a batch whose oldest update was received at `at`.
    #[must_use]
    pub const fn batch(at: Mono, urgent: bool) -> Self {
        if urgent {
            Self { removal: Some(at), addition: None }
        } else {
            Self { removal: None, addition: Some(at) }
        }
    }
    /// Merges another value: the oldest time of each kind of change stays.
    pub fn merge(&mut self, more: Self) {
        let older = |a: Option<Mono>, b: Option<Mono>| a.into_iter().chain(b).min();
        self.removal = older(self.removal, more.removal);
        self.addition = older(self.addition, more.addition);
    }
}
