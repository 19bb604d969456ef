//! Subsets of a port to which the routes of a client lead, and the endpoints that the client has by them.
//!
//! Explain and why-not call it, and the application for the delivery of each subset. A sidecar is sent the xDS cluster of a
//! port and those of its subsets, whatever its routes lead to; a gRPC client requests only those that its routes name.

use std::collections::BTreeSet;

use tributary_model::{ClientKind, Code, PortView, Stage, Subset, Trace, TraceStep, Verdict};

use super::reach::connected_subsets;
use super::{assigned, weighed};
use crate::client::{Client, ClientClass, Takes};
use crate::key::key;
use crate::route::own_targets;
use crate::steps::{named, service_step};

/// Returns the subsets of a port to which a client's routes of requests lead, with `None` for all of its endpoints. A
/// client without routes of a VirtualService has all endpoints, as one has whose routes lead elsewhere.
pub(super) fn routed_subsets(port: &PortView, class: &ClientClass) -> BTreeSet<Option<Subset>> {
    let targets = own_targets(&port.route.inputs, &key(&port.route, class)).unwrap_or_default();
    let subsets: BTreeSet<Option<Subset>> = targets.into_iter().map(|to| to.subset).collect();
    if subsets.is_empty() { BTreeSet::from([None]) } else { subsets }
}

/// Returns the subsets by which a client receives a port; empty if it receives all of its endpoints.
#[must_use]
pub fn received_subsets(port: &PortView, class: &ClientClass) -> Vec<Subset> {
    let subsets = routed_subsets(port, class);
    if class.kind != ClientKind::Grpc || subsets.contains(&None) {
        return Vec::new();
    }
    subsets.into_iter().flatten().collect()
}

/// Whether a VirtualService serves a client's requests to a port, and none of its routes leads there.
pub(super) fn is_led_away(port: &PortView, class: &ClientClass) -> bool {
    own_targets(&port.route.inputs, &key(&port.route, class)).is_some_and(|targets| targets.is_empty())
}

/// Whether a client has an endpoint by a subset of a port.
#[must_use]
pub fn is_in_subset(port: &PortView, client: &Client, subset: &Subset, endpoint: &str) -> bool {
    endpoints(port, client, subset).contains(endpoint)
}

/// Returns the subsets with an endpoint among those to which a client's routes of requests and connections lead.
#[must_use]
pub fn subsets_with(port: &PortView, client: &Client, endpoint: &str) -> BTreeSet<Subset> {
    let subsets = routed_subsets(port, &client.class).into_iter().flatten();
    let connected = match client.class.kind {
        ClientKind::Sidecar if client.takes == Takes::Listeners => connected_subsets(port, &client.class),
        ClientKind::Sidecar | ClientKind::Grpc | ClientKind::Envoy | ClientKind::Router => BTreeSet::new(),
    };
    subsets.chain(connected).filter(|subset| is_in_subset(port, client, subset, endpoint)).collect()
}

/// Returns how many endpoints a client has by some subsets of a port, each once.
pub(super) fn count(port: &PortView, client: &Client, subsets: &[Subset]) -> usize {
    subsets.iter().flat_map(|subset| endpoints(port, client, subset)).collect::<BTreeSet<_>>().len()
}

/// Returns why a client does not receive an endpoint of a port: no subset that its routes lead to has it.
pub(super) fn without(port: &PortView, client: &Client, endpoint: &str) -> Option<TraceStep> {
    let subsets = received_subsets(port, &client.class);
    if subsets.is_empty() || subsets.iter().any(|subset| is_in_subset(port, client, subset, endpoint)) {
        return None;
    }
    let (noun, named) =
        (if subsets.len() == 1 { "subset" } else { "subsets" }, named(subsets.iter().map(Subset::as_str)));
    let detail = format!(
        "port {}: the routes of the client lead to {noun} {named} only, without this endpoint",
        port.number
    );
    let step = service_step(Stage::Deliver, Verdict::Drop, Code::ROUTED_ELSEWHERE, None, detail);
    Some(TraceStep { endpoint: endpoint.to_owned(), ..step })
}

fn endpoints(port: &PortView, client: &Client, subset: &Subset) -> BTreeSet<String> {
    let mut trace = Trace::default();
    assigned(&port.endpoints.inputs, (Some(client), Some(subset)), port, &mut trace);
    weighed(&trace.steps).cloned().collect()
}
