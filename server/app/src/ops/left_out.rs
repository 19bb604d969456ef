//! Patches of EnvoyFilters that were left out of what leads a sidecar to a port, because Envoy would refuse it with them.
//!
//! `explain` and `why-not` call it for a connected client. The resources are the xDS clusters of the port, its listeners and the
//! virtual host of the service in its route table; a listener may be that of other services too.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_answer::{ClusterName, Takes, leading_resources};
use tributary_model::{Catalog, ClientKind, Code, PortView, ServiceView, Subset, TraceStep, Verdict};
use tributary_xds::answers::{RefusedPatch, ResourceType};

use super::deliver_steps::{deliver_step, reference};
use super::sessions::Found;

/// Most patches that are named for a port.
const MAX_NAMED: usize = 8;

/// Returns a warning for each patch that was left out of the resources of a port, which the client receives by these subsets.
pub(super) fn steps(
    catalog: &Arc<Catalog>,
    (found, subsets): (&Found, &[Option<Subset>]),
    view: &ServiceView,
    port: &PortView,
) -> Vec<TraceStep> {
    let has_filters = || catalog.policies.values().any(|view| view.envoy_filter().is_some());
    if found.client.class.kind != ClientKind::Sidecar || !has_filters() {
        return Vec::new();
    }
    let domain = view.key.host.as_str();
    let left_out = |(kind, name): (ResourceType, String)| {
        let what = format!("{} {name}", kind.as_str().to_uppercase());
        let all = found.left_out(catalog, (kind, &name), domain);
        all.into_iter().map(move |one| step(catalog, &one, &what))
    };
    resources((found, subsets), view, port).into_iter().flat_map(left_out).take(MAX_NAMED).collect()
}

/// Returns the resources that lead a client to a port.
fn resources(
    (found, subsets): (&Found, &[Option<Subset>]),
    view: &ServiceView,
    port: &PortView,
) -> BTreeSet<(ResourceType, String)> {
    let own = || ClusterName::new(port.number, &view.key.host);
    let cluster = |subset: &Option<Subset>| ClusterName { subset: subset.clone(), ..own() }.to_string();
    let clusters = subsets.iter().map(|subset| (ResourceType::Cluster, cluster(subset)));
    let client = &found.client;
    let leading = leading_resources(port, &client.class).into_iter().flat_map(|(listener, table)| {
        let listener = Some(listener).filter(|_| client.takes >= Takes::Listeners);
        let table = table.filter(|_| client.takes >= Takes::Routes);
        let listener = listener.map(|name| (ResourceType::Listener, name));
        listener.into_iter().chain(table.map(|name| (ResourceType::Route, name)))
    });
    clusters.chain(leading).collect()
}

fn step(catalog: &Catalog, RefusedPatch { by, at, rule }: &RefusedPatch, what: &str) -> TraceStep {
    let detail = format!(
        "{by}: spec.configPatches[{at}] is left out of a part of {what}, which Envoy would refuse with it: {rule}"
    );
    let step = deliver_step((Verdict::Warn, Code::PATCH_LEFT_OUT, detail));
    TraceStep { object: reference(catalog, by), ..step }
}
