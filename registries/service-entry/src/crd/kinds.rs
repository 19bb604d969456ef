//! The kinds that are watched in a cluster, and their scopes.

use tributary_kube_client::Resource;
use tributary_model::{InvalidName, Namespace, Scope};

use crate::document::{API_GROUP, API_VERSIONS, SERVICE_ENTRY, SIDECAR, WORKLOAD_ENTRY, WORKLOAD_GROUP};

/// The kinds of a cluster to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kinds {
    /// ServiceEntry, WorkloadEntry, WorkloadGroup and Sidecar: for the config cluster.
    #[default]
    All,
    /// WorkloadEntry alone: for a remote cluster, whose Services may select them.
    WorkloadEntries,
}

/// The ServiceEntry resource.
pub(crate) const SERVICE_ENTRIES: Resource = Resource {
    group: std::borrow::Cow::Borrowed(API_GROUP),
    versions: &API_VERSIONS,
    plural: "serviceentries",
    kind: SERVICE_ENTRY,
    namespaced: true,
    optional: true,
};
/// The WorkloadEntry resource.
pub(crate) const WORKLOAD_ENTRIES: Resource =
    Resource { plural: "workloadentries", kind: WORKLOAD_ENTRY, ..SERVICE_ENTRIES };
/// The WorkloadGroup resource.
pub(crate) const WORKLOAD_GROUPS: Resource =
    Resource { plural: "workloadgroups", kind: WORKLOAD_GROUP, ..SERVICE_ENTRIES };

/// The Sidecar resource.
pub(crate) const SIDECARS: Resource = Resource { plural: "sidecars", kind: SIDECAR, ..SERVICE_ENTRIES };

/// Whether a scope holds the Sidecars of a cluster. Where they cannot be read, it is unknown which clients they restrict.
pub(crate) fn is_of_sidecars(scope: &Scope) -> bool {
    scope.as_str().split('/').next() == Some(SIDECARS.plural)
}

impl Kinds {
    /// The resources to watch.
    pub(crate) fn resources(self) -> &'static [Resource] {
        const ALL: [Resource; 4] = [SERVICE_ENTRIES, WORKLOAD_ENTRIES, WORKLOAD_GROUPS, SIDECARS];
        const ENTRIES: [Resource; 1] = [WORKLOAD_ENTRIES];
        match self {
            Self::All => &ALL,
            Self::WorkloadEntries => &ENTRIES,
        }
    }
}

/// The scope of a kind, per namespace if namespaces are configured. No fact joins objects of two
/// kinds, so a kind that cannot be read leaves the others complete.
pub(crate) fn scope(resource: &Resource, namespace: Option<&Namespace>) -> Result<Scope, InvalidName> {
    match namespace {
        Some(namespace) => Scope::new(format!("{}/{namespace}", resource.plural)),
        None => Scope::new(resource.plural),
    }
}
