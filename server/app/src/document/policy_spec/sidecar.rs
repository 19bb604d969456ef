//! Specs of Sidecars.

use serde_json::{Map, Value, json};
use tributary_model::{
    CaptureMode, EgressListener, IngressEndpoint, IngressListener, ListenerPort, OutboundMode, Protocol,
    Sidecar,
};

use super::add;

/// Returns the spec of a Sidecar.
pub(super) fn spec(sidecar: &Sidecar) -> Value {
    let mut out = Map::new();
    if !sidecar.selector.is_empty() {
        let pairs = sidecar.selector.pairs().map(|(label, value)| (label.to_string(), json!(**value)));
        out.insert("workloadSelector".into(), json!({"labels": pairs.collect::<Map<_, _>>()}));
    }
    if !sidecar.egress.is_empty() {
        out.insert("egress".into(), sidecar.egress.iter().map(egress).collect());
    }
    if !sidecar.ingress.is_empty() {
        out.insert("ingress".into(), sidecar.ingress.iter().map(ingress).collect());
    }
    if let Some(mode) = &sidecar.outbound {
        out.insert("outboundTrafficPolicy".into(), outbound(mode));
    }
    Value::Object(out)
}

fn egress(listener: &EgressListener) -> Value {
    let hosts: Vec<String> = listener.hosts.iter().map(ToString::to_string).collect();
    let mut out = Map::new();
    add(&mut out, "port", listener.port.as_ref().map(port));
    add(&mut out, "bind", listener.bind.map(|ip| json!(ip.to_string())));
    add(&mut out, "captureMode", capture(listener.capture));
    add(&mut out, "hosts", Some(json!(hosts)));
    Value::Object(out)
}

fn ingress(listener: &IngressListener) -> Value {
    let mut out = Map::new();
    add(&mut out, "port", Some(port(&listener.port)));
    add(&mut out, "bind", listener.bind.map(|ip| json!(ip.to_string())));
    add(&mut out, "captureMode", capture(listener.capture));
    add(&mut out, "defaultEndpoint", listener.endpoint.as_ref().map(|at| json!(endpoint(at))));
    Value::Object(out)
}

fn port(port: &ListenerPort) -> Value {
    let mut out = Map::new();
    add(&mut out, "number", Some(json!(port.number.get())));
    let protocol = (port.protocol != Protocol::Unspecified).then(|| json!(port.protocol.as_str()));
    add(&mut out, "protocol", protocol);
    add(&mut out, "name", (!port.name.as_str().is_empty()).then(|| json!(port.name.as_str())));
    Value::Object(out)
}

fn capture(mode: CaptureMode) -> Option<Value> {
    match mode {
        CaptureMode::Default => None,
        CaptureMode::Iptables => Some(json!("IPTABLES")),
        CaptureMode::None => Some(json!("NONE")),
    }
}

fn outbound(mode: &OutboundMode) -> Value {
    match mode {
        OutboundMode::AllowAny => json!({"mode": "ALLOW_ANY"}),
        OutboundMode::RegistryOnly => json!({"mode": "REGISTRY_ONLY"}),
        OutboundMode::Proxy(proxy) => {
            let port = json!({"number": proxy.port.get()});
            json!({"mode": "ALLOW_ANY", "egressProxy": {"host": proxy.host.as_str(), "port": port}})
        }
    }
}

fn endpoint(at: &IngressEndpoint) -> String {
    match at {
        IngressEndpoint::Address(Some(ip), port) => std::net::SocketAddr::new(*ip, port.get()).to_string(),
        IngressEndpoint::Address(None, port) => format!(":{port}"),
        IngressEndpoint::Unix(path) => format!("unix://{path}"),
    }
}
