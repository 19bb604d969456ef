//! VirtualServices that may route the clients of a host.
//!
//! The core builds them, with the routes of delegates in their place and every name completed; the answer of a client
//! chooses among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::by_namespace::ByClient;
use crate::destination_rule::ConnectionPolicy;
use crate::export::Visibility;
use crate::hostname::{HostPattern, Hostname};
use crate::http_match::ClientMatch;
use crate::http_route::HttpRoute;
use crate::id::Namespace;
use crate::l4_route::{L4Destination, TcpRoute, TlsRoute};
use crate::policy::PolicyKey;
use crate::port::PortNumber;
use crate::traffic_policy::HashKey;
use crate::virtual_service::RouteDestination;

/// VirtualService that may route the clients of a host, with its routes of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteCandidate<R> {
    /// VirtualService.
    pub of: Arc<RouteOwner>,
    /// The most specific of its hosts that matches.
    pub host: HostPattern,
    /// Its routes; empty if it has none of the kind.
    pub routes: R,
}

impl<R> RouteCandidate<R> {
    /// Whether it names the host itself, not by a wildcard.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.host.suffix().is_none()
    }
}

/// Candidate with its routes of HTTP requests.
pub type HttpCandidate = RouteCandidate<Arc<[HttpRoute]>>;

impl HttpCandidate {
    /// Returns the conditions on clients of its routes, in order.
    pub fn clients(&self) -> impl Iterator<Item = &ClientMatch> {
        self.routes.iter().flat_map(|route| route.matches.iter().map(|found| &found.clients))
    }
}

/// Candidate with its routes of connections.
pub type L4Candidate = RouteCandidate<L4Routes>;

impl L4Candidate {
    /// Returns the conditions on clients of its routes, in order, those of TLS first.
    pub fn clients(&self) -> impl Iterator<Item = &ClientMatch> {
        self.routes.clients()
    }
}

/// Routes of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct L4Routes {
    /// Routes of TLS connections.
    pub tls: Arc<[TlsRoute]>,
    /// Routes of TCP connections.
    pub tcp: Arc<[TcpRoute]>,
}

impl L4Routes {
    /// Returns the destinations of each route, in order, those of TLS first.
    pub fn destinations(&self) -> impl Iterator<Item = &[L4Destination]> {
        let tls = self.tls.iter().map(|route| &*route.destinations);
        tls.chain(self.tcp.iter().map(|route| &*route.destinations))
    }
    /// Returns the conditions on clients, in order, those of TLS first.
    pub fn clients(&self) -> impl Iterator<Item = &ClientMatch> {
        let tls = self.tls.iter().flat_map(|route| route.matches.iter().map(|found| &found.connection));
        let tcp = self.tcp.iter().flat_map(|route| route.matches.iter());
        tls.chain(tcp).map(|found| &found.clients)
    }
}

/// What a destination of routes leads to, where it is not only what the destination names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedDestination {
    /// Destination.
    pub destination: RouteDestination,
    /// Host of the service that receives the requests: through an alias, that at its end.
    pub host: Hostname,
    /// Property of requests that decides their endpoint.
    pub hash: ByClient<HashKey>,
    /// The same on ports with settings of their own, for a destination without a port, which has that of the route table.
    pub hash_of_ports: BTreeMap<PortNumber, ByClient<HashKey>>,
}

impl ResolvedDestination {
    /// Returns the property of a client's request in the route table of a port that decides its endpoint.
    #[must_use]
    pub fn hash_on(&self, port: PortNumber, namespace: Option<&Namespace>) -> Option<&Arc<HashKey>> {
        self.hash_of_ports.get(&port).unwrap_or(&self.hash).as_ref()?.get(namespace).as_ref()
    }
}

/// What a destination of routes of connections leads to, where it is not only what the destination names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionTarget {
    /// Destination.
    pub destination: RouteDestination,
    /// Host of the service that receives the connections: through an alias, that at its end.
    pub host: Hostname,
    /// Only port of that service, for a destination that names no port; absent if it has several.
    pub port: Option<PortNumber>,
    /// What DestinationRules set for the connections.
    pub policy: ByClient<ConnectionPolicy>,
}

/// VirtualService, without its routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteOwner {
    /// Key.
    pub key: PolicyKey,
    /// Namespaces whose clients it concerns.
    pub visibility: Visibility,
    /// Hosts.
    pub hosts: Arc<[HostPattern]>,
    /// Delegates whose routes it has, in order.
    pub delegates: Arc<[PolicyKey]>,
}

impl RouteOwner {
    /// Returns its position among the candidates of a client: those for its own namespace only, those for listed
    /// namespaces, those for all; `None` if it does not concern the client.
    #[must_use]
    pub fn tier(&self, client: Option<&Namespace>) -> Option<u8> {
        let own = &self.key.namespace;
        match &self.visibility {
            Visibility::Public => Some(2),
            visibility if !visibility.admits(own, client) => None,
            _ if client == Some(own) => Some(0),
            _ => Some(1),
        }
    }
    /// Returns the namespaces to whose clients it may be nearer than to others, sorted; none if it is for all.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.visibility.namespaces(&self.key.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyKind;

    fn ns(text: &str) -> Namespace {
        Namespace::new(text).unwrap()
    }

    #[test]
    fn private_precedes_exported_by_name_and_public() {
        let of = |visibility| RouteOwner {
            key: PolicyKey { kind: PolicyKind::VirtualService, namespace: ns("shop"), name: "a".into() },
            visibility,
            hosts: Arc::default(),
            delegates: Arc::default(),
        };
        let tiers = |visibility| {
            let owner = of(visibility);
            [owner.tier(Some(&ns("shop"))), owner.tier(Some(&ns("web"))), owner.tier(None)]
        };
        assert_eq!(tiers(Visibility::Public), [Some(2); 3]);
        assert_eq!(tiers(Visibility::Own), [Some(0), None, None]);
        assert_eq!(tiers(Visibility::Hidden), [None; 3]);
        let both = Visibility::Namespaces([ns("shop"), ns("web")].into());
        assert_eq!(tiers(both.clone()), [Some(0), Some(1), None]);
        assert_eq!(of(both).namespaces().collect::<Vec<_>>(), [&ns("shop"), &ns("web")]);
    }
}
