//! Specs of Gateways: the servers that are served.

use serde_json::{Map, Value, json};
use tributary_model::{ForwardingGateway, ForwardingServer};

use super::{add, add_map};

/// Returns the spec of a Gateway.
pub(super) fn spec(gateway: &ForwardingGateway) -> Value {
    let mut out = Map::new();
    let labels = gateway.selector.pairs().map(|(label, value)| (label.to_string(), json!(**value)));
    add_map(&mut out, "selector", labels.collect());
    out.insert("servers".into(), gateway.servers.iter().map(server).collect());
    Value::Object(out)
}

fn server(server: &ForwardingServer) -> Value {
    let hosts: Vec<String> = server.hosts.iter().map(ToString::to_string).collect();
    let mut out = Map::new();
    out.insert("port".into(), json!({"number": server.port.get(), "protocol": "TLS"}));
    add(&mut out, "bind", server.bind.map(|ip| json!(ip.to_string())));
    out.insert("tls".into(), json!({"mode": "AUTO_PASSTHROUGH"}));
    out.insert("hosts".into(), json!(hosts));
    Value::Object(out)
}
