//! Converts a Sidecar to a policy.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    DeclaredPolicy, EgressListener, EgressProxy, Fact, IngressListener, ListenerPort, OutboundMode, Policy,
    PolicyKey, PolicyKind, PortName, Protocol, Sidecar,
};

use super::endpoints;
use crate::document::sidecar::{self, Egress, Ingress, Outbound, Port};
use crate::document::{Meta, Object, Text};

/// The policy of a document.
pub(super) fn fact(object: &Object, meta: &Meta, document: &sidecar::Sidecar) -> Fact {
    let key = PolicyKey {
        kind: PolicyKind::Sidecar,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.sort();
    let policy = Policy::Sidecar(Sidecar {
        selector: document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default(),
        egress: document.egress.iter().map(egress).collect(),
        ingress: document.ingress.iter().filter_map(ingress).collect(),
        outbound: document.outbound.as_ref().map(outbound),
        ignored: ignored.into(),
    });
    Fact::Policy(key, Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }))
}

fn egress(listener: &Egress) -> EgressListener {
    EgressListener {
        port: listener.port.as_ref().and_then(port),
        bind: bind(listener.bind.as_ref()),
        capture: listener.capture,
        hosts: listener.hosts.iter().filter_map(|text| sidecar::import(&text.value).ok()).collect(),
    }
}

fn ingress(listener: &Ingress) -> Option<IngressListener> {
    Some(IngressListener {
        port: port(listener.port.as_ref()?)?,
        bind: bind(listener.bind.as_ref()),
        capture: listener.capture,
        endpoint: listener.endpoint.as_ref().and_then(|text| sidecar::endpoint(&text.value).ok()),
    })
}

/// A policy without a mode blocks unknown hosts, as in Istio.
fn outbound(document: &Outbound) -> OutboundMode {
    let proxy = document.proxy.as_ref().and_then(proxy).map(OutboundMode::Proxy);
    match (document.passes, proxy) {
        (false, _) => OutboundMode::RegistryOnly,
        (true, None) => OutboundMode::AllowAny,
        (true, Some(proxy)) => proxy,
    }
}

fn proxy(document: &sidecar::EgressProxy) -> Option<EgressProxy> {
    let host = sidecar::proxy_host(&document.host.as_ref()?.value)?;
    Some(EgressProxy { host, port: endpoints::number_of(document.port.as_ref()?.value)? })
}

fn port(port: &Port) -> Option<ListenerPort> {
    Some(ListenerPort {
        number: endpoints::number_of(port.number.value)?,
        protocol: Protocol::from_service_entry(&port.protocol.value),
        name: PortName::new(&port.name.value).ok()?,
    })
}

fn bind(text: Option<&Text>) -> Option<IpAddr> {
    text?.value.parse().ok()
}
