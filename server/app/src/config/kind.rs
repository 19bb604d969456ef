//! Kinds of registry: those that this version has, and others that a binary registers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tributary_consul::config::ConsulFields;
use tributary_kubernetes::KubernetesFields;
use tributary_service_entry::FileFields;

use super::field_names::field_names;

/// Fields of a registry of any kind.
pub const COMMON_FIELDS: &[&str] = &["kind", "name", "clusterId", "staleness"];

/// Kind of registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum RegistryKind {
    /// Directory of ServiceEntry, WorkloadEntry, WorkloadGroup, Sidecar, DestinationRule, VirtualService, EnvoyFilter,
    /// Gateway, PeerAuthentication, AuthorizationPolicy and RequestAuthentication documents.
    #[default]
    File,
    /// Kubernetes cluster: its Services with their endpoints, and its ServiceEntries, WorkloadEntries and
    /// WorkloadGroups if these kinds are installed.
    Kubernetes,
    /// Consul: the services of its catalog with their instances.
    Consul,
    /// Kind of that name, which the binary must have registered; `check` rejects others.
    #[schemars(skip)]
    Registered(Arc<str>),
}

impl RegistryKind {
    /// Every kind that this version has.
    pub const ALL: &'static [Self] = &[Self::File, Self::Kubernetes, Self::Consul];

    /// Name in flags and files.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::File => "file",
            Self::Kubernetes => "kubernetes",
            Self::Consul => "consul",
            Self::Registered(name) => name,
        }
    }
    /// Whether registries of this kind have a field of this name, beside the fields of every kind. The fields of
    /// a registered kind are not known here.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.fields().contains(&field)
    }
    /// Returns the first kind that has a field of this name.
    #[must_use]
    pub fn with_field(field: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|kind| kind.has(field))
    }
    /// Returns every field of a registry of this kind.
    #[must_use]
    pub fn known_fields(&self) -> &'static [&'static str] {
        static KNOWN: LazyLock<BTreeMap<RegistryKind, Vec<&'static str>>> = LazyLock::new(|| {
            let all = |kind: &RegistryKind| [COMMON_FIELDS, kind.fields()].concat();
            RegistryKind::ALL.iter().map(|kind| (kind.clone(), all(kind))).collect()
        });
        KNOWN.get(self).map_or(COMMON_FIELDS, Vec::as_slice)
    }
    fn fields(&self) -> &'static [&'static str] {
        match self {
            Self::File => field_names::<FileFields>(),
            Self::Kubernetes => field_names::<KubernetesFields>(),
            Self::Consul => field_names::<ConsulFields>(),
            Self::Registered(_) => &[],
        }
    }
}

impl From<&str> for RegistryKind {
    fn from(text: &str) -> Self {
        let own = Self::ALL.iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text));
        own.cloned().unwrap_or_else(|| Self::Registered(text.into()))
    }
}

impl Serialize for RegistryKind {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RegistryKind {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(|text| Self::from(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_read_in_any_case() {
        assert_eq!(RegistryKind::from("file"), RegistryKind::File);
        assert_eq!(RegistryKind::from("Kubernetes"), RegistryKind::Kubernetes, "as Istio writes it");
        assert_eq!(RegistryKind::from("files").as_str(), "files");
    }
}
