//! Names by which services of different providers may be merged.
//!
//! Adapters set one on each declaration whose service may be merged by name; the core merges by it and parses no host.

use std::sync::Arc;

use crate::hostname::Hostname;

/// Name of a declared service for merges by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct MergeName {
    /// Name. Services with equal names may be merged, case-sensitively.
    pub name: Arc<str>,
    /// Role of the service in a merge.
    pub side: MergeSide,
    /// Host of the service. An object's other hosts share its declaration and take no part in merges.
    pub host: Hostname,
}

/// Role of a service in a merge by name. A merge has exactly one service on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum MergeSide {
    /// The merge is served under its host: a cluster's own service.
    Base,
    /// Its endpoints join the host of the base; its own host stays as it is.
    Joining,
}

impl MergeName {
    /// Returns the name of a service whose host serves the merge.
    #[must_use]
    pub const fn base(name: Arc<str>, host: Hostname) -> Self {
        Self { name, side: MergeSide::Base, host }
    }
    /// Returns the name of a service that joins a base.
    #[must_use]
    pub const fn joining(name: Arc<str>, host: Hostname) -> Self {
        Self { name, side: MergeSide::Joining, host }
    }
}
