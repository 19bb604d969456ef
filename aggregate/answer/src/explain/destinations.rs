//! Names the destinations of a gRPC client's routes that do not exist for it.
//!
//! Explain and why-not call it. What a sidecar was sent shows this of sidecars; the xDS clusters of a gRPC client do not, as
//! it requests one for every destination.

use tributary_model::{
    Catalog, ClientKind, Code, PolicyKey, PortView, ServiceView, Stage, Subset, TraceStep, Verdict,
};

use super::routes::applied_routes;
use crate::client::ClientClass;
use crate::key::key;
use crate::names::ClusterName;
use crate::resolve::resolve;
use crate::route::targets;
use crate::steps::service_step;

/// Most destinations of a port that are named.
const MAX_NAMED: usize = 8;

/// Returns a warning for each destination of the routes to a port of which no service, port or subset exists for the client.
pub(super) fn steps(catalog: &Catalog, port: &PortView, class: &ClientClass) -> Vec<TraceStep> {
    let rule = applied_routes(port, class).requests.filter(|_| class.kind == ClientKind::Grpc);
    let Some(rule) = rule else { return Vec::new() };
    let route = &port.route;
    let all = targets(&route.inputs, &key(route, class)).unwrap_or_default();
    let lost = all.iter().filter_map(|to| Some((to, missing(catalog, to, class)?)));
    lost.take(MAX_NAMED).map(|(to, why)| step(catalog, rule, (port, to), why)).collect()
}

/// What a destination lacks.
enum Missing<'d> {
    Subset(&'d Subset),
    /// Service or port, which other clients may have.
    Service(Code),
}

fn missing<'d>(catalog: &Catalog, to: &'d ClusterName, class: &ClientClass) -> Option<Missing<'d>> {
    let view = resolve(catalog, to.host.as_str(), class.scope(), &mut ());
    let Some(port) = view.and_then(|view| view.port(to.port)) else {
        let entry = catalog.hosts.get(to.host.as_str());
        let has_port = |view: &ServiceView| view.port(to.port).is_some();
        let is_hidden = entry.is_some_and(|entry| entry.claimants.iter().any(|view| has_port(view)));
        return Some(Missing::Service(match is_hidden {
            true => Code::ROUTE_DESTINATION_HIDDEN,
            false => Code::ROUTE_DESTINATION_UNMATCHED,
        }));
    };
    let subset = to.subset.as_ref()?;
    let policy = port.cluster.inputs.policy_of(class.namespace.as_ref());
    let is_declared = policy.is_some_and(|policy| policy.subsets.iter().any(|(name, _)| name == subset));
    (!is_declared).then_some(Missing::Subset(subset))
}

fn step(
    catalog: &Catalog,
    rule: &PolicyKey,
    (port, to): (&PortView, &ClusterName),
    missing: Missing<'_>,
) -> TraceStep {
    let (code, why) = match missing {
        Missing::Service(code) => (code, "no service that the client may use has it".to_owned()),
        Missing::Subset(subset) => {
            let name = subset.as_str();
            let why = format!("no DestinationRule that applies to the client declares subset {name}");
            (Code::NO_SUCH_SUBSET, why)
        }
    };
    let detail = format!("port {}: routes lead to xDS cluster {to}: {why}", port.number);
    let object = catalog.policies.get(rule).map(|view| view.declared.source.reference());
    TraceStep { object, ..service_step(Stage::Deliver, Verdict::Warn, code, None, detail) }
}
