//! Each rule of a Sidecar, with a document that breaks it and nothing else.

use super::*;

fn mk_sidecar(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: Sidecar")
}

const EGRESS: &str = "  egress: [{hosts: [./*]}]\n";

fn mk_proxy(mode: &str, fields: &str) -> String {
    mk_sidecar(&format!("{EGRESS}  outboundTrafficPolicy: {{mode: {mode}, egressProxy: {{{fields}}}}}\n"))
}

#[test]
fn every_rule_of_a_sidecar_has_its_test() {
    let tests = include_str!("sidecar.rs");
    for (name, _) in super::super::sidecar::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

#[test]
fn sidecar_with_every_served_field_is_taken() {
    let text = mk_sidecar(concat!(
        "  workloadSelector: {labels: {app: pay}}\n",
        "  egress:\n",
        "  - port: {number: 3306, protocol: MYSQL, name: db}\n",
        "    bind: 127.0.0.1\n",
        "    captureMode: NONE\n",
        "    hosts: [\"*/db.example.com\"]\n",
        "  - hosts: [./*, \"~/*\", \"istio-system/*.svc.cluster.local\"]\n",
        "  ingress:\n",
        "  - port: {number: 9080, protocol: HTTP, name: http}\n",
        "    bind: \"::1\"\n",
        "    captureMode: IPTABLES\n",
        "    defaultEndpoint: unix:///run/app.sock\n",
        "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n",
    ));
    taken(&text);
    for version in ["v1beta1", "v1alpha3"] {
        taken(&text.replace("networking.istio.io/v1\n", &format!("networking.istio.io/{version}\n")));
    }
}

#[test]
fn fields_that_are_not_served_are_refused() {
    let not = Code::FIELD_NOT_SERVED;
    let port = "port: {number: 80, protocol: HTTP, name: a";
    let ingress = format!("  ingress:\n  - {port}}}\n");
    refused(&mk_sidecar(&format!("{ingress}    tls: {{mode: SIMPLE}}\n")), &[(not, 9, 10, "is not served")]);
    refused(
        &mk_sidecar(&format!("  ingress:\n  - {port}, targetPort: 81}}\n")),
        &[(not, 8, 61, "remove it")],
    );
    let proxy = mk_proxy("ALLOW_ANY", "host: a.b, subset: v1, port: {number: 80}");
    refused(&proxy, &[(not, 8, 77, "egressProxy.subset is not served")]);
    let dynamic = format!("{EGRESS}  outboundTrafficPolicy: {{mode: ALLOW_ANY_DYNAMIC_DNS}}\n");
    refused(&mk_sidecar(&dynamic), &[(Code::WRONG_TYPE, 8, 33, "REGISTRY_ONLY, ALLOW_ANY")]);
    refused(
        &mk_sidecar(&format!("{EGRESS}  egres: []\n")),
        &[(Code::UNKNOWN_FIELD, 8, 3, "did you mean egress?")],
    );
}

#[test]
fn egress_proxy_is_a_port_of_a_host() {
    let (port, any) = ("port: {number: 80}", "ALLOW_ANY");
    taken(&mk_proxy(any, &format!("host: a.b, {port}")));
    taken(&mk_proxy(any, &format!("host: a.b, subset: \"\", {port}")));
    let whole = format!("host: a.b, {port}");
    refused(&mk_proxy("REGISTRY_ONLY", &whole), &[(Code::FIELD_NOT_SERVED, 8, 61, "mode: ALLOW_ANY")]);
    refused(&mk_proxy(any, port), &[(Code::MISSING_FIELD, 8, 57, "egressProxy.host is missing")]);
    refused(
        &mk_proxy(any, "host: a.b"),
        &[(Code::MISSING_FIELD, 8, 57, "egressProxy.port.number is missing")],
    );
    for host in ["\"*.b\"", "\"a b\""] {
        let text = mk_proxy(any, &format!("host: {host}, {port}"));
        refused(&text, &[(Code::INVALID_HOST, 8, 64, "without a wildcard")]);
    }
    let none = mk_proxy(any, "host: a.b, port: {number: 0}");
    refused(&none, &[(Code::INVALID_PORT, 8, 84, "write a port from 1 to 65535")]);
}

#[test]
fn sidecar_is_not_empty() {
    let empty = mk_sidecar("  workloadSelector: {labels: {app: pay}}\n");
    refused(&empty, &[(Code::MISSING_FIELD, 7, 3, "add one")]);
    taken(&mk_sidecar("  outboundTrafficPolicy: {}\n"));
    taken(&mk_sidecar("  inboundConnectionPool: {tcp: {maxConnections: 1}}\n"));
}

#[test]
fn sidecar_size_is_within_limits() {
    let hosts = "./*,".repeat(4_097);
    refused(
        &mk_sidecar(&format!("  egress: [{{hosts: [{hosts}]}}]\n")),
        &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "use wildcards")],
    );
}

#[test]
fn sidecar_selector_is_valid() {
    let text = mk_sidecar(&format!("{EGRESS}  workloadSelector: {{labels: {{app: \"a*\"}}}}\n"));
    refused(&text, &[(Code::INVALID_NAME, 8, 21, "use up to 63 letters")]);
}

#[test]
fn egress_imports_hosts() {
    refused(&mk_sidecar("  egress: [{hosts: []}]\n"), &[(Code::MISSING_FIELD, 7, 12, "`~/*` for none")]);
    refused(
        &mk_sidecar("  egress:\n  - hosts:\n    - pay.example.com\n    - ~web/*\n    - ./a..b\n"),
        &[
            (Code::INVALID_HOST, 9, 7, "write NAMESPACE/HOST"),
            (Code::INVALID_HOST, 10, 7, "cannot be excluded"),
            (Code::INVALID_HOST, 11, 7, "write a DNS name"),
        ],
    );
}

#[test]
fn egress_without_port_is_last() {
    let other = "  - hosts: [\"*/*\"]\n    port: {number: 80, protocol: HTTP}\n";
    let text = mk_sidecar(&format!("  egress:\n  - hosts: [./*]\n{other}"));
    refused(&text, &[(Code::INVALID_PORT, 8, 5, "move it to the end")]);
    taken(&mk_sidecar(&format!("  egress:\n{other}  - hosts: [./*]\n")));
    taken(&mk_sidecar("  egress: [{hosts: [./*], bind: 127.0.0.1}]\n"));
}

#[test]
fn ingress_names_a_port() {
    let text = mk_sidecar("  ingress: [{defaultEndpoint: \":80\"}]\n");
    refused(&text, &[(Code::MISSING_FIELD, 7, 13, "add it")]);
}

#[test]
fn listener_ports_are_valid() {
    refused(
        &mk_sidecar(
            "  ingress:\n  - port: {number: 0}\n  - port: {number: 1, name: a_b}\n  - port: {number: 2, protocol: SMTP}\n",
        ),
        &[
            (Code::INVALID_PORT, 8, 20, "from 1 to 65535"),
            (Code::INVALID_PORT, 9, 29, "use up to 63"),
            (Code::INVALID_PORT, 10, 33, "write HTTP"),
        ],
    );
}

#[test]
fn listener_ports_are_unique() {
    let text = mk_sidecar("  ingress:\n  - port: {number: 80}\n  - port: {number: 80}\n");
    refused(&text, &[(Code::INVALID_PORT, 9, 20, "give it its own")]);
    taken(&mk_sidecar("  ingress: [{port: {number: 80}}]\n  egress: [{hosts: [./*], port: {number: 80}}]\n"));
}

#[test]
fn listeners_bind_to_ips() {
    let bind = |to: &str| {
        mk_sidecar(&format!("  egress:\n  - port: {{number: 80}}\n    bind: {to}\n    hosts: [./*]\n"))
    };
    refused(&bind("unix:///run/a"), &[(Code::FIELD_NOT_SERVED, 9, 11, "write an IP address")]);
    refused(&bind("localhost"), &[(Code::INVALID_ADDRESS, 9, 11, "is not an IP address")]);
    taken(&bind("10.0.0.1"));
}

#[test]
fn ingress_destinations_are_own() {
    let to =
        |to: &str| mk_sidecar(&format!("  ingress:\n  - port: {{number: 80}}\n    defaultEndpoint: {to}\n"));
    refused(&to("10.0.0.1:80"), &[(Code::INVALID_ADDRESS, 9, 22, "127.0.0.1:PORT")]);
    taken(&to("127.0.0.1:80"));
}
