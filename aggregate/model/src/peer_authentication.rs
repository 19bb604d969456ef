//! PeerAuthentication: which connections workloads accept.
//!
//! Adapters build these values from `security.istio.io` PeerAuthentications after validation; [`PeerScopes`](crate::peer_modes)
//! computes the mode of each port of a workload from the policies that apply to it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::labels::Labels;
use crate::port::PortNumber;

/// Connections that workloads accept.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct PeerAuthentication {
    /// Labels of the workloads that it selects; empty for all workloads of its namespace, or of the mesh if that is the
    /// root namespace.
    pub selector: Labels,
    /// Mode of every port; inherited if absent.
    pub mode: Option<MtlsMode>,
    /// Modes of single ports of the workloads; that of the workload if absent. Empty without a selector.
    pub ports: BTreeMap<PortNumber, Option<MtlsMode>>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

impl PeerAuthentication {
    /// Whether it makes ports accept no mesh TLS.
    #[must_use]
    pub fn disables(&self) -> bool {
        let ports = self.ports.values().copied();
        std::iter::once(self.mode).chain(ports).any(|mode| mode == Some(MtlsMode::Disable))
    }
}

impl AsRef<Self> for PeerAuthentication {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Connections that a port accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum MtlsMode {
    /// Plain ones, and those of TLS that the application ends itself.
    Disable,
    /// Plain ones and those of the mesh's TLS.
    Permissive,
    /// Those of the mesh's TLS.
    Strict,
}

impl MtlsMode {
    /// Mode of a port without a policy.
    pub const DEFAULT: Self = Self::Permissive;
    /// Every mode by its name in documents.
    pub const NAMES: &[(&str, Self)] =
        &[("DISABLE", Self::Disable), ("PERMISSIVE", Self::Permissive), ("STRICT", Self::Strict)];

    /// Name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "DISABLE",
            Self::Permissive => "PERMISSIVE",
            Self::Strict => "STRICT",
        }
    }
}
impl fmt::Display for MtlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_the_names_of_documents() {
        for (name, mode) in MtlsMode::NAMES {
            assert_eq!(mode.to_string(), *name);
        }
        assert_eq!(MtlsMode::NAMES.len(), 3);
    }
}
