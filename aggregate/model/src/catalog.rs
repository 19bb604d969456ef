//! What the core publishes: one immutable generation of everything.
//!
//! Persistent maps share structure between generations; values are compared by pointer, so a diff
//! of two generations costs what has changed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::declaration::ServiceKey;
use crate::excluded_object::ExcludedObject;
use crate::gateway::{Gateway, GatewayKey};
use crate::hostname::Hostname;
use crate::id::{Generation, Namespace, RegistryId, RegistryName};
use crate::pending::Pending;
use crate::separate::SameName;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::status::{Freshness, ShardPriority};
use crate::time::Mono;
use crate::update::Collection;
use crate::view::{Condition, ServiceView, ShardRef};
use crate::workload::{Workload, WorkloadKey};

/// One generation.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Counts publications; 0 is the empty catalog before the first.
    pub generation: u64,
    /// No configured registry is unknown, and the membership itself is synced.
    pub complete: bool,
    /// Every host with its claimants.
    pub hosts: OrdMap<Hostname, Shared<HostEntry>>,
    /// For each namespace, the hosts that its clients may see differently from a client without a
    /// namespace: declared there, or exported to it and not to all. The overlay of that namespace.
    pub scoped: OrdMap<Namespace, Shared<OrdSet<Hostname>>>,
    /// Everything that can be selected.
    pub workloads: OrdMap<WorkloadKey, Shared<WorkloadView>>,
    /// Workloads by address.
    pub workload_ips: OrdMap<IpAddr, Shared<Box<[WorkloadKey]>>>,
    /// The ways into networks.
    pub gateways: OrdMap<GatewayKey, Shared<Gateway>>,
    /// The registries, and how fresh each is.
    pub registries: OrdMap<RegistryName, Shared<RegistryView>>,
    /// Services of one name in a cluster and in a Consul, where the settings ask for them.
    pub same_names: OrdMap<Arc<str>, Shared<SameName>>,
    /// Mesh-wide values, with the config file's over the rest.
    pub settings: Shared<Settings>,
    /// What is not served yet, and removals that are held, by host: for people, read by no view.
    pub pending: OrdMap<Hostname, Shared<[Pending]>>,
}

/// The services that claim one host, in order of precedence: the first that a client may see
/// serves it. Never empty in a catalog.
#[derive(Debug, Clone)]
pub struct HostEntry {
    /// The claimants.
    pub claimants: Arc<[Arc<ServiceView>]>,
}

/// A workload and what selects it.
#[derive(Debug, Clone)]
pub struct WorkloadView {
    /// Whose word.
    pub shard: Arc<ShardRef>,
    /// The workload.
    pub workload: Arc<Workload>,
    /// The services that select it, sorted.
    pub services: Arc<[ServiceKey]>,
}

/// A registry as published: its standing and the freshness of its collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryView {
    /// The registry.
    pub id: Arc<RegistryId>,
    /// The run that is served.
    pub generation: Generation,
    /// Per collection, sorted.
    pub collections: Arc<[(Collection, Freshness)]>,
    /// Normal, or demoted by policy.
    pub standing: ShardPriority,
    /// Conditions that are the registry's own (groups that wait for a declaration, …).
    pub conditions: Arc<[Condition]>,
    /// What its sources have and it leaves out on purpose, by scope.
    pub excluded: Arc<[Arc<[ExcludedObject]>]>,
}

impl Catalog {
    /// The service of this key.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Arc<ServiceView>> {
        self.hosts.get(&key.host)?.claimants.iter().find(|view| view.key == *key)
    }
    /// Every service, by host and precedence.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceView>> {
        self.hosts.values().flat_map(|entry| entry.claimants.iter())
    }
}

/// What a turn changed, for whoever must be woken. Sets of small things; a union of several turns
/// is again one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogChanges {
    /// Hosts whose entry is another.
    pub hosts: BTreeSet<Hostname>,
    /// Workloads whose view is another.
    pub workloads: BTreeSet<WorkloadKey>,
    /// Whether a gateway is another.
    pub gateways: bool,
    /// Whether a setting is another.
    pub settings: bool,
    /// Whether a registry's freshness or standing, or `complete`, is another.
    pub registries: bool,
    /// Whether [`Catalog::pending`] changed; that alone concerns no client.
    pub pending: bool,
}

impl CatalogChanges {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
    /// Whether a client may be served something else.
    #[must_use]
    pub fn concerns_clients(&self) -> bool {
        let Self { hosts, workloads, gateways, settings, registries, pending: _ } = self;
        !hosts.is_empty() || !workloads.is_empty() || *gateways || *settings || *registries
    }
    /// Adds another turn's changes.
    pub fn merge(&mut self, more: Self) {
        self.hosts.extend(more.hosts);
        self.workloads.extend(more.workloads);
        self.gateways |= more.gateways;
        self.settings |= more.settings;
        self.registries |= more.registries;
        self.pending |= more.pending;
    }
}

/// Since when what a generation says otherwise has been known: when the oldest word of each lane
/// was heard from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObservedSince {
    /// Of turns in which an endpoint went or changed its health.
    pub removal: Option<Mono>,
    /// Of all others.
    pub addition: Option<Mono>,
}

impl ObservedSince {
    /// A turn whose oldest word was heard then.
    #[must_use]
    pub const fn batch(at: Mono, urgent: bool) -> Self {
        if urgent {
            Self { removal: Some(at), addition: None }
        } else {
            Self { removal: None, addition: Some(at) }
        }
    }
    /// Adds another: the oldest of each lane stays.
    pub fn merge(&mut self, more: Self) {
        let older = |a: Option<Mono>, b: Option<Mono>| a.into_iter().chain(b).min();
        self.removal = older(self.removal, more.removal);
        self.addition = older(self.addition, more.addition);
    }
}
