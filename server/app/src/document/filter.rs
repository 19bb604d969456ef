//! Which items a list holds: the query of `/debug`, bounded.

use serde::Deserialize;

/// What a list is narrowed to. An absent part takes all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// The name: a host, an address, a client's id, a registry's name.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The registry.
    pub registry: Option<String>,
    /// How many items at most; never more than [`Filter::MAX`].
    pub limit: Option<usize>,
    /// Wait until the catalog is past this generation, or some seconds.
    pub after: Option<u64>,
}

impl Filter {
    /// The most items that one list holds.
    pub const MAX: usize = 50_000;
    /// The longest text that is taken for a filter.
    pub const MAX_TEXT: usize = 2_048;

    /// How many items the list may hold.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(Self::MAX).min(Self::MAX)
    }
    /// Whether no part is longer than it may be.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let parts = [&self.name, &self.namespace, &self.host, &self.registry];
        parts.into_iter().flatten().all(|text| text.len() <= Self::MAX_TEXT)
    }
    /// Whether an item of this namespace is wanted.
    #[must_use]
    pub fn takes_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }
    /// Whether an item of this host is wanted.
    #[must_use]
    pub fn takes_host(&self, host: &str) -> bool {
        self.host.as_deref().is_none_or(|wanted| same_host(wanted, host))
    }
    /// Whether an item of this registry is wanted.
    #[must_use]
    pub fn takes_registry(&self, registry: &str) -> bool {
        self.registry.as_deref().is_none_or(|wanted| wanted == registry)
    }
    /// Whether an item of this name is wanted.
    #[must_use]
    pub fn takes_name(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
    }
}

/// Hosts are compared as DNS names are.
pub fn same_host(wanted: &str, host: &str) -> bool {
    wanted.strip_suffix('.').unwrap_or(wanted).eq_ignore_ascii_case(host)
}
