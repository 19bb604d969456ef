//! Routes of TLS and TCP connections, as VirtualServices declare them.
//!
//! Adapters build these values after validation; the answer of a client decides the conditions on the client, and xds
//! encodes the others into chains of filters.

use std::sync::Arc;

use ipnet::IpNet;

use crate::hostname::HostPattern;
use crate::http_match::{ClientMatch, GatewayMatch};
use crate::id::Namespace;
use crate::labels::Labels;
use crate::port::PortNumber;
use crate::virtual_service::RouteDestination;

/// Route of TLS connections by server name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TlsRoute {
    /// Conditions, of which a connection must fulfil one. Never empty.
    pub matches: Arc<[TlsMatch]>,
    /// Destinations, of which there is at least one.
    pub destinations: Arc<[L4Destination]>,
}

/// Conditions that a TLS connection must all fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TlsMatch {
    /// Server names, each within a host of the VirtualService. Never empty.
    pub names: Arc<[HostPattern]>,
    /// Further conditions.
    pub connection: L4Match,
}

/// Route of TCP connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct TcpRoute {
    /// Conditions, of which a connection must fulfil one; every connection if empty.
    pub matches: Arc<[L4Match]>,
    /// Destinations, of which there is at least one.
    pub destinations: Arc<[L4Destination]>,
}

/// Conditions that a connection must all fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct L4Match {
    /// Ranges of which one contains the destination, in declared order; any destination if empty.
    pub subnets: Arc<[IpNet]>,
    /// Port of the listener.
    pub port: Option<PortNumber>,
    /// Clients.
    pub clients: ClientMatch,
}

impl L4Match {
    /// Whether a sidecar with these labels in this namespace has the route in a listener of this port. Unlike for HTTP
    /// all conditions on the client count.
    #[must_use]
    pub fn admits(&self, port: PortNumber, labels: &Labels, namespace: Option<&Namespace>) -> bool {
        self.clients.gateways != GatewayMatch::Other
            && self.clients.admits_workload(labels, namespace)
            && self.port.is_none_or(|own| own == port)
    }
    /// Whether every listener of every client that another condition is for is one that this is for.
    #[must_use]
    pub fn covers_clients(&self, other: &Self) -> bool {
        let (own, of) = (&self.clients, &other.clients);
        own.gateways != GatewayMatch::Other
            && (own.namespace.is_none() || own.namespace == of.namespace)
            && own.labels.is_subset_of(&of.labels)
            && (self.port.is_none() || self.port == other.port)
    }
}

/// Destination with its share of the connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct L4Destination {
    /// Destination.
    pub destination: RouteDestination,
    /// Share in relation to the other weights. With several destinations, one of weight 0 receives nothing.
    pub weight: u32,
}

impl L4Destination {
    /// Destination.
    #[must_use]
    pub const fn destination(&self) -> &RouteDestination {
        &self.destination
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_on_the_client_count() {
        let port = PortNumber::new(80).unwrap();
        let shop = Namespace::new("shop").unwrap();
        let of = |gateways| {
            let clients = ClientMatch { gateways, namespace: Some(shop.clone()), ..ClientMatch::default() };
            L4Match { port: Some(port), clients, ..L4Match::default() }
        };
        let mesh = of(GatewayMatch::Mesh);
        assert!(mesh.admits(port, &Labels::default(), Some(&shop)));
        assert!(!mesh.admits(port, &Labels::default(), None));
        assert!(!of(GatewayMatch::Other).admits(port, &Labels::default(), Some(&shop)));
        let any = L4Match::default();
        assert!(any.covers_clients(&mesh) && !mesh.covers_clients(&any));
        assert!(!of(GatewayMatch::Other).covers_clients(&mesh));
        let on_port = L4Match { port: Some(port), ..L4Match::default() };
        assert!(on_port.covers_clients(&mesh) && !on_port.covers_clients(&any));
    }
}
