//! One address of an endpoint group, with the facts that hold for all its ports.

use std::net::IpAddr;
use std::sync::Arc;

use crate::health::Health;
use crate::id::{ClusterId, Identity, NetworkId, NodeName};
use crate::labels::{self, Labels};
use crate::locality::Locality;
use crate::object::ObjectId;

/// IP address, or index into the name table of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressRef {
    /// IP address.
    Ip(IpAddr),
    /// DNS name: `group.names[i]`.
    Name(u16),
    /// Unix socket path: `group.names[i]`.
    Unix(u16),
}

/// Location of workloads; shared by all workloads at that location.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Topology {
    /// Cluster, if known.
    pub cluster: Option<ClusterId>,
    /// Network, if known.
    pub network: Option<NetworkId>,
    /// Region, zone, subzone.
    pub locality: Locality,
    /// Node, if known.
    pub node: Option<NodeName>,
}

impl Topology {
    /// Returns the labels of this topology, to be laid over the `own` labels of a workload. A network label of the
    /// workload takes precedence, as in Istio.
    #[must_use]
    pub fn labels(&self, own: &Labels) -> Labels {
        let locality = &self.locality;
        let parts = [
            (labels::REGION, &*locality.region),
            (labels::ZONE, &*locality.zone),
            (labels::SUBZONE, &*locality.subzone),
        ];
        let labelled = own.get(labels::NETWORK).is_some_and(|network| !network.is_empty());
        let network = self.network.as_ref().filter(|_| !labelled);
        let cluster = self.cluster.as_ref().map(|cluster| (labels::CLUSTER, cluster.as_str()));
        let node = self.node.as_ref().map(|node| (labels::NODE, node.as_str()));
        let network = network.map(|network| (labels::NETWORK, network.as_str()));
        let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
        parts.chain(cluster).chain(node).chain(network).collect()
    }
}

/// Workload behind an address, if it differs from the group's own object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Origin {
    /// Pod, WorkloadEntry or instance.
    pub object: ObjectId,
    /// Display name of the workload (such as the name of its Deployment).
    pub workload: Arc<str>,
}

/// One address of a group. At most 64 bytes, because a catalog may hold a million.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// IP, or name by index.
    pub at: AddressRef,
    /// Index of its port set in the group.
    pub port_set: u16,
    /// Health that the source reports.
    pub health: Health,
    /// Whether it accepts mesh TLS.
    pub mtls: bool,
    /// Weight; 0 counts as 1.
    pub weight: u32,
    /// Location.
    pub topology: Arc<Topology>,
    /// Labels of the workload.
    pub labels: Labels,
    /// Identity that its certificate proves.
    pub identity: Option<Identity>,
    /// Workload, if it differs from the group's own object.
    pub origin: Option<Arc<Origin>>,
}

impl Address {
    /// Creates a healthy address with default values.
    #[must_use]
    pub fn new(at: AddressRef, topology: Arc<Topology>) -> Self {
        Self {
            at,
            port_set: 0,
            health: Health::Healthy,
            mtls: false,
            weight: 1,
            topology,
            labels: Labels::default(),
            identity: None,
            origin: None,
        }
    }
    /// Returns the IP address; `None` for a name or a path.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self.at {
            AddressRef::Ip(ip) => Some(ip),
            AddressRef::Name(_) | AddressRef::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_fits_its_memory_budget() {
        assert!(size_of::<Address>() <= 64, "{} bytes", size_of::<Address>());
    }
}
