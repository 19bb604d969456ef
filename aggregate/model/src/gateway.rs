//! Addresses through which a network is reached from others.

use std::net::IpAddr;
use std::sync::Arc;

use crate::id::{ClusterId, NetworkId};
use crate::object::{ObjectId, Source};
use crate::port::PortNumber;

/// Which gateway address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct GatewayKey {
    /// The network behind it.
    pub network: NetworkId,
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// The object that declares it.
    pub object: ObjectId,
    /// Tells several addresses of one object apart.
    pub index: u16,
}

/// A gateway's address: an IP, or a name that is resolved later.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum GatewayAddress {
    /// An IP address.
    Ip(IpAddr),
    /// A DNS name.
    Name(Arc<str>),
}

/// One address of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Gateway {
    /// Provenance.
    pub source: Source,
    /// Where it listens.
    pub address: GatewayAddress,
    /// Its auto-passthrough mesh TLS port.
    pub mtls_port: Option<PortNumber>,
    /// Its HBONE port.
    pub hbone_port: Option<PortNumber>,
}
