//! What the destinations of routes lead to: through an alias to another service, and with the property of requests by
//! which a DestinationRule chooses an endpoint.
//!
//! The build calls it for each service with VirtualServices.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    ByClient, HashKey, Hostname, HttpCandidate, HttpRoute, ResolvedDestination, RouteDestination,
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

fn resolve(
    context: &MergeContext,
    hosts: &Hosts,
    destination: &RouteDestination,
) -> Option<ResolvedDestination> {
    let host = concrete(context, hosts, &destination.host);
    let hash = hash_of(context, hosts, &host, destination);
    let differs = host != destination.host || hash.is_some();
    differs.then(|| ResolvedDestination { destination: destination.clone(), host, hash })
}

/// Returns the host that an alias ends at, and any other host itself.
fn concrete(context: &MergeContext, hosts: &Hosts, host: &Hostname) -> Hostname {
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

fn hash_of(
    context: &MergeContext,
    hosts: &Hosts,
    host: &Hostname,
    destination: &RouteDestination,
) -> ByClient<HashKey> {
    if context.rules.is_empty() {
        return None;
    }
    let outlines = outlines(context, hosts, host);
    let applied = applied(context, &outlines.first()?.service.key)?;
    let hash = |rule: &Option<Arc<MergedRule>>| {
        rule.as_ref()?.hash_of(destination.port, destination.subset.as_ref()).map(Arc::new)
    };
    let hashes = applied.map(hash);
    let is_any = hashes.values().any(Option::is_some);
    is_any.then(|| Arc::new(hashes))
}
