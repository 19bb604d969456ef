//! Workloads: selectable as endpoints, and matched with connected clients.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use crate::address::Topology;
use crate::declaration::ServiceKey;
use crate::health::Health;
use crate::id::{ClusterId, Identity, Namespace};
use crate::labels::Labels;
use crate::object::Source;
use crate::port::{PortName, PortNumber};

/// Kind of workload. Pods sort before entries (`docs/reference/service-entry.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum WorkloadKind {
    /// Kubernetes pod.
    Pod,
    /// WorkloadEntry.
    Entry,
    /// Instance of another provider.
    Instance,
}

/// Identity of a workload. It includes cluster and kind: pods with equal names in two clusters, or a
/// pod and an entry with equal names, are different workloads. One pointer wide, because the ledger,
/// the state and the catalog each hold it once per workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct WorkloadKey(Arc<WorkloadName>);

impl Deref for WorkloadKey {
    type Target = WorkloadName;
    fn deref(&self) -> &WorkloadName {
        &self.0
    }
}
impl From<WorkloadName> for WorkloadKey {
    fn from(name: WorkloadName) -> Self {
        Self(Arc::new(name))
    }
}

/// Fields of a [`WorkloadKey`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct WorkloadName {
    /// Namespace.
    pub namespace: Namespace,
    /// Kind.
    pub kind: WorkloadKind,
    /// Name.
    pub name: Arc<str>,
    /// Cluster.
    pub cluster: ClusterId,
}

/// Address of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum WorkloadAddress {
    /// IP address.
    Ip(IpAddr),
    /// DNS name.
    Name(Arc<str>),
    /// Unix socket path.
    Unix(Arc<str>),
}

/// Pod, WorkloadEntry or instance.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Workload {
    /// Provenance.
    pub source: Source,
    /// Addresses, the canonical one first.
    pub addresses: Arc<[WorkloadAddress]>,
    /// Named ports, sorted by name.
    pub ports: Arc<[(PortName, PortNumber)]>,
    /// Own labels.
    pub labels: Labels,
    /// Own labels with topology labels added (`docs/explanation/model.md`).
    pub augmented: Labels,
    /// Location.
    pub topology: Arc<Topology>,
    /// Identity that its certificate proves.
    pub identity: Option<Identity>,
    /// Name of its service account; empty if unknown.
    pub account: Arc<str>,
    /// Health.
    pub health: Health,
    /// Whether it accepts mesh TLS.
    pub mtls: bool,
    /// Weight.
    pub weight: u32,
    /// Display name (such as the name of its Deployment).
    pub name: Arc<str>,
    /// Services whose own endpoint lists contain it, sorted. The core adds services that select it.
    pub listed: Arc<[ServiceKey]>,
}

impl Workload {
    /// Creates a healthy workload with default values.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self {
            source,
            addresses: Arc::default(),
            ports: Arc::default(),
            labels: Labels::default(),
            augmented: Labels::default(),
            topology: Arc::default(),
            identity: None,
            account: Arc::default(),
            health: Health::Healthy,
            mtls: false,
            weight: 1,
            name: Arc::default(),
            listed: Arc::default(),
        }
    }
    /// Whether its address is a name or a unix path. Only DNS services can select such a workload.
    #[must_use]
    pub fn is_named(&self) -> bool {
        !matches!(self.addresses.first(), Some(WorkloadAddress::Ip(_)))
    }
    /// Returns the number of a named port.
    #[must_use]
    pub fn port(&self, name: &PortName) -> Option<PortNumber> {
        self.ports.binary_search_by(|(n, _)| n.cmp(name)).ok().map(|i| self.ports[i].1)
    }
}
