//! Which registries there should be, as whoever reads the list of them says it.
//!
//! A membership never carries a built registry: the supervisor looks the kind up in the map of
//! factories that the binary gave it, so that who discovers clusters needs to know no adapter.

use tributary_model::{InvalidName, RegistryId, RegistryName};

use crate::credential::Credential;

/// The kind of an adapter, as it is written after `--registry`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(RegistryName);

impl Kind {
    /// Letters, digits, `-`, `.` and `_`, at most 63.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        RegistryName::new(text).map(Self)
    }
    /// The kind as text.
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

/// A change of which registries there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// One more.
    Join(RegistryId, Kind, Credential),
    /// The same registry with another credential or configuration: the new run fills a shadow
    /// while the old one serves.
    Rotate(RegistryId, Kind, Credential),
    /// One fewer: it is stopped and, since somebody took it off the list, what it said is withdrawn.
    Leave(RegistryName),
}

impl Membership {
    /// Whom it is about.
    #[must_use]
    pub const fn name(&self) -> &RegistryName {
        match self {
            Self::Join(id, ..) | Self::Rotate(id, ..) => &id.name,
            Self::Leave(name) => name,
        }
    }
}
