//! Each rule of a PeerAuthentication, with a document that breaks it and nothing else.

use super::*;

fn mk_peer(spec: &str) -> String {
    let entry = mk_entry(spec).replace("kind: ServiceEntry", "kind: PeerAuthentication");
    entry.replace("networking.istio.io/v1", "security.istio.io/v1")
}

const SELECTOR: &str = "  selector: {matchLabels: {app: pay}}\n";

#[test]
fn every_rule_of_a_peer_authentication_has_its_test() {
    let tests = include_str!("peer_authentication.rs");
    for (name, _) in super::super::peer_authentication::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

#[test]
fn peer_authentication_with_every_field_is_taken() {
    let ports = "  portLevelMtls: {8080: {mode: DISABLE}, \"9090\": {mode: UNSET}, 1: {}, 65535: }\n";
    let text = mk_peer(&format!("{SELECTOR}  mtls: {{mode: STRICT}}\n{ports}"));
    taken(&text);
    taken(&text.replace("security.istio.io/v1\n", "security.istio.io/v1beta1\n"));
    for spec in ["  {}\n", "  mtls: {}\n", "  mtls:\n", "  selector: {}\n", "  mtls: {mode: UNSET}\n"] {
        taken(&mk_peer(spec));
    }
    let version = text.replace("security.istio.io/v1\n", "security.istio.io/v1alpha3\n");
    refused(&version, &[(Code::UNKNOWN_KIND, 1, 13, "write security.istio.io/v1")]);
    let group = text.replace("security.istio.io", "networking.istio.io");
    refused(&group, &[(Code::UNKNOWN_KIND, 1, 13, "write security.istio.io/v1")]);
    let entry = mk_entry("  {}\n").replace("networking", "security");
    let load = load_str(&entry, "f.yaml");
    assert_eq!(load.problems[0].faults[0].code, Code::UNKNOWN_KIND, "a ServiceEntry is of the other group");
}

#[test]
fn modes_and_fields_are_those_of_istio() {
    let mode = mk_peer("  mtls: {mode: strict}\n");
    let known = "UNSET, DISABLE, PERMISSIVE, STRICT";
    refused(&mode, &[(Code::WRONG_TYPE, 7, 16, known)]);
    let port = mk_peer(&format!("{SELECTOR}  portLevelMtls: {{80: {{mode: MUTUAL}}}}\n"));
    refused(&port, &[(Code::WRONG_TYPE, 8, 30, known)]);
    refused(&mk_peer("  mtls: {mod: STRICT}\n"), &[(Code::UNKNOWN_FIELD, 7, 10, "did you mean mode?")]);
    let workload = mk_peer("  workloadSelector: {labels: {app: pay}}\n");
    refused(&workload, &[(Code::UNKNOWN_FIELD, 7, 3, "write one of selector, mtls, portLevelMtls")]);
    refused(&mk_peer("  mtls: STRICT\n"), &[(Code::WRONG_TYPE, 7, 9, "a map of fields")]);
}

#[test]
fn peer_size_is_within_limits() {
    let many = |count: u32| {
        let ports: Vec<String> = (1..=count).map(|port| format!("{port}: {{mode: STRICT}}")).collect();
        mk_peer(&format!("{SELECTOR}  portLevelMtls: {{{}}}\n", ports.join(", ")))
    };
    taken(&many(1_024));
    refused(&many(1_025), &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "set spec.mtls.mode")]);
}

#[test]
fn peer_selector_is_valid() {
    for labels in ["{app: \"*\"}", "{\"a*\": b}", "{\"\": b}"] {
        let text = mk_peer(&format!("  selector: {{matchLabels: {labels}}}\n"));
        refused(&text, &[(Code::INVALID_NAME, 7, 13, "spec.selector.matchLabels")]);
    }
}

#[test]
fn port_modes_need_a_selector() {
    let ports = "  portLevelMtls: {80: {mode: STRICT}}\n";
    let fix = "needs spec.selector.matchLabels";
    refused(&mk_peer(ports), &[(Code::MISSING_FIELD, 7, 18, fix)]);
    for selector in ["{}", "{matchLabels: {}}"] {
        let text = mk_peer(&format!("  selector: {selector}\n{ports}"));
        refused(&text, &[(Code::MISSING_FIELD, 8, 18, fix)]);
    }
}

#[test]
fn port_modes_are_of_ports() {
    for port in ["0", "65536", "-1", "http", "\"080\"", "\"+80\"", "\"\""] {
        let text = mk_peer(&format!("{SELECTOR}  portLevelMtls: {{{port}: {{mode: STRICT}}}}\n"));
        refused(&text, &[(Code::INVALID_PORT, 8, 19, "write one from 1 to 65535")]);
    }
    let text = mk_peer(&format!("{SELECTOR}  portLevelMtls: {{}}\n"));
    refused(&text, &[(Code::MISSING_FIELD, 8, 18, "add a port, or remove it")]);
}
