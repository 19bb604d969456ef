//! Gateways: addresses through which other networks reach a network.

use std::net::IpAddr;
use std::sync::Arc;

use crate::gateway_name::ResolvedName;
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
    /// Returns what its declaration lacks for clients that use mesh TLS; `None` if it is complete. Whether a host name has addresses
    /// is no part of it.
    #[must_use]
    pub const fn lack(&self) -> Option<&'static str> {
        match (&self.address, self.mtls_port) {
            (None, _) => Some("it has no address"),
            (Some(_), None) => Some("it has no port for mesh TLS"),
            (Some(_), Some(_)) => None,
        }
    }
    /// Returns its host name, if it has one in place of an IP address.
    #[must_use]
    pub const fn name(&self) -> Option<&Arc<str>> {
        match &self.address {
            Some(GatewayAddress::Name(name)) => Some(name),
            Some(GatewayAddress::Ip(_)) | None => None,
        }
    }
    /// Returns the host name to resolve: that of a complete declaration.
    #[must_use]
    pub fn wanted_name(&self) -> Option<&Arc<str>> {
        self.name().filter(|_| self.lack().is_none())
    }
    /// Returns its IP addresses: its own, or those that its host name has.
    #[must_use]
    pub fn ips<'a>(&'a self, resolved: Option<&'a ResolvedName>) -> &'a [IpAddr] {
        match &self.address {
            Some(GatewayAddress::Ip(ip)) => std::slice::from_ref(ip),
            Some(GatewayAddress::Name(_)) => resolved.map(|of| &*of.addresses).unwrap_or_default(),
            None => &[],
        }
    }
}

/// Network that clients of other networks enter through gateways only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatedNetwork {
    /// Name.
    pub id: NetworkId,
    /// Gateways that forward mesh TLS by its server name, sorted, each socket of a cluster once. Empty if none can be used.
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
    /// Host name that has the address, if the gateway has no address of its own; for explain only.
    pub name: Option<Arc<str>>,
}

impl GatewaySocket {
    /// Returns the sockets of a gateway, of one with a host name those of its addresses; none if it [lacks](Gateway::lack) something.
    pub fn of<'a>(
        key: &'a GatewayKey,
        gateway: &'a Gateway,
        resolved: Option<&'a ResolvedName>,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let cluster = (key.object.kind != MESH_CONFIG).then_some(&key.cluster);
        let ports = gateway.mtls_port.into_iter();
        ports.flat_map(move |port| {
            gateway.ips(resolved).iter().map(move |address| Self {
                cluster: cluster.cloned(),
                address: *address,
                port,
                name: gateway.name().cloned(),
            })
        })
    }
    /// Whether both are one socket of one cluster, by whatever name.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.cluster, self.address, self.port) == (&other.cluster, other.address, other.port)
    }
}

/// Kind of the objects whose gateways belong to no cluster.
const MESH_CONFIG: &str = "ConfigMap";
