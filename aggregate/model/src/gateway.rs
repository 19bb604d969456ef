//! Gateways: addresses through which other networks reach a network.

use std::net::IpAddr;
use std::sync::Arc;

use crate::id::{ClusterId, NetworkId};
use crate::object::{ObjectId, Source};
use crate::port::PortNumber;

/// Identity of a gateway address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct GatewayKey {
    /// Network behind the gateway.
    pub network: NetworkId,
    /// Cluster of the gateway.
    pub cluster: ClusterId,
    /// Object that declares it.
    pub object: ObjectId,
    /// Index among the addresses of one object.
    pub index: u16,
}

/// Address of a gateway: an IP, or a name resolved later.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum GatewayAddress {
    /// IP address.
    Ip(IpAddr),
    /// DNS name.
    Name(Arc<str>),
}

/// One address of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Gateway {
    /// Provenance.
    pub source: Source,
    /// Address; `None` for a gateway that is declared and has no address, such as one whose load balancer is not ready.
    pub address: Option<GatewayAddress>,
    /// Port for auto-passthrough mesh TLS.
    pub mtls_port: Option<PortNumber>,
    /// HBONE port.
    pub hbone_port: Option<PortNumber>,
}

impl Gateway {
    /// Returns what clients that use mesh TLS lack to use it; `None` if they can.
    #[must_use]
    pub const fn lack(&self) -> Option<&'static str> {
        match (&self.address, self.mtls_port) {
            (None, _) => Some("it has no address"),
            (Some(GatewayAddress::Name(_)), _) => Some("its address is a host name, which is not resolved"),
            (Some(GatewayAddress::Ip(_)), None) => Some("it has no port for mesh TLS"),
            (Some(GatewayAddress::Ip(_)), Some(_)) => None,
        }
    }
}

/// Network that clients of other networks enter through gateways only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatedNetwork {
    /// Name.
    pub id: NetworkId,
    /// Gateways that forward mesh TLS by its server name, sorted, each once. Empty if none can be used.
    pub gateways: Arc<[GatewaySocket]>,
}

/// Socket of a gateway that forwards mesh TLS by its server name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewaySocket {
    /// Cluster of the gateway; `None` for one that mesh networks name by address.
    pub cluster: Option<ClusterId>,
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: PortNumber,
}

impl GatewaySocket {
    /// Returns the socket of a gateway; `None` if it [lacks](Gateway::lack) something.
    #[must_use]
    pub fn of(key: &GatewayKey, gateway: &Gateway) -> Option<Self> {
        let Some(GatewayAddress::Ip(address)) = gateway.address else { return None };
        let cluster = (key.object.kind != MESH_CONFIG).then(|| key.cluster.clone());
        Some(Self { cluster, address, port: gateway.mtls_port? })
    }
}

/// Kind of the objects whose gateways belong to no cluster.
const MESH_CONFIG: &str = "ConfigMap";
