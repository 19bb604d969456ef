//! Updates that adapters report, and confirm requests that they receive.
//!
//! Updates carry state, not operations: the current value of a fact. They are idempotent, and may be
//! conflated per key and replayed. The update channel stamps them with registry, generation and time.

use std::sync::Arc;

use crate::declaration::{DeclKey, Declaration};
use crate::endpoint_group::{EndpointGroup, EndpointGroupKey, WaitingAddress};
use crate::evidence::{EndEvidence, Evidence};
use crate::excluded_object::ExcludedObject;
use crate::gateway::{Gateway, GatewayKey};
use crate::gateway_name::ResolvedName;
use crate::hostname::Hostname;
use crate::id::{Fingerprint, Generation, RegistryName, Scope};
use crate::object::{ObjectId, ObjectRef, Source};
use crate::policy::{DeclaredPolicy, PolicyKey};
use crate::settings::{FederatedService, Settings};
use crate::status::{Problem, SourceStatus, Withheld};
use crate::time::Mono;
use crate::workload::{Workload, WorkloadKey};

/// Kind of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum CollectionKind {
    /// Declarations of services.
    Services,
    /// Endpoint groups.
    Groups,
    /// Workloads.
    Workloads,
    /// Gateways into networks, and the addresses of their host names.
    Gateways,
    /// Mesh-wide values and federated services.
    Settings,
    /// Policies.
    Policies,
}

impl CollectionKind {
    /// Every kind, in the order of [`CollectionKind::index`].
    pub const ALL: [Self; 6] =
        [Self::Services, Self::Groups, Self::Workloads, Self::Gateways, Self::Settings, Self::Policies];

    /// Name of its facts in messages.
    #[must_use]
    pub const fn plain_name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Groups => "endpoints",
            Self::Workloads => "workloads",
            Self::Gateways => "gateways",
            Self::Settings => "settings",
            Self::Policies => "policies",
        }
    }
    /// Position in [`CollectionKind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl FactId {
    /// Returns the kind of facts that it belongs to.
    #[must_use]
    pub const fn kind(&self) -> CollectionKind {
        match self {
            Self::Service(_) => CollectionKind::Services,
            Self::Group(_) | Self::Waiting(_) => CollectionKind::Groups,
            Self::Workload(_) => CollectionKind::Workloads,
            Self::Gateway(_) | Self::GatewayName(_) => CollectionKind::Gateways,
            Self::Settings | Self::FederatedService(_) => CollectionKind::Settings,
            Self::Policy(_) => CollectionKind::Policies,
        }
    }
}

/// Facts of one kind and scope. A collection is synced after every input of its conversion
/// has been listed completely.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Collection {
    /// Part of the registry that fails as one.
    pub scope: Scope,
    /// Kind of facts.
    pub kind: CollectionKind,
}

/// Identity of a fact within its registry and scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum FactId {
    /// Declaration.
    Service(DeclKey),
    /// Endpoint group.
    Group(EndpointGroupKey),
    /// Workload.
    Workload(WorkloadKey),
    /// Gateway address.
    Gateway(GatewayKey),
    /// Mesh-wide values.
    Settings,
    /// Federated service.
    FederatedService(Hostname),
    /// Addresses that are not served yet.
    Waiting(EndpointGroupKey),
    /// Policy.
    Policy(PolicyKey),
    /// Host name of gateways.
    GatewayName(Arc<str>),
}

/// Identity of a fact within its registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct FactKey {
    /// Scope that reports it.
    pub scope: Scope,
    /// Identity within the scope.
    pub item: FactId,
}

impl FactKey {
    /// Returns the collection that contains it.
    #[must_use]
    pub fn collection(&self) -> Collection {
        Collection { scope: self.scope.clone(), kind: self.item.kind() }
    }
}

/// Fact: a key with its value. The types do not allow a mismatch of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Declaration of a service.
    Service(DeclKey, Arc<Declaration>),
    /// Endpoints that one object lists for one declaration.
    Group(EndpointGroupKey, Arc<EndpointGroup>),
    /// Workloads.
    Workload(WorkloadKey, Arc<Workload>),
    /// Gateway into a network.
    Gateway(GatewayKey, Arc<Gateway>),
    /// Mesh-wide values.
    Settings(Arc<Settings>),
    /// Federated service.
    FederatedService(Hostname, Arc<FederatedService>),
    /// Addresses of a group that wait for another object.
    Waiting(EndpointGroupKey, Arc<[WaitingAddress]>),
    /// Policy with its source object.
    Policy(PolicyKey, Arc<DeclaredPolicy>),
    /// Addresses of a host name of gateways.
    GatewayName(Arc<str>, Arc<ResolvedName>),
}

impl Fact {
    /// Returns its identity within its scope.
    #[must_use]
    pub fn item(&self) -> FactId {
        match self {
            Self::Service(key, _) => FactId::Service(key.clone()),
            Self::Group(key, _) => FactId::Group(key.clone()),
            Self::Workload(key, _) => FactId::Workload(key.clone()),
            Self::Gateway(key, _) => FactId::Gateway(key.clone()),
            Self::Settings(_) => FactId::Settings,
            Self::FederatedService(host, _) => FactId::FederatedService(host.clone()),
            Self::Waiting(key, _) => FactId::Waiting(key.clone()),
            Self::Policy(key, _) => FactId::Policy(key.clone()),
            Self::GatewayName(name, _) => FactId::GatewayName(Arc::clone(name)),
        }
    }
    /// Returns the source object, if the fact has one. A complete list does not remove the fact while that
    /// object has an open problem.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Service(key, _) => Some(&key.object),
            Self::Group(key, _) | Self::Waiting(key, _) => Some(&key.object),
            Self::Gateway(key, _) => Some(&key.object),
            other => other.source().map(|source| &source.object),
        }
    }
    /// Returns the provenance of its value, if it has one.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        match self {
            Self::Service(_, declaration) => Some(&declaration.source),
            Self::Group(_, group) => Some(&group.source),
            Self::Workload(_, workload) => Some(&workload.source),
            Self::Gateway(_, gateway) => Some(&gateway.source),
            Self::Policy(_, declared) => Some(&declared.source),
            Self::Settings(_) | Self::FederatedService(..) | Self::Waiting(..) | Self::GatewayName(..) => {
                None
            }
        }
    }
    /// Returns whether it is equal to an earlier value and its object is where it was.
    #[must_use]
    pub fn is_unchanged(&self, earlier: &Self) -> bool {
        let places = self.source().zip(earlier.source());
        self == earlier && places.is_none_or(|(now, before)| now.is_at(before))
    }
}

/// Whether parts missing from a value are really gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The source reported exactly this value.
    Authoritative,
    /// Derived from an answer that may be incomplete; with the reason.
    PossiblyPartial(Arc<str>),
    /// Derived from an answer that is known to be incomplete or old: additions apply, removals are
    /// held. With the reason.
    KnownPartial(Arc<str>),
}

/// How much of a collection a list contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completeness {
    /// All of it: facts missing from the list are removed.
    Complete,
    /// The part that the credential may see; removes nothing.
    Filtered,
    /// The readable part; removes nothing.
    Partial,
    /// Every object that could be identified. Facts that the list lacks may belong to an invalid document: they stay, and
    /// do not make the others stale.
    ExceptInvalid,
}

/// Update that an adapter reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryUpdate {
    /// Collections that a run follows; replaces the previous value. Sent before any fact.
    Follows {
        /// Collections that need a result before the run's facts count as complete.
        required: Vec<Collection>,
        /// Collections that are not waited for.
        optional: Vec<Collection>,
    },
    /// The collection cannot be read now. Ends the wait for it without evidence: its facts stay,
    /// stale, until a list succeeds.
    Withheld(Collection, Withheld),
    /// A whole scope has ended. Absence from a list of scopes is not sufficient evidence.
    End(Scope, EndEvidence),
    /// Identity of the source, such as a cluster's UID. Sent before any fact, if the source has one.
    Identity(Fingerprint),
    /// The adapter has no state for this collection and lists it from the start.
    ListStarted(Collection),
    /// Current value of a fact.
    Put(Scope, Fact, Basis),
    /// Removal of a fact, with evidence.
    Remove(FactKey, Evidence),
    /// The list of the collection ended.
    ListEnded(Collection, Completeness),
    /// The source confirmed that the collection is current.
    Progress(Collection),
    /// An object of a scope is invalid, or (with `None`) valid again.
    Problem(Scope, ObjectRef, Option<Problem>),
    /// Status of the source of a scope.
    Status(Scope, SourceStatus),
    /// All objects that the registry excludes from a scope; replaces the previous list.
    Excluded(Scope, Arc<[ExcludedObject]>),
}

/// Update with its origin and time, as the update channel stamps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped<T> {
    /// Registry that reports it.
    pub registry: RegistryName,
    /// Run that reports it.
    pub generation: Generation,
    /// Time of observation.
    pub at: Mono,
    /// Stamped value.
    pub value: T,
}

/// Request to confirm a fact with its source. No task waits; the answer arrives as an ordinary update.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfirmRequest {
    /// Registry to request from.
    pub registry: RegistryName,
    /// Run that reports it.
    pub generation: Generation,
    /// Fact whose removal, or smaller number of addresses, needs confirmation.
    pub confirm: FactKey,
}
