//! Trace steps that name the Sidecar, and its egress host, that decided.

use tributary_model::{
    Catalog, Code, PortNumber, PortView, Recorder, ServiceKey, ServiceView, Stage, TraceStep, Verdict,
};

use super::{ClientSidecar, Scope};
use crate::egress::PortSet;
use crate::steps::service_step;

/// Maximum number of egress hosts in a step.
const MAX_NAMED: usize = 8;

/// Returns the end of a sentence about a visible service: the import that admits it, if a Sidecar applies.
pub(crate) fn imported(view: &ServiceView, scope: Scope<'_>) -> String {
    let found = scope.sidecar.and_then(|sidecar| {
        if sidecar.servers.is_some() {
            // the Gateways of a router count together
            let import = sidecar.egress.as_ref()?.import_of(scope.namespace, view, None)?;
            return Some(format!(", forwarded by {import}"));
        }
        let Some(import) = sidecar.egress.as_ref()?.import_of(scope.namespace, view, None) else {
            return Some(format!(
                ", not imported by {}, but a route of a VirtualService leads to it",
                sidecar.key
            ));
        };
        Some(format!(", imported by {import} of {}", sidecar.key))
    });
    found.unwrap_or_default()
}

/// Returns the step of a service, or one port of it, that no egress host imports.
pub(crate) fn not_imported(
    catalog: &Catalog,
    key: &ServiceKey,
    port: Option<PortNumber>,
    scope: Scope<'_>,
) -> TraceStep {
    let what = port.map_or_else(|| key.to_string(), |port| format!("port {port} of {key}"));
    let by = scope.sidecar.map(|sidecar| match &sidecar.servers {
        None => format!("imported by {}, which imports {}", sidecar.key, hosts(sidecar)),
        Some(servers) if servers.is_empty() => {
            "forwarded: no Gateway with such a server selects the router".to_owned()
        }
        Some(_) => format!("forwarded: the Gateways that select the router have {}", hosts(sidecar)),
    });
    let detail = format!("{what} is not {}", by.unwrap_or_default());
    let of_one = scope.sidecar.filter(|sidecar| sidecar.servers.is_none());
    let view = of_one.and_then(|sidecar| catalog.policies.get(&sidecar.key));
    TraceStep {
        object: view.map(|view| view.declared.source.reference()),
        ..service_step(
            Stage::Visibility,
            Verdict::Drop,
            Code::NOT_IMPORTED,
            view.map(|view| &*view.shard),
            detail,
        )
    }
}

/// Returns the step of an HTTP port that the client receives and that none of its routes leads to, because the egress
/// listener of the port has other hosts; `None` if requests are routed.
#[must_use]
pub fn not_routed(
    catalog: &Catalog,
    view: &ServiceView,
    port: &PortView,
    scope: Scope<'_>,
) -> Option<TraceStep> {
    let number = port.number;
    let is_routed = scope.admits(view, port, PortSet::Routed) || !scope.admits(view, port, PortSet::Imported);
    let of_sidecar = scope.sidecar.filter(|_| !is_routed && port.protocol.is_http())?;
    let mut listeners = of_sidecar.egress.iter().flat_map(|egress| egress.listeners());
    let listener = listeners.find(|of| of.port.as_ref().is_some_and(|port| port.number == number))?;
    let named: Vec<String> = listener.hosts.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let detail = format!(
        "requests to port {number} of {} are not routed: {} has an egress listener for the port, which imports {}",
        view.key,
        of_sidecar.key,
        named.join(", ")
    );
    let policy = catalog.policies.get(&of_sidecar.key);
    let shard = policy.map(|policy| &*policy.shard);
    let step = service_step(Stage::Deliver, Verdict::Warn, Code::NOT_ROUTED, shard, detail);
    Some(TraceStep { object: policy.map(|policy| policy.declared.source.reference()), ..step })
}

/// Returns the first egress hosts of a Sidecar, each with the port of its listener.
fn hosts(sidecar: &ClientSidecar) -> String {
    let listeners = sidecar.egress.iter().flat_map(|egress| egress.listeners());
    let mut all = listeners.flat_map(|listener| {
        let port = listener.port.as_ref().map(|port| format!(" on port {}", port.number));
        listener.hosts.iter().map(move |host| format!("{host}{}", port.as_deref().unwrap_or_default()))
    });
    let mut named: Vec<String> = all.by_ref().take(MAX_NAMED).collect();
    match all.count() {
        0 => {}
        more => named.push(format!("{more} more")),
    }
    named.join(", ")
}

/// Whether a port of the resolved service reaches the client; records why not.
pub(crate) fn reaches<R: Recorder>(
    catalog: &Catalog,
    view: &ServiceView,
    port: &PortView,
    scope: Scope<'_>,
    r: &mut R,
) -> bool {
    let admits = scope.admits(view, port, PortSet::Reached);
    if !admits {
        r.step(|| not_imported(catalog, &view.key, Some(port.number), scope));
    }
    admits
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        EndpointInputs, Namespace, PolicyView, Position, Protocol, Shared, Sidecar, Trace, Visibility,
    };

    use super::*;
    use crate::fixtures::*;
    use crate::resolve::resolve;

    /// Traces the resolution of a host in namespace web, whose Sidecar has these egress hosts.
    fn traced(host: &str, hosts: &[&str]) -> TraceStep {
        let sidecar = Sidecar { egress: mk_egress(&[(None, hosts)]), ..Sidecar::default() };
        let client = ClientSidecar::new(&mk_sidecar("web", "narrow", sidecar.clone()).0, &sidecar);
        let (key, view) = mk_sidecar("web", "narrow", sidecar);
        let mut declared = (*view.declared).clone();
        declared.source.position = Position::new("web.yaml:7:1".into());
        let mut catalog = mk_catalog(vec![mk_view("pay.shop", "shop", &[Visibility::Public])]);
        catalog
            .policies
            .insert(key, Shared::new(PolicyView { declared: declared.into(), ..(*view).clone() }));
        let namespace: Namespace = mk_ns("web");
        let scope = Scope { namespace: Some(&namespace), sidecar: Some(&client) };
        let mut trace = Trace::default();
        resolve(&catalog, host, scope, &mut trace);
        trace.steps.remove(0)
    }

    #[test]
    fn step_names_the_sidecar_and_the_import_that_decided() {
        let step = traced("pay.shop", &["./*", "istio-system/*"]);
        assert_eq!((step.code, step.verdict), (Code::NOT_IMPORTED, Verdict::Drop));
        assert_eq!(step.object.unwrap().to_string(), "Sidecar web/narrow (web.yaml:7:1)");
        let detail = "shop/pay.shop is not imported by Sidecar web/narrow, which imports ./*, istio-system/*";
        assert_eq!(step.detail, detail);
        let step = traced("pay.shop", &["./*", "shop/*.shop"]);
        assert_eq!(step.code, Code::VISIBLE);
        let detail =
            "shop/pay.shop is visible to namespace web, imported by shop/*.shop of Sidecar web/narrow";
        assert_eq!(step.detail, detail);
    }

    #[test]
    fn port_that_only_its_own_egress_listener_could_route_is_named() {
        let egress = mk_egress(&[(Some(80), &["net/*"]), (None, &["shop/*"])]);
        let sidecar = Sidecar { egress, ..Sidecar::default() };
        let client = ClientSidecar::new(&mk_sidecar("web", "narrow", sidecar.clone()).0, &sidecar);
        let mut view = ServiceView::clone(&mk_view("pay.shop", "shop", &[Visibility::Public]));
        let facts = EndpointInputs { service: view.key.clone(), ..mk_one(Vec::new()) };
        let port = PortView { protocol: Protocol::Http, ..mk_port_view(facts) };
        view.ports = [port].into();
        let (catalog, namespace) = (mk_catalog(vec![Arc::new(view.clone())]), mk_ns("web"));
        let scope = Scope { namespace: Some(&namespace), sidecar: Some(&client) };
        let step = not_routed(&catalog, &view, &view.ports[0], scope).unwrap();
        assert_eq!((step.code, step.verdict), (Code::NOT_ROUTED, Verdict::Warn));
        let detail = "requests to port 80 of shop/pay.shop are not routed: Sidecar web/narrow has an egress listener for \
                      the port, which imports net/*";
        assert_eq!(step.detail, detail);
        let tcp = PortView { protocol: Protocol::Tcp, ..view.ports[0].clone() };
        assert!(not_routed(&catalog, &view, &tcp, scope).is_none(), "TCP needs no route");
        let open = Scope { sidecar: None, ..scope };
        assert!(not_routed(&catalog, &view, &view.ports[0], open).is_none());
    }

    #[test]
    fn step_about_many_imports_names_the_first() {
        let hosts: Vec<String> = (0..20).map(|n| format!("./h{n}.x")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let detail = traced("pay.shop", &hosts).detail;
        assert!(detail.ends_with("./h6.x, ./h7.x, 12 more"), "{detail}");
    }
}
