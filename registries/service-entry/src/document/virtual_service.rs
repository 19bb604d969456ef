//! VirtualService of `networking.istio.io`: how requests and connections to hosts are routed. Its HTTP routes are in
//! `http_route`.

use tributary_model::Labels;

use super::http_route::{HttpMatch, HttpRoute, Weighted};
use super::{Located, Text};

/// The gateway that stands for sidecars.
pub(crate) const MESH: &str = "mesh";

/// Routes of the requests and connections to hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VirtualService {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// The hosts; none for a delegate.
    pub hosts: Vec<Text>,
    /// The gateways; none means sidecars.
    pub gateways: Vec<Text>,
    /// Routes of HTTP requests.
    pub http: Vec<HttpRoute>,
    /// Routes of TLS connections.
    pub tls: Vec<L4Route>,
    /// Routes of TCP connections.
    pub tcp: Vec<L4Route>,
    /// Namespaces whose clients it concerns.
    pub export_to: Vec<Text>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
}

/// Route of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct L4Route {
    /// Position.
    pub at: Located<()>,
    /// Conditions, of which a connection must fulfil one.
    pub matches: Vec<L4Match>,
    /// The destinations.
    pub route: Vec<Weighted>,
}

/// Conditions that a connection must all fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct L4Match {
    /// Position.
    pub at: Located<()>,
    /// Server names; of TLS only.
    pub names: Vec<Text>,
    /// Ranges of the destination.
    pub subnets: Vec<Text>,
    /// Port of the listener.
    pub port: Option<Located<i64>>,
    /// Conditions on the client.
    pub clients: Clients,
}

/// Conditions on a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clients {
    /// Labels that it must have.
    pub labels: Located<Labels>,
    /// Its namespace.
    pub namespace: Option<Text>,
    /// Gateways through which the traffic comes.
    pub gateways: Vec<Text>,
}

impl VirtualService {
    /// Whether its routes are used by other VirtualServices only.
    pub(crate) fn is_delegate(&self) -> bool {
        self.hosts.is_empty()
    }
    /// Whether it concerns sidecars.
    pub(crate) fn is_of_mesh(&self) -> bool {
        self.gateways.is_empty() || self.gateways.iter().any(|gateway| &*gateway.value == MESH)
    }
    /// The HTTP routes with their paths.
    pub(crate) fn routes(&self) -> impl Iterator<Item = (String, &HttpRoute)> {
        self.http.iter().enumerate().map(|(i, route)| (format!("spec.http[{i}]"), route))
    }
    /// The matches of HTTP routes with their paths.
    pub(crate) fn matches(&self) -> impl Iterator<Item = (String, &HttpMatch)> {
        self.routes().flat_map(|(path, route)| {
            let all = route.matches.iter().enumerate();
            all.map(move |(i, found)| (format!("{path}.match[{i}]"), found))
        })
    }
    /// The routes of connections with their paths.
    pub(crate) fn l4_routes(&self) -> impl Iterator<Item = (String, &L4Route)> {
        let tls = self.tls.iter().enumerate().map(|(i, route)| (format!("spec.tls[{i}]"), route));
        let tcp = self.tcp.iter().enumerate().map(|(i, route)| (format!("spec.tcp[{i}]"), route));
        tls.chain(tcp)
    }
    /// The matches of routes of connections with their paths.
    pub(crate) fn l4_matches(&self) -> impl Iterator<Item = (String, &L4Match)> {
        self.l4_routes().flat_map(|(path, route)| {
            let all = route.matches.iter().enumerate();
            all.map(move |(i, found)| (format!("{path}.match[{i}]"), found))
        })
    }
    /// The conditions on clients with the paths and positions of their matches, and their ports.
    pub(crate) fn clients(&self) -> impl Iterator<Item = (String, &Clients, Option<&Located<i64>>)> {
        let http = self.matches().map(|(path, found)| (path, &found.clients, found.port.as_ref()));
        http.chain(self.l4_matches().map(|(path, found)| (path, &found.clients, found.port.as_ref())))
    }
    /// The lists of weighted destinations with their paths.
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (String, &[Weighted])> {
        let http = self.routes().map(|(path, route)| (format!("{path}.route"), &*route.route));
        http.chain(self.l4_routes().map(|(path, route)| (format!("{path}.route"), &*route.route)))
    }
}
