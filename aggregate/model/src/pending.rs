//! Endpoints that are not served yet, and removals that are held: what a person asks about.
//!
//! Published by the core beside the views, by host; read by `explain` and `why-not`. No view reads
//! it, so that it never changes what a client gets.

use std::sync::Arc;

use crate::endpoint_group::{EndpointGroup, WaitingAddress};
use crate::id::Namespace;
use crate::object::{ObjectId, ObjectRef};
use crate::time::Mono;
use crate::update::CollectionKind;
use crate::view::ShardRef;

/// What one source object reports about a host and what is not decided by it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Who reports it.
    pub shard: Arc<ShardRef>,
    /// Namespace of the service; its host is the key in the catalog.
    pub namespace: Namespace,
    /// The source object.
    pub object: ObjectRef,
    /// What it waits for.
    pub cause: PendingCause,
    /// Since when. It stays while addresses of the same object come and go.
    pub since: Mono,
}

/// What an endpoint, or a removal, waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingCause {
    /// These addresses are not served until the objects that they name are seen.
    Objects(Arc<[WaitingAddress]>),
    /// This group is not served until its declaration is there.
    Declaration(ObjectId, Arc<EndpointGroup>),
    /// A fact of this kind is served although its source no longer lists it; the reason, for people.
    Held(CollectionKind, &'static str),
}

impl PendingCause {
    /// Distinguishes causes of one object: position of the kind of cause, and the declaration.
    #[must_use]
    pub const fn rank(&self) -> (usize, Option<&ObjectId>) {
        match self {
            Self::Objects(_) => (0, None),
            Self::Declaration(declaration, _) => (1, Some(declaration)),
            Self::Held(kind, _) => (2 + kind.index(), None),
        }
    }
}

impl Pending {
    /// What identifies it among those of a host, and orders them.
    #[must_use]
    pub fn key(&self) -> impl Ord + '_ {
        let ShardRef { registry, scope } = &*self.shard;
        (&registry.name, scope, &self.namespace, &self.object.id, self.cause.rank())
    }
}
