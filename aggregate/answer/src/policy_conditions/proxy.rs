//! Condition of a Sidecar whose egress proxy its clients do not reach, and why clients do not receive an xDS cluster.
//!
//! `tokens` calls it for the hosts of keys.

use tributary_model::{
    Catalog, Code, Condition, EgressProxy, Hostname, Namespace, OutboundMode, PolicyKey, PolicyView,
    PortNumber, Resolution, ServiceView,
};

use super::condition;
use crate::egress::PortSet;
use crate::resolve::resolve;
use crate::scope::{ClientSidecar, Scope};

/// Returns the condition of an egress proxy whose xDS cluster clients of the Sidecar's namespace do not receive.
pub(super) fn unreachable_proxy(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
    let sidecar = view.sidecar()?;
    let Some(OutboundMode::Proxy(EgressProxy { host, port })) = &sidecar.outbound else { return None };
    let own = ClientSidecar::new(key, sidecar);
    let why = obstacle(catalog, &key.namespace, Some(&own), (host, *port))?.text(&key.namespace);
    let message = format!("egress proxy {host}:{port}: {why}; connections to unknown hosts fail");
    Some(condition(Code::EGRESS_PROXY_UNREACHABLE, view, message))
}

/// Why clients do not receive the xDS cluster of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    NotVisible,
    Alias,
    NoPort,
    NotImported,
}

impl Obstacle {
    pub(super) fn text(self, namespace: &Namespace) -> String {
        match self {
            Self::NotVisible => format!("no service of this host is visible to namespace {namespace}"),
            Self::Alias => "it is an alias; name the host that it leads to".to_owned(),
            Self::NoPort => "the service has no such port".to_owned(),
            Self::NotImported => "no egress listener of the Sidecar imports it".to_owned(),
        }
    }
}

/// Returns why clients of a namespace, with this Sidecar if any, do not receive the xDS cluster of a host and port.
pub(super) fn obstacle(
    catalog: &Catalog,
    namespace: &Namespace,
    sidecar: Option<&ClientSidecar>,
    (host, number): (&Hostname, PortNumber),
) -> Option<Obstacle> {
    let seen = Scope::of(Some(namespace));
    let scope = Scope { sidecar, ..seen };
    let found = |scope| resolve(catalog, host.as_str(), scope, &mut ());
    let Some(visible) = found(seen) else { return Some(Obstacle::NotVisible) };
    let reaches = |view: &ServiceView| {
        view.port(number).is_some_and(|port| scope.admits(view, port, PortSet::Imported))
    };
    match found(scope) {
        _ if is_alias(visible) => Some(Obstacle::Alias),
        _ if visible.port(number).is_none() => Some(Obstacle::NoPort),
        Some(view) if reaches(view) => None,
        _ => Some(Obstacle::NotImported),
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
