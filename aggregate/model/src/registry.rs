//! What the core is told of a registry when it joins.

use std::sync::Arc;

use crate::id::RegistryId;

/// A registry as the core knows it, whatever runs it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RegistrySpec {
    /// Its name, provider and cluster.
    pub id: Arc<RegistryId>,
    /// Its place among registries of one provider: the config cluster is 0, every other is 1.
    pub rank: u16,
    /// Whether it answers when it is asked to confirm a removal. Only then does the core doubt an
    /// absence; of any other registry it takes every word at once.
    pub can_confirm: bool,
}
