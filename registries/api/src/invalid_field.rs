//! Error about one field of a registry's configuration.
//!
//! Checks of a registry's own fields return it; the application adds where the field was set.

/// Field with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct InvalidField {
    /// Path of the field below the registry, such as `tls`.
    pub field: String,
    /// What is wrong, and what to do; never a secret.
    pub why: String,
}

impl InvalidField {
    /// Returns an error about a field.
    #[must_use]
    pub fn new(field: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { field: field.into(), why: why.to_string() }
    }
}
