//! Converts a Sidecar to a policy.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    CaptureMode, DeclaredPolicy, EgressListener, Fact, IngressListener, ListenerPort, Policy, PolicyKey,
    PolicyKind, PortName, Protocol, Sidecar,
};

use super::endpoints;
use crate::document::sidecar::{self, Egress, Ingress, Port};
use crate::document::{Meta, Object, Text};

/// The policy of a document.
pub(super) fn fact(object: &Object, meta: &Meta, document: &sidecar::Sidecar) -> Fact {
    let key = PolicyKey {
        kind: PolicyKind::Sidecar,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let ignored = document.ignored.iter().map(|path| Arc::clone(&path.value));
    let mut ignored: Vec<Arc<str>> = ignored.chain(without_effect(document)).collect();
    ignored.sort();
    let policy = Policy::Sidecar(Sidecar {
        selector: document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default(),
        egress: document.egress.iter().map(egress).collect(),
        ingress: document.ingress.iter().filter_map(ingress).collect(),
        outbound: document.outbound,
        ignored: ignored.into(),
    });
    Fact::Policy(key, Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }))
}

/// The paths of fields that are read and that no client follows yet.
fn without_effect(document: &sidecar::Sidecar) -> impl Iterator<Item = Arc<str>> {
    let listeners = document.egress.iter().enumerate();
    let of_egress = listeners.flat_map(|(i, listener)| {
        let bind = listener.bind.is_some().then(|| format!("spec.egress[{i}].bind"));
        let captured = listener.capture != CaptureMode::Default;
        bind.into_iter().chain(captured.then(|| format!("spec.egress[{i}].captureMode")))
    });
    of_egress.map(Arc::from)
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
