//! Services with the same name in a cluster and in Consul, and whether they are merged.
//!
//! The core finds them if the settings enable it and publishes them with the catalog; `get merges` lists them.

use std::sync::Arc;

use crate::declaration::ServiceKey;
use crate::id::RegistryName;
use crate::port::PortNumber;
use crate::protocol::Protocol;

/// What the core does with services of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum MergeByName {
    /// Does not look for them.
    #[default]
    Off,
    /// Reports them, with the reason against a merge.
    Report,
    /// Merges them unless a reason prevents it.
    On,
}

/// Services of the same name: at least one of a cluster and one of Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameName {
    /// Name.
    pub name: Arc<str>,
    /// Services, the cluster's first.
    pub services: Arc<[NamedService]>,
    /// Whether they are merged.
    pub outcome: NameOutcome,
}

/// One service of a [`SameName`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedService {
    /// Service.
    pub key: ServiceKey,
    /// Registries that declare it, sorted.
    pub registries: Arc<[RegistryName]>,
    /// Ports and their protocols, sorted by number.
    pub ports: Arc<[(PortNumber, Protocol)]>,
}

/// Whether services of the same name are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameOutcome {
    /// Served as one service, under the cluster's host.
    Merged,
    /// They could be merged, but the settings only report them.
    Possible,
    /// They stay separate.
    Separate {
        /// Kind of reason.
        why: SeparateReason,
        /// Reason as text.
        message: Arc<str>,
    },
}

/// Why services of the same name stay separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeparateReason {
    /// Several services of the cluster, or of Consul, have the name; an operator must choose.
    Ambiguous,
    /// A configured federated service already contains one of them.
    Federated,
    /// Another registry also declares one of the hosts, and a merge would hide it.
    Contested,
    /// One is resolved through DNS, or cannot be a member for another reason.
    Resolution,
    /// Consul lacks a port of the cluster's service, and a merge would hide that port.
    Ports,
    /// They disagree on the protocol of a port.
    Protocol,
    /// The cluster's declarations disagree on visibility.
    Visibility,
    /// A registry has not synced and may still report services of the name.
    Unsynced,
}

impl SeparateReason {
    /// Short name, for JSON and columns.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ambiguous => "ambiguous",
            Self::Federated => "federated",
            Self::Contested => "contested",
            Self::Resolution => "resolution",
            Self::Ports => "ports",
            Self::Protocol => "protocol",
            Self::Visibility => "visibility",
            Self::Unsynced => "unsynced",
        }
    }
}

impl SameName {
    /// Whether they are served as one service.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        self.outcome == NameOutcome::Merged
    }
    /// Whether the service is one of them.
    #[must_use]
    pub fn has(&self, key: &ServiceKey) -> bool {
        self.services.iter().any(|service| service.key == *key)
    }
}
