//! Accepted documents, and the fault of each kind of mistake.

use tributary_model::Code;

use crate::read::load::load_str;
use crate::{Body, Load};

fn mk_entry(lines: &str) -> String {
    format!("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n{lines}")
}

const META: &str = "metadata:\n  name: pay\n";
const SPEC: &str = "spec:\n  hosts: [pay.example.com]\n  ports: [{number: 80, name: http, protocol: HTTP}]\n";

#[track_caller]
fn refused(text: &str, code: Code, line: u32, column: u32, part: &str) {
    let load = load_str(text, "f.yaml");
    assert!(load.documents.is_empty(), "it was accepted:\n{text}");
    let fault = &load.problems[0].faults[0];
    assert_eq!((fault.code, fault.at.line, fault.at.column), (code, line, column), "{fault}");
    assert!(fault.message.contains(part), "{:?} does not contain {part:?}", fault.message);
}

fn taken(text: &str) -> Load {
    let load = load_str(text, "f.yaml");
    assert!(load.problems.is_empty(), "{:#?}", load.problems);
    load
}

#[test]
fn all_published_versions_are_read_alike() {
    let documents: Vec<_> = ["v1", "v1beta1", "v1alpha3"]
        .iter()
        .map(|version| {
            let text = mk_entry(&format!("{META}{SPEC}")).replace("io/v1\n", &format!("io/{version}\n"));
            taken(&text).documents.remove(0).document
        })
        .collect();
    assert_eq!(documents[0], documents[1]);
    assert_eq!(documents[0], documents[2]);
}

#[test]
fn every_published_field_is_known() {
    taken(&mk_entry(
        "metadata:\n  name: pay\n  namespace: shop\n  uid: x\n  resourceVersion: \"7\"\n  generation: 2\n  managedFields: [{a: b}]\n  creationTimestamp: \"2024-05-01T10:00:00Z\"\n  labels: {app: pay}\n  annotations: {a: b}\nspec:\n  hosts: [pay.example.com]\n  addresses: [10.0.0.1]\n  ports: [{number: 80, protocol: HTTP, name: http, targetPort: 8080}]\n  location: MESH_INTERNAL\n  resolution: STATIC\n  endpoints: [{address: 10.0.0.2, ports: {http: 81}, labels: {v: \"1\"}, network: n, locality: a/b/c, weight: 1, serviceAccount: s}]\n  exportTo: [\".\"]\n  subjectAltNames: [a.b]\nstatus:\n  addresses: [{value: 1.1.1.1, host: pay.example.com}]\n  conditions: [{type: X, status: \"True\", anything: [1]}]\n  validationMessages: []\n",
    ));
    let group = "apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: pay}\nspec:\n  metadata: {labels: {a: b}, annotations: {c: d}}\n  template: {ports: {http: 80}, labels: {a: b}, network: n, locality: a, weight: 1, serviceAccount: s}\n  probe: {initialDelaySeconds: 1, timeoutSeconds: 1, periodSeconds: 1, successThreshold: 1, failureThreshold: 1, httpGet: {path: /, port: 80, host: h, scheme: HTTPS, httpHeaders: [{name: a, value: b}]}}\n";
    taken(group);
    for method in
        ["tcpSocket: {port: 80, host: h}", "exec: {command: [a, b]}", "grpc: {port: 80, service: s}"]
    {
        let start = group.find("httpGet").unwrap();
        taken(&format!("{}{method}}}\n", &group[..start]));
    }
}

#[test]
fn a_document_without_a_namespace_is_in_default() {
    let load = taken(&mk_entry(&format!("{META}{SPEC}")));
    assert_eq!(load.documents[0].document.id().to_string(), "ServiceEntry default/pay");
}

#[test]
fn nothing_is_the_same_as_no_field() {
    let text = mk_entry(&format!(
        "metadata:\n  name: pay\n  labels:\n  annotations: ~\n{SPEC}  endpoints:\n  exportTo: null\n"
    ));
    let Body::ServiceEntry(entry) = &taken(&text).documents[0].document.body else { panic!("another kind") };
    assert!(entry.endpoints.is_empty() && entry.export_to.is_empty() && entry.selector.is_none());
}

#[test]
fn kinds_that_are_not_served_are_named() {
    for (api, kind) in [
        ("networking.istio.io/v1beta1", "ProxyConfig"),
        ("telemetry.istio.io/v1", "Telemetry"),
        ("extensions.istio.io/v1alpha1", "WasmPlugin"),
    ] {
        let text =
            format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a, namespace: shop}}\nspec: {{}}\n");
        refused(&text, Code::KIND_NOT_SERVED, 2, 7, "clients behave as without it");
        let load = load_str(&text, "f.yaml");
        assert_eq!(load.problems[0].object.id.to_string(), format!("{kind} shop/a"));
    }
}

#[test]
fn unknown_kinds_and_versions_are_named() {
    refused(
        "kind: ServiceEntri\napiVersion: networking.istio.io/v1\n",
        Code::UNKNOWN_KIND,
        1,
        7,
        "use ServiceEntry",
    );
    refused(
        "kind: ServiceEntry\napiVersion: v1\n",
        Code::UNKNOWN_KIND,
        2,
        13,
        "write networking.istio.io/v1",
    );
    refused(
        "kind: ServiceEntry\napiVersion: networking.istio.io/v9\n",
        Code::UNKNOWN_KIND,
        2,
        13,
        "is not supported",
    );
    refused("- a\n", Code::UNKNOWN_KIND, 1, 1, "the document is a list");
    refused("just text\n", Code::UNKNOWN_KIND, 1, 1, "the document is text");
    refused("a: b\n", Code::MISSING_FIELD, 1, 1, "kind is missing");
}

#[test]
fn unknown_fields_get_a_suggestion() {
    let with = |line: &str| mk_entry(&format!("{META}{SPEC}{line}"));
    refused(&with("  resolutoin: DNS\n"), Code::UNKNOWN_FIELD, 8, 3, "did you mean resolution?");
    refused(&with("  workload_selector: {}\n"), Code::UNKNOWN_FIELD, 8, 3, "did you mean workloadSelector?");
    refused(&with("  trafficPolicy: {}\n"), Code::UNKNOWN_FIELD, 8, 3, "write one of hosts, addresses");
    refused(
        &with("extra: 1\n"),
        Code::UNKNOWN_FIELD,
        8,
        1,
        "extra is not a known field; remove it, or write one of kind, apiVersion, metadata, spec, status",
    );
    refused(
        &with("").replace("number: 80", "number: 80, nme: x"),
        Code::UNKNOWN_FIELD,
        7,
        24,
        "spec.ports[0].nme is not a known field; did you mean name?",
    );
    refused(
        &mk_entry(&format!("metadata: {{name: pay, label: {{}}}}\n{SPEC}")),
        Code::UNKNOWN_FIELD,
        3,
        23,
        "labels",
    );
    refused(
        &with("  workloadSelector: {label: {a: b}}\n"),
        Code::UNKNOWN_FIELD,
        8,
        22,
        "did you mean labels?",
    );
}

#[test]
fn wrong_types_are_refused_with_the_right_one() {
    let swap = |from: &str, to: &str| mk_entry(&format!("{META}{SPEC}")).replace(from, to);
    refused(&swap("number: 80", "number: \"80\""), Code::WRONG_TYPE, 7, 20, "write it without quotes");
    refused(&swap("number: 80", "number: 80.5"), Code::WRONG_TYPE, 7, 20, "a whole number");
    refused(&swap("name: http", "name: 80"), Code::WRONG_TYPE, 7, 30, "put it in quotes");
    refused(
        &swap("[pay.example.com]", "pay.example.com"),
        Code::WRONG_TYPE,
        6,
        10,
        "begin each item with `- `",
    );
    refused(
        &swap("[pay.example.com]", "[[a.b]]"),
        Code::WRONG_TYPE,
        6,
        11,
        "spec.hosts[0] is a list; it must be text",
    );
    refused(&swap("[pay.example.com]", "{a: b}"), Code::WRONG_TYPE, 6, 10, "spec.hosts is a map");
    refused(
        &swap("name: pay\n", "name: pay\n  labels: [a]\n"),
        Code::WRONG_TYPE,
        5,
        11,
        "metadata.labels is a list",
    );
    refused(
        &swap("name: pay\n", "name: pay\n  labels: {v: 1.10}\n"),
        Code::WRONG_TYPE,
        5,
        15,
        "metadata.labels[\"v\"] is a number; it must be text; put it in quotes",
    );
    refused(
        &format!("{}  resolution: SOMEHOW\n", swap("", "")),
        Code::WRONG_TYPE,
        8,
        15,
        "write one of NONE, STATIC, DNS",
    );
    refused(
        &format!("{}  location: 1\n", swap("", "")),
        Code::WRONG_TYPE,
        8,
        13,
        "spec.location is a number",
    );
    refused(&swap(SPEC, "spec: [a]\n"), Code::WRONG_TYPE, 5, 7, "spec is a list");
    refused(&swap(META, "metadata: pay\n"), Code::WRONG_TYPE, 3, 11, "metadata is text");
}

#[test]
fn missing_fields_are_named() {
    let whole = mk_entry(&format!("{META}{SPEC}"));
    refused(&whole.replace(META, ""), Code::MISSING_FIELD, 1, 1, "metadata is missing; add metadata.name");
    refused(
        &whole.replace("name: pay", "namespace: shop"),
        Code::MISSING_FIELD,
        4,
        3,
        "metadata.name is missing",
    );
    refused(&whole.replace(SPEC, ""), Code::MISSING_FIELD, 1, 1, "spec is missing");
    refused(
        &whole.replace("number: 80, ", ""),
        Code::MISSING_FIELD,
        7,
        11,
        "spec.ports[0].number is missing",
    );
    refused(&whole.replace(", name: http", ""), Code::MISSING_FIELD, 7, 11, "spec.ports[0].name is missing");
}

#[test]
fn names_of_objects_are_checked() {
    for bad in ["Pay", "pay_me", "-pay", "pay.", "\"\"", "pay/me"] {
        let text = mk_entry(&format!("metadata: {{name: {bad}}}\n{SPEC}"));
        refused(&text, Code::INVALID_NAME, 3, 18, "lower-case letters");
    }
    let text = mk_entry(&format!("metadata: {{name: a, namespace: a.b}}\n{SPEC}"));
    refused(&text, Code::INVALID_NAME, 3, 32, "metadata.namespace \"a.b\" is not a name");
}

#[test]
fn all_faults_of_a_document_are_found_at_once() {
    let text = mk_entry(&format!("{META}{SPEC}  a: 1\n  b: 2\n  resolution: 3\n"));
    let load = load_str(&text, "f.yaml");
    let lines: Vec<_> = load.problems[0].faults.iter().map(|fault| fault.at.line).collect();
    assert_eq!(lines, [8, 9, 10]);
    assert!(load.problems[0].problem.message.contains("f.yaml:9:3"), "{}", load.problems[0].problem.message);
}
