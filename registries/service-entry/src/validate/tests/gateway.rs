//! Each rule of a Gateway, with a document that breaks it and nothing else.

use super::*;

/// A Gateway with one server, whose fields begin in column 5 of line 8.
fn mk_server(fields: &[&str]) -> String {
    let lines: String = fields.iter().map(|field| format!("    {field}\n")).collect();
    mk_gateway(&format!("  servers:\n  - {}", lines.trim_start()))
}

fn mk_gateway(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: Gateway")
}

const PORT: &str = "port: {number: 15443, name: tls, protocol: TLS}";
const TLS: &str = "tls: {mode: AUTO_PASSTHROUGH}";
const HOSTS: &str = "hosts: [\"*.local\"]";

#[test]
fn every_rule_of_a_gateway_has_its_test() {
    let tests = include_str!("gateway.rs");
    for (name, _) in super::super::gateway::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

#[test]
fn gateways_of_istio_are_taken() {
    let text = mk_server(&[PORT, TLS, HOSTS, "bind: 10.0.0.1", "name: cross"]);
    taken(&text);
    taken(&text.replace("networking.istio.io/v1\n", "networking.istio.io/v1alpha3\n"));
    taken(&text.replace("  servers:", "  selector: {istio: eastwestgateway}\n  servers:"));
    taken(&mk_server(&[PORT, "tls: {mode: AUTO_PASSTHROUGH, credentialName: c}", HOSTS]));
    taken(&mk_server(&["port: {number: 15443, protocol: TLS, targetPort: 15443}", TLS, HOSTS]));
    for hosts in ["[shop/pay.example.com]", "[./*]", "[\"*\"]"] {
        taken(&mk_server(&[PORT, TLS, &format!("hosts: {hosts}")]));
    }
    // whatever servers that are not served have
    taken(&mk_server(&[
        "port: {number: 80, protocol: HTTP, any: 1}",
        "hosts: 7",
        "tls: {httpsRedirect: true}",
    ]));
    taken(&mk_server(&["tls: {mode: SIMPLE, credentialName: c, any: 1}", "any: 1"]));
}

#[test]
fn unknown_fields_of_served_servers_are_refused() {
    let text = mk_server(&[PORT, TLS, HOSTS, "host: a"]);
    refused(&text, &[(Code::UNKNOWN_FIELD, 11, 5, "did you mean hosts?")]);
}

#[test]
fn gateway_has_servers() {
    refused(&mk_gateway("  servers: []\n"), &[(Code::MISSING_FIELD, 7, 3, "add a server")]);
}

#[test]
fn gateway_size_is_within_limits() {
    let servers: Vec<String> = (0..513).map(|_| format!("{{{PORT}, {TLS}, {HOSTS}}}")).collect();
    let text = mk_gateway(&format!("  servers: [{}]\n", servers.join(", ")));
    refused(&text, &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "spec.servers has 513 items")]);
}

#[test]
fn gateway_selector_is_valid() {
    let text = mk_server(&[PORT, TLS, HOSTS]).replace("  servers:", "  selector: {a b: c}\n  servers:");
    refused(&text, &[(Code::INVALID_NAME, 7, 13, "spec.selector")]);
}

#[test]
fn tls_modes_are_known() {
    let text = mk_server(&[PORT, "tls: {mode: AUTO}", HOSTS]);
    refused(&text, &[(Code::WRONG_TYPE, 9, 17, "write AUTO_PASSTHROUGH")]);
}

#[test]
fn servers_have_ports_of_tls() {
    refused(&mk_server(&[TLS, HOSTS]), &[(Code::MISSING_FIELD, 8, 5, "spec.servers[0].port is missing")]);
    let of = |port: &str| mk_server(&[port, TLS, HOSTS]);
    let number = of("port: {number: 0, protocol: TLS}");
    refused(&number, &[(Code::INVALID_PORT, 8, 20, "write one from 1 to 65535")]);
    let protocol = of("port: {number: 80, protocol: HTTP}");
    refused(&protocol, &[(Code::INVALID_PORT, 8, 34, "write TLS")]);
}

#[test]
fn servers_bind_to_ips() {
    let text = mk_server(&[PORT, TLS, HOSTS, "bind: here"]);
    refused(&text, &[(Code::INVALID_ADDRESS, 11, 11, "not an IP address")]);
}

#[test]
fn servers_have_hosts() {
    refused(&mk_server(&[PORT, TLS]), &[(Code::MISSING_FIELD, 8, 5, "spec.servers[0].hosts is empty")]);
    let text = mk_server(&[PORT, TLS, "hosts: [\"~/*\"]"]);
    refused(&text, &[(Code::INVALID_HOST, 10, 13, "write `*`, `.` or a namespace")]);
}
