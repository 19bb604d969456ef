//! Plans the TLS and TCP routes of VirtualServices as parts of listeners (`docs/reference/xds.md`).
//!
//! `listener` calls it with the parts that a service port has without them. The choice in the client's key decides which
//! routes there are; they are tried in its order, and the first with a match wins it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    ConnectionPolicy, ConnectionTarget, HostPattern, L4Destination, L4Match, L4Routes, Labels,
    ListenerInputs, Namespace, PolicyKey, PortNumber, Projection, RouteChoice, RouteDestination, TcpRoute,
    TlsRoute,
};

use crate::listener::{ListenerPlan, Match, Serves};
use crate::names::ClusterName;
use crate::virtual_service::names_clients;

/// Part of the connections of a service port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Routed {
    /// Ranges of which one contains the destination; any destination if empty.
    ranges: Vec<(IpAddr, u8)>,
    /// Server name; any connection if absent.
    sni: Option<String>,
    serves: Serves,
    /// VirtualService that declares it.
    rule: PolicyKey,
}

/// Returns the parts of a port with the routes of VirtualServices in the place of its own target. `wide` is the part for
/// everything in the port's shared listener: TLS without an address is found there by the names of the routes.
pub(crate) fn routed(
    parts: Vec<ListenerPlan>,
    wide: ListenerPlan,
    facts: &ListenerInputs,
    client: &Projection,
) -> Vec<ListenerPlan> {
    let choices = client.choices.as_deref().unwrap_or_default();
    if choices.is_empty() {
        return parts;
    }
    let is_tls = facts.protocol.is_tls();
    let ends = Ends { facts, client: client.namespace.as_ref().and_then(Option::as_ref) };
    let routes = if is_tls { tls(&ends, choices) } else { tcp(&ends, choices) };
    if routes.is_empty() {
        return parts;
    }
    let (own, mut out): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| matches!(part.serves, Serves::Cluster(..)));
    let own = if own.is_empty() && is_tls { vec![wide] } else { own };
    for part in own {
        out.extend(routes.iter().flat_map(|route| narrowed(&part, route)));
        // connections of TLS that no route names are those of a stranger
        out.extend((!is_tls).then_some(part));
    }
    let mut seen = BTreeSet::new();
    out.retain(|part| seen.insert((part.bind, part.port, part.matches.clone())));
    out
}

/// Returns the parts of a route within a part of the port: its ranges take the place of the part's.
fn narrowed(part: &ListenerPlan, route: &Routed) -> Vec<ListenerPlan> {
    let to = |range| ListenerPlan {
        matches: Match { range, sni: route.sni.clone(), ..part.matches.clone() },
        serves: route.serves.clone(),
        rule: Some(route.rule.clone()),
        ..part.clone()
    };
    if route.ranges.is_empty() {
        return vec![to(part.matches.range)];
    }
    route.ranges.iter().map(|range| to(Some(*range))).collect()
}

/// Returns the TCP routes of all VirtualServices, up to the first for any destination.
fn tcp(ends: &Ends<'_>, choices: &[RouteChoice]) -> Vec<Routed> {
    let mut out = Vec::new();
    for (rule, candidate, fulfilled) in chosen(ends.facts, choices) {
        let mut admits = admission(ends.facts.port, fulfilled);
        for TcpRoute { matches, destinations } in candidate.tcp.iter() {
            let fitting: Vec<&L4Match> = matches.iter().filter(|found| admits(found)).collect();
            let is_any = matches.is_empty() || fitting.iter().any(|found| found.subnets.is_empty());
            let ranges: Vec<_> =
                if is_any { Vec::new() } else { fitting.into_iter().flat_map(ranges).collect() };
            if is_any || !ranges.is_empty() {
                let (serves, rule) = (ends.serves(destinations), rule.clone());
                out.push(Routed { ranges, sni: None, serves, rule });
            }
            if is_any {
                return out;
            }
        }
    }
    out
}

/// Returns the TLS routes of all VirtualServices, one for each server name. Envoy refuses a listener for a partial
/// wildcard as a server name.
fn tls(ends: &Ends<'_>, choices: &[RouteChoice]) -> Vec<Routed> {
    let mut out = Vec::new();
    for (rule, candidate, fulfilled) in chosen(ends.facts, choices) {
        let mut admits = admission(ends.facts.port, fulfilled);
        for TlsRoute { matches, destinations } in candidate.tls.iter() {
            for found in matches.iter().filter(|found| admits(&found.connection)) {
                let names = found.names.iter().filter(|name| is_server_name(name));
                out.extend(names.map(|name| Routed {
                    ranges: ranges(&found.connection).collect(),
                    sni: Some(name.as_str().to_owned()),
                    serves: ends.serves(destinations),
                    rule: rule.clone(),
                }));
            }
        }
    }
    out
}

fn is_server_name(name: &HostPattern) -> bool {
    name.suffix().is_none_or(|suffix| suffix.starts_with('.'))
}

fn ranges(found: &L4Match) -> impl Iterator<Item = (IpAddr, u8)> {
    found.subnets.iter().map(|net| (net.addr(), net.prefix_len()))
}

/// Returns each chosen VirtualService with its routes and the outcomes of its conditions on clients.
fn chosen<'a>(
    facts: &'a ListenerInputs,
    choices: &'a [RouteChoice],
) -> impl Iterator<Item = (&'a PolicyKey, &'a L4Routes, &'a [bool])> {
    choices.iter().filter_map(|choice| {
        let candidate = facts.virtual_services.get(usize::from(choice.candidate))?;
        Some((&candidate.of.key, &candidate.routes, &*choice.fulfilled))
    })
}

/// Returns the decision about each condition, in order. Those in which clients differ are decided by the choice.
fn admission(port: PortNumber, fulfilled: &[bool]) -> impl FnMut(&L4Match) -> bool {
    let mut fulfilled = fulfilled.iter();
    move |found| match names_clients(&found.clients) {
        true => fulfilled.next().copied().unwrap_or_default(),
        false => found.admits(port, &Labels::default(), None),
    }
}

/// What a route's target depends on beside it.
struct Ends<'a> {
    facts: &'a ListenerInputs,
    client: Option<&'a Namespace>,
}

impl Ends<'_> {
    /// Returns the target of destinations. Several have shares, of which those of weight 0 receive nothing, and the
    /// settings of the first one's rule.
    fn serves(&self, destinations: &[L4Destination]) -> Serves {
        let share = |to: &L4Destination| (self.cluster(&to.destination), to.weight);
        let receiving: Arc<[_]> = destinations.iter().filter(|to| to.weight > 0).map(share).collect();
        match destinations {
            [first, _, ..] if !receiving.is_empty() => {
                let whole = RouteDestination { subset: None, ..first.destination.clone() };
                Serves::Weighted(receiving, self.policy(&whole))
            }
            [first, ..] => Serves::Cluster(self.cluster(&first.destination), self.policy(&first.destination)),
            [] => Serves::Weighted(receiving, None),
        }
    }
    /// Names the xDS cluster of a destination, which need not exist. Without a port it has the only one of its service,
    /// else that of the listener.
    fn cluster(&self, to: &RouteDestination) -> ClusterName {
        let known = self.end(to);
        let port = to.port.or_else(|| known?.port).unwrap_or(self.facts.port);
        let host = known.map_or(&to.host, |known| &known.host);
        ClusterName { subset: to.subset.clone(), ..ClusterName::new(port, host) }
    }
    fn policy(&self, to: &RouteDestination) -> Option<Arc<ConnectionPolicy>> {
        self.end(to)?.policy.as_ref()?.get(self.client).clone()
    }
    fn end(&self, to: &RouteDestination) -> Option<&ConnectionTarget> {
        let all = &self.facts.destinations;
        all.get(all.binary_search_by(|known| known.destination.cmp(to)).ok()?)
    }
}

#[cfg(test)]
mod tests;
