//! Conditions of policies over small catalogs.

use tributary_model::{
    AuthorizationPolicy, ClusterId, EgressProxy, EndpointInputs, ForwardingGateway, ForwardingServer,
    ObjectId, OutboundMode, PeerAuthentication, Policy, Shared, Source, Visibility, Workload, WorkloadKind,
    WorkloadName, WorkloadView,
};

use super::*;
use crate::fixtures::*;

fn mk_with(policies: Vec<(PolicyKey, Shared<PolicyView>)>) -> Catalog {
    let catalog = mk_catalog(vec![
        mk_view("pay.shop.svc", "shop", &[Visibility::Public]),
        mk_view("stock.shop.svc", "shop", &[Visibility::Own]),
        mk_view("img.web.svc", "web", &[Visibility::Own]),
    ]);
    Catalog { complete: true, policies: policies.into_iter().collect(), ..catalog }
}

fn mk_importing(namespace: &str, hosts: &[&str]) -> (PolicyKey, Shared<PolicyView>) {
    mk_sidecar(namespace, "a", Sidecar { egress: mk_egress(&[(None, hosts)]), ..Sidecar::default() })
}

fn mk_selecting(name: &str, labels: &[(&str, &str)]) -> (PolicyKey, Shared<PolicyView>) {
    mk_sidecar("web", name, Sidecar { selector: labels.iter().copied().collect(), ..Sidecar::default() })
}

fn mk_client(labels: &[(&str, &str)], is_known: bool) -> Selectable {
    let labels = labels.iter().copied().collect();
    Selectable { kind: ClientKind::Sidecar, is_grpc_server: false, namespace: mk_ns("web"), labels, is_known }
}

/// Returns the conditions as `name: TRB0443 message`.
fn shown(catalog: &Catalog, clients: &[Selectable]) -> Vec<String> {
    let all = policy_conditions(catalog, Beside { clients, elsewhere: None }, &|_| true);
    let line = |key: &PolicyKey, one: &Condition| format!("{}: {} {}", key.name, one.code, one.message);
    all.iter().flat_map(|(key, list)| list.iter().map(move |one| line(key, one))).collect()
}

#[test]
fn hosts_of_a_gateway_that_match_no_service_are_named() {
    let cases: &[(&[&str], &str)] = &[
        (&["shop/pay.shop.svc", "shop/*", "*/*.shop.svc", "*/*", "shop/stock.shop.svc"], ""),
        (&["*/pya.shop.svc", "shpo/*", "./img.web.svc"], "*/pya.shop.svc, shpo/*"),
    ];
    for (hosts, named) in cases {
        let hosts = mk_egress(&[(None, hosts)])[0].hosts.clone();
        let server = ForwardingServer { port: mk_port(15_443), bind: None, hosts };
        let gateway = ForwardingGateway { servers: [server].into(), ..ForwardingGateway::default() };
        // a Sidecar of the namespace does not concern it
        let policies = vec![mk_policy("web", "g", Policy::Gateway(gateway)), mk_importing("web", &["*/*"])];
        let want = format!("g: TRB0482 these hosts of its servers match no service: {named}");
        let want = if named.is_empty() { Vec::new() } else { vec![want] };
        assert_eq!(shown(&mk_with(policies), &[]), want, "{named}");
    }
}

#[test]
fn egress_host_that_matches_no_visible_service_is_named() {
    let lost = "a: TRB0443 these egress hosts match no service that its workloads may see: ";
    let cases: &[(&str, &[&str], &str)] = &[
        ("web", &["shop/pay.shop.svc", "*/pay.shop.svc", "*/*.shop.svc", "shop/*", "./*", "*/*", "~/*"], ""),
        ("web", &["./img.web.svc", "istio-system/*", "*/*pay.shop.svc", "web/*"], ""),
        ("web", &["shop/pya.shop.svc"], "shop/pya.shop.svc"),
        ("web", &["web/pay.shop.svc"], "web/pay.shop.svc"),
        ("web", &["shpo/*", "*/*.shpo.svc"], "*/*.shpo.svc, shpo/*"),
        ("web", &["shop/stock.shop.svc"], "shop/stock.shop.svc (not exported to web)"),
        ("web", &["*/*.stock.shop.svc", "./x.web.svc"], "*/*.stock.shop.svc, ./x.web.svc"),
        // applies to clients of every namespace
        ("istio-system", &["./x", "shop/stock.shop.svc", "*/img.web.svc"], ""),
        ("istio-system", &["*/x.y"], "*/x.y"),
        ("empty", &["./*"], ""),
    ];
    for (namespace, hosts, named) in cases {
        let found = shown(&mk_with(vec![mk_importing(namespace, hosts)]), &[]);
        let want = if named.is_empty() { Vec::new() } else { vec![format!("{lost}{named}")] };
        assert_eq!(found, want, "{namespace}: {hosts:?}");
    }
}

#[test]
fn egress_host_without_the_port_of_its_listener_is_named() {
    let view = ServiceView::clone(&mk_view("pay.shop.svc", "shop", &[Visibility::Public]));
    let port = mk_port_view(EndpointInputs { service: mk_key("pay.shop.svc", "shop"), ..mk_one(Vec::new()) });
    let view = Arc::new(ServiceView { ports: [port].into(), ..view });
    let found = |port: u32, hosts: &[&str]| {
        let egress = mk_egress(&[(Some(port), hosts)]);
        let policy = mk_sidecar("web", "a", Sidecar { egress, ..Sidecar::default() });
        let policies = [policy].into_iter().collect();
        shown(&Catalog { complete: true, policies, ..mk_catalog(vec![Arc::clone(&view)]) }, &[])
    };
    let hosts = ["shop/pay.shop.svc", "*/*.shop.svc", "*/*"];
    assert_eq!(found(80, &hosts), [""; 0]);
    let lost = "a: TRB0443 these egress hosts match no service that its workloads may see: ";
    let both = "*/*.shop.svc (no port 9080), shop/pay.shop.svc (no port 9080)";
    assert_eq!(found(9080, &hosts), [format!("{lost}{both}")]);
}

#[test]
fn sidecar_without_effect_has_no_condition_of_its_hosts() {
    let importing = |name: &str| {
        let egress = mk_egress(&[(None, &["shop/pya.shop.svc"])]);
        let proxy = EgressProxy { host: mk_host("out.shop"), port: mk_port(80) };
        let outbound = Some(OutboundMode::Proxy(proxy));
        mk_sidecar("web", name, Sidecar { egress, outbound, ..Sidecar::default() })
    };
    let found = shown(&mk_with(vec![importing("a"), importing("b")]), &[]);
    let names: Vec<&str> = found.iter().map(|line| &line[..10]).collect();
    assert_eq!(names, ["a: TRB0443", "a: TRB0445"], "the core shows that b has no effect");
}

#[test]
fn nothing_is_reported_before_every_registry_has_synced() {
    let catalog = mk_with(vec![mk_importing("web", &["x/y"]), mk_selecting("b", &[("app", "x")])]);
    assert_eq!(shown(&catalog, &[]).len(), 2);
    assert_eq!(shown(&Catalog { complete: false, ..catalog }, &[]), [""; 0]);
}

#[test]
fn unread_workloads_and_services_are_not_missing() {
    let mut catalog = mk_with(vec![mk_importing("web", &["x/y"]), mk_selecting("b", &[("app", "x")])]);
    for (kind, code) in [(CollectionKind::Workloads, "TRB0443"), (CollectionKind::Services, "TRB0444")] {
        add_unread(&mut catalog, kind);
        let found = shown(&catalog, &[]);
        assert!(found.len() == 1 && found[0].contains(code), "{found:?}");
    }
}

#[test]
fn many_unmatched_hosts_are_counted() {
    let hosts: Vec<String> = (0..20).map(|n| format!("*/h{n:02}.x")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let found = shown(&mk_with(vec![mk_importing("web", &hosts)]), &[]).remove(0);
    assert!(found.ends_with("*/h06.x, */h07.x and 12 more"), "{found}");
}

#[test]
fn selector_without_workload_or_client_is_named() {
    let mut catalog = mk_with(vec![mk_selecting("front", &[("app", "front"), ("v", "1")])]);
    let none = "front: TRB0444 no known workload and no connected client of namespace web has its labels: app=front, v=1";
    assert_eq!(shown(&catalog, &[]), [none]);
    assert_eq!(shown(&catalog, &[mk_client(&[("app", "front")], false)]), [none]);
    assert_eq!(shown(&catalog, &[mk_client(&[("app", "front"), ("v", "1"), ("x", "y")], false)]), [""; 0]);
    let key = |namespace: &str| WorkloadName {
        namespace: mk_ns(namespace),
        kind: WorkloadKind::Entry,
        name: "vm".into(),
        cluster: ClusterId::new("c1").unwrap(),
    };
    let labels = [("app", "front"), ("v", "1")].into_iter().collect();
    let workload =
        Workload { labels, ..Workload::new(Source::new(ObjectId::new("WorkloadEntry", "web", "vm"))) };
    let view = WorkloadView { shard: mk_shard("crd"), workload: workload.into(), services: Arc::from([]) };
    catalog.workloads.insert(key("shop").into(), Shared::new(view.clone()));
    assert_eq!(shown(&catalog, &[]), [none], "of another namespace");
    catalog.workloads.insert(key("web").into(), Shared::new(view));
    assert_eq!(shown(&catalog, &[]), [""; 0]);
}

#[test]
fn policies_that_select_one_unknown_client_conflict() {
    let catalog = mk_with(vec![mk_selecting("a", &[("app", "x")]), mk_selecting("b", &[("v", "1")])]);
    let both = [("app", "x"), ("v", "1")];
    let found = shown(&catalog, &[mk_client(&both, false)]);
    let want = [
        "a: TRB0441 it applies to connected clients that another one also selects",
        "b: TRB0441 Sidecar web/a applies to connected clients that it also selects",
    ];
    assert_eq!(found, want);
    assert_eq!(shown(&catalog, &[mk_client(&both, true)]), [""; 0], "the core compares known workloads");
    assert_eq!(shown(&catalog, &[mk_client(&both[..1], false), mk_client(&both[1..], false)]), [""; 0]);
}

#[test]
fn policies_of_two_kinds_that_select_one_client_do_not_conflict() {
    let mk_peer = |namespace: &str, name: &str| {
        let selector = [("app", "x")].into_iter().collect();
        let policy = PeerAuthentication { selector, ..PeerAuthentication::default() };
        mk_policy(namespace, name, Policy::PeerAuthentication(policy))
    };
    let client = [mk_client(&[("app", "x")], false)];
    let sidecar = mk_selecting("a", &[("app", "x")]);
    assert_eq!(shown(&mk_with(vec![sidecar.clone(), mk_peer("web", "p")]), &client), [""; 0]);
    let want = [
        "p: TRB0441 it applies to connected clients that another one also selects",
        "q: TRB0441 PeerAuthentication web/p applies to connected clients that it also selects",
    ];
    let catalog = mk_with(vec![sidecar, mk_peer("web", "p"), mk_peer("web", "q")]);
    assert_eq!(shown(&catalog, &client), want);
    let catalog = mk_with(vec![mk_peer("istio-system", "p"), mk_peer("istio-system", "q")]);
    let of_root = [Selectable { namespace: mk_ns("istio-system"), ..client[0].clone() }];
    let found = shown(&catalog, &of_root);
    assert!(found.iter().all(|one| one.contains("TRB0442 it applies to no workload")), "{found:?}");
    assert_eq!(found.len(), 2);
}

fn mk_authorization(namespace: &str, name: &str, labels: &[(&str, &str)]) -> (PolicyKey, Shared<PolicyView>) {
    let policy = AuthorizationPolicy::stand_in(labels.iter().copied().collect());
    mk_policy(namespace, name, Policy::AuthorizationPolicy(policy))
}

#[test]
fn authorization_policies_that_select_one_client_do_not_conflict() {
    let policies =
        vec![mk_authorization("web", "a", &[("app", "x")]), mk_authorization("web", "b", &[("app", "x")])];
    assert_eq!(shown(&mk_with(policies), &[mk_client(&[("app", "x")], false)]), [""; 0]);
}

#[test]
fn authorization_policies_of_the_root_namespace_select_workloads_of_every_namespace() {
    let mk = |namespace: &str| mk_with(vec![mk_authorization(namespace, "a", &[("app", "x")])]);
    let client = [mk_client(&[("app", "x"), ("v", "1")], false)];
    assert_eq!(shown(&mk("istio-system"), &client), [""; 0]);
    let none = "a: TRB0444 no known workload and no connected client of";
    assert_eq!(shown(&mk("istio-system"), &[]), [format!("{none} any namespace has its labels: app=x")]);
    assert_eq!(shown(&mk("shop"), &client), [format!("{none} namespace shop has its labels: app=x")]);
    let mut catalog = mk("istio-system");
    let labels = [("app", "x")].into_iter().collect();
    let source = Source::new(ObjectId::new("WorkloadEntry", "web", "vm"));
    let workload = Workload { labels, ..Workload::new(source) };
    let view = WorkloadView { shard: mk_shard("crd"), workload: workload.into(), services: Arc::from([]) };
    let (kind, cluster) = (WorkloadKind::Entry, ClusterId::new("c1").unwrap());
    let key = WorkloadName { namespace: mk_ns("web"), kind, name: "vm".into(), cluster };
    catalog.workloads.insert(key.into(), Shared::new(view));
    assert_eq!(shown(&catalog, &[]), [""; 0]);
}
