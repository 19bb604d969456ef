//! Explains why a client receives an endpoint or not (`docs/guides/why.md`).
//!
//! Runs the serving functions with a trace and adds the sources that the view lists. The application
//! adds the session's steps (stage deliver) and the core's steps (quarantined objects, groups without a
//! declaration, times) through [`Explanation::add`]. The documents are the stable contract of `-o json`.

mod authorization;
mod destinations;
mod document;
mod freshness;
mod gateways;
mod pending;
mod query;
mod reach;
mod routes;
mod rules;
mod security;
mod source;
mod subsets;
mod unread;
mod why_not;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, Code, EndpointInputs, PortView, Projection, Protocol, Recorder, ServiceKey,
    ServiceView, Shared, Stage, Subset, Trace, TraceStep, Verdict, WorkloadView,
};

use crate::client::Client;
use crate::endpoints::{Assignment, Destination, endpoints_of, inline_of, record_networks};
use crate::key::key;
use crate::resolve::{claimant, record};
use crate::scope::trace::reaches;

pub use destinations::lost_destination;
pub use document::{Explanation, Outcome, Reason, Refused, StepDocument, StepObject, WhyNot};
pub use freshness::endpoint_freshness;
pub use query::Query;
pub use reach::{
    Carrier, carrier, connection_targets, connection_tls, leading_listeners, leading_parts,
    leading_resources, requested_addresses,
};
pub use routes::{AppliedRoutes, applied_routes, grpc_declared};
pub use rules::{AppliedRule, applied_rules};
pub use subsets::{is_in_subset, received_subsets, subsets_with};
pub use why_not::{longest_wildcard, why_not, why_not_in};

/// Maximum number of service ports that one query explains.
const MAX_EXPLANATIONS: usize = 64;

/// Explains why this endpoint is or is not served to this client, once for each service port that it
/// serves and each service for which it waits; never empty. Without a client, decisions that need one are left open.
///
/// Derives the stages source and merge from the views; callers with access to the core use
/// [`explain_with`].
#[must_use]
pub fn explain(catalog: &Catalog, query: &Query, client: Option<&Client>) -> Vec<Explanation> {
    explain_with(catalog, (query, None), client, &|_| Vec::new())
}

/// Explains as [`explain`] does, of a subset if one is named, with the stages source and merge as the core traces them:
/// `history` returns the steps of a service, or an empty list if the core does not know it.
#[must_use]
pub fn explain_with(
    catalog: &Catalog,
    (query, subset): (&Query, Option<&Subset>),
    client: Option<&Client>,
    history: &dyn Fn(&ServiceKey) -> Vec<TraceStep>,
) -> Vec<Explanation> {
    let ports = query.serving_ports(catalog, MAX_EXPLANATIONS);
    let of = |port: &ServingPort<'_>| explain_port(catalog, port, (client, subset), history(&port.view.key));
    let mut out: Vec<Explanation> = ports.iter().map(of).collect();
    out.extend(pending::explanations(catalog, query, client, MAX_EXPLANATIONS));
    out.extend(gateways::explanations(catalog, query, client, MAX_EXPLANATIONS));
    if out.is_empty() {
        out.extend(unselected(catalog, query, client));
    }
    if out.is_empty() {
        out.push(not_listed(catalog, query, client, None));
    }
    out
}

/// Explains an endpoint that no source lists, of a host if one is given.
#[must_use]
pub fn not_listed(
    catalog: &Catalog,
    query: &Query,
    client: Option<&Client>,
    host: Option<&str>,
) -> Explanation {
    let mut out = Explanation::new(catalog, query.to_string(), client);
    let behind = host.map_or_else(|| "any service port".to_owned(), |host| format!("a port of {host}"));
    let detail = format!("no source lists {query} behind {behind}");
    let (stage, verdict, code) = (Stage::Source, Verdict::Drop, Code::NO_SUCH_ENDPOINT);
    let (registry, object, endpoint) = (None, None, query.to_string());
    out.add([TraceStep { stage, verdict, code, registry, object, endpoint, detail, time: None }]);
    out.add(unread::of_catalog(catalog));
    out
}

/// Explains workloads that have the address but no service that selects or lists them.
fn unselected(catalog: &Catalog, query: &Query, client: Option<&Client>) -> Vec<Explanation> {
    let keys =
        query.ip().and_then(|ip| catalog.workload_ips.get(&ip)).into_iter().flat_map(|keys| keys.iter());
    let views = keys.filter_map(|key| catalog.workloads.get(key)).filter(|view| view.services.is_empty());
    let explain = |view: &Shared<WorkloadView>| {
        let mut out = Explanation::new(catalog, query.to_string(), client);
        let registry = &view.shard.registry.name;
        let detail = format!("a workload of registry {registry} has this address; no service selects it");
        out.add([TraceStep {
            stage: Stage::Merge,
            verdict: Verdict::Drop,
            code: Code::WORKLOAD_NOT_SELECTED,
            registry: Some(registry.clone()),
            object: Some(view.workload.source.reference()),
            endpoint: query.to_string(),
            detail,
            time: None,
        }]);
        out
    };
    views.take(MAX_EXPLANATIONS).map(explain).collect()
}

/// Service port that an endpoint serves.
pub(crate) struct ServingPort<'c> {
    pub(crate) view: &'c Arc<ServiceView>,
    pub(crate) port: &'c PortView,
    pub(crate) endpoint: String,
}

fn explain_port(
    catalog: &Catalog,
    serving: &ServingPort<'_>,
    (client, subset): (Option<&Client>, Option<&Subset>),
    history: Vec<TraceStep>,
) -> Explanation {
    let ServingPort { view, port, endpoint } = serving;
    let mut out = Explanation::new(catalog, endpoint.clone(), client);
    out.set_service(&view.key.host, Some(port.number));
    let mut trace = Trace { steps: history };
    let traced = !trace.steps.is_empty();
    source::record(catalog, view, port, endpoint, traced, &mut trace);
    let reached = client.is_none_or(|client| serves(catalog, serving, client, &mut trace));
    let mut within = Trace::default();
    let facts = open_to_all(&port.endpoints.inputs, client);
    if let Some(client) = client.filter(|_| reached) {
        within.steps.extend(rules::steps(catalog, view, port, &client.class, subset));
        within.steps.extend(routes::steps(catalog, (view, port), client));
        within.steps.extend(destinations::steps(catalog, port, client));
    }
    let assignment = assigned(&facts, (client, subset), port, &mut within).unwrap_or_default();
    let listed = weighed(&within.steps).any(|known| known == endpoint);
    if let Some(client) = client.filter(|_| reached && listed) {
        let found = assignment.endpoints().find(|e| e.target.to_string() == *endpoint);
        // behind gateways are only endpoints that accept mesh TLS
        let accepts = found.is_none_or(|found| found.mtls);
        within.steps.extend(security::step(port, subset, &client.class, Some(accepts)));
        let at = endpoint.parse::<SocketAddr>().map(|at| Destination::Ip(at.ip(), at.port()));
        within.steps.extend(at.iter().flat_map(|at| authorization::steps(catalog, at)));
    }
    let unrouted = client.filter(|_| listed && subset.is_none());
    let unrouted = unrouted.and_then(|client| subsets::without(port, client, endpoint));
    let sent = listed && unrouted.is_none();
    within.steps.extend(unrouted);
    if let Some(client) = client.filter(|_| reached) {
        let named = (view.key.host.as_str(), subset);
        let steps = reach::reach(catalog, view, port, client, named).into_iter();
        within.steps.extend(steps.filter(|step| sent || step.verdict == Verdict::Drop));
    }
    if client.is_none() {
        within.steps.extend(reach::not_served(view, port));
        leave_networks_open(&port.endpoints.inputs, endpoint, &mut within);
    }
    // The core's trace already contains the source steps.
    trace.steps.extend(within.steps.into_iter().filter(|s| !(traced && s.stage == Stage::Source)));
    trace.steps.retain(|step| step.endpoint.is_empty() || step.endpoint == *endpoint);
    out.add(trace.steps);
    out.add(pending::held(catalog, &view.key.host, port, endpoint));
    let is_udp = port.protocol == Protocol::Udp;
    let carried = client.map_or(!is_udp, |client| carrier(port, subset, &client.class).is_some());
    out.verdict = if reached && sent && carried { Outcome::Served } else { Outcome::Dropped };
    out
}

/// Returns the endpoints that are in an assignment, or behind its gateways, by the steps of its computation.
fn weighed(steps: &[TraceStep]) -> impl Iterator<Item = &String> {
    let is_sent = |step: &&TraceStep| step.code == Code::WEIGHT && step.verdict == Verdict::Pass;
    steps.iter().filter(is_sent).map(|step| &step.endpoint)
}

/// Removes network gates if there is no client: every network then counts as the client's own.
fn open_to_all<'a>(facts: &'a EndpointInputs, client: Option<&Client>) -> Cow<'a, EndpointInputs> {
    match client {
        Some(_) => Cow::Borrowed(facts),
        None => Cow::Owned(EndpointInputs { gated: Arc::from([]), ..facts.clone() }),
    }
}

/// Replaces the step about the network of an endpoint behind gateways if there is no client: how it is reached depends on the network of
/// each.
fn leave_networks_open(facts: &EndpointInputs, endpoint: &str, within: &mut Trace) {
    let mut open = Trace::default();
    record_networks(facts, &mut open);
    open.steps.retain(|step| step.endpoint == *endpoint);
    if !open.steps.is_empty() {
        within.steps.retain(|step| step.stage != Stage::Network || step.endpoint != *endpoint);
    }
    within.steps.extend(open.steps);
}

/// Whether the client resolves the host to this service, and imports its port.
fn serves<R: Recorder>(catalog: &Catalog, serving: &ServingPort<'_>, client: &Client, r: &mut R) -> bool {
    let ServingPort { view, port, .. } = serving;
    let scope = client.class.scope();
    let chosen = claimant(catalog, view.key.host.as_str(), scope, &mut ());
    record(catalog, view, chosen, scope, r);
    chosen.is_some_and(|chosen| Arc::ptr_eq(chosen, view)) && reaches(catalog, view, port, scope, r)
}

/// Returns the endpoints that a client gets for a port or a subset of its endpoints, by EDS or inside the xDS cluster;
/// `None` for a subset that no rule of the client declares.
pub(crate) fn assigned<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    (client, subset): (Option<&Client>, Option<&Subset>),
    port: &PortView,
    r: &mut R,
) -> Option<Assignment<'a>> {
    // Without a client no dimension is declared, and decisions that need one are left open.
    let projection = client.map_or_else(Projection::default, |c| key(&port.endpoints, &c.class));
    let projection = with_kind(projection, client.map(|c| c.class.kind));
    match facts.resolution.is_dns() {
        true => inline_of(facts, subset, &projection, r),
        false => endpoints_of(facts, subset, &projection, r),
    }
}

/// Adds the client kind, which decides how many endpoints a DNS type may have. It is a dimension of the
/// xDS cluster's inputs and not always of these.
fn with_kind(projection: Projection, kind: Option<ClientKind>) -> Projection {
    Projection { kind: projection.kind.or(kind), ..projection }
}

#[cfg(test)]
mod tests;
