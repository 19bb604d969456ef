//! Services that have one name in a cluster and in a Consul, and what becomes of them.
//!
//! Found by the core while the settings ask for it, published with the catalog, shown by whoever lists them.

use std::sync::Arc;

use crate::declaration::ServiceKey;
use crate::id::RegistryName;
use crate::port::PortNumber;
use crate::protocol::Protocol;

/// What is done with services of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum MergeByName {
    /// Nothing; they are not even looked for.
    #[default]
    Off,
    /// They are shown, with what stands against joining them.
    Report,
    /// They are joined where nothing stands against it.
    On,
}

/// Services of one name: at least one of a cluster and one of a Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameName {
    /// The name.
    pub name: Arc<str>,
    /// The services, the cluster's first.
    pub services: Arc<[NamedService]>,
    /// What becomes of them.
    pub outcome: NameOutcome,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedService {
    /// The service.
    pub key: ServiceKey,
    /// Who declares it, sorted.
    pub registries: Arc<[RegistryName]>,
    /// Its ports and what they speak, by number.
    pub ports: Arc<[(PortNumber, Protocol)]>,
}

/// What becomes of services of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameOutcome {
    /// They are served as one, under the cluster's host.
    Merged,
    /// They could be.
    Possible,
    /// They cannot be.
    Apart {
        /// The kind of reason.
        why: SeparateReason,
        /// The reason, in words.
        message: Arc<str>,
    },
}

/// Why services of one name stay apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeparateReason {
    /// There are several in the cluster, or several in Consul: which is meant only a person knows.
    Ambiguous,
    /// An alias names one of them already.
    Aliased,
    /// Somebody else declares one of the hosts too, and would be served no more.
    Contested,
    /// One is resolved through DNS, or cannot be joined for another reason.
    Resolution,
    /// A port of the cluster's is missing in Consul, and would be served no more.
    Ports,
    /// They disagree on what a port speaks.
    Protocol,
    /// The cluster's declarations disagree on who sees it.
    Visibility,
    /// A registry has not synced, so that more services of the name may follow.
    Unsynced,
}

impl SeparateReason {
    /// In one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ambiguous => "ambiguous",
            Self::Aliased => "aliased",
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
    /// Whether they are served as one.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        self.outcome == NameOutcome::Merged
    }
    /// Whether a service is one of them.
    #[must_use]
    pub fn has(&self, key: &ServiceKey) -> bool {
        self.services.iter().any(|service| service.key == *key)
    }
}
