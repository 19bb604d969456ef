//! Specs of VirtualServices. HTTP routes are in `http_route`.

use serde_json::{Map, Value, json};
use tributary_model::{
    ClientMatch, GatewayMatch, HostPattern, L4Destination, L4Match, RouteDestination, TcpRoute, TlsMatch,
    TlsRoute, VirtualService,
};

use super::destination_rule::export;
use super::{add, http_route};

/// Returns the spec of a VirtualService. Names of gateways are left out, because they have no effect.
pub(super) fn spec(service: &VirtualService) -> Value {
    let mut out = Map::new();
    add_list(&mut out, "hosts", service.hosts.iter().map(|host| json!(host.as_str())));
    add_list(&mut out, "http", service.http.iter().map(http_route::spec));
    add_list(&mut out, "tls", service.tls.iter().map(tls));
    add_list(&mut out, "tcp", service.tcp.iter().map(tcp));
    add(&mut out, "exportTo", export(&service.export));
    Value::Object(out)
}

/// Adds a list that is not empty.
pub(super) fn add_list(out: &mut Map<String, Value>, name: &str, values: impl Iterator<Item = Value>) {
    let values: Vec<Value> = values.collect();
    add(out, name, (!values.is_empty()).then(|| values.into()));
}

/// Adds a text that is not empty.
pub(super) fn add_text(out: &mut Map<String, Value>, name: &str, text: &str) {
    add(out, name, (!text.is_empty()).then(|| text.into()));
}

fn tls(route: &TlsRoute) -> Value {
    let mut out = Map::new();
    add_list(&mut out, "match", route.matches.iter().map(tls_match));
    add_list(&mut out, "route", route.destinations.iter().map(weighted));
    Value::Object(out)
}

fn tls_match(found: &TlsMatch) -> Value {
    let mut out = l4_match(&found.connection);
    add_list(&mut out, "sniHosts", found.names.iter().map(HostPattern::as_str).map(Value::from));
    Value::Object(out)
}

fn tcp(route: &TcpRoute) -> Value {
    let mut out = Map::new();
    add_list(&mut out, "match", route.matches.iter().map(l4_match).map(Value::Object));
    add_list(&mut out, "route", route.destinations.iter().map(weighted));
    Value::Object(out)
}

fn l4_match(found: &L4Match) -> Map<String, Value> {
    let mut out = Map::new();
    add_list(&mut out, "destinationSubnets", found.subnets.iter().map(|range| json!(range.to_string())));
    add(&mut out, "port", found.port.map(|port| json!(port.get())));
    add_clients(&mut out, &found.clients);
    out
}

/// Adds the conditions on clients. A gateway that is not served is shown as `-`: its name is not kept.
pub(super) fn add_clients(out: &mut Map<String, Value>, clients: &ClientMatch) {
    let labels: Map<String, Value> =
        clients.labels.pairs().map(|(label, value)| (label.to_string(), json!(**value))).collect();
    super::add_map(out, "sourceLabels", labels);
    add(out, "sourceNamespace", clients.namespace.as_ref().map(|namespace| json!(namespace.as_str())));
    add(
        out,
        "gateways",
        match clients.gateways {
            GatewayMatch::Undeclared => None,
            GatewayMatch::Mesh => Some(json!(["mesh"])),
            GatewayMatch::Other => Some(json!(["-"])),
        },
    );
}

fn weighted(of: &L4Destination) -> Value {
    let mut out = Map::new();
    out.insert("destination".into(), destination(&of.destination));
    add(&mut out, "weight", (of.weight > 0).then(|| json!(of.weight)));
    Value::Object(out)
}

/// Returns a destination.
pub(super) fn destination(of: &RouteDestination) -> Value {
    let mut out = Map::new();
    out.insert("host".into(), json!(of.host.as_str()));
    add(&mut out, "subset", of.subset.as_ref().map(|subset| json!(subset.as_str())));
    add(&mut out, "port", of.port.map(|port| json!({"number": port.get()})));
    Value::Object(out)
}
