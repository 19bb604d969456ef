//! One address at which endpoints stand, with the facts that hold for all its ports.

use std::net::IpAddr;
use std::sync::Arc;

use crate::health::Health;
use crate::id::{ClusterId, Identity, NetworkId, NodeName};
use crate::labels::Labels;
use crate::locality::Locality;
use crate::object::ObjectId;

/// Where an address is: an IP, or an index into its group's table of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressRef {
    /// An IP address.
    Ip(IpAddr),
    /// A DNS name: `group.names[i]`.
    Name(u16),
    /// A unix path: `group.names[i]`.
    Unix(u16),
}

/// Where workloads run; shared by all that run there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Topology {
    /// The cluster, where known.
    pub cluster: Option<ClusterId>,
    /// The network, where known.
    pub network: Option<NetworkId>,
    /// Region, zone, subzone.
    pub locality: Locality,
    /// The node, where known.
    pub node: Option<NodeName>,
}

/// The workload behind an address, where the group's own object is not it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Origin {
    /// The pod, WorkloadEntry or instance.
    pub object: ObjectId,
    /// The workload's name as people know it (a Deployment's, say).
    pub workload: Arc<str>,
}

/// One address of a group. At most 64 bytes: there may be a million.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Where.
    pub at: AddressRef,
    /// Which of the group's port sets it has.
    pub port_set: u16,
    /// What the source says of it.
    pub health: Health,
    /// Whether it speaks mesh TLS.
    pub mtls: bool,
    /// Its share of traffic; 0 counts as 1.
    pub weight: u32,
    /// Where it runs.
    pub topology: Arc<Topology>,
    /// The workload's labels.
    pub labels: Labels,
    /// Who it proves to be.
    pub identity: Option<Identity>,
    /// The workload, where it is not the group's own object.
    pub origin: Option<Arc<Origin>>,
}

impl Address {
    /// A healthy address with nothing else known of it.
    #[must_use]
    pub fn new(at: AddressRef, place: Arc<Topology>) -> Self {
        Self {
            at,
            port_set: 0,
            health: Health::Healthy,
            mtls: false,
            weight: 1,
            topology: place,
            labels: Labels::default(),
            identity: None,
            origin: None,
        }
    }
    /// The IP, where it is one.
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
    fn an_address_fits_its_budget() {
        assert!(size_of::<Address>() <= 64, "{} bytes", size_of::<Address>());
    }
}
