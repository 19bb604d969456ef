//! Ports that the routes of a VirtualService are for: those of the services of its hosts, and port 80 for a host of no service.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{HostPattern, PolicyKey, PortNumber, PortView, Protocol, ServiceView, VirtualService};

use super::order::List;
use super::{Code, Found, RouteConditions, named, place};

/// Ports of the hosts of a VirtualService, by what routes are for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Listened {
    /// For routes of requests, without that of hosts of no service.
    http: BTreeSet<PortNumber>,
    /// Whether port 80 is one for routes of requests, for a host of no service.
    is_usual: bool,
    /// For routes of TLS connections.
    tls: BTreeSet<PortNumber>,
    /// For routes of TCP connections, which are not tried for connections of TLS.
    tcp: BTreeSet<PortNumber>,
}

impl Listened {
    /// Returns the ports for the routes of a list; of TCP those that no host has for TLS.
    pub(super) fn of(&self, list: List) -> BTreeSet<PortNumber> {
        match list {
            List::Http => self.http.iter().copied().chain(self.usual()).collect(),
            List::Tls => self.tls.clone(),
            List::Tcp => self.tcp.difference(&self.tls).copied().collect(),
        }
    }
    /// Returns those of them that services of the hosts have.
    pub(super) fn of_services(&self, list: List) -> BTreeSet<PortNumber> {
        if list == List::Http { self.http.clone() } else { self.of(list) }
    }
    /// Whether it is a port for the routes of a list.
    pub(super) fn has(&self, list: List, port: PortNumber) -> bool {
        match list {
            List::Http => self.http.contains(&port) || self.usual() == Some(port),
            List::Tls => self.tls.contains(&port),
            List::Tcp => self.tcp.contains(&port) && !self.tls.contains(&port),
        }
    }
    /// Returns it with the ports of other hosts.
    pub(super) fn with(mut self, other: &Self) -> Self {
        self.http.extend(&other.http);
        self.is_usual |= other.is_usual;
        self.tls.extend(&other.tls);
        self.tcp.extend(&other.tcp);
        self
    }
    fn usual(&self) -> Option<PortNumber> {
        self.is_usual.then_some(PortNumber::HTTP)
    }
    fn add(&mut self, port: &PortView) {
        let protocol = port.protocol;
        if protocol.is_http() {
            self.http.insert(port.number);
        } else if protocol.is_tls() {
            self.tls.insert(port.number);
        } else if protocol != Protocol::Udp {
            self.tcp.insert(port.number);
        }
    }
}

/// Services of the hosts of a VirtualService.
#[derive(Default)]
pub(super) struct HostServices<'c> {
    /// The hosts, complete.
    pub(super) patterns: Vec<HostPattern>,
    pub(super) views: Vec<&'c Arc<ServiceView>>,
    /// Whether no service of one of the hosts is known, so that clients of every namespace may send requests to it.
    pub(super) is_unserved: bool,
    /// Whether services of one may be declared elsewhere.
    is_elsewhere: bool,
}

impl HostServices<'_> {
    /// Returns the ports of the hosts; `None` if services of one may be declared elsewhere, or there is no host.
    pub(super) fn listened(&self) -> Option<Listened> {
        let mut out = Listened { is_usual: self.is_unserved, ..Listened::default() };
        self.views.iter().flat_map(|view| view.ports.iter()).for_each(|port| out.add(port));
        let is_any = self.is_unserved || !self.views.is_empty();
        (is_any && !self.is_elsewhere).then_some(out)
    }
}

impl<'c> RouteConditions<'c> {
    /// Returns the services of the hosts of a VirtualService.
    pub(super) fn hosts(&mut self, key: &PolicyKey, own: &VirtualService) -> HostServices<'c> {
        let hosts: Vec<HostPattern> = own.hosts.iter().map(|host| self.completed(key, host)).collect();
        let clients = self.clients(key, own);
        let mut out = HostServices::default();
        for host in &hosts {
            let mut views = self.services.of(host);
            views.retain(|view| self.is_got(view, &clients));
            out.is_unserved |= views.is_empty();
            out.is_elsewhere |= self.services.are_elsewhere(host);
            out.views.extend(views);
        }
        out.patterns = hosts;
        out
    }
}

/// Returns the condition of routes that no port of the hosts has.
pub(super) fn portless<'c>(own: &VirtualService, listened: &Listened) -> Option<Found<'c>> {
    let requests = listened.of(List::Http);
    let lists = [
        ("http", own.http.is_empty(), &requests),
        ("tls", own.tls.is_empty(), &listened.tls),
        ("tcp", own.tcp.is_empty(), &listened.tcp),
    ];
    let unused = lists.into_iter().filter(|(_, is_unset, ports)| !is_unset && ports.is_empty());
    // sidecars have them on port 80 for a host without requests on it
    let note = |list: &str| if list == "http" { " (they apply to requests to port 80 alone)" } else { "" };
    let unused = unused.map(|(list, ..)| format!("{list}{}", note(list)));
    let of =
        |list: &str, at: usize, name: &str, ports: Vec<Option<PortNumber>>, known: &BTreeSet<PortNumber>| {
            Some(format!("{} (port {})", place(list, at, name), other_port(ports, known)?))
        };
    let http = own.http.iter().enumerate().filter_map(|(at, route)| {
        of("http", at, &route.name, route.matches.iter().map(|found| found.port).collect(), &requests)
    });
    let tls = own.tls.iter().enumerate().filter_map(|(at, route)| {
        of("tls", at, "", route.matches.iter().map(|found| found.connection.port).collect(), &listened.tls)
    });
    let tcp = own.tcp.iter().enumerate().filter_map(|(at, route)| {
        of("tcp", at, "", route.matches.iter().map(|found| found.port).collect(), &listened.tcp)
    });
    let parts: Vec<String> = unused.chain(http).chain(tls).chain(tcp).collect();
    let message =
        || format!("no service of the hosts has a port for: {}", named(parts.iter().map(String::as_str)));
    (!parts.is_empty()).then(|| Found(Code::ROUTE_PORT_UNMATCHED, Vec::new(), message()))
}

/// Returns the first port that the matches of a route name, if no port of the hosts is one of them. A list without ports is a
/// condition of its own.
fn other_port(named: Vec<Option<PortNumber>>, known: &BTreeSet<PortNumber>) -> Option<PortNumber> {
    let named: Option<Vec<PortNumber>> = named.into_iter().collect();
    let named = named.filter(|named| !known.is_empty() && !named.iter().any(|port| known.contains(port)))?;
    named.first().copied()
}
