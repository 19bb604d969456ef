//! Names the destinations of routes that receive nothing: they do not exist for the client, or it may use no endpoint of them.
//!
//! Explain and why-not call it for gRPC clients, whose xDS clusters do not show this, as they request one for every destination.
//! Of sidecars, the application asks for the reason of what it finds in what they were sent.

use tributary_model::{
    Catalog, ClientKind, Code, PolicyKey, PortView, ServiceView, Stage, Subset, Trace, TraceStep, Verdict,
};

use super::assigned;
use super::reach::waits;
use super::routes::applied_routes;
use crate::client::{Client, ClientClass};
use crate::cluster::{Discovery, cluster};
use crate::key::key;
use crate::names::ClusterName;
use crate::resolve::resolve;
use crate::route::targets;
use crate::steps::service_step;

/// Most destinations of a port that are named.
const MAX_NAMED: usize = 8;

/// Returns a warning for each destination of the routes to a port that receives nothing, except the port itself.
pub(super) fn steps(catalog: &Catalog, port: &PortView, client: &Client) -> Vec<TraceStep> {
    let class = &client.class;
    let rule = applied_routes(port, class).requests.filter(|_| class.kind == ClientKind::Grpc);
    let Some(rule) = rule else { return Vec::new() };
    let route = &port.route;
    let own = ClusterName::new(port.number, &port.cluster.inputs.service.host);
    let all = targets(&route.inputs, &key(route, class)).unwrap_or_default();
    let others = all.iter().filter(|to| **to != own);
    let lost = others.filter_map(|to| Some((to, lost_destination(catalog, to, client)?)));
    lost.take(MAX_NAMED).map(|(to, why)| step(catalog, rule, (port, to), why)).collect()
}

/// Returns why a client sends nothing to the xDS cluster of a destination: no service, port or subset exists for the client, or it
/// may use no endpoint of it. `None` if none of these is known.
#[must_use]
pub fn lost_destination(catalog: &Catalog, to: &ClusterName, client: &Client) -> Option<(Code, String)> {
    let class = &client.class;
    let view = resolve(catalog, to.host.as_str(), class.scope(), &mut ());
    let Some((view, port)) = view.and_then(|view| Some((view, view.port(to.port)?))) else {
        return Some((unserved(catalog, to), "no service that the client may use has it".to_owned()));
    };
    if let Some(subset) = to.subset.as_ref().filter(|subset| !declares(port, subset, class)) {
        let name = subset.as_str();
        let why = format!("no DestinationRule that applies to the client declares subset {name}");
        return Some((Code::NO_SUCH_SUBSET, why));
    }
    let lost = unusable(port, to.subset.as_ref(), client);
    lost.filter(|(code, _)| *code != Code::ROUTE_WITHOUT_ENDPOINTS || !waits(catalog, view))
}

/// Returns why no service has a destination: other clients may use it, or none does.
fn unserved(catalog: &Catalog, to: &ClusterName) -> Code {
    let entry = catalog.hosts.get(to.host.as_str());
    let has_port = |view: &ServiceView| view.port(to.port).is_some();
    match entry.is_some_and(|entry| entry.claimants.iter().any(|view| has_port(view))) {
        true => Code::ROUTE_DESTINATION_HIDDEN,
        false => Code::ROUTE_DESTINATION_UNMATCHED,
    }
}

fn declares(port: &PortView, subset: &Subset, class: &ClientClass) -> bool {
    let policy = port.cluster.inputs.policy_of(class.namespace.as_ref());
    policy.is_some_and(|policy| policy.subsets.iter().any(|(name, _)| name == subset))
}

/// Returns why a client cannot use a port, or a subset of its endpoints: the port has no xDS cluster for it, or no endpoint.
fn unusable(port: &PortView, subset: Option<&Subset>, client: &Client) -> Option<(Code, String)> {
    let mut trace = Trace::default();
    let plan = cluster(&port.cluster.inputs, subset, &key(&port.cluster, &client.class), &mut trace);
    match plan.map(|plan| plan.discovery) {
        Some(Discovery::Eds) => {
            let assignment = assigned(&port.endpoints.inputs, (Some(client), subset), port, &mut ());
            let is_empty = assignment.is_none_or(|all| all.endpoints().next().is_none());
            is_empty.then(|| without_endpoints(subset))
        }
        Some(_) => None,
        None => {
            // the steps of endpoints are about each of them
            let mut reasons = trace.steps.into_iter().filter(|step| step.endpoint.is_empty());
            let reason = reasons.find(|step| step.code != Code::NO_ENDPOINTS);
            Some(reason.map_or_else(|| without_endpoints(subset), |step| (step.code, step.detail)))
        }
    }
}

fn without_endpoints(subset: Option<&Subset>) -> (Code, String) {
    let why = match subset {
        Some(subset) => {
            format!("the client may use no endpoint with the labels of subset {}", subset.as_str())
        }
        None => "the client may use no endpoint of it".to_owned(),
    };
    (Code::ROUTE_WITHOUT_ENDPOINTS, why)
}

fn step(
    catalog: &Catalog,
    rule: &PolicyKey,
    (port, to): (&PortView, &ClusterName),
    (code, why): (Code, String),
) -> TraceStep {
    let detail = format!("port {}: routes lead to xDS cluster {to}: {why}", port.number);
    let object = catalog.policies.get(rule).map(|view| view.declared.source.reference());
    TraceStep { object, ..service_step(Stage::Deliver, Verdict::Warn, code, None, detail) }
}
