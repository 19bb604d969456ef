//! Condition of a Sidecar whose egress proxy its clients do not reach.

use tributary_model::{
    Catalog, Code, Condition, EgressProxy, OutboundMode, PolicyKey, PolicyView, Resolution, ServiceView,
};

use super::condition;
use crate::egress::PortSet;
use crate::resolve::resolve;
use crate::scope::{ClientSidecar, Scope};

/// Returns the condition of an egress proxy whose xDS cluster clients of the Sidecar's namespace do not receive.
pub(super) fn unreachable_proxy(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
    let sidecar = view.sidecar()?;
    let Some(OutboundMode::Proxy(proxy)) = &sidecar.outbound else { return None };
    let EgressProxy { host, port } = proxy;
    let why = obstacle(catalog, key, &ClientSidecar::new(key, sidecar), proxy)?;
    let message = format!("egress proxy {host}:{port}: {why}; connections to unknown hosts fail");
    Some(condition(Code::EGRESS_PROXY_UNREACHABLE, view, message))
}

fn obstacle(
    catalog: &Catalog,
    key: &PolicyKey,
    sidecar: &ClientSidecar,
    proxy: &EgressProxy,
) -> Option<String> {
    let seen = Scope::of(Some(&key.namespace));
    let scope = Scope { sidecar: Some(sidecar), ..seen };
    let found = |scope| resolve(catalog, proxy.host.as_str(), scope, &mut ());
    let Some(visible) = found(seen) else {
        return Some(format!("no service of this host is visible to namespace {}", key.namespace));
    };
    let has_port = |view: &ServiceView| view.port(proxy.port).is_some();
    let reaches = |view: &ServiceView| {
        view.port(proxy.port).is_some_and(|port| scope.admits(view, port, PortSet::Imported))
    };
    match found(scope) {
        _ if is_alias(visible) => Some("it is an alias; name the host that it leads to".to_owned()),
        _ if !has_port(visible) => Some("the service has no such port".to_owned()),
        Some(view) if reaches(view) => None,
        _ => Some("no egress listener of the Sidecar imports it".to_owned()),
    }
}

/// Whether a host has no xDS cluster of its own.
fn is_alias(view: &ServiceView) -> bool {
    view.ports.iter().any(|port| matches!(port.listener.inputs.resolution, Resolution::Alias(_)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{EndpointInputs, Sidecar, Visibility};

    use super::*;
    use crate::fixtures::*;

    /// Returns the condition of a Sidecar with this proxy and these imports.
    fn shown(catalog: &Catalog, host: &str, port: u32, imports: &[&str]) -> Option<String> {
        let proxy = EgressProxy { host: mk_host(host), port: mk_port(port) };
        let egress = mk_egress(&[(None, imports)]);
        let sidecar = Sidecar { egress, outbound: Some(OutboundMode::Proxy(proxy)), ..Sidecar::default() };
        let (key, view) = mk_sidecar("web", "default", sidecar);
        let found = unreachable_proxy(catalog, &key, &view)?;
        assert_eq!((found.code, found.objects.len()), (Code::EGRESS_PROXY_UNREACHABLE, 1));
        Some(found.message.to_string())
    }

    #[test]
    fn egress_proxy_must_be_seen_imported_and_have_the_port() {
        let port = || {
            let inputs = mk_one(Vec::new());
            mk_port_view(EndpointInputs { service: mk_key("out.shop", "shop"), ..inputs })
        };
        let with_port = |host, visibility| {
            let view = ServiceView::clone(&mk_view(host, "shop", &[visibility]));
            Arc::new(ServiceView { ports: [port()].into(), ..view })
        };
        let hidden = with_port("hidden.shop", Visibility::Namespaces([mk_ns("shop")].into()));
        let catalog = mk_catalog(vec![with_port("out.shop", Visibility::Public), hidden]);
        let all: &[&str] = &["*/*"];
        assert_eq!(shown(&catalog, "out.shop", 80, all), None);
        let message = |host, port, imports| {
            let text = shown(&catalog, host, port, imports).unwrap();
            text.strip_prefix(&format!("egress proxy {host}:{port}: ")).unwrap().to_owned()
        };
        for host in ["hidden.shop", "none.shop"] {
            assert_eq!(
                message(host, 80, all),
                "no service of this host is visible to namespace web; connections to unknown hosts fail"
            );
        }
        assert!(message("out.shop", 81, all).starts_with("the service has no such port"));
        assert!(message("out.shop", 80, &["./*"]).starts_with("no egress listener"));
    }
}
