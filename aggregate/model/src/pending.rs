//! Endpoints that are not served yet, and held removals, for diagnosis.
//!
//! The core publishes them by host beside the views; `explain` and `why-not` read them. No view reads
//! them, so they never change what a client receives.

use std::sync::Arc;

use crate::endpoint_group::{EndpointGroup, WaitingAddress};
use crate::id::Namespace;
use crate::object::{ObjectId, ObjectRef};
use crate::time::Mono;
use crate::update::CollectionKind;
use crate::view::ShardRef;

/// Pending part of one source object's report about a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Shard that reports it.
    pub shard: Arc<ShardRef>,
    /// Namespace of the service. Its host is the key in [`Catalog::pending`].
    ///
    /// [`Catalog::pending`]: crate::Catalog::pending
    pub namespace: Namespace,
    /// Source object.
    pub object: ObjectRef,
    /// Cause of the wait.
    pub cause: PendingCause,
    /// Start of the wait. It stays the same while addresses of the object change.
    pub since: Mono,
}

/// Cause of a pending endpoint or removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingCause {
    /// The server waits for the objects behind these addresses.
    Objects(Arc<[WaitingAddress]>),
    /// The server waits for the declaration of this group.
    Declaration(ObjectId, Arc<EndpointGroup>),
    /// The server still serves a fact of this kind that its source no longer lists; with the reason.
    Held(CollectionKind, &'static str),
}

impl PendingCause {
    /// Distinguishes causes of one object: index of the kind of cause, and the declaration.
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
    /// Identity and sort key among the pending entries of a host.
    #[must_use]
    pub fn key(&self) -> impl Ord + '_ {
        let ShardRef { registry, scope } = &*self.shard;
        (&registry.name, scope, &self.namespace, &self.object.id, self.cause.rank())
    }
}
