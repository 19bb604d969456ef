//! Order of the routes of a VirtualService, or of one and its delegates: which of them take the requests and connections of others.
//!
//! Proxies try the routes of HTTP in order. Of routes of connections they take the one with the narrowest range of
//! destinations and the narrowest server name, whatever their order, so only an equal one before takes them; a TCP route
//! for any destination is the last of its VirtualService.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;

use tributary_model::{
    ClientMatch, GatewayMatch, HostPattern, HttpAction, HttpMatch, HttpRoute, L4Match, Namespace, PortNumber,
    RequestShare, TcpRoute, TlsRoute, VirtualService,
};

use super::{matches_of, place};

/// List of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Http,
    Tls,
    Tcp,
}

impl List {
    /// Returns the number of routes that a VirtualService has in it.
    pub(super) fn len(self, own: &VirtualService) -> usize {
        match self {
            Self::Http => own.http.len(),
            Self::Tls => own.tls.len(),
            Self::Tcp => own.tcp.len(),
        }
    }
}

/// Routes of a VirtualService in their order.
pub(super) struct Order<'c> {
    http: Cow<'c, [HttpRoute]>,
    tls: Vec<Vec<Part<'c>>>,
    tcp: Vec<Vec<Part<'c>>>,
}

impl<'c> Order<'c> {
    pub(super) fn of(own: &'c VirtualService) -> Self {
        Self {
            http: Cow::Borrowed(&own.http),
            tls: own.tls.iter().map(tls_parts).collect(),
            tcp: own.tcp.iter().map(tcp_parts).collect(),
        }
    }
    /// Takes these routes of HTTP in the place of those of a VirtualService.
    pub(super) fn merged(own: &'c VirtualService, http: Vec<HttpRoute>) -> Self {
        Self { http: Cow::Owned(http), ..Self::of(own) }
    }
    /// Whether a route of HTTP answers its requests, by a fault if not by its action.
    pub(super) fn is_answer(&self, at: usize) -> bool {
        self.http
            .get(at)
            .is_some_and(|route| matches!(route.action, HttpAction::Respond(_)) || aborts_all(route))
    }
    /// Returns where a route is declared.
    pub(super) fn place(&self, list: List, at: usize) -> String {
        match list {
            List::Http => place("http", at, self.http.get(at).map_or("", |route| &route.name)),
            List::Tls => place("tls", at, ""),
            List::Tcp => place("tcp", at, ""),
        }
    }
    /// Returns the routes that take all of a route, where those without a port are for each of these ports; `None` if they
    /// leave something.
    pub(super) fn takers(&self, list: List, at: usize, ports: &Ports) -> Option<BTreeSet<usize>> {
        match list {
            List::Http => requests(&self.http[at], ports).iter().map(|one| self.taker(at, one)).collect(),
            List::Tls => takers(&self.tls, at, ports, is_same),
            List::Tcp => takers(&self.tcp, at, ports, is_same_or_any),
        }
    }
    /// Whether a route receives something of what some clients send to these ports, or to any if there are none.
    pub(super) fn reaches(&self, list: List, at: usize, ports: &Ports, clients: Clients<'_>) -> bool {
        let is_left = |taker: Option<usize>| taker.is_none();
        let is_of =
            |port: &Option<PortNumber>| ports.is_empty() || port.is_some_and(|port| ports.contains(&port));
        let connections = |all: &[Vec<Part<'_>>], takes: Takes| {
            let parts = all[at].iter().flat_map(|part| part.by_port(ports));
            let parts = parts.filter(|part| is_of(&part.of.port));
            let mut parts = parts.filter_map(|part| part.of_clients(clients));
            parts.any(|part| is_left(taker(&all[..at], &part, takes)))
        };
        match list {
            List::Http => {
                let all = requests(&self.http[at], ports).into_iter().filter(|one| is_of(&one.port));
                let mut all = all.filter_map(|one| of_clients(one, clients));
                all.any(|one| is_left(self.taker(at, &one)))
            }
            List::Tls => connections(&self.tls, is_same),
            List::Tcp => connections(&self.tcp, is_same_or_any),
        }
    }
    /// Returns how many comparisons with the routes before it a route needs, on any port or on one.
    pub(super) fn comparisons(&self, list: List, at: usize, port: Option<PortNumber>) -> usize {
        let is_of = |own: Option<PortNumber>| own.is_none() || port.is_none() || own == port;
        let of_http = |route: &HttpRoute| route.matches.len().max(1);
        let of_parts = |all: &[Vec<Part<'_>>]| {
            let own = all[at].iter().filter(|part| is_of(part.of.port)).count();
            own * all[..at].iter().map(Vec::len).sum::<usize>()
        };
        match list {
            List::Http => {
                let any = [HttpMatch::default()];
                let own = matches_of(&self.http[at], &any).iter().filter(|one| is_of(one.port)).count();
                own * self.http[..at].iter().map(of_http).sum::<usize>()
            }
            List::Tls => of_parts(&self.tls),
            List::Tcp => of_parts(&self.tcp),
        }
    }
    /// Returns the first route before one that takes all requests with these properties. One that names a delegate takes
    /// none itself.
    fn taker(&self, at: usize, found: &HttpMatch) -> Option<usize> {
        let any = [HttpMatch::default()];
        let is_last = |route: &HttpRoute| !matches!(route.action, HttpAction::Delegate(..));
        let covers = |route: &HttpRoute| matches_of(route, &any).iter().any(|of| of.covers(found));
        self.http[..at].iter().position(|route| is_last(route) && covers(route))
    }
}

/// Whether a fault refuses every request of a route, so that none reaches a destination.
fn aborts_all(route: &HttpRoute) -> bool {
    let abort = route.settings.fault.as_ref().and_then(|fault| fault.abort);
    abort.and_then(|abort| abort.share) == Some(RequestShare::ALL)
}

type Ports = BTreeSet<PortNumber>;

/// Clients whose requests or connections are looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clients<'n> {
    Any,
    /// Those of a namespace; of most others without one.
    Namespace(Option<&'n Namespace>),
}

impl Clients<'_> {
    /// Returns conditions for those of the clients that fulfil them; `None` if there are none.
    fn narrowed(self, of: &ClientMatch) -> Option<ClientMatch> {
        let Self::Namespace(client) = self else { return Some(of.clone()) };
        let is_for =
            of.gateways != GatewayMatch::Other && of.namespace.as_ref().is_none_or(|own| Some(own) == client);
        is_for.then(|| ClientMatch { namespace: client.cloned(), ..of.clone() })
    }
}

/// Returns a condition of requests for some clients. One on gateways leaves none on clients.
fn of_clients(of: HttpMatch, clients: Clients<'_>) -> Option<HttpMatch> {
    let any = ClientMatch::default();
    let conditions = if of.clients.is_any() { &any } else { &of.clients };
    Some(HttpMatch { clients: clients.narrowed(conditions)?, ..of })
}

/// Whether one part takes all connections of another one with the same clients and port.
type Takes = fn(&Part<'_>, &Part<'_>) -> bool;

/// Connections of a route that a proxy compares with those of others.
#[derive(Clone)]
struct Part<'r> {
    /// Conditions on clients and the port.
    of: Cow<'r, L4Match>,
    /// Server name; `None` for TCP.
    name: Option<&'r HostPattern>,
    /// Range of destinations; any if absent.
    range: Option<(IpAddr, u8)>,
}

impl<'r> Part<'r> {
    /// Returns the part for each of the ports that connections come to, for routes before it may take those of one port each.
    fn by_port(&self, ports: &Ports) -> Vec<Self> {
        if self.of.port.is_some() || ports.is_empty() {
            return vec![self.clone()];
        }
        let on = |port: &PortNumber| {
            let of = L4Match { port: Some(*port), ..L4Match::clone(&self.of) };
            Part { of: Cow::Owned(of), ..self.clone() }
        };
        ports.iter().map(on).collect()
    }
    fn of_clients(&self, clients: Clients<'_>) -> Option<Self> {
        let of = L4Match { clients: clients.narrowed(&self.of.clients)?, ..L4Match::clone(&self.of) };
        Some(Part { of: Cow::Owned(of), ..self.clone() })
    }
}

fn is_same(own: &Part<'_>, other: &Part<'_>) -> bool {
    own.name == other.name && own.range == other.range
}

fn is_same_or_any(own: &Part<'_>, other: &Part<'_>) -> bool {
    own.range.is_none() || is_same(own, other)
}

fn tls_parts(route: &TlsRoute) -> Vec<Part<'_>> {
    let named = route.matches.iter().flat_map(|found| found.names.iter().map(move |name| (found, name)));
    named.flat_map(|(found, name)| parts(&Cow::Borrowed(&found.connection), Some(name))).collect()
}

fn tcp_parts(route: &TcpRoute) -> Vec<Part<'_>> {
    let everything = route.matches.is_empty().then(|| Cow::Owned(L4Match::default()));
    route.matches.iter().map(Cow::Borrowed).chain(everything).flat_map(|found| parts(&found, None)).collect()
}

fn parts<'r>(of: &Cow<'r, L4Match>, name: Option<&'r HostPattern>) -> Vec<Part<'r>> {
    let any = of.subnets.is_empty().then_some(None);
    let ranges = of.subnets.iter().map(|net| Some((net.trunc().addr(), net.prefix_len()))).chain(any);
    ranges.map(|range| Part { of: of.clone(), name, range }).collect()
}

/// Returns the first routes that take the parts of a route; `None` if one is left.
fn takers(all: &[Vec<Part<'_>>], at: usize, ports: &Ports, takes: Takes) -> Option<BTreeSet<usize>> {
    let parts = all[at].iter().flat_map(|part| part.by_port(ports));
    parts.map(|part| taker(&all[..at], &part, takes)).collect()
}

fn taker(before: &[Vec<Part<'_>>], part: &Part<'_>, takes: Takes) -> Option<usize> {
    let takes_it = |of: &Vec<Part<'_>>| of.iter().any(|of| of.of.covers_clients(&part.of) && takes(of, part));
    before.iter().position(takes_it)
}

/// Returns the conditions of a route, each for all of the ports that requests come to if it names none.
fn requests(route: &HttpRoute, ports: &Ports) -> Vec<HttpMatch> {
    let any = [HttpMatch::default()];
    let by_port = |found: &HttpMatch| -> Vec<HttpMatch> {
        if found.port.is_some() || ports.is_empty() {
            return vec![found.clone()];
        }
        ports.iter().map(|port| HttpMatch { port: Some(*port), ..found.clone() }).collect()
    };
    matches_of(route, &any).iter().flat_map(by_port).collect()
}
