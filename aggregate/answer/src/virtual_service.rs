//! Chooses the VirtualService that serves a client of a host, and which of its routes the client has.
//!
//! The key of a client's answer calls it and keeps the outcome; the plans read the outcome, so two clients with the same
//! routes share their bytes. As in Istio: those for the client's own namespace, then those exported to it by name, then
//! those for all; those that name the host before those with a wildcard, of which only the first counts; one without a
//! route for the client does not count.

use std::sync::Arc;

use tributary_model::{
    ClientKind, ClientMatch, GatewayMatch, HttpCandidate, HttpMatch, HttpRoute, L4Candidate, L4Match, Labels,
    ListenerInputs, PolicyKey, PortNumber, Projection, Protocol, RouteCandidate, RouteChoice, RouteInputs,
    TcpRoute, TlsRoute,
};

use crate::client::ClientClass;
use crate::key::Attr;
use crate::listener::protocol_for;

/// Routes of HTTP requests of the VirtualService that serves a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen<'a> {
    /// All of its routes.
    pub routes: &'a [HttpRoute],
    /// For each of their matches, in order, whether the port and the client fulfil it. False behind one that takes every
    /// request.
    pub applies: Vec<bool>,
}

/// Returns the routes of HTTP requests that a client has; `None` if the port has its usual route.
#[must_use]
pub fn chosen<'a>(facts: &'a RouteInputs, client: &Projection) -> Option<Chosen<'a>> {
    let choice = client.choices.as_ref()?.first()?;
    let candidate = facts.virtual_services.get(usize::from(choice.candidate))?;
    let mut fulfilled = choice.fulfilled.iter();
    let mut decide = |_: &HttpMatch| fulfilled.next().copied().unwrap_or_default();
    let applies = applying(&candidate.routes, facts.port, &mut decide)?;
    Some(Chosen { routes: &candidate.routes, applies })
}

/// Returns the VirtualService whose routes of HTTP requests a client has.
pub(crate) fn owner<'a>(facts: &'a RouteInputs, client: &Projection) -> Option<&'a PolicyKey> {
    let choice = client.choices.as_ref()?.first()?;
    Some(&facts.virtual_services.get(usize::from(choice.candidate))?.of.key)
}

/// Returns the VirtualServices whose routes of connections a client has, in order.
pub(crate) fn owners_of_connections<'a>(
    facts: &'a ListenerInputs,
    client: &Projection,
) -> impl Iterator<Item = &'a PolicyKey> {
    let choices = client.choices.iter().flat_map(|choices| choices.iter());
    let at: Vec<usize> = choices.map(|choice| usize::from(choice.candidate)).collect();
    at.into_iter().filter_map(|at| Some(&facts.virtual_services.get(at)?.of.key))
}

/// Chooses for the route table of a port; empty for its usual route.
pub(crate) fn choose_http(facts: &RouteInputs, client: &ClientClass) -> Arc<[RouteChoice]> {
    let has_routes = facts.protocol.is_http() || facts.protocol == Protocol::Unspecified;
    if !has_routes || client.kind == ClientKind::Envoy {
        return Arc::default();
    }
    let seen = nearest(facts, client);
    let outcome = |(at, candidate): &(u16, &HttpCandidate)| {
        let mut fulfilled = Vec::new();
        let decide = &mut |found: &HttpMatch| {
            let is_fulfilled = found.admits(facts.port, &client.labels, client.namespace.as_ref());
            fulfilled.push(is_fulfilled);
            is_fulfilled
        };
        applying(&candidate.routes, facts.port, decide)?;
        Some(RouteChoice { candidate: *at, fulfilled: fulfilled.into() })
    };
    seen.iter().find_map(outcome).into_iter().collect()
}

/// Returns the candidates for the requests of a client to a port of which the first with a route for the client serves it: those
/// that name the host itself, else the first with the longest wildcard.
fn nearest<'a>(facts: &'a RouteInputs, client: &ClientClass) -> Vec<(u16, &'a HttpCandidate)> {
    let mut seen = visible(&facts.virtual_services, facts.port, client);
    if !facts.has_service {
        // all of them name it
    } else if seen.iter().any(|(_, candidate)| candidate.is_exact()) {
        seen.retain(|(_, candidate)| candidate.is_exact());
    } else if let Some(longest) = seen.iter().map(|(_, candidate)| candidate.host.specificity()).max() {
        seen.retain(|(_, candidate)| candidate.host.specificity() == longest);
        seen.truncate(1);
    }
    seen
}

/// Returns the candidates because of which a client has no route of a VirtualService, whatever routes it has: they name the host
/// more exactly, or the same wildcard before it. None if it counts, or does not concern the client.
pub(crate) fn preferred_to<'a>(
    key: &PolicyKey,
    facts: &'a RouteInputs,
    client: &ClientClass,
) -> Vec<&'a HttpCandidate> {
    let nearest = nearest(facts, client);
    let seen = visible(&facts.virtual_services, facts.port, client);
    let is_own = |(_, candidate): &(u16, &HttpCandidate)| candidate.of.key == *key;
    if !seen.iter().any(is_own) || nearest.iter().any(is_own) {
        return Vec::new();
    }
    nearest.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns for each match whether it applies on a port; `None` if no route is left. `decide` returns whether a client
/// fulfils a condition in which clients differ.
fn applying(
    routes: &[HttpRoute],
    port: PortNumber,
    decide: &mut dyn FnMut(&HttpMatch) -> bool,
) -> Option<Vec<bool>> {
    let mut applies = Vec::new();
    let (mut is_any, mut is_over) = (false, false);
    for route in routes {
        for found in route.matches.iter() {
            let may_apply = !is_over && may_admit(found, port);
            let holds = may_apply && (!depends_on_client(&found.clients) || decide(found));
            applies.push(holds);
            is_any |= holds;
            is_over |= holds && found.is_catch_all();
        }
        is_any |= route.matches.is_empty() && !is_over;
        is_over |= route.matches.is_empty();
    }
    is_any.then_some(applies)
}

/// Whether a condition is fulfilled by any client in a listener of a port.
fn may_admit(found: &HttpMatch, port: PortNumber) -> bool {
    found.clients.gateways != GatewayMatch::Other && found.port.is_none_or(|own| own == port)
}

/// Whether clients differ in a condition of HTTP routes: gateways with sidecars make the others void.
fn depends_on_client(clients: &ClientMatch) -> bool {
    clients.gateways == GatewayMatch::Undeclared && names_clients(clients)
}

/// Whether clients differ in whether they fulfil a condition on them.
pub(crate) fn names_clients(clients: &ClientMatch) -> bool {
    clients.namespace.is_some() || !clients.labels.is_empty()
}

/// Chooses for the listeners of a port: every VirtualService with a route for the client, in order, up to the first with
/// a TCP route for every connection.
pub(crate) fn choose_l4(facts: &ListenerInputs, client: &ClientClass) -> Arc<[RouteChoice]> {
    let protocol = protocol_for(facts, client.scope());
    let has_routes = !protocol.is_http() && protocol != Protocol::Udp;
    if !has_routes || client.kind != ClientKind::Sidecar {
        return Arc::default();
    }
    let mut out = Vec::new();
    for (candidate, L4Candidate { routes, .. }) in visible(&facts.virtual_services, facts.port, client) {
        let mut decisions = Decisions { client, port: facts.port, fulfilled: Vec::new(), is_any: false };
        let is_over = if protocol.is_tls() { decisions.tls(&routes.tls) } else { decisions.tcp(&routes.tcp) };
        if decisions.is_any {
            out.push(RouteChoice { candidate, fulfilled: decisions.fulfilled.into() });
        }
        if is_over {
            break;
        }
    }
    out.into()
}

/// Decisions about the conditions of one VirtualService's routes of connections.
struct Decisions<'a> {
    client: &'a ClientClass,
    port: PortNumber,
    /// Outcomes of those in which clients differ.
    fulfilled: Vec<bool>,
    /// Whether the client has any route.
    is_any: bool,
}

impl Decisions<'_> {
    /// Decides all conditions. No route of TLS is for every connection.
    fn tls(&mut self, routes: &[TlsRoute]) -> bool {
        for found in routes.iter().flat_map(|route| route.matches.iter()) {
            self.admits(&found.connection);
        }
        false
    }
    /// Decides the conditions of the routes up to one for every connection. Returns whether there is one.
    fn tcp(&mut self, routes: &[TcpRoute]) -> bool {
        for route in routes {
            let mut takes_all = route.matches.is_empty();
            self.is_any |= takes_all;
            for found in route.matches.iter() {
                takes_all |= self.admits(found) && found.subnets.is_empty();
            }
            if takes_all {
                return true;
            }
        }
        false
    }
    fn admits(&mut self, found: &L4Match) -> bool {
        let is_fulfilled = found.admits(self.port, &self.client.labels, self.client.namespace.as_ref());
        self.is_any |= is_fulfilled;
        if names_clients(&found.clients) {
            self.fulfilled.push(is_fulfilled);
        }
        is_fulfilled
    }
}

/// Returns the candidates that concern a client, with their positions, in the order in which they serve it.
fn visible<'a, R>(
    candidates: &'a [RouteCandidate<R>],
    port: PortNumber,
    client: &ClientClass,
) -> Vec<(u16, &'a RouteCandidate<R>)> {
    let (scope, own) = (client.scope(), client.namespace.as_ref());
    let is_imported = |candidate: &RouteCandidate<R>| {
        let (namespace, hosts) = (&candidate.of.key.namespace, &candidate.of.hosts);
        scope.egress().is_none_or(|egress| egress.imports_any(own, port, namespace, hosts))
    };
    let numbered = (0..u16::MAX).zip(candidates);
    let seen = numbered.filter_map(|(at, candidate)| Some((candidate.of.tier(own)?, at, candidate)));
    let mut seen: Vec<_> = seen.filter(|(_, _, candidate)| is_imported(candidate)).collect();
    seen.sort_by_key(|(tier, at, _)| (*tier, *at));
    seen.into_iter().map(|(_, at, candidate)| (at, candidate)).collect()
}

/// Reports every client value that changes a choice.
pub(crate) fn mention<'a, R: 'a, I: Iterator<Item = &'a ClientMatch>>(
    candidates: &'a [RouteCandidate<R>],
    clients: impl Fn(&'a RouteCandidate<R>) -> I,
    report: &mut dyn FnMut(Attr),
) {
    for candidate in candidates {
        candidate.of.namespaces().cloned().map(Attr::Namespace).for_each(&mut *report);
        for found in clients(candidate) {
            found.namespace.iter().cloned().map(Attr::Namespace).for_each(&mut *report);
            mention_labels(&found.labels, report);
        }
    }
}

fn mention_labels(labels: &Labels, report: &mut dyn FnMut(Attr)) {
    labels.pairs().for_each(|(key, value)| report(Attr::Label(Arc::clone(key), Arc::clone(value))));
}

#[cfg(test)]
mod tests;
