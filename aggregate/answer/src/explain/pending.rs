//! Turns pending entries of the catalog into steps: waiting addresses, groups without a declaration,
//! and held removals. Only reports decisions of the core.
//!
//! Called by explain (by address, a scan) and why-not (by host, a look-up). The application adds the wall time
//! of the wait to details.

use tributary_model::{
    Address, Catalog, Code, CollectionKind, EndpointGroup, EndpointSource, Hostname, Pending, PendingCause,
    PortView, ServiceKey, Stage, StepTime, TraceStep, Verdict,
};

use super::{Explanation, Query};
use crate::client::Client;
use crate::endpoints::Destination;

/// Returns one explanation for each pending endpoint that matches the query, up to `max`.
pub(super) fn explanations(
    catalog: &Catalog,
    query: &Query,
    client: Option<&Client>,
    max: usize,
) -> Vec<Explanation> {
    let all = catalog.pending.iter().flat_map(|(host, list)| list.iter().map(move |one| (host, one)));
    let not_served = all.filter(|(_, one)| !matches!(one.cause, PendingCause::Held(..)));
    let meant =
        not_served.flat_map(|(host, one)| steps(host, one, Some(query)).map(move |step| (host, step)));
    let explain = |(host, step): (&Hostname, TraceStep)| {
        let mut out = Explanation::new(catalog, step.endpoint.clone(), client);
        out.set_service(host, None);
        out.add([step]);
        out
    };
    meant.take(max).map(explain).collect()
}

/// Returns the steps of all pending entries of a host. Held removals are warnings, because they are served.
pub(super) fn of_host(catalog: &Catalog, host: &str) -> Vec<TraceStep> {
    let Some((host, list)) = catalog.pending.get_key_value(host) else { return Vec::new() };
    list.iter().flat_map(|one| steps(host, one, None)).collect()
}

/// Returns why an endpoint of a port is served although its source no longer lists it or its declaration.
pub(super) fn held(catalog: &Catalog, host: &Hostname, port: &PortView, endpoint: &str) -> Vec<TraceStep> {
    let mut out = Vec::new();
    for source in port.endpoints.inputs.sources.iter() {
        let host = source.federation.as_ref().map_or(host, |federation| &federation.host);
        if let Some(list) = catalog.pending.get(host) {
            let ours = list.iter().filter(|one| keeps(one, source, endpoint));
            out.extend(ours.flat_map(|one| steps(host, one, None)));
        }
    }
    out
}

/// Whether an endpoint of a source is served only because this removal is held.
fn keeps(one: &Pending, source: &EndpointSource, endpoint: &str) -> bool {
    let PendingCause::Held(kind, _) = one.cause else { return false };
    let (group, object) = (&source.group, &one.object.id);
    let is_this = |address: &&Address| targets(group, address).any(|target| target.to_string() == endpoint);
    let indexes = source.held.iter().filter_map(|at| usize::try_from(*at).ok());
    let mut held = indexes.filter_map(|at| group.addresses.get(at)).filter(is_this);
    let is_same = one.shard == source.shard;
    match kind {
        CollectionKind::Services => {
            let declares = is_same && *object == source.declaration.source.object;
            declares && group.addresses.iter().any(|address| is_this(&address))
        }
        CollectionKind::Groups => is_same && *object == group.source.object && held.next().is_some(),
        CollectionKind::Workloads => {
            held.any(|address| address.origin.as_ref().is_some_and(|origin| origin.object == *object))
        }
        CollectionKind::Gateways | CollectionKind::Settings | CollectionKind::Policies => false,
    }
}

/// Returns the steps of one entry; with a query, only of the matching endpoints.
fn steps<'a>(
    host: &Hostname,
    one: &'a Pending,
    query: Option<&'a Query>,
) -> Box<dyn Iterator<Item = TraceStep> + 'a> {
    let service = ServiceKey { host: host.clone(), namespace: one.namespace.clone() };
    let step = move |(stage, verdict, code), endpoint: String, why: String| TraceStep {
        stage,
        verdict,
        code,
        registry: Some(one.shard.registry.name.clone()),
        object: Some(one.object.clone()),
        endpoint,
        detail: why,
        time: Some(StepTime::Since(one.since)),
    };
    match &one.cause {
        PendingCause::Objects(addresses) => {
            let meant = addresses.iter().filter(move |address| query.is_none_or(|q| q.means_ip(address.ip)));
            Box::new(meant.map(move |address| {
                let why =
                    format!("listed for {service}, waits for {}, which has not been seen", address.waits_for);
                step((Stage::Source, Verdict::Drop, Code::POD_NOT_SEEN), address.ip.to_string(), why)
            }))
        }
        PendingCause::Declaration(declaration, group) => {
            Box::new(endpoints(group, query).map(move |endpoint| {
                let why = format!("listed for {service}, waits for the declaration {declaration}");
                step((Stage::Merge, Verdict::Drop, Code::GROUP_WITHOUT_DECLARATION), endpoint, why)
            }))
        }
        PendingCause::Held(kind, reason) => {
            let what = match kind {
                CollectionKind::Services => "declaration",
                CollectionKind::Workloads => "workload",
                CollectionKind::Policies => "policy",
                CollectionKind::Groups | CollectionKind::Gateways | CollectionKind::Settings => "endpoints",
            };
            let why = format!(
                "missing from the last answer for {service}; the removal of its {what} is held: {reason}"
            );
            let code = (Stage::Source, Verdict::Warn, Code::REMOVAL_HELD);
            Box::new(std::iter::once(step(code, String::new(), why)))
        }
    }
}

/// Returns the endpoints of a group, each address with each of its ports; with a query, the matching ones.
fn endpoints<'a>(group: &'a EndpointGroup, query: Option<&'a Query>) -> impl Iterator<Item = String> + 'a {
    let meant = move |address: &&Address| query.is_none_or(|query| query.means_address(address));
    let targets = group.addresses.iter().filter(meant).flat_map(|address| targets(group, address));
    targets.filter(move |t| query.is_none_or(|query| query.means(t))).map(|target| target.to_string())
}

fn targets<'a>(group: &'a EndpointGroup, address: &'a Address) -> impl Iterator<Item = Destination<'a>> {
    group.ports(address).iter().filter_map(move |port| Destination::of(group, address, port.number))
}
