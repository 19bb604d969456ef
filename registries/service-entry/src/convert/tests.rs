//! Conversion of documents, one test for each rule of docs/reference/service-entry.md.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::*;

mod authorization_policy;
mod destination_rule;
mod envoy_filter;
mod gateway;
mod peer_authentication;
mod request_authentication;
mod sidecar;
mod virtual_service;

use super::*;
use crate::document::Object;
use crate::read::load::load_str;

fn mk_context() -> Context {
    Context::new(ClusterId::new("east").unwrap())
}

fn mk(kind: &str, meta: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: {kind}\nmetadata:\n  name: pay\n  namespace: shop\n{meta}spec:\n{spec}"
    )
}

fn objects(text: &str) -> Vec<Object> {
    let load = load_str(text, "f.yaml");
    assert!(load.problems.iter().all(|problem| !problem.is_refused()), "{:#?}", load.problems);
    load.documents
}

fn facts(text: &str) -> Vec<Fact> {
    objects(text).iter().flat_map(|object| convert(object, &mk_context())).collect()
}

fn declarations(facts: &[Fact]) -> Vec<(DeclKey, Arc<Declaration>)> {
    let of = |fact: &Fact| {
        if let Fact::Service(key, value) = fact { Some((key.clone(), value.clone())) } else { None }
    };
    facts.iter().filter_map(of).collect()
}

fn groups(facts: &[Fact]) -> Vec<(EndpointGroupKey, Arc<EndpointGroup>)> {
    let of = |fact: &Fact| {
        if let Fact::Group(key, value) = fact { Some((key.clone(), value.clone())) } else { None }
    };
    facts.iter().filter_map(of).collect()
}

fn declaration(meta: &str, spec: &str) -> Arc<Declaration> {
    declarations(&facts(&mk("ServiceEntry", meta, spec))).remove(0).1
}

fn group(spec: &str) -> Arc<EndpointGroup> {
    groups(&facts(&mk("ServiceEntry", "", spec))).remove(0).1
}

fn workload(meta: &str, rest: &str) -> Option<Arc<Workload>> {
    facts(&mk("WorkloadEntry", meta, rest)).into_iter().find_map(|fact| match fact {
        Fact::Workload(_, workload) => Some(workload),
        _ => None,
    })
}

fn number(n: u32) -> PortNumber {
    PortNumber::new(n).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const PORTS: &str = "  hosts: [pay.example.com]\n  ports: [{number: 80, name: http, protocol: HTTP}]\n";

#[test]
fn every_host_is_a_declaration_with_the_same_endpoints() {
    let all = facts(&mk(
        "ServiceEntry",
        "",
        "  hosts: [b.example.com, a.example.com, B.example.com]\n  ports: [{number: 80, name: http, protocol: HTTP}]\n  resolution: STATIC\n  endpoints: [{address: 10.0.0.1}]\n",
    ));
    let hosts: Vec<_> = declarations(&all).iter().map(|(key, _)| key.service.to_string()).collect();
    assert_eq!(hosts, ["shop/a.example.com", "shop/b.example.com"]);
    let groups = groups(&all);
    assert_eq!(groups.len(), 2);
    assert!(Arc::ptr_eq(&groups[0].1, &groups[1].1), "endpoints are stored once");
    assert_eq!(groups[0].0.declaration, ObjectId::new("ServiceEntry", "shop", "pay"));
}

#[test]
fn addresses_are_ips_and_cidrs_and_slash_32_is_one_address() {
    let d = declaration("", &format!("{PORTS}  addresses: [10.0.0.9/32, 10.1.0.7/16, \"2001:db8::1\"]\n"));
    let shown: Vec<_> = d.addresses.iter().map(|a| (a.ip.to_string(), a.prefix, a.is_host())).collect();
    assert_eq!(
        shown,
        [
            ("10.0.0.9".to_owned(), 32, true),
            ("10.1.0.0".to_owned(), 16, false),
            ("2001:db8::1".to_owned(), 128, true)
        ]
    );
    assert!(d.addresses.iter().all(|a| !a.allocated && a.cluster.is_none()));
}

#[test]
fn allocated_addresses_count_if_the_entry_has_none() {
    let status = "status:\n  addresses: [{value: 240.240.0.1, host: pay.example.com}, {value: 240.240.0.2, host: other}]\n  unknown: 1\n";
    let d = declaration("", &format!("{PORTS}{status}"));
    let shown: Vec<_> = d.addresses.iter().map(|a| (a.ip, a.allocated)).collect();
    assert_eq!(shown, [(ip("240.240.0.1"), true)]);
    let named = declaration("", &format!("{PORTS}  addresses: [10.0.0.9]\n{status}"));
    assert_eq!(named.addresses.iter().map(|a| a.ip).collect::<Vec<_>>(), [ip("10.0.0.9")]);
}

#[test]
fn each_resolution_has_its_own() {
    for (text, want) in [
        ("", Resolution::Passthrough),
        ("  resolution: NONE\n", Resolution::Passthrough),
        ("  resolution: STATIC\n", Resolution::ClientSide),
        ("  resolution: DNS\n", Resolution::DnsStrict),
        ("  resolution: DNS_ROUND_ROBIN\n", Resolution::DnsLogical),
    ] {
        assert_eq!(declaration("", &format!("{PORTS}{text}")).resolution, want, "{text}");
    }
    let dynamic = PORTS.replace("pay.example.com", "\"*.example.com\"") + "  resolution: DYNAMIC_DNS\n";
    assert_eq!(declaration("", &dynamic).resolution, Resolution::Dynamic);
}

#[test]
fn attributes_come_from_location_labels_annotations_and_names() {
    let meta = "  labels: {team: money}\n  annotations:\n    networking.istio.io/traffic-distribution: PreferClose\n    istio.io/connect-strategy: race_first_tcp_connect\n";
    let d = declaration(meta, &format!("{PORTS}  subjectAltNames: [spiffe://x/ns/a/sa/b]\n"));
    assert!(d.attributes.mesh_external, "the default location is external");
    assert_eq!(d.attributes.traffic, TrafficDistribution::SameZone);
    assert!(d.attributes.race_connect);
    assert_eq!(d.attributes.labels.get("team"), Some("money"));
    assert_eq!(
        d.attributes.identities.iter().map(Identity::as_str).collect::<Vec<_>>(),
        ["spiffe://x/ns/a/sa/b"]
    );
    assert!(!declaration("", &format!("{PORTS}  location: MESH_INTERNAL\n")).attributes.mesh_external);
    assert!(!declaration("", PORTS).attributes.race_connect);
}

#[test]
fn session_labels_with_a_value_keep_sessions() {
    let keeps = |label: &str, value: &str| {
        let meta = format!("  labels: {{{label}: {value:?}}}\n");
        declaration(&meta, PORTS).attributes.persistent_sessions
    };
    for label in ["istio.io/persistent-session", "istio.io/persistent-session-header"] {
        assert!(keeps(label, "x-session"), "{label}");
        assert!(!keeps(label, ""), "an empty {label} names no cookie or header");
    }
    assert!(!keeps("app", "pay"));
}

#[test]
fn export_is_per_declaration_and_defaults_to_the_mesh() {
    assert_eq!(declaration("", PORTS).export, ExportTo::Default);
    let named = declaration("", &format!("{PORTS}  exportTo: [\".\", web]\n")).export.clone();
    let list = ["shop", "web"].map(|ns| Namespace::new(ns).unwrap());
    assert_eq!(named, ExportTo::Set(Visibility::Namespaces(list.into())));
}

#[test]
fn several_entries_for_one_host_stay_several_declarations() {
    let one = mk("ServiceEntry", "", PORTS);
    let two = one.replace("name: pay\n", "name: pay2\n");
    let all = declarations(&facts(&format!("{one}---\n{two}")));
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].0.service, all[1].0.service);
    assert_ne!(all[0].0.object, all[1].0.object);
}

#[test]
fn invalid_creation_time_counts_as_absent() {
    let d = declaration("  creationTimestamp: \"2024-05-01T10:00:00Z\"\n", PORTS);
    assert_eq!(d.created.map(|t| t.as_second()), Some(1_714_557_600));
    assert_eq!(declaration("  creationTimestamp: null\n", PORTS).created, None);
    assert_eq!(declaration("  creationTimestamp: soon\n", PORTS).created, None);
}

#[test]
fn ports_target_names_of_workloads_then_numbers() {
    let d = declaration(
        "",
        "  hosts: [a.b]\n  ports: [{number: 80, name: http, protocol: grpc, targetPort: 8080}, {number: 81, name: x}]\n",
    );
    assert_eq!(d.ports[0].target, Target::NamedOr(Some(number(8080))));
    assert_eq!(d.ports[0].protocol, Protocol::Grpc);
    assert_eq!(d.ports[1].target, Target::NamedOr(None));
    assert_eq!(d.ports[1].protocol, Protocol::Unspecified);
}

#[test]
fn a_selector_takes_pods_and_entries_by_augmented_labels() {
    let d = declaration(
        "",
        &format!("{PORTS}  resolution: STATIC\n  workloadSelector: {{labels: {{app: pay}}}}\n"),
    );
    let selector = d.selector.as_ref().unwrap();
    assert_eq!(selector.labels, [("app", "pay")].into_iter().collect());
    assert_eq!(&*selector.kinds, [WorkloadKind::Pod, WorkloadKind::Entry]);
    assert!(selector.augmented && !selector.names && selector.cluster.is_none());
    let dns =
        declaration("", &format!("{PORTS}  resolution: DNS\n  workloadSelector: {{labels: {{app: pay}}}}\n"));
    assert!(dns.selector.as_ref().unwrap().names, "DNS takes workloads with names for addresses");
}

#[test]
fn an_empty_selector_selects_nothing_and_resolves_nothing() {
    let text = mk("ServiceEntry", "", &format!("{PORTS}  resolution: DNS\n  workloadSelector: {{}}\n"));
    let load = load_str(&text, "f.yaml");
    let all = convert(&load.documents[0], &mk_context());
    let selector = declarations(&all)[0].1.selector.clone().unwrap();
    assert!(selector.labels.is_empty(), "no pairs select nothing in the core");
    assert!(groups(&all).is_empty(), "its host is not an endpoint either");
}

#[test]
fn inline_endpoints_carry_all_their_fields() {
    let g = group(&format!(
        "{PORTS}  resolution: STATIC\n  endpoints:\n  - address: 10.0.0.1\n    labels: {{v: \"1\"}}\n    locality: eu/1b/r3\n    network: net\n    weight: 7\n    serviceAccount: till\n  - address: 2001:db8::1\n"
    ));
    let [a, b] = &*g.addresses else { panic!("not two") };
    assert_eq!(
        (a.at, a.weight, a.mtls, a.health),
        (AddressRef::Ip(ip("10.0.0.1")), 7, true, Health::Healthy)
    );
    assert_eq!(a.identity.as_ref().unwrap().as_str(), "spiffe://cluster.local/ns/shop/sa/till");
    assert_eq!(a.topology.locality, Locality::parse("eu/1b/r3"));
    assert_eq!(a.topology.network, Some(NetworkId::new("net").unwrap()));
    assert_eq!(a.topology.cluster, Some(ClusterId::new("east").unwrap()));
    for (label, value) in [
        ("v", "1"),
        (labels::REGION, "eu"),
        (labels::ZONE, "1b"),
        (labels::SUBZONE, "r3"),
        (labels::CLUSTER, "east"),
        (labels::NETWORK, "net"),
    ] {
        assert_eq!(a.labels.get(label), Some(value), "{label}");
    }
    assert_eq!((b.weight, b.mtls, b.identity.clone()), (1, false, None));
    assert!(g.summary.v4 && g.summary.v6);
}

#[test]
fn port_is_the_endpoints_then_the_target_then_the_number() {
    let g = group(
        "  hosts: [a.b]\n  ports:\n  - {number: 80, name: a, protocol: HTTP, targetPort: 8080}\n  - {number: 81, name: b, protocol: HTTP}\n  resolution: STATIC\n  endpoints:\n  - {address: 10.0.0.1}\n  - {address: 10.0.0.2, ports: {a: 9090}}\n  - {address: 10.0.0.3}\n",
    );
    let numbers = |i: usize| -> Vec<u16> {
        g.ports(&g.addresses[i]).iter().map(|port| port.number.unwrap().get()).collect()
    };
    assert_eq!((numbers(0), numbers(1)), (vec![8080, 81], vec![9090, 81]));
    assert_eq!(g.addresses[0].port_set, g.addresses[2].port_set, "equal port sets are stored once");
    assert_eq!(g.port_sets.len(), 2);
}

#[test]
fn a_unix_endpoint_has_a_path_and_no_port() {
    let g =
        group(&format!("{PORTS}  resolution: STATIC\n  endpoints: [{{address: \"unix:///run/a.sock\"}}]\n"));
    assert_eq!(g.name(&g.addresses[0]), Some("/run/a.sock"));
    assert_eq!(g.addresses[0].at, AddressRef::Unix(0));
    assert_eq!(g.ports(&g.addresses[0])[0].number, None);
    assert!(g.summary.unix);
}

#[test]
fn dns_without_endpoints_looks_up_each_host() {
    let all = facts(&mk(
        "ServiceEntry",
        "",
        "  hosts: [a.example.com, b.example.com]\n  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]\n  resolution: DNS\n",
    ));
    let shown: Vec<_> = groups(&all)
        .iter()
        .map(|(_, g)| {
            let a = &g.addresses[0];
            assert!(!a.mtls && a.topology.locality.is_empty() && a.topology.cluster.is_some());
            (g.name(a).unwrap().to_owned(), g.ports(a)[0].number.unwrap().get())
        })
        .collect();
    assert_eq!(shown, [("a.example.com".to_owned(), 8080), ("b.example.com".to_owned(), 8080)]);
}

#[test]
fn dns_endpoints_are_names_or_ips() {
    let g = group(&format!(
        "{PORTS}  resolution: DNS\n  endpoints: [{{address: db.example.com}}, {{address: 10.0.0.1}}]\n"
    ));
    assert_eq!((g.addresses[0].at, g.addresses[1].at), (AddressRef::Name(0), AddressRef::Ip(ip("10.0.0.1"))));
    assert_eq!(g.name(&g.addresses[0]), Some("db.example.com"));
}

#[test]
fn none_and_static_without_endpoints_have_no_group() {
    for resolution in ["NONE", "STATIC"] {
        assert!(
            groups(&facts(&mk("ServiceEntry", "", &format!("{PORTS}  resolution: {resolution}\n"))))
                .is_empty()
        );
    }
}

#[test]
fn conversion_omits_what_validation_refuses() {
    let text = mk(
        "ServiceEntry",
        "",
        "  hosts: [\"*\", \"*.example.com\"]\n  addresses: [junk]\n  ports: [{number: 0, name: a}, {number: 1, name: \"a b\"}, {number: 2, name: c}, {number: 2, name: d}]\n  resolution: DNS\n",
    );
    let node = crate::read::yaml::parse(&text).unwrap();
    let document = crate::read::decode::decode(&node, &mut crate::read::fault::Faults::default()).unwrap();
    let object = Object {
        document: Arc::new(document),
        position: "".into(),
        version: "".into(),
        cluster_context: Arc::default(),
    };
    let all = convert(&object, &mk_context());
    let [(key, d)] = &*declarations(&all) else { panic!("not one") };
    assert_eq!(key.service.host.as_str(), "*.example.com");
    assert_eq!(d.ports.iter().map(|port| port.number.get()).collect::<Vec<_>>(), [2]);
    assert!(d.addresses.is_empty() && groups(&all).is_empty());
}

#[test]
fn endpoint_without_an_address_is_omitted() {
    let g = group(&format!(
        "{PORTS}  resolution: STATIC\n  endpoints: [{{network: net}}, {{address: 10.0.0.1}}]\n"
    ));
    assert_eq!(g.addresses.len(), 1);
}

#[test]
fn a_workload_entry_is_a_workload() {
    let w = workload(
        "  labels: {app: pay, v: meta}\n",
        "  address: 10.0.0.1\n  labels: {v: spec, tier: db}\n  ports: {web: 8080, admin: 9090}\n  locality: eu/1b\n  network: net\n  weight: 3\n  serviceAccount: till\n",
    )
    .unwrap();
    assert_eq!(&*w.addresses, [WorkloadAddress::Ip(ip("10.0.0.1"))]);
    assert_eq!(
        w.labels,
        [("app", "pay"), ("v", "meta"), ("tier", "db")].into_iter().collect(),
        "metadata wins"
    );
    assert_eq!(w.augmented.get(labels::ZONE), Some("1b"));
    assert_eq!(w.augmented.get(labels::NETWORK), Some("net"));
    assert_eq!(w.labels.get(labels::ZONE), None, "its own labels stay its own");
    assert_eq!(w.port(&PortName::new("web").unwrap()), Some(number(8080)));
    assert_eq!((w.weight, w.mtls, &*w.account, &*w.name), (3, true, "till", "pay"));
    assert_eq!(w.identity.as_ref().unwrap().as_str(), "spiffe://cluster.local/ns/shop/sa/till");
}

#[test]
fn a_workloads_kind_and_cluster_are_part_of_its_key() {
    let all = facts(&mk("WorkloadEntry", "", "  address: 10.0.0.1\n"));
    let Fact::Workload(key, _) = &all[0] else { panic!("no workload") };
    assert_eq!((key.kind, key.cluster.as_str(), &*key.name), (WorkloadKind::Entry, "east", "pay"));
}

#[test]
fn names_and_paths_are_addresses_of_named_workloads() {
    let named = workload("", "  address: DB.example.com\n").unwrap();
    assert_eq!(&*named.addresses, [WorkloadAddress::Name("db.example.com".into())]);
    let unix = workload("", "  address: unix:///run/a.sock\n").unwrap();
    assert_eq!(&*unix.addresses, [WorkloadAddress::Unix("/run/a.sock".into())]);
    assert!(named.is_named() && unix.is_named());
    assert!(workload("", "  network: net\n").unwrap().addresses.is_empty());
}

#[test]
fn tls_mode_follows_the_label_else_the_account() {
    for (spec, want) in [
        ("", false),
        ("  serviceAccount: till\n", true),
        ("  labels: {security.istio.io/tlsMode: istio}\n", true),
        ("  serviceAccount: till\n  labels: {security.istio.io/tlsMode: disabled}\n", false),
    ] {
        assert_eq!(workload("", &format!("  address: 10.0.0.1\n{spec}")).unwrap().mtls, want, "{spec}");
    }
}

#[test]
fn health_checks_decide_where_they_are_on() {
    let on = "  annotations: {proxy.istio.io/health-checks-enabled: \"true\"}\n";
    let off = "  annotations: {proxy.istio.io/health-checks-enabled: maybe}\n";
    let status = |s: &str| {
        format!("  address: 10.0.0.1\nstatus: {{conditions: [{{type: Healthy, status: \"{s}\"}}]}}\n")
    };
    assert!(workload(on, "  address: 10.0.0.1\n").is_none(), "no condition yet");
    assert!(workload(on, &status("False")).is_none());
    assert_eq!(workload(on, &status("True")).unwrap().health, Health::Healthy);
    assert!(workload(off, &status("False")).is_some());
    assert!(workload("", &status("False")).is_some());
}

#[test]
fn locality_falls_back_to_labels() {
    let w = workload("", "  address: 10.0.0.1\n  labels: {topology.istio.io/locality: eu.1b, topology.istio.io/network: net}\n").unwrap();
    assert_eq!(w.topology.locality, Locality::parse("eu/1b"));
    assert_eq!(w.topology.network, None, "the label is for selectors, not for routing");
    let specified = workload("", "  address: 10.0.0.1\n  locality: us/2a\n  network: own\n  labels: {istio-locality: eu.1b, topology.istio.io/network: net}\n").unwrap();
    assert_eq!(specified.topology.locality, Locality::parse("us/2a"));
    assert_eq!(specified.topology.network, Some(NetworkId::new("own").unwrap()));
}

#[test]
fn a_workloads_name_is_its_groups_or_its_labels_or_its_own() {
    let name = |meta: &str| workload(meta, "  address: 10.0.0.1\n").unwrap().name.to_string();
    assert_eq!(name(""), "pay");
    assert_eq!(name("  labels: {service.istio.io/workload-name: till}\n"), "till");
    assert_eq!(
        name(
            "  labels: {service.istio.io/workload-name: till}\n  annotations: {istio.io/autoRegistrationGroup: desk}\n"
        ),
        "desk"
    );
}

#[test]
fn a_group_of_workloads_states_nothing() {
    assert!(facts(&mk("WorkloadGroup", "", "  template: {serviceAccount: till}\n")).is_empty());
}

#[test]
fn facts_carry_their_position() {
    let text = format!("# head\n---\n{}", mk("ServiceEntry", "", PORTS));
    let d = declarations(&facts(&text)).remove(0).1;
    assert_eq!(d.source.reference().to_string(), "ServiceEntry shop/pay (f.yaml:3:1)");
    assert_eq!(d.source.version.0.len(), 16, "the version is the hash of the document's text");
}

#[test]
fn facts_do_not_depend_on_the_position() {
    let text = mk(
        "ServiceEntry",
        "",
        &format!("{PORTS}  resolution: STATIC\n  endpoints: [{{address: 10.0.0.1}}]\n"),
    );
    assert_eq!(facts(&text), facts(&format!("# moved\n\n{text}")));
}
