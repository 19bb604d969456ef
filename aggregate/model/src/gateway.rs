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
    /// Address.
    pub address: GatewayAddress,
    /// Port for auto-passthrough mesh TLS.
    pub mtls_port: Option<PortNumber>,
    /// HBONE port.
    pub hbone_port: Option<PortNumber>,
}
