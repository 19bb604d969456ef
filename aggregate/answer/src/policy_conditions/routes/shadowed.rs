//! Condition of a VirtualService with routes that serve nothing, because the routes before them take it.
//!
//! Proxies try the routes of HTTP in order. Of routes of connections they take the one with the narrowest range of
//! destinations and the narrowest server name, whatever their order, so only an equal one before takes them; a TCP route
//! for any destination is the last of its VirtualService.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tributary_model::{
    Code, HostPattern, HttpAction, HttpMatch, HttpRoute, L4Match, PortNumber, TcpRoute, TlsRoute,
    VirtualService,
};

use super::ports::Listened;
use super::{Found, RouteConditions, matches_of, named, place};
use crate::policy_conditions::MAX_LOOKS;

impl<'c> RouteConditions<'c> {
    /// Returns the condition of routes of which every request or connection is that of a route before them.
    pub(super) fn shadowed(
        &mut self,
        own: &VirtualService,
        listened: Option<&Listened>,
    ) -> Option<Found<'c>> {
        let any = L4Match::default();
        let tls: Vec<Vec<Part<'_>>> = own.tls.iter().map(tls_parts).collect();
        let tcp: Vec<Vec<Part<'_>>> = own.tcp.iter().map(|route| tcp_parts(route, &any)).collect();
        let mut parts = self.shadowed_requests(own, listened)?;
        parts.extend(self.shadowed_connections("tls", &tls, is_same)?);
        parts.extend(self.shadowed_connections("tcp", &tcp, is_same_or_any)?);
        let message = || {
            format!("routes before them take every request of: {}", named(parts.iter().map(String::as_str)))
        };
        (!parts.is_empty()).then(|| Found(Code::ROUTE_SHADOWED, Vec::new(), message()))
    }
    /// Returns the routes of HTTP behind others that take their requests; `None` beyond [`MAX_LOOKS`].
    fn shadowed_requests(
        &mut self,
        own: &VirtualService,
        listened: Option<&Listened>,
    ) -> Option<Vec<String>> {
        let all = [HttpMatch::default()];
        let mut parts = Vec::new();
        for (at, route) in own.http.iter().enumerate() {
            let before = &own.http[..at];
            let matches = matches_of(route, &all);
            let most = matches.len() * before.iter().map(|of| of.matches.len().max(1)).sum::<usize>();
            self.look(most)?;
            let mut taken =
                matches.iter().map(|found| taker(before, found)).collect::<Option<BTreeSet<usize>>>();
            if let (None, Some(ports)) = (&taken, listened.map(|all| &all.http)) {
                self.look(most * ports.len())?;
                let each = matches.iter().flat_map(|found| by_port(found, ports));
                taken = each.map(|found| taker(before, &found)).collect();
            }
            if let Some(by) = taken {
                let by: Vec<String> =
                    by.into_iter().map(|at| place("http", at, &own.http[at].name)).collect();
                parts.push(format!("{} (by {})", place("http", at, &route.name), by.join(" and ")));
            }
        }
        Some(parts)
    }
    /// Returns the routes of connections behind others that take all of their parts; `None` beyond [`MAX_LOOKS`].
    fn shadowed_connections(
        &mut self,
        list: &str,
        routes: &[Vec<Part<'_>>],
        takes: fn(&Part<'_>, &Part<'_>) -> bool,
    ) -> Option<Vec<String>> {
        let mut out = Vec::new();
        for (at, route) in routes.iter().enumerate() {
            self.look(route.len() * routes[..at].iter().map(Vec::len).sum::<usize>())?;
            let taker = |part: &Part<'_>| {
                let takes_it =
                    |of: &Vec<Part<'_>>| of.iter().any(|of| of.of.covers_clients(part.of) && takes(of, part));
                routes[..at].iter().position(takes_it)
            };
            if let Some(by) = route.iter().map(taker).collect::<Option<BTreeSet<usize>>>() {
                let by: Vec<String> = by.into_iter().map(|at| format!("{list}[{at}]")).collect();
                out.push(format!("{list}[{at}] (by {})", by.join(" and ")));
            }
        }
        Some(out)
    }
    /// Counts comparisons; `None` beyond [`MAX_LOOKS`].
    fn look(&mut self, comparisons: usize) -> Option<()> {
        self.looks += comparisons;
        (self.looks <= MAX_LOOKS).then_some(())
    }
}

/// Connections of a route that a proxy compares with those of others.
struct Part<'r> {
    /// Conditions on clients and the port.
    of: &'r L4Match,
    /// Server name; `None` for TCP.
    name: Option<&'r HostPattern>,
    /// Range of destinations; any if absent.
    range: Option<(IpAddr, u8)>,
}

fn is_same(own: &Part<'_>, other: &Part<'_>) -> bool {
    own.name == other.name && own.range == other.range
}

fn is_same_or_any(own: &Part<'_>, other: &Part<'_>) -> bool {
    own.range.is_none() || is_same(own, other)
}

fn tls_parts(route: &TlsRoute) -> Vec<Part<'_>> {
    let named = route.matches.iter().flat_map(|found| found.names.iter().map(move |name| (found, name)));
    named.flat_map(|(found, name)| parts(&found.connection, Some(name))).collect()
}

fn tcp_parts<'r>(route: &'r TcpRoute, any: &'r L4Match) -> Vec<Part<'r>> {
    let everything = route.matches.is_empty().then_some(any);
    route.matches.iter().chain(everything).flat_map(|found| parts(found, None)).collect()
}

fn parts<'r>(of: &'r L4Match, name: Option<&'r HostPattern>) -> impl Iterator<Item = Part<'r>> {
    let any = of.subnets.is_empty().then_some(None);
    let ranges = of.subnets.iter().map(|net| Some((net.trunc().addr(), net.prefix_len()))).chain(any);
    ranges.map(move |range| Part { of, name, range })
}

/// Returns the first of some routes that takes all requests with these properties.
fn taker(before: &[HttpRoute], found: &HttpMatch) -> Option<usize> {
    let all = [HttpMatch::default()];
    let covers = |route: &HttpRoute| matches_of(route, &all).iter().any(|of| of.covers(found));
    before.iter().position(|route| is_last(route) && covers(route))
}

/// Returns a match for each of the ports that requests come to, for routes before it may take those of one port each.
fn by_port(found: &HttpMatch, ports: &BTreeSet<PortNumber>) -> Vec<HttpMatch> {
    if found.port.is_some() || ports.is_empty() {
        return vec![found.clone()];
    }
    ports.iter().map(|port| HttpMatch { port: Some(*port), ..found.clone() }).collect()
}

/// Whether a request that a route matches goes no further; the routes of a delegate may not match it.
fn is_last(route: &HttpRoute) -> bool {
    !matches!(route.action, HttpAction::Delegate(..))
}
