//! VirtualService: how the requests and connections of clients to certain hosts are routed.
//!
//! Adapters build these values from `networking.istio.io` VirtualServices after validation; the core decides which
//! VirtualService a host has for which clients, and completes names without a dot with its namespace.

use std::sync::Arc;

use crate::export::{ExportTo, Visibility};
use crate::hostname::{HostPattern, Hostname};
use crate::http_route::HttpRoute;
use crate::id::Namespace;
use crate::l4_route::{L4Destination, TcpRoute, TlsRoute};
use crate::port::PortNumber;
use crate::subset::Subset;

/// Routes of the requests and connections to certain hosts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct VirtualService {
    /// Hosts, in declared order, none matching another; a name without a dot is one of the VirtualService's namespace.
    /// Empty for a delegate, whose routes others use.
    pub hosts: Arc<[HostPattern]>,
    /// Namespaces whose clients it concerns; those whose VirtualServices may use a delegate.
    pub export: ExportTo,
    /// Whether it concerns sidecars. One that concerns gateways only is not served.
    pub mesh: bool,
    /// Routes of HTTP requests; the first that matches a request serves it.
    pub http: Arc<[HttpRoute]>,
    /// Routes of TLS connections by server name.
    pub tls: Arc<[TlsRoute]>,
    /// Routes of TCP connections.
    pub tcp: Arc<[TcpRoute]>,
    /// Paths of valid fields that have no effect, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

impl VirtualService {
    /// Whether its routes are used by other VirtualServices only.
    #[must_use]
    pub fn is_delegate(&self) -> bool {
        self.hosts.is_empty()
    }
    /// Whether it is a delegate in namespace `own` that a VirtualService in namespace `by` may use.
    #[must_use]
    pub fn is_delegate_for(&self, own: &Namespace, by: &Namespace) -> bool {
        self.is_delegate() && self.export.resolve(&Visibility::Public).admits(own, Some(by))
    }
    /// Returns the destinations of its own routes, mirrors included, in declared order, HTTP first. Those of delegates
    /// are not among them.
    pub fn destinations(&self) -> impl Iterator<Item = &RouteDestination> {
        let http = self.http.iter().flat_map(HttpRoute::destinations);
        let tls = self.tls.iter().flat_map(|route| route.destinations.iter());
        let tcp = self.tcp.iter().flat_map(|route| route.destinations.iter());
        http.chain(tls.chain(tcp).map(L4Destination::destination))
    }
    /// Returns the delegates that its routes name, in declared order.
    pub fn delegates(&self) -> impl Iterator<Item = &DelegateRef> {
        self.http.iter().filter_map(|route| route.action.delegate())
    }
}

/// Service, or a part of it, that receives requests or connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct RouteDestination {
    /// Host; a name without a dot is one of the VirtualService's namespace.
    pub host: Hostname,
    /// Part of the endpoints, as a DestinationRule names it; all of them if absent.
    pub subset: Option<Subset>,
    /// Port. If absent, the port of the listener for HTTP; the only port of the service, else that of the listener, for
    /// TLS and TCP.
    pub port: Option<PortNumber>,
}

/// VirtualService without hosts whose routes replace a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct DelegateRef {
    /// Name.
    pub name: Arc<str>,
    /// Namespace; that of the VirtualService that names it if it declares none.
    pub namespace: Namespace,
}
