//! Trace steps that name the Sidecar, and its egress host, that decided.

use tributary_model::{
    Catalog, Code, PortNumber, PortView, Recorder, ServiceKey, ServiceView, Stage, TraceStep, Verdict,
};

use super::{ClientSidecar, Scope};
use crate::egress::Surface;
use crate::steps::service_step;

/// Maximum number of egress hosts in a step.
const MAX_NAMED: usize = 8;

/// Returns the end of a sentence about a visible service: the import that admits it, if a Sidecar applies.
pub(crate) fn imported(view: &ServiceView, scope: Scope<'_>) -> String {
    let found = scope.sidecar.and_then(|sidecar| {
        let import = sidecar.egress.as_ref()?.import_of(scope.namespace, view, None)?;
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
    let by = scope.sidecar.map(|sidecar| format!("{}, which imports {}", sidecar.key, hosts(sidecar)));
    let detail = format!("{what} is not imported by {}", by.unwrap_or_default());
    let view = scope.sidecar.and_then(|sidecar| catalog.policies.get(&sidecar.key));
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
    let admits = scope.admits(view, port, Surface::Clusters);
    if !admits {
        r.step(|| not_imported(catalog, &view.key, Some(port.number), scope));
    }
    admits
}

#[cfg(test)]
mod tests {
    use tributary_model::{Namespace, ObjectVersion, PolicyView, Shared, Sidecar, Trace, Visibility};

    use super::*;
    use crate::fixtures::*;
    use crate::resolve::resolve;

    /// Traces the resolution of a host in namespace web, whose Sidecar has these egress hosts.
    fn traced(host: &str, hosts: &[&str]) -> TraceStep {
        let sidecar = Sidecar { egress: mk_egress(&[(None, hosts)]), ..Sidecar::default() };
        let client = ClientSidecar::new(&mk_sidecar("web", "narrow", sidecar.clone()).0, &sidecar);
        let (key, view) = mk_sidecar("web", "narrow", sidecar);
        let mut declared = (*view.declared).clone();
        declared.source.position = ObjectVersion("web.yaml:7:1".into());
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
    fn step_about_many_imports_names_the_first() {
        let hosts: Vec<String> = (0..20).map(|n| format!("./h{n}.x")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let detail = traced("pay.shop", &hosts).detail;
        assert!(detail.ends_with("./h6.x, ./h7.x, 12 more"), "{detail}");
    }
}
