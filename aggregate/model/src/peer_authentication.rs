//! Modes of mesh TLS of inbound connections.

use std::fmt;

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
