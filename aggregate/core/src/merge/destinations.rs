//! What the destinations of routes lead to: through an alias to another service, for connections to its only port, and
//! with what a DestinationRule sets.
//!
//! The build calls it for each service with VirtualServices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    ByClient, ConnectionTarget, Hostname, HttpCandidate, HttpRoute, L4Candidate, PortNumber,
    ResolvedDestination, RouteDestination, Subset,
};

use crate::merge::outline::outlines;
use crate::merge::rules::{MergedRule, applied};
use crate::state::MergeContext;
use crate::state::names::End;
use crate::state::services::Hosts;

/// Returns what the destinations lead to, sorted; those that only lead to what they name are left out.
pub(crate) fn resolved(
    context: &MergeContext,
    hosts: &Hosts,
    candidates: &[HttpCandidate],
) -> Vec<ResolvedDestination> {
    let routes = candidates.iter().flat_map(|candidate| candidate.routes.iter());
    let named: BTreeSet<&RouteDestination> = routes.flat_map(HttpRoute::destinations).collect();
    named.into_iter().filter_map(|destination| resolve(context, hosts, destination)).collect()
}

/// Returns what the destinations of routes of connections lead to, sorted; those that only lead to what they name are left
/// out. Of several destinations of a route, the rule of the first one counts, without its subset.
pub(crate) fn connected(
    context: &MergeContext,
    hosts: &Hosts,
    candidates: &[L4Candidate],
) -> Vec<ConnectionTarget> {
    let mut named: BTreeSet<RouteDestination> = BTreeSet::new();
    for destinations in candidates.iter().flat_map(|candidate| candidate.routes.destinations()) {
        if let [first, _, ..] = destinations {
            named.insert(RouteDestination { subset: None, ..first.destination.clone() });
        }
        named.extend(destinations.iter().map(|to| to.destination.clone()));
    }
    named.into_iter().filter_map(|destination| connect(context, hosts, destination)).collect()
}

fn resolve(
    context: &MergeContext,
    hosts: &Hosts,
    destination: &RouteDestination,
) -> Option<ResolvedDestination> {
    let host = concrete(context, hosts, &destination.host);
    let subset = destination.subset.as_ref();
    let hash_on = |port| ruled(context, hosts, &host, |rule| rule.hash_of(port, subset));
    let hash = hash_on(destination.port);
    let ports = destination.port.is_none().then(|| hashed_ports(context, hosts, &host, subset));
    let with_hash = ports.into_iter().flatten().map(|port| (port, hash_on(Some(port))));
    let hash_of_ports: BTreeMap<_, _> = with_hash.filter(|(_, own)| *own != hash).collect();
    let differs = host != destination.host || hash.is_some() || !hash_of_ports.is_empty();
    differs.then(|| ResolvedDestination { destination: destination.clone(), host, hash, hash_of_ports })
}

/// Returns the ports for which the rules of the first claimant of a host set a hash.
fn hashed_ports(
    context: &MergeContext,
    hosts: &Hosts,
    host: &Hostname,
    subset: Option<&Subset>,
) -> BTreeSet<PortNumber> {
    let ports = ruled(context, hosts, host, |rule| {
        Some(rule.hashed_ports(subset).collect::<BTreeSet<_>>()).filter(|ports| !ports.is_empty())
    });
    ports.iter().flat_map(|by| by.values()).flatten().flat_map(|ports| ports.iter().copied()).collect()
}

fn connect(context: &MergeContext, hosts: &Hosts, destination: RouteDestination) -> Option<ConnectionTarget> {
    let host = concrete(context, hosts, &destination.host);
    let port = destination.port.is_none().then(|| only_port(context, hosts, &host)).flatten();
    let subset = destination.subset.as_ref();
    let policy = ruled(context, hosts, &host, |rule| rule.of_routed_connections(subset));
    let differs = host != destination.host || port.is_some() || policy.is_some();
    differs.then_some(ConnectionTarget { destination, host, port, policy })
}

/// Returns the port of the first claimant of a host, if it has only one.
pub(crate) fn only_port(context: &MergeContext, hosts: &Hosts, host: &Hostname) -> Option<PortNumber> {
    let ports = outlines(context, hosts, host).first()?.ports(context, hosts);
    let mut ports = ports.into_iter();
    ports.next().filter(|_| ports.next().is_none())
}

/// Returns the host that an alias ends at, and any other host itself.
pub(crate) fn concrete(context: &MergeContext, hosts: &Hosts, host: &Hostname) -> Hostname {
    let aliases = &context.names.aliases;
    if !aliases.declares(host) {
        return host.clone();
    }
    let first = outlines(context, hosts, host).into_iter().next();
    match first.and_then(|outline| aliases.end_of(&outline.service.key)) {
        Some(End::Host(end) | End::Missing(end)) => end.clone(),
        Some(End::Loop) | None => host.clone(),
    }
}

/// Returns what the rules of the first claimant of a host set.
fn ruled<T: PartialEq>(
    context: &MergeContext,
    hosts: &Hosts,
    host: &Hostname,
    of: impl Fn(&MergedRule) -> Option<T>,
) -> ByClient<T> {
    if context.rules.is_empty() {
        return None;
    }
    let outlines = outlines(context, hosts, host);
    let applied = applied(context, &outlines.first()?.service.key)?;
    let set = applied.map(|rule: &Option<Arc<MergedRule>>| of(rule.as_ref()?).map(Arc::new));
    let is_any = set.values().any(Option::is_some);
    is_any.then(|| Arc::new(set))
}
