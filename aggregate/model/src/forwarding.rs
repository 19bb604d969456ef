//! Gateway of `networking.istio.io`, as far as it is served: servers that forward mesh TLS by its server name.
//!
//! Adapters build these values after validation; the answers of a router follow the Gateways that select it.

use std::net::IpAddr;
use std::sync::Arc;

use crate::labels::Labels;
use crate::port::PortNumber;
use crate::sidecar::HostImport;

/// Servers of selected routers that forward mesh TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ForwardingGateway {
    /// Labels of the routers that it selects, in every namespace; empty for all of them.
    pub selector: Labels,
    /// Servers of mode `AUTO_PASSTHROUGH`, in declared order.
    pub servers: Arc<[ForwardingServer]>,
    /// Servers of other modes, which no router has: `spec.servers[0] (port 443, mode SIMPLE)`.
    pub unserved: Arc<[Arc<str>]>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

/// Port on which routers forward mesh TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ForwardingServer {
    /// Port.
    pub port: PortNumber,
    /// Address of the listener; every address of the router if absent.
    pub bind: Option<IpAddr>,
    /// Hosts of services to which it forwards, in declared order. Never empty. The own namespace is that of the Gateway.
    pub hosts: Arc<[HostImport]>,
}
