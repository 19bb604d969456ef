//! Composes explanations: the core's trace (source, merge), the answers' trace (visibility to weight) and,
//! for a client, the delivery state of its session (deliver).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tributary_answer::{Client, ClusterName, Explanation, Query, WhyNot, explain_with, not_routed, resolve};
use tributary_model::{
    Catalog, ClientKind, Code, Hostname, Mono, Namespace, PortNumber, ServiceKey, Stage, StepTime, TraceStep,
    Verdict,
};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{Delivery, SyncStatus};

use super::routed::RouteTables;
use super::sessions::{Found, Sessions};
use crate::admin::backend::Explained;
use crate::cli::table::age;
use crate::document::{Filter, endpoints, filter::same_host, short_name, timestamp};

/// Maximum number of services whose history is requested; one address in more services is a mistake.
const MAX_SERVICES: usize = 64;

/// Request for the explanation of an endpoint.
pub struct ExplainRequest {
    /// Catalog that is served.
    pub catalog: Arc<Catalog>,
    /// Endpoint, as written.
    pub endpoint: String,
    /// Only as an endpoint of this host.
    pub host: Option<String>,
    /// Connected clients.
    pub sessions: Arc<Sessions>,
    /// As this client receives it.
    pub client: Option<String>,
    /// Registries and scopes that a staleness policy withdraws.
    pub withdrawn: Vec<String>,
    /// Current time on the core's clock.
    pub now: Mono,
}

impl ExplainRequest {
    /// Returns the services that have this endpoint.
    #[must_use]
    pub fn services(&self) -> Vec<ServiceKey> {
        let filter = Filter {
            name: Some(self.endpoint.clone()),
            host: self.host.clone(),
            limit: Some(Filter::MAX),
            ..Filter::default()
        };
        let (items, _) = endpoints::list(&self.catalog, &filter);
        let keys: BTreeSet<ServiceKey> = items
            .iter()
            .filter_map(|item| {
                let (host, namespace) =
                    (Hostname::new(&item.host).ok()?, Namespace::new(&item.namespace).ok()?);
                Some(ServiceKey { host, namespace })
            })
            .take(MAX_SERVICES)
            .collect();
        keys.into_iter().collect()
    }
}

/// Explains how an endpoint came to be served, or where it was dropped.
pub fn explain(request: &ExplainRequest, history: &BTreeMap<ServiceKey, Vec<TraceStep>>) -> Explained {
    let found =
        request.client.as_deref().map(|id| request.sessions.find(&request.catalog, id)).transpose()?;
    let query: Query = match request.endpoint.parse() {
        Ok(query) => query,
        Err(never) => match never {},
    };
    let history = |key: &ServiceKey| history.get(key).cloned().unwrap_or_default();
    let client = found.as_ref().map(|found| &found.client);
    let mut all = explain_with(&request.catalog, &query, client, &history);
    all.retain(|one| request.host.as_deref().is_none_or(|host| is_of_host(one, host)));
    // An endpoint that no source lists has an explanation too, with one step.
    if let (true, Some(host)) = (all.is_empty(), &request.host) {
        let withdrawn: String = request.withdrawn.iter().map(|of| format!("; {of}")).collect();
        return Err(format!("no source lists the endpoint {} of {host}{withdrawn}", request.endpoint));
    }
    if let Some(found) = &found {
        let sidecar = found.client.class.kind == ClientKind::Sidecar;
        let mut tables = sidecar.then(|| RouteTables::new(&request.catalog, found));
        all.iter_mut().for_each(|one| deliver(&request.catalog, found, tables.as_mut(), one));
    }
    all.iter_mut().for_each(|one| name_withdrawn(one, &request.withdrawn));
    let now = Timestamp::now();
    all.iter_mut().for_each(|one| set_times(one, request.now, now));
    Ok(values(all))
}

/// Adds the withdrawn scopes: an endpoint that no source lists may belong to one of them.
fn name_withdrawn(one: &mut Explanation, withdrawn: &[String]) {
    for step in one.steps.iter_mut().filter(|step| step.code == Code::NO_SUCH_ENDPOINT) {
        withdrawn.iter().for_each(|of| step.detail.push_str(&format!("; {of}")));
    }
}

/// Converts the core's times: an age in the text, a timestamp in the JSON.
fn set_times(one: &mut Explanation, mono: Mono, now: Timestamp) {
    one.as_of = Some(timestamp(now));
    for step in &mut one.steps {
        let Some(time) = step.time else { continue };
        let (suffix, when) = dated(time, mono, now);
        step.detail.push_str(&suffix);
        match time {
            StepTime::Confirmed(_) => step.confirmed_at = when,
            StepTime::Since(_) => step.since = when,
        }
    }
}

/// Converts the times of excluded and held candidates.
fn date_reasons(out: &mut WhyNot, mono: Mono, now: Timestamp) {
    let reasons = out.reasons.iter_mut().chain(&mut out.held);
    for refused in reasons.flat_map(|reason| &mut reason.dropped) {
        let Some(time @ StepTime::Since(_)) = refused.time else { continue };
        let (suffix, when) = dated(time, mono, now);
        refused.detail.push_str(&suffix);
        refused.since = when;
    }
}

/// Returns the age of a step as the end of its detail, and its time as a timestamp.
fn dated(time: StepTime, mono: Mono, now: Timestamp) -> (String, Option<String>) {
    let (StepTime::Confirmed(at) | StepTime::Since(at)) = time;
    let ago = mono.since(at);
    let long = age(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX));
    let when = jiff::SignedDuration::try_from(ago).ok().and_then(|ago| now.checked_sub(ago).ok());
    let suffix = match time {
        StepTime::Confirmed(_) => format!(", confirmed {long} ago"),
        StepTime::Since(_) => format!(", for {long}"),
    };
    (suffix, when.map(timestamp))
}

fn is_of_host(one: &Explanation, host: &str) -> bool {
    one.host.as_ref().is_some_and(|own| same_host(host, own.as_str()))
}

/// Adds the delivery state of the client and the route that leads to the endpoint.
fn deliver(catalog: &Catalog, found: &Found, tables: Option<&mut RouteTables>, one: &mut Explanation) {
    let served = one.steps.iter().all(|step| step.verdict != Verdict::Drop);
    let Some((host, port)) = one.host.clone().zip(one.port).filter(|_| served) else { return };
    let step = delivered(catalog, found, &host, port);
    let route = tables.and_then(|tables| tables.step(&host, port));
    let endpoint = one.endpoint.clone();
    let steps = [Some(step), route, unrouted(catalog, found, host.as_str(), Some(port)).pop()];
    one.add(steps.into_iter().flatten().map(|step| TraceStep { endpoint: endpoint.clone(), ..step }));
}

/// Returns the delivery state of the resource that carries a port's endpoints.
fn delivered(catalog: &Catalog, found: &Found, host: &Hostname, port: PortNumber) -> TraceStep {
    let name = ClusterName::new(port, host).to_string();
    let kind = carrier(catalog, &found.client, host, port);
    deliver_step(outcome(&found.delivery(kind, &name), kind, &name))
}

/// Returns a step about what the client was sent.
pub(super) fn deliver_step((verdict, code, detail): (Verdict, Code, String)) -> TraceStep {
    TraceStep {
        stage: Stage::Deliver,
        verdict,
        code,
        registry: None,
        object: None,
        endpoint: String::new(),
        detail,
        time: None,
    }
}

/// Endpoints of a DNS service are inside the xDS cluster.
fn carrier(catalog: &Catalog, client: &Client, host: &Hostname, port: PortNumber) -> ResourceType {
    let view = resolve(catalog, host.as_str(), client.class.scope(), &mut ());
    let dns = view.is_some_and(|v| v.port(port).is_some_and(|p| p.endpoints.inputs.resolution.is_dns()));
    if dns { ResourceType::Cluster } else { ResourceType::Endpoints }
}

fn outcome(delivery: &Delivery, kind: ResourceType, name: &str) -> (Verdict, Code, String) {
    let what = format!("{} {name}", kind.as_str().to_uppercase());
    match (delivery, &delivery.refused, delivery.version) {
        (Delivery { subscribed: false, .. }, _, _) => {
            (Verdict::Drop, Code::NOT_DELIVERED, format!("the client does not subscribe to {what}"))
        }
        (_, Some(text), _) => (Verdict::Drop, Code::NACKED, format!("the client rejected {what}: {text}")),
        (_, None, None) => {
            (Verdict::Drop, Code::NOT_DELIVERED, format!("{what} was not sent to the client yet"))
        }
        (_, None, Some(version)) if delivery.status == SyncStatus::Synced => {
            (Verdict::Pass, Code::DELIVERED, format!("{what} version {version} was sent and acknowledged"))
        }
        (_, None, Some(version)) => {
            (Verdict::Warn, Code::NOT_ACKED, format!("{what} version {version} was sent and is unanswered"))
        }
    }
}

/// Explains why a client does not receive a host's endpoints.
pub fn why_not(catalog: &Catalog, sessions: &Sessions, host: &str, client: &str, now: Mono) -> Explained {
    let found = sessions.find(catalog, client)?;
    let namespace = found.client.class.namespace.as_ref().map(|namespace| namespace.as_str());
    let host = short_name::host(catalog, host, namespace)?;
    let mut out = tributary_answer::why_not(catalog, &host, &found.client);
    if out.served > 0 {
        let steps = undelivered(catalog, &found, &out.host);
        // Endpoints that were not sent are not served, whatever the answer contains.
        if !steps.is_empty() && steps.iter().all(|step| step.verdict == Verdict::Drop) {
            out.served = 0;
        }
        let not_routed = unrouted(catalog, &found, &out.host, None).into_iter();
        out.add(steps);
        out.add(not_routed.map(|step| TraceStep { verdict: Verdict::Drop, ..step }));
    }
    date_reasons(&mut out, now, Timestamp::now());
    Ok(values(vec![out]))
}

/// Returns the ports, or this one, whose endpoints a sidecar receives while none of its routes leads to them.
fn unrouted(catalog: &Catalog, found: &Found, host: &str, port: Option<PortNumber>) -> Vec<TraceStep> {
    let class = &found.client.class;
    let view = resolve(catalog, host, class.scope(), &mut ()).filter(|_| class.kind == ClientKind::Sidecar);
    let Some(view) = view else { return Vec::new() };
    let ports = view.ports.iter().filter(|of| port.is_none_or(|port| port == of.number));
    ports.filter_map(|port| not_routed(catalog, view, port, class.scope())).collect()
}

fn undelivered(catalog: &Catalog, found: &Found, host: &str) -> Vec<TraceStep> {
    let Some(view) = resolve(catalog, host, found.client.class.scope(), &mut ()) else {
        return Vec::new();
    };
    view.ports.iter().map(|port| delivered(catalog, found, &view.key.host, port.number)).collect()
}

fn values<T: serde::Serialize>(items: Vec<T>) -> Vec<Value> {
    items.into_iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
}
