//! Changes of the list of registries.
//!
//! A membership change carries no built registry: the supervisor looks the kind up in the factories of
//! the binary, so components that discover clusters do not depend on adapters.

use tributary_model::{InvalidName, RegistryId, RegistryName};

use crate::credential::Credential;

/// Kind of adapter, as written after `--registry`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(RegistryName);

impl Kind {
    /// Checks the text: letters, digits, `-`, `.` and `_`, at most 63 characters.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        RegistryName::new(text).map(Self)
    }
    /// Kind as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Change of the list of registries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// A new registry.
    Join(RegistryId, Kind, Credential),
    /// The same registry with a changed credential or configuration: the new run fills a shadow
    /// while the previous run serves.
    Rotate(RegistryId, Kind, Credential),
    /// A removed registry: its run stops and its facts are withdrawn.
    Leave(RegistryName),
}

impl Membership {
    /// Returns the name of the registry concerned.
    #[must_use]
    pub const fn name(&self) -> &RegistryName {
        match self {
            Self::Join(id, ..) | Self::Rotate(id, ..) => &id.name,
            Self::Leave(name) => name,
        }
    }
}
