//! What goes into the roster and what comes out of it: events and orders, plain data.
//!
//! The caller turns lists, watches and timers into events, and passes orders to the component that runs clusters. Orders of one call
//! are in the order of precedence of their clusters, and numbers of orders grow.

use tributary_model::{ClusterId, Mono, RegistryName};

use super::claim::{ClaimObject, Source, SourceKind};
use super::digest::Digest;
use super::policy::Policy;

/// State of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceHealth {
    /// Listed, and followed since.
    Synced,
    /// Not listed, or a new list has begun.
    Unsynced,
    /// It cannot be reached or read.
    Failed,
    /// It may not be read.
    Forbidden,
}

/// Cluster that a journal restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredCluster {
    /// Cluster.
    pub cluster: ClusterId,
    /// Kind of source that declared it; `None` if unknown, so that every source counts.
    pub source: Option<SourceKind>,
}

/// Input of the roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Every object of a source. An object that is absent declares nothing any longer; the source is synced.
    List(Source, Vec<ClaimObject>),
    /// An object was added or changed.
    Put(Source, ClaimObject),
    /// The object of this name was deleted, or lost its label.
    Delete(Source, String),
    /// The state of a source changed. It removes nothing; `Synced` counts only after a list.
    Health(Source, SourceHealth),
    /// Clusters whose facts a journal restored.
    Restored(Vec<RestoredCluster>),
    /// The cluster of the Leave with this number is gone, its facts withdrawn and its connections closed.
    Receipt(ClusterId, u64),
    /// Time passed; see [`super::Roster::next_due`].
    Tick,
}

/// Claim that an order rests on. The caller has the credential of that object and cluster; its digest must be this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Source of the claim. Credentials of the configuration file are the operator's own; all others are vetted.
    pub source: Source,
    /// Name of the object.
    pub object: String,
    /// Digest of the credential.
    pub digest: Digest,
    /// Policy of the claim when the order was given; the status has the current one.
    pub policy: Policy,
}

/// What to do with a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open the cluster's first connection.
    Join(Access),
    /// Replace its connection, or open one after a pause. The old one serves until the new one has taken over.
    Rotate(Access),
    /// Close its connection and keep its facts.
    Pause,
    /// Demote its facts, ask [`super::Roster::withdraw`], withdraw them, close its connection, and report a receipt.
    Leave,
}

/// Order about one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Number; later orders have larger ones.
    pub number: u64,
    /// Cluster.
    pub cluster: ClusterId,
    /// Name of its registry.
    pub registry: RegistryName,
    /// What to do.
    pub action: Action,
}

/// State of a cluster in the roster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not declared, or declared to be removed; nothing is served.
    Absent,
    /// Every claim is refused; nothing is served.
    Refused,
    /// A journal restored its facts; no claim was accepted since.
    Restored,
    /// A connection was ordered and stands, with the last accepted credential.
    Joined,
    /// Its connection is closed; its facts stay.
    Paused,
    /// No longer declared; it leaves when the grace is over.
    Grace {
        /// Start of the grace.
        since: Mono,
        /// True if so many clusters vanished that the long grace applies.
        is_long: bool,
    },
    /// A Leave was ordered.
    Leaving {
        /// True once the withdrawal began; claims then wait for the receipt.
        is_withdrawn: bool,
    },
}
