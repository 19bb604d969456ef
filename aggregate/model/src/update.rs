//! What adapters say, and what they are asked.
//!
//! Deltas are state, not operations: "this fact is now so". They are idempotent, may be conflated
//! per key and replayed. The inlet stamps them with registry, generation and time.

use std::sync::Arc;

use crate::declaration::{DeclKey, Declaration};
use crate::endpoint_group::{EndpointGroup, EndpointGroupKey, WaitingAddress};
use crate::evidence::{EndEvidence, Evidence};
use crate::excluded_object::ExcludedObject;
use crate::gateway::{Gateway, GatewayKey};
use crate::hostname::Hostname;
use crate::id::{Fingerprint, Generation, RegistryName, Scope};
use crate::object::{ObjectId, ObjectRef};
use crate::settings::{FederatedService, Settings};
use crate::status::{Problem, SourceStatus, Withheld};
use crate::time::Mono;
use crate::workload::{Workload, WorkloadKey};

/// A class of output facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum CollectionKind {
    /// Declarations of services.
    Services,
    /// Their endpoints.
    Groups,
    /// What can be selected.
    Workloads,
    /// Ways into networks.
    Gateways,
    /// Mesh-wide values and aliases.
    Settings,
}

impl CollectionKind {
    /// Every kind, in the order of [`CollectionKind::index`].
    pub const ALL: [Self; 5] =
        [Self::Services, Self::Groups, Self::Workloads, Self::Gateways, Self::Settings];

    /// Position in [`CollectionKind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl FactId {
    /// The kind of facts that it belongs to.
    #[must_use]
    pub const fn kind(&self) -> CollectionKind {
        match self {
            Self::Service(_) => CollectionKind::Services,
            Self::Group(_) | Self::Waiting(_) => CollectionKind::Groups,
            Self::Workload(_) => CollectionKind::Workloads,
            Self::Gateway(_) => CollectionKind::Gateways,
            Self::Settings | Self::Alias(_) => CollectionKind::Settings,
        }
    }
}

/// The facts of one kind of one scope; it is synced when every input that its conversion joins has
/// listed completely.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Collection {
    /// The part of the registry that fails as one.
    pub scope: Scope,
    /// The kind of facts.
    pub kind: CollectionKind,
}

/// What identifies a fact within its registry and scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum FactId {
    /// A declaration.
    Service(DeclKey),
    /// Endpoints.
    Group(EndpointGroupKey),
    /// A workload.
    Workload(WorkloadKey),
    /// A gateway address.
    Gateway(GatewayKey),
    /// The mesh-wide values.
    Settings,
    /// A joined name.
    Alias(Hostname),
    /// Addresses that are not served yet.
    Waiting(EndpointGroupKey),
}

/// What identifies a fact within its registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct FactKey {
    /// The scope that says it.
    pub scope: Scope,
    /// The fact.
    pub item: FactId,
}

impl FactKey {
    /// The collection that holds it.
    #[must_use]
    pub fn collection(&self) -> Collection {
        Collection { scope: self.scope.clone(), kind: self.item.kind() }
    }
}

/// A key with its value: a mismatch of the two cannot be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// One declaration of a service.
    Service(DeclKey, Arc<Declaration>),
    /// The endpoints that one object gives one declaration.
    Group(EndpointGroupKey, Arc<EndpointGroup>),
    /// What can be selected.
    Workload(WorkloadKey, Arc<Workload>),
    /// A way into a network.
    Gateway(GatewayKey, Arc<Gateway>),
    /// Mesh-wide values.
    Settings(Arc<Settings>),
    /// A joined name.
    Alias(Hostname, Arc<FederatedService>),
    /// Addresses that a group lists and that wait for another object.
    Waiting(EndpointGroupKey, Arc<[WaitingAddress]>),
}

impl Fact {
    /// What identifies it within its scope.
    #[must_use]
    pub fn item(&self) -> FactId {
        match self {
            Self::Service(key, _) => FactId::Service(key.clone()),
            Self::Group(key, _) => FactId::Group(key.clone()),
            Self::Workload(key, _) => FactId::Workload(key.clone()),
            Self::Gateway(key, _) => FactId::Gateway(key.clone()),
            Self::Settings(_) => FactId::Settings,
            Self::Alias(host, _) => FactId::Alias(host.clone()),
            Self::Waiting(key, _) => FactId::Waiting(key.clone()),
        }
    }
    /// The source object, where the fact has one: a sweep spares it while that object has an open
    /// problem.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Service(key, _) => Some(&key.object),
            Self::Group(key, _) | Self::Waiting(key, _) => Some(&key.object),
            Self::Workload(_, workload) => Some(&workload.source.object),
            Self::Gateway(key, _) => Some(&key.object),
            Self::Settings(_) | Self::Alias(..) => None,
        }
    }
}

/// Whether what is missing from a value is really gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The source said exactly this.
    Authoritative,
    /// Derived from an answer that may be short; the reason, for people.
    PossiblyPartial(Arc<str>),
    /// Derived from an answer that is known to be short, or old: what it adds is so, and whatever it
    /// lacks is held. The reason, for people.
    KnownPartial(Arc<str>),
}

/// How much of a collection a list held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completeness {
    /// All of it: what it did not hold is gone.
    Complete,
    /// What the credential may see; sweeps nothing.
    Filtered,
    /// What could be read; sweeps nothing.
    Partial,
}

/// What an adapter says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryUpdate {
    /// The collections that a run follows; replaces the previous value. Sent before any fact.
    Follows {
        /// Collections that must have a result before the run's facts count as all.
        required: Vec<Collection>,
        /// Collections that nothing waits for.
        optional: Vec<Collection>,
    },
    /// The collection cannot be read now. Ends the wait for it and proves nothing: its facts stay,
    /// stale, until a list succeeds.
    Withheld(Collection, Withheld),
    /// A whole scope is gone. Absence from a listing of scopes never is such a proof.
    End(Scope, EndEvidence),
    /// Identity of the source, such as a cluster's UID; sent before any fact, by sources that have one.
    Identity(Fingerprint),
    /// The adapter has no state for this collection and lists it from the start.
    ListStarted(Collection),
    /// This fact is now so.
    Put(Scope, Fact, Basis),
    /// This fact is no more, for this reason.
    Remove(FactKey, Evidence),
    /// A list of the collection ended.
    ListEnded(Collection, Completeness),
    /// The source confirmed that the collection is followed.
    Progress(Collection),
    /// An object of a scope is bad, or (with `None`) good again.
    Problem(Scope, ObjectRef, Option<Problem>),
    /// How the source of a scope is doing.
    Status(Scope, SourceStatus),
    /// All that a scope's source has and that is left out on purpose; replaces what was said before.
    Excluded(Scope, Arc<[ExcludedObject]>),
}

/// A delta with what the inlet knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped<T> {
    /// Who says it.
    pub registry: RegistryName,
    /// In which run.
    pub generation: Generation,
    /// When it was observed.
    pub at: Mono,
    /// What is said.
    pub value: T,
}

/// A question to a source that nobody waits for; its answer comes in as an ordinary fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfirmRequest {
    /// Whom to ask.
    pub registry: RegistryName,
    /// In which run.
    pub generation: Generation,
    /// Whether this is really gone, or really has so few addresses.
    pub confirm: FactKey,
}
