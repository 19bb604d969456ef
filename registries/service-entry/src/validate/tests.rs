//! Each rule of the table, with a document that breaks it and nothing else.

mod authorization_policy;
mod destination_rule;
mod envoy_filter;
mod gateway;
mod peer_authentication;
mod request_authentication;
mod sidecar;
mod virtual_service;

use super::*;
use crate::read::load::load_str;
use tributary_model::Code;

/// A good entry with its lines from `spec:` on replaced.
fn mk_entry(spec: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: pay\n  namespace: shop\nspec:\n{spec}"
    )
}

fn mk_workload(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: WorkloadEntry")
}

fn mk_group(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: WorkloadGroup")
}

/// Checks that the document is refused with exactly these faults: code, line, column, part of the message.
#[track_caller]
fn refused(text: &str, faults: &[(Code, u32, u32, &str)]) {
    let load = load_str(text, "f.yaml");
    assert!(load.documents.is_empty(), "it was accepted:\n{text}");
    same(&load, faults);
}

/// Checks that the document is served with these warnings.
#[track_caller]
fn warned(text: &str, faults: &[(Code, u32, u32, &str)]) {
    let load = load_str(text, "f.yaml");
    assert_eq!(load.documents.len(), 1, "{:?}", load.problems);
    same(&load, faults);
}

#[track_caller]
fn same(load: &crate::Load, want: &[(Code, u32, u32, &str)]) {
    let got: Vec<_> = load.problems.iter().flat_map(|problem| &problem.faults).collect();
    let positions: Vec<_> = got.iter().map(|fault| (fault.code, fault.at.line, fault.at.column)).collect();
    let wanted: Vec<_> = want.iter().map(|(code, line, column, _)| (*code, *line, *column)).collect();
    assert_eq!(positions, wanted, "{got:#?}");
    for (fault, (.., fix)) in got.iter().zip(want) {
        assert!(fault.message.contains(fix), "{:?} does not contain {fix:?}", fault.message);
    }
}

#[track_caller]
fn taken(text: &str) {
    let load = load_str(text, "f.yaml");
    assert!(load.problems.is_empty(), "{:#?}", load.problems);
    assert_eq!(load.documents.len(), 1);
}

const HTTP: &str = "  ports: [{number: 80, name: http, protocol: HTTP}]\n";
const TCP: &str = "  ports: [{number: 5432, name: db, protocol: TCP}]\n";

#[test]
fn every_rule_has_its_test() {
    let tests = include_str!("tests.rs");
    for (name, _) in service_entry::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

#[test]
fn selector_or_endpoints() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{HTTP}  resolution: STATIC\n  workloadSelector:\n    labels: {{app: pay}}\n  endpoints: [{{address: 10.0.0.1}}]\n"
    ));
    refused(&text, &[(Code::SELECTOR_AND_ENDPOINTS, 11, 5, "keep one of them")]);
    taken(&text.replace("  endpoints: [{address: 10.0.0.1}]\n", ""));
}

#[test]
fn selector_has_labels() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{HTTP}  resolution: STATIC\n  workloadSelector: {{}}\n"
    ));
    warned(&text, &[(Code::EMPTY_SELECTOR, 10, 21, "add at least one label")]);
    warned(
        &text.replace("workloadSelector: {}", "workloadSelector: {labels: {}}"),
        &[(Code::EMPTY_SELECTOR, 10, 21, "selects nothing")],
    );
}

#[test]
fn at_least_one_host() {
    refused(&mk_entry(HTTP), &[(Code::MISSING_FIELD, 7, 3, "add at least one host")]);
    refused(&mk_entry(&format!("  hosts: []\n{HTTP}")), &[(Code::MISSING_FIELD, 7, 3, "at least one host")]);
}

#[test]
fn hosts_are_names() {
    let hosts = "  hosts:\n  - \"*\"\n  - pay_me.example.com\n  - \"a..b\"\n  - \"pay*.example.com\"\n  - \"*.example.com\"\n  - 10.0.0.1\n  - example.7\n  - \"7\"\n";
    refused(
        &mk_entry(&format!("{hosts}{HTTP}")),
        &[
            (Code::INVALID_HOST, 8, 5, "write a DNS name"),
            (Code::INVALID_HOST, 10, 5, "write a DNS name"),
            (Code::INVALID_HOST, 11, 5, "write a DNS name"),
            (Code::INVALID_HOST, 13, 5, "ends in a number"),
            (Code::INVALID_HOST, 14, 5, "ends in a number"),
        ],
    );
}

#[test]
fn addresses_are_ips_or_cidrs() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n  addresses:\n  - 10.0.0.1\n  - 10.0.0.0/33\n  - pay\n  - 2001:db8::/64\n{HTTP}"
    ));
    refused(
        &text,
        &[
            (Code::INVALID_ADDRESS, 10, 5, "write 10.0.0.1 or 10.0.0.0/24"),
            (Code::INVALID_ADDRESS, 11, 5, "neither an IP address nor a CIDR"),
        ],
    );
}

#[test]
fn cidrs_only_with_none_or_static() {
    let with = |resolution: &str, address: &str| {
        mk_entry(&format!(
            "  hosts: [pay.example.com]\n  addresses: [{address}]\n{HTTP}  resolution: {resolution}\n"
        ))
    };
    for resolution in ["DNS", "DNS_ROUND_ROBIN"] {
        refused(
            &with(resolution, "10.0.0.0/24"),
            &[(Code::RESOLUTION_MISMATCH, 8, 15, "use NONE or STATIC")],
        );
        taken(&with(resolution, "10.0.0.1"));
    }
    taken(&with("NONE", "10.0.0.0/24"));
    taken(&with("STATIC", "10.0.0.0/24"));
}

#[test]
fn port_names_and_numbers_are_unique() {
    let text = mk_entry(
        "  hosts: [pay.example.com]\n  ports:\n  - {number: 80, name: http, protocol: HTTP}\n  - {number: 80, name: web, protocol: HTTP}\n  - {number: 81, name: http, protocol: HTTP}\n",
    );
    refused(
        &text,
        &[
            (Code::INVALID_PORT, 10, 14, "spec.ports[1] has the number 80 of spec.ports[0]; give it its own"),
            (Code::INVALID_PORT, 11, 24, "spec.ports[2] has the name \"http\" of spec.ports[0]"),
        ],
    );
}

#[test]
fn ports_are_valid() {
    let text = mk_entry(
        "  hosts: [pay.example.com]\n  ports:\n  - {number: 0, name: a}\n  - {number: 65536, name: b}\n  - {number: 82, name: c_d}\n  - {number: 83, name: e, targetPort: 0}\n  - {number: -1, name: \"\"}\n",
    );
    refused(
        &text,
        &[
            (Code::INVALID_PORT, 9, 14, "spec.ports[0].number is 0; write a port from 1 to 65535"),
            (Code::INVALID_PORT, 10, 14, "from 1 to 65535"),
            (Code::INVALID_PORT, 11, 24, "use up to 63 letters, digits and `-`"),
            (Code::INVALID_PORT, 12, 39, "spec.ports[3].targetPort is 0"),
            (Code::INVALID_PORT, 13, 14, "is -1"),
            (Code::INVALID_PORT, 13, 24, "spec.ports[4].name \"\" is not valid"),
        ],
    );
}

#[test]
fn protocols_are_known() {
    let text = mk_entry("  hosts: [pay.example.com]\n  ports: [{number: 80, name: http, protocol: HTPP}]\n");
    warned(&text, &[(Code::INVALID_PORT, 8, 46, "counts as unspecified")]);
    taken(&text.replace("HTPP", "http"));
    taken(&text.replace(", protocol: HTPP", ""));
}

#[test]
fn none_takes_no_endpoints() {
    let text = mk_entry(&format!("  hosts: [pay.example.com]\n{TCP}  endpoints:\n  - address: 10.0.0.1\n"));
    refused(&text, &[(Code::RESOLUTION_MISMATCH, 10, 5, "use STATIC or DNS")]);
}

#[test]
fn static_endpoints_are_ips_or_unix() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{TCP}  resolution: STATIC\n  endpoints:\n  - address: 10.0.0.1\n  - address: db.example.com\n  - address: unix:///run/db.sock\n"
    ));
    refused(&text, &[(Code::RESOLUTION_MISMATCH, 12, 14, "write an IP address, or use DNS")]);
    taken(&text.replace("db.example.com", "2001:db8::1"));
}

#[test]
fn unix_takes_one_port() {
    let entry = |ports: &str, resolution: &str| {
        mk_entry(&format!(
            "  hosts: [pay.example.com]\n{ports}  resolution: {resolution}\n  endpoints:\n  - address: unix:///run/db.sock\n"
        ))
    };
    let two = "  ports: [{number: 1, name: a, protocol: HTTP}, {number: 2, name: b, protocol: HTTP}]\n";
    refused(
        &entry(two, "STATIC"),
        &[(Code::RESOLUTION_MISMATCH, 11, 5, "exactly one port; spec.ports has 2")],
    );
    refused(&entry(TCP, "DNS"), &[(Code::RESOLUTION_MISMATCH, 11, 5, "use STATIC")]);
    let mapped = entry(TCP, "STATIC").replace("db.sock\n", "db.sock\n    ports: {db: 1}\n");
    refused(&mapped, &[(Code::INVALID_PORT, 11, 5, "a unix path has no ports; remove them")]);
    taken(&entry(TCP, "STATIC"));
}

#[test]
fn dns_without_endpoints_needs_names() {
    for resolution in ["DNS", "DNS_ROUND_ROBIN"] {
        let entry = |host: &str, more: &str| {
            mk_entry(&format!("  hosts: [\"{host}\"]\n{HTTP}  resolution: {resolution}\n{more}"))
        };
        let host = "*.example.com";
        refused(&entry(host, ""), &[(Code::RESOLUTION_MISMATCH, 7, 11, "write a name such as")]);
        taken(&entry(host, "  endpoints: [{address: real.example.com}]\n"));
        taken(&entry(host, "  workloadSelector: {labels: {app: pay}}\n"));
        refused(&entry("10.0.0.1", ""), &[(Code::INVALID_HOST, 7, 11, "ends in a number")]);
        for host in ["pay.example.com", "pay", "localhost"] {
            taken(&entry(host, ""));
        }
    }
}

#[test]
fn partial_wildcards_suit_dynamic_dns() {
    let entry = |resolution: &str| {
        mk_entry(&format!("  hosts: [\"*-docker.pkg.dev\"]\n{HTTP}  resolution: {resolution}\n"))
    };
    for resolution in ["NONE", "STATIC"] {
        warned(&entry(resolution), &[(Code::INVALID_HOST, 7, 11, "use DYNAMIC_DNS, or write `*.`")]);
    }
    taken(&entry("DYNAMIC_DNS"));
}

#[test]
fn round_robin_takes_one_endpoint() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{HTTP}  resolution: DNS_ROUND_ROBIN\n  endpoints:\n  - address: a.example.com\n  - address: b.example.com\n"
    ));
    refused(&text, &[(Code::RESOLUTION_MISMATCH, 12, 5, "remove the others, or use DNS")]);
    taken(&text.replace("  - address: b.example.com\n", ""));
    taken(&text.replace("DNS_ROUND_ROBIN", "DNS"));
}

#[test]
fn dynamic_dns_takes_wildcards_alone() {
    let text = mk_entry(&format!(
        "  hosts: [\"*.example.com\", pay.example.com]\n  addresses: [10.0.0.1]\n{HTTP}  resolution: DYNAMIC_DNS\n  endpoints: [{{address: 10.0.0.1}}]\n"
    ));
    refused(
        &text,
        &[
            (Code::RESOLUTION_MISMATCH, 7, 28, "write *.example.com, or use DNS"),
            (Code::RESOLUTION_MISMATCH, 8, 15, "allows none; remove them"),
            (Code::RESOLUTION_MISMATCH, 11, 15, "allows none; remove them"),
        ],
    );
}

#[test]
fn dynamic_dns_speaks_http_or_tls() {
    let entry = |protocol: &str| {
        mk_entry(&format!(
            "  hosts: [\"*.example.com\"]\n  ports: [{{number: 80, name: p, protocol: {protocol}}}]\n  resolution: DYNAMIC_DNS\n"
        ))
    };
    for protocol in ["HTTP", "HTTP2", "GRPC", "TLS"] {
        taken(&entry(protocol));
    }
    for protocol in ["TCP", "MONGO", "UDP", "\"\""] {
        refused(&entry(protocol), &[(Code::RESOLUTION_MISMATCH, 8, 43, "HTTP, HTTP2, GRPC and TLS only")]);
    }
}

#[test]
fn several_hosts_need_http_or_tls() {
    let entry = |protocol: &str, resolution: &str| {
        mk_entry(&format!(
            "  hosts: [a.example.com, b.example.com]\n  ports: [{{number: 80, name: p, protocol: {protocol}}}]\n  resolution: {resolution}\n"
        ))
    };
    for protocol in ["HTTP", "HTTP2", "GRPC", "HTTPS", "TLS"] {
        taken(&entry(protocol, "STATIC"));
    }
    for protocol in ["TCP", "REDIS", "\"\""] {
        refused(
            &entry(protocol, "DNS"),
            &[(Code::RESOLUTION_MISMATCH, 8, 11, "one ServiceEntry for each host")],
        );
        taken(&entry(protocol, "NONE"));
    }
}

#[test]
fn endpoints_are_workloads() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{TCP}  resolution: STATIC\n  endpoints:\n  - labels: {{app: pay}}\n  - address: 10.0.0.300\n  - {{address: 10.0.0.1, weight: -1}}\n  - {{address: 10.0.0.1, serviceAccount: a/b}}\n  - {{network: net}}\n"
    ));
    refused(
        &text,
        &[
            (
                Code::ADDRESS_MISSING,
                11,
                5,
                "spec.endpoints[0] has neither address nor network; give it an address",
            ),
            (Code::INVALID_ADDRESS, 12, 14, "write an IP address, a DNS name, or unix://"),
            (Code::WRONG_TYPE, 13, 33, "spec.endpoints[2].weight is -1"),
            (Code::INVALID_NAME, 14, 41, "without its namespace"),
            (Code::ADDRESS_MISSING, 15, 5, "spec.endpoints[4] has network \"net\" and no address"),
        ],
    );
}

#[test]
fn endpoint_ports_are_declared() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{TCP}  resolution: STATIC\n  endpoints:\n  - address: 10.0.0.1\n    ports: {{db: 15432, web: 80}}\n"
    ));
    refused(&text, &[(Code::UNKNOWN_ENDPOINT_PORT, 12, 24, "declare it in spec.ports or remove it")]);
    taken(&text.replace(", web: 80", ""));
}

#[test]
fn export_to_names_namespaces() {
    let text = mk_entry(&format!("  hosts: [pay.example.com]\n{TCP}  exportTo: [\".\", \"a b\", web]\n"));
    refused(&text, &[(Code::INVALID_NAME, 9, 19, "write `*`, `.`, `~` or a namespace")]);
}

#[test]
fn subject_alt_names_are_identities() {
    let text = mk_entry(&format!(
        "  hosts: [pay.example.com]\n{TCP}  subjectAltNames: [\"spiffe://a/b\", \"a b\"]\n"
    ));
    refused(&text, &[(Code::INVALID_NAME, 9, 37, "write a SPIFFE URI or a DNS name")]);
}

#[test]
fn size_is_within_limits() {
    let hosts: Vec<String> = (0..1_025).map(|i| format!("h{i}.example.com")).collect();
    let text = mk_entry(&format!("  hosts: [{}]\n{HTTP}", hosts.join(", ")));
    refused(
        &text,
        &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "spec.hosts has 1025 items, more than 1024; split the entry")],
    );
}

#[test]
fn a_workload_needs_an_address_or_a_network() {
    refused(&mk_workload("  labels: {app: pay}\n"), &[(Code::ADDRESS_MISSING, 7, 3, "give it an address")]);
    let behind = [(Code::ADDRESS_MISSING, 7, 3, "the gateways of the network stand in for it")];
    warned(&mk_workload("  network: net\n"), &behind);
    taken(&mk_workload("  network: net\n  address: 10.0.0.1\n"));
    taken(&mk_workload("  address: db.example.com\n"));
    taken(&mk_workload("  address: unix://@abstract\n"));
    refused(&mk_workload("  address: unix://run\n"), &[(Code::INVALID_ADDRESS, 7, 12, "absolute path")]);
    refused(&mk_workload("  address: \"*.a.b\"\n"), &[(Code::INVALID_ADDRESS, 7, 12, "a DNS name")]);
}

#[test]
fn workload_fields_are_validated() {
    refused(
        &mk_workload(
            "  address: 10.0.0.1\n  network: a b\n  ports: {\"a b\": 1, c: 0}\n  labels: {\"a b\": c, d: \"e f\"}\n",
        ),
        &[
            (Code::INVALID_NAME, 8, 12, "spec.network"),
            (Code::INVALID_PORT, 9, 11, "letters, digits and `-`"),
            (Code::INVALID_PORT, 9, 24, "spec.ports[\"c\"] is 0"),
            (Code::INVALID_NAME, 10, 11, "spec.labels: key \"a b\""),
            (Code::INVALID_NAME, 10, 11, "spec.labels: value of d \"e f\""),
        ],
    );
}

#[test]
fn a_group_needs_a_template_and_one_way_to_probe() {
    refused(
        &mk_group("  metadata: {labels: {app: pay}}\n"),
        &[(Code::MISSING_FIELD, 7, 3, "add the common fields")],
    );
    taken(&mk_group("  template: {serviceAccount: pay, ports: {http: 80}}\n"));
    taken(&mk_group("  template: {}\n  probe: {periodSeconds: 5, httpGet: {port: 80, path: /health}}\n"));
    refused(
        &mk_group("  template: {}\n  probe: {periodSeconds: 5}\n"),
        &[(Code::MISSING_FIELD, 8, 10, "exactly one of")],
    );
    refused(
        &mk_group(
            "  template: {}\n  probe: {tcpSocket: {port: 0}, exec: {command: []}, periodSeconds: -1}\n",
        ),
        &[
            (Code::MISSING_FIELD, 8, 10, "2 probe methods"),
            (Code::INVALID_PORT, 8, 29, "spec.probe.tcpSocket.port is 0"),
            (Code::MISSING_FIELD, 8, 39, "add the command"),
            (Code::WRONG_TYPE, 8, 69, "spec.probe.periodSeconds is -1"),
        ],
    );
}
