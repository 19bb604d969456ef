//! Records the origin of an endpoint from a view: the stages source and merge. Only reports decisions that
//! the core made when it built the view.

use tributary_model::{
    Address, Catalog, Code, EndpointSource, Freshness, PortView, Recorder, ServiceView, Stage, TraceStep,
    Verdict,
};

use super::endpoint_freshness;
use crate::endpoints::Destination;
use crate::steps::{endpoint_step, service_step};

/// Records which sources list the endpoint, how fresh their reports are, and what was merged into the
/// service. If the core has `traced` the service, records the freshness only.
pub(super) fn record<R: Recorder>(
    catalog: &Catalog,
    view: &ServiceView,
    port: &PortView,
    endpoint: &str,
    traced: bool,
    r: &mut R,
) {
    let sources = &port.endpoints.inputs.sources;
    let listed_by = sources.iter().filter_map(|s| Some((s, listed_address(s, endpoint)?)));
    for (source, address) in listed_by {
        if !traced {
            r.step(|| listed(source, view, endpoint));
        }
        if let Some(step) = stale(catalog, source, address, endpoint) {
            r.step(|| step);
        }
    }
    if !traced {
        merged(view, port, r);
    }
}

fn listed(source: &EndpointSource, view: &ServiceView, endpoint: &str) -> TraceStep {
    let registry = &source.shard.registry;
    let detail = format!("registry {} ({registry}) lists it for {}", registry.name, view.key);
    endpoint_step((Stage::Source, Verdict::Pass, Code::SOURCE_ENDPOINT), source, endpoint.to_owned(), detail)
}

/// Returns the address of a source that is this endpoint.
fn listed_address<'a>(source: &'a EndpointSource, endpoint: &str) -> Option<&'a Address> {
    let is = |address: &&Address| {
        let at = source.ports.get(usize::from(address.port_set)).copied().flatten()?;
        let port = source.group.ports(address).get(usize::from(at))?;
        Some(Destination::of(&source.group, address, port.number)?.to_string() == endpoint)
    };
    source.group.addresses.iter().find(|address| is(address) == Some(true))
}

fn stale(catalog: &Catalog, source: &EndpointSource, address: &Address, endpoint: &str) -> Option<TraceStep> {
    let freshness = endpoint_freshness(catalog, source, address)?;
    let (code, detail) = match freshness {
        Freshness::Live => return None,
        Freshness::Stale { why, .. } => (Code::REGISTRY_STALE, format!("the last report is served: {why}")),
        Freshness::Unknown | Freshness::Syncing => {
            (Code::REGISTRY_UNKNOWN, "the registry has not synced yet".to_owned())
        }
    };
    Some(endpoint_step((Stage::Source, Verdict::Warn, code), source, endpoint.to_owned(), detail))
}

fn merged<R: Recorder>(view: &ServiceView, port: &PortView, r: &mut R) {
    let count = view.declarations.len();
    for (at, declaration) in view.declarations.iter().enumerate() {
        let has = declaration.declaration.ports.iter().any(|p| p.number == port.number);
        r.step(|| {
            let (is, port) = (if has { "has" } else { "does not have" }, port.number);
            let detail = format!("declaration {} of {count} {is} port {port}", at + 1);
            let step =
                service_step(Stage::Merge, Verdict::Pass, Code::MERGED, Some(&declaration.shard), detail);
            TraceStep { object: Some(declaration.declaration.source.reference()), ..step }
        });
    }
    for condition in view.conditions.iter() {
        r.step(|| {
            let detail = condition.message.to_string();
            let step = service_step(Stage::Merge, Verdict::Warn, condition.code, None, detail);
            TraceStep { object: condition.objects.first().cloned(), ..step }
        });
    }
}
