//! What can be selected as an endpoint, and what a connected client may turn out to be.

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

/// A kind of workload. Pods sort before entries (`registries.md` 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum WorkloadKind {
    /// A Kubernetes pod.
    Pod,
    /// A WorkloadEntry.
    Entry,
    /// An instance of another provider.
    Instance,
}

/// Identifies a workload. The cluster and the kind are part of it: pods of one name in two clusters,
/// or a pod and an entry of one name, are different workloads. One pointer wide, because the ledger,
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
    /// Its namespace.
    pub namespace: Namespace,
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its name.
    pub name: Arc<str>,
    /// Its cluster.
    pub cluster: ClusterId,
}

/// Where a workload listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum WorkloadAddress {
    /// An IP address.
    Ip(IpAddr),
    /// A DNS name.
    Name(Arc<str>),
    /// A unix path.
    Unix(Arc<str>),
}

/// A pod, WorkloadEntry or instance.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Workload {
    /// Provenance.
    pub source: Source,
    /// Its addresses, the canonical one first.
    pub addresses: Arc<[WorkloadAddress]>,
    /// Its named ports, sorted by name.
    pub ports: Arc<[(PortName, PortNumber)]>,
    /// Its own labels.
    pub labels: Labels,
    /// Its labels with topology added (`registries.md` 1.4).
    pub augmented: Labels,
    /// Where it runs.
    pub topology: Arc<Topology>,
    /// Who it proves to be.
    pub identity: Option<Identity>,
    /// Its service account's name, empty where none is known.
    pub account: Arc<str>,
    /// Its health.
    pub health: Health,
    /// Whether it speaks mesh TLS.
    pub mtls: bool,
    /// Its share of traffic.
    pub weight: u32,
    /// The workload's name as people know it (a Deployment's, say).
    pub name: Arc<str>,
    /// Services whose own lists of endpoints name it, sorted; what selects it is the core's to know.
    pub listed: Arc<[ServiceKey]>,
}

impl Workload {
    /// A healthy workload of which nothing else is known.
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
    /// Whether its address is a name or a unix path, so that only DNS services can select it.
    #[must_use]
    pub fn is_named(&self) -> bool {
        !matches!(self.addresses.first(), Some(WorkloadAddress::Ip(_)))
    }
    /// The number of a named port.
    #[must_use]
    pub fn port(&self, name: &PortName) -> Option<PortNumber> {
        self.ports.binary_search_by(|(n, _)| n.cmp(name)).ok().map(|i| self.ports[i].1)
    }
}
