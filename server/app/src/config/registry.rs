//! Configuration of one registry: the fields of every kind, and those of its own kind.
//!
//! Each registry crate owns the fields of its kind. In YAML they are flat beside `kind`; `read` hands them to
//! the type of the kind, and `check` rejects a field of another kind and names that kind.

mod read;
mod schema;

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tributary_consul::config::ConsulFields;
use tributary_kubernetes::KubernetesFields;
use tributary_registry_api::InvalidField;
use tributary_service_entry::FileFields;

use super::kind::RegistryKind;
use super::staleness::Staleness;

/// Name of the configuration's own registry; reserved.
pub const CONFIG_REGISTRY: &str = "config";
/// Name of the registry of the addresses of gateways' host names; reserved.
pub const DNS_REGISTRY: &str = "gateway-names";

/// Whether the server itself is the source of the registry of this name.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    matches!(name, CONFIG_REGISTRY | DNS_REGISTRY)
}

/// One registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryConfig {
    /// Name, unique in one server; default: the kind, with a number if that name is used.
    pub name: Option<String>,
    /// Cluster of the registry; default: the server's `clusterId`, which makes a Kubernetes registry that of the config
    /// cluster. Every other cluster is remote.
    pub cluster_id: Option<String>,
    /// Policy for facts whose source is unreachable or unsynced; default `hold`.
    pub staleness: Option<Staleness>,
    /// Source, with the fields of its kind.
    pub source: Source,
    /// Names of fields that the kind does not have, or [`LOCATION`](Self::LOCATION); `check` rejects them.
    pub misplaced: Vec<String>,
}

/// Source of a registry, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Source {
    /// Directory of documents.
    File(FileFields),
    /// Kubernetes cluster.
    Kubernetes(Box<KubernetesFields>),
    /// Consul.
    Consul(Box<ConsulFields>),
    /// Source of a kind that the binary registers.
    Registered(RegisteredSource),
}

/// Source of a kind that the binary registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegisteredSource {
    /// Name of the kind.
    #[serde(skip)]
    pub kind: Arc<str>,
    /// Fields of the kind, as they are written.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Default for Source {
    fn default() -> Self {
        Self::File(FileFields::default())
    }
}

impl Source {
    /// Kind of the source.
    #[must_use]
    pub fn kind(&self) -> RegistryKind {
        match self {
            Self::File(_) => RegistryKind::File,
            Self::Kubernetes(_) => RegistryKind::Kubernetes,
            Self::Consul(_) => RegistryKind::Consul,
            Self::Registered(source) => RegistryKind::Registered(Arc::clone(&source.kind)),
        }
    }
    /// Returns a source of a kind with all fields unset.
    #[must_use]
    pub fn of_kind(kind: RegistryKind) -> Self {
        match kind {
            RegistryKind::File => Self::File(FileFields::default()),
            RegistryKind::Kubernetes => Self::Kubernetes(Box::default()),
            RegistryKind::Consul => Self::Consul(Box::default()),
            RegistryKind::Registered(kind) => Self::Registered(RegisteredSource { kind, fields: Map::new() }),
        }
    }
    /// Checks values that the types do not express. The binary checks those of the kinds that it registers.
    #[must_use]
    pub fn check(&self) -> Vec<InvalidField> {
        match self {
            Self::File(fields) => fields.check(),
            Self::Kubernetes(fields) => fields.check(),
            Self::Consul(fields) => fields.check(),
            Self::Registered(_) => Vec::new(),
        }
    }
}

impl From<Source> for RegistryConfig {
    fn from(source: Source) -> Self {
        Self { source, ..Self::default() }
    }
}

impl RegistryConfig {
    /// Suffix of the registry that serves the ServiceEntries, WorkloadEntries, WorkloadGroups, Sidecars,
    /// DestinationRules, VirtualServices, EnvoyFilters, Gateways, PeerAuthentications,
    /// AuthorizationPolicies and RequestAuthentications of a Kubernetes cluster.
    pub const ENTRIES: &'static str = "-entries";

    /// Stands for the location of a flag whose kind takes none.
    pub const LOCATION: &'static str = "=WHERE";

    /// Returns a registry of a kind with all other fields unset.
    #[must_use]
    pub fn of_kind(kind: RegistryKind) -> Self {
        Source::of_kind(kind).into()
    }
    /// Kind of the source.
    #[must_use]
    pub fn kind(&self) -> RegistryKind {
        self.source.kind()
    }
    /// Returns the fields of a Kubernetes cluster.
    #[must_use]
    pub fn kubernetes(&self) -> Option<&KubernetesFields> {
        match &self.source {
            Source::Kubernetes(fields) => Some(fields),
            _ => None,
        }
    }
    /// Returns the fields of a Kubernetes cluster for modification.
    pub fn kubernetes_mut(&mut self) -> Option<&mut KubernetesFields> {
        match &mut self.source {
            Source::Kubernetes(fields) => Some(fields),
            _ => None,
        }
    }
    /// Returns the fields of a Consul.
    #[must_use]
    pub fn consul(&self) -> Option<&ConsulFields> {
        match &self.source {
            Source::Consul(fields) => Some(fields),
            _ => None,
        }
    }
    /// Whether this reads the config cluster: the Kubernetes cluster with the server's own `clusterId`.
    #[must_use]
    pub fn is_config_cluster(&self, server: &str) -> bool {
        self.kubernetes().is_some() && self.cluster_id.as_deref().unwrap_or(server) == server
    }
    /// Names of the runtime registries: a Kubernetes cluster has two, added and removed together.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = self.name.clone().unwrap_or_else(|| self.kind().as_str().to_owned());
        match self.source {
            Source::Kubernetes(_) => vec![name.clone(), name + Self::ENTRIES],
            Source::File(_) | Source::Consul(_) | Source::Registered(_) => vec![name],
        }
    }
}

/// A registry as it is written: all fields flat.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    kind: RegistryKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staleness: &'a Option<Staleness>,
    #[serde(flatten)]
    source: &'a Source,
}

impl Serialize for RegistryConfig {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self { name, cluster_id, staleness, source, misplaced: _ } = self;
        Written { kind: source.kind(), name, cluster_id, staleness, source }.serialize(s)
    }
}
