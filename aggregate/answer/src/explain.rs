//! Why an endpoint is, or is not, what a client gets (`operators.md` 2.2).
//!
//! Composes the very functions that serve, run with a trace, with what the view itself says of its
//! sources. The session's part (stage deliver) and what only the core knows (quarantined objects,
//! groups without a declaration, times) are added by the app: [`Explanation::add`]. The documents
//! are the stable contract of `-o json`.

mod document;
mod freshness;
mod pending;
mod query;
mod source;
mod why_not;

use std::borrow::Cow;
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, Code, EndpointInputs, PortView, Projection, Recorder, ServiceKey, ServiceView,
    Shared, Stage, Trace, TraceStep, Verdict, WorkloadView,
};

use crate::client::Client;
use crate::endpoints::{Assignment, endpoints, inline};
use crate::resolve::resolve;

pub use document::{Explanation, Outcome, Reason, Refused, StepDocument, StepObject, WhyNot};
pub use freshness::endpoint_freshness;
pub use query::Query;
pub use why_not::why_not;

/// Most services that one address is explained for; more share it only by mistake.
const MAX_PLACES: usize = 64;

/// Why this endpoint is or is not served to this client, once for each service port that it stands
/// behind and each service for which it waits; never empty. Without a client, what depends on one is left open.
///
/// The stages source and merge are told from the views; a caller that can ask the core uses
/// [`explain_with`].
#[must_use]
pub fn explain(catalog: &Catalog, query: &Query, client: Option<&Client>) -> Vec<Explanation> {
    explain_with(catalog, query, client, &|_| Vec::new())
}

/// As [`explain`], with the stages source and merge as the core traces them: `history` gives a
/// service's steps, or none where it is not known.
#[must_use]
pub fn explain_with(
    catalog: &Catalog,
    query: &Query,
    client: Option<&Client>,
    history: &dyn Fn(&ServiceKey) -> Vec<TraceStep>,
) -> Vec<Explanation> {
    let places = query.places(catalog, MAX_PLACES);
    let of = |place: &ServingPort<'_>| place_of(catalog, place, client, history(&place.view.key));
    let mut out: Vec<Explanation> = places.iter().map(of).collect();
    out.extend(pending::explanations(catalog, query, client, MAX_PLACES));
    if out.is_empty() {
        out.extend(unselected(catalog, query, client));
    }
    if out.is_empty() {
        out.push(unknown(catalog, query, client));
    }
    out
}

fn unknown(catalog: &Catalog, query: &Query, client: Option<&Client>) -> Explanation {
    let mut out = Explanation::new(catalog, query.to_string(), client);
    let detail = format!("no source lists {query} behind any service port");
    let (stage, verdict, code) = (Stage::Source, Verdict::Drop, Code::NO_SUCH_ENDPOINT);
    let (registry, object, endpoint) = (None, None, query.to_string());
    out.add([TraceStep { stage, verdict, code, registry, object, endpoint, detail }]);
    out
}

/// Workloads that have the address, where no service selects or lists them.
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
        }]);
        out
    };
    views.take(MAX_PLACES).map(explain).collect()
}

/// One service port behind which the endpoint stands.
pub(crate) struct ServingPort<'c> {
    pub(crate) view: &'c Arc<ServiceView>,
    pub(crate) port: &'c PortView,
    pub(crate) endpoint: String,
}

fn place_of(
    catalog: &Catalog,
    place: &ServingPort<'_>,
    client: Option<&Client>,
    history: Vec<TraceStep>,
) -> Explanation {
    let ServingPort { view, port, endpoint } = place;
    let mut out = Explanation::new(catalog, endpoint.clone(), client);
    out.service = Some(format!("{}:{}", view.key.host, port.number));
    let mut trace = Trace { steps: history };
    let traced = !trace.steps.is_empty();
    source::record(catalog, view, port, endpoint, traced, &mut trace);
    let reached = client.is_none_or(|client| serves(catalog, view, client, &mut trace));
    let mut within = Trace::default();
    let facts = open_to_all(&port.endpoints.inputs, client);
    let assignment = assigned(&facts, client, port, &mut within);
    let told = assignment.endpoints().any(|e| e.target.to_string() == *endpoint);
    // What the core has traced of the source is not said twice.
    trace.steps.extend(within.steps.into_iter().filter(|s| !(traced && s.stage == Stage::Source)));
    trace.steps.retain(|step| step.endpoint.is_empty() || step.endpoint == *endpoint);
    out.add(trace.steps);
    out.add(pending::held(catalog, &view.key.host, port, endpoint));
    out.verdict = if reached && told { Outcome::Served } else { Outcome::Dropped };
    out
}

/// Without a client no network is another one.
fn open_to_all<'a>(facts: &'a EndpointInputs, client: Option<&Client>) -> Cow<'a, EndpointInputs> {
    match client {
        Some(_) => Cow::Borrowed(facts),
        None => Cow::Owned(EndpointInputs { gated: Arc::from([]), ..facts.clone() }),
    }
}

/// Whether this service is the one that the client means by its host.
fn serves<R: Recorder>(catalog: &Catalog, view: &Arc<ServiceView>, client: &Client, r: &mut R) -> bool {
    let mut trace = Trace::default();
    let namespace = client.class.namespace.as_ref();
    let chosen = resolve(catalog, view.key.host.as_str(), namespace, &mut trace);
    let own = |step: &TraceStep| {
        let object = step.object.as_ref().map(|o| &o.id);
        view.declarations.iter().any(|d| object == Some(&d.declaration.source.object))
    };
    trace.steps.into_iter().filter(own).for_each(|step| r.step(|| step));
    chosen.is_some_and(|chosen| Arc::ptr_eq(chosen, view))
}

/// What a client is told of a port, by whichever way it is told: EDS, or inside the xDS cluster.
pub(crate) fn assigned<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    client: Option<&Client>,
    port: &PortView,
    r: &mut R,
) -> Assignment<'a> {
    // Without a client every dimension is undeclared, which leaves open what depends on it.
    let projection = client.map_or_else(Projection::default, |c| c.class.project(port.endpoints.dimensions));
    let projection = with_kind(projection, client.map(|c| c.class.kind));
    if facts.resolution.is_dns() { inline(facts, &projection, r) } else { endpoints(facts, &projection, r) }
}

/// How many endpoints a DNS type may have depends on the kind alone, which is a dimension of the
/// xDS cluster's facet and not always of this one.
fn with_kind(projection: Projection, kind: Option<ClientKind>) -> Projection {
    Projection { kind: projection.kind.or(kind), ..projection }
}

#[cfg(test)]
mod tests;
