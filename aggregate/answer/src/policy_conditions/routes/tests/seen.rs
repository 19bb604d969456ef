//! Conditions of what the clients of a VirtualService lack: subsets, services and ports, also behind aliases and in delegates.

use tributary_model::{
    ByNamespace, ClientDimensions, ClusterInputs, ClusterPolicy, DestinationRule, EndpointInputs,
    EndpointPolicy, Sidecar, Subset, TrafficPolicy,
};

use super::*;

/// Returns a service of which a rule declares subset v1 to clients of a namespace, or to all.
fn mk_ruled(host: &str, client: Option<&str>) -> Arc<ServiceView> {
    let view = ServiceView::clone(&mk_served(host, true, vec![]));
    let v1 = Subset::new("v1").unwrap();
    let subsets = [(v1.clone(), TrafficPolicy::default())].into();
    let cluster = ClusterPolicy { whole: TrafficPolicy::default(), subsets, from: Arc::default() };
    let subsets = [(v1, Default::default(), Default::default())].into();
    let endpoint = EndpointPolicy { subsets, ..EndpointPolicy::default() };
    with_rule(view, client, (cluster, endpoint))
}

/// Returns a service of one port whose clients of a namespace, or all, have what a rule sets.
pub(super) fn with_rule(
    view: ServiceView,
    client: Option<&str>,
    (cluster, endpoint): (ClusterPolicy, EndpointPolicy),
) -> Arc<ServiceView> {
    let own = view.ports[0].clone();
    let cluster = ClusterInputs { policy: mk_for(client, cluster), ..own.cluster.inputs.clone() };
    let endpoints = EndpointInputs { policy: mk_for(client, endpoint), ..own.endpoints.inputs.clone() };
    let port = PortView {
        cluster: Shared::new(ResourceInputs::new(cluster, ClientDimensions::KIND)),
        endpoints: Shared::new(ResourceInputs::new(endpoints, ClientDimensions::KIND)),
        ..own
    };
    Arc::new(ServiceView { ports: [port].into(), ..view })
}

pub(super) fn mk_for<T: PartialEq>(
    client: Option<&str>,
    policy: T,
) -> Option<Arc<ByNamespace<Option<Arc<T>>>>> {
    let policy = Some(Arc::new(policy));
    Some(Arc::new(match client {
        Some(namespace) => ByNamespace::new(None, [(mk_ns(namespace), policy)]),
        None => ByNamespace::new(policy, []),
    }))
}

pub(super) fn mk_to_subset(host: &str, subset: &str) -> HttpRoute {
    let mut route = mk_route(&[], &[host]);
    let destination = RouteDestination { host: mk_host(host), subset: Subset::new(subset), port: None };
    route.action = HttpAction::Route([WeightedDestination { destination, weight: 0, headers: None }].into());
    route
}

/// Adds a destination with all requests, so that the first one receives none.
fn mk_without_share(mut route: HttpRoute, all: &str) -> HttpRoute {
    let all = mk_route(&[], &[&format!("{all} 100")]);
    let both = route.action.destinations().iter().chain(all.action.destinations()).cloned();
    route.action = HttpAction::Route(both.collect());
    route
}

pub(super) fn exported(of: Declared, to: &[&str]) -> Declared {
    let mut service = of.1.virtual_service().unwrap().clone();
    service.export = ExportTo::parse(to.iter().copied(), &mk_ns("shop"));
    mk_declared(&of.0.name, service)
}

/// Returns the conditions beside clients of these namespaces.
pub(super) fn shown_to(services: Vec<Arc<ServiceView>>, all: Vec<Declared>, clients: &[&str]) -> Vec<String> {
    let clients: Vec<_> = clients.iter().map(|namespace| mk_selectable(namespace)).collect();
    shown_beside(services, all, Beside { clients: &clients, elsewhere: None })
}

#[test]
fn subset_that_only_other_clients_have_is_undeclared() {
    let found = |export: &[&str], clients: &[&str]| {
        let service = mk_service("a", &["pay.shop.svc"], vec![mk_to_subset("pay.shop.svc", "v1")]);
        shown_to(vec![mk_ruled("pay.shop.svc", Some("other"))], vec![exported(service, export)], clients)
    };
    let lost = "a: TRB0451 no DestinationRule declares these subsets, or no version of it is valid: http[0] (v1 of pay.shop.svc)";
    assert_eq!(found(&["*"], &["shop"]), [lost]);
    assert_eq!(found(&["."], &["shop", "other"]), [lost]);
    assert_eq!(found(&["*"], &["shop", "other"]), [""; 0], "some client has it");
    assert_eq!(found(&["other"], &["shop", "other"]), [""; 0]);
}

#[test]
fn rule_whose_export_hides_the_subset_is_named() {
    let found = |export: &[&str]| {
        let export = ExportTo::parse(export.iter().copied(), &mk_ns("shop"));
        let rule = DestinationRule { export, ..mk_rule("pay.shop.svc", &[("v1", ("version", "v1"))]) };
        let to_v1 = mk_service("a", &["pay.shop.svc"], vec![mk_to_subset("pay.shop.svc", "v1")]);
        let all = vec![mk_policy("shop", "r", Policy::DestinationRule(rule)), exported(to_v1, &["web"])];
        let lines = shown_to(vec![mk_ruled("pay.shop.svc", Some("other"))], all, &["web"]);
        lines.into_iter().filter(|line| line.starts_with("a:")).collect::<Vec<_>>()
    };
    let lost = |what: &str| {
        [format!(
            "a: TRB0451 DestinationRules that declare these subsets are not exported to its clients: http[0] (v1 of pay.shop.svc: \
             the exportTo of DestinationRule shop/r {what})"
        )]
    };
    assert_eq!(found(&["."]), lost("is shop"));
    assert_eq!(found(&["other", "api"]), lost("is api, other"));
    assert_eq!(found(&["~"]), lost("names no namespace"));
    let other = "a: TRB0451 no DestinationRule declares these subsets, or no version of it is valid: http[0] (v1 of pay.shop.svc to its \
                 clients: no DestinationRule applies to them)";
    assert_eq!(found(&["*"]), [other]);
}

#[test]
fn subset_that_some_namespace_has_is_lacked_by_some_while_clients_are_not_known() {
    let route = || vec![mk_to_subset("pay.shop.svc", "v1")];
    let found = |candidates: Vec<HttpCandidate>, rule: Option<&str>| {
        let all = vec![mk_service("a", &["pay.shop.svc"], route())];
        let view = ServiceView::clone(&mk_served("pay.shop.svc", true, candidates));
        let ruled = mk_ruled("pay.shop.svc", rule);
        let route = view.ports[0].route.clone();
        let port = PortView { route, ..ruled.ports[0].clone() };
        shown_to(vec![Arc::new(ServiceView { ports: [port].into(), ..view })], all, &[])
    };
    let candidate = || vec![mk_candidate("a", "pay.shop.svc", Visibility::Public, route())];
    let some = "a: TRB0474 some clients lack these destinations: http[0] (clients of namespace shop and of most others have no \
                subset v1 of pay.shop.svc: no DestinationRule applies to them)";
    assert_eq!(found(candidate(), Some("other")), [some]);
    assert_eq!(found(candidate(), None), [""; 0]);
}

/// Returns a service of which a rule declares subset v1 to most clients, and another rule none to those of a namespace.
fn mk_overruled(client: &str, candidates: Vec<HttpCandidate>) -> Arc<ServiceView> {
    let view = ServiceView::clone(&mk_served("pay.shop.svc", true, candidates));
    let ruled = mk_ruled("pay.shop.svc", None);
    let usual = ruled.ports[0].cluster.inputs.policy_of(None).map(|policy| Arc::new(policy.clone()));
    let key =
        PolicyKey { kind: PolicyKind::DestinationRule, namespace: mk_ns(client), name: "pay-limits".into() };
    let none =
        ClusterPolicy { whole: TrafficPolicy::default(), subsets: Default::default(), from: [key].into() };
    let policy = ByNamespace::new(usual, [(mk_ns(client), Some(Arc::new(none)))]);
    let own = view.ports[0].clone();
    let cluster = ClusterInputs { policy: Some(Arc::new(policy)), ..own.cluster.inputs.clone() };
    let cluster = Shared::new(ResourceInputs::new(cluster, ClientDimensions::KIND));
    let endpoints = ruled.ports[0].endpoints.clone();
    Arc::new(ServiceView { ports: [PortView { cluster, endpoints, ..own }].into(), ..view })
}

fn mk_for_clients_of(namespace: &str, mut route: HttpRoute) -> HttpRoute {
    let clients = ClientMatch { namespace: Some(mk_ns(namespace)), ..ClientMatch::default() };
    route.matches = [HttpMatch { clients, ..HttpMatch::default() }].into();
    route
}

const OVERRULED: &str = "a: TRB0474 some clients lack these destinations: http[0] (clients of namespace other have no subset v1 of \
                         pay.shop.svc: DestinationRule other/pay-limits applies to them)";

#[test]
fn clients_with_a_rule_of_their_own_without_the_subset_are_named() {
    let to_v1 = || mk_to_subset("pay.shop.svc", "v1");
    let found = |routes: Vec<HttpRoute>, clients: &[&str]| {
        let all = vec![mk_service("a", &["pay.shop.svc"], routes.clone())];
        let candidate = mk_candidate("a", "pay.shop.svc", Visibility::Public, routes);
        shown_to(vec![mk_overruled("other", vec![candidate])], all, clients)
    };
    assert_eq!(found(vec![to_v1()], &["shop", "other"]), [OVERRULED]);
    assert_eq!(found(vec![to_v1()], &[]), [OVERRULED], "clients are not known");
    assert_eq!(found(vec![to_v1()], &["shop", "web"]), [""; 0], "no client has the rule");
    let other = mk_for_clients_of("other", mk_route(&[], &["pay.shop.svc"]));
    assert_eq!(found(vec![other, to_v1()], &["shop", "other"]), [""; 0], "they have a route of their own");
    assert_eq!(found(vec![mk_for_clients_of("shop", to_v1())], &["shop", "other"]), [""; 0]);
    let lacked_by_all = "a: TRB0451 no DestinationRule declares these subsets, or no version of it is valid: http[0] (v1 of \
                         pay.shop.svc to its clients: DestinationRule other/pay-limits applies to them)";
    assert_eq!(found(vec![mk_for_clients_of("other", to_v1())], &["shop", "other"]), [lacked_by_all]);
    let lost = OVERRULED.replace("http[0]", "http[1]");
    let shop = mk_for_clients_of("shop", mk_route(&[], &["pay.shop.svc"]));
    assert_eq!(found(vec![shop, to_v1()], &["shop", "web", "other"]), [lost]);
}

#[test]
fn clients_whose_sidecar_does_not_import_the_host_lack_nothing() {
    let found = |sidecar: (&str, &[&str], &[(&str, &str)])| {
        let (namespace, hosts, labels) = sidecar;
        let selector = labels.iter().copied().collect();
        let sidecar = Sidecar { egress: mk_egress(&[(None, hosts)]), selector, ..Sidecar::default() };
        let route = || vec![mk_to_subset("pay.shop.svc", "v1")];
        let candidate = mk_candidate("a", "pay.shop.svc", Visibility::Public, route());
        let all = vec![mk_service("a", &["pay.shop.svc"], route()), mk_sidecar(namespace, "s", sidecar)];
        let found = shown_to(vec![mk_overruled("other", vec![candidate])], all, &["shop", "other", "web"]);
        found.into_iter().filter(|line| line.starts_with("a:")).collect::<Vec<_>>()
    };
    assert_eq!(found(("other", &["other/*"], &[])), [""; 0]);
    assert_eq!(found(("other", &["*/pay.shop.svc"], &[])), [OVERRULED]);
    assert_eq!(found(("shop", &["other/*"], &[])), [OVERRULED], "a Sidecar of others");
    assert_eq!(found(("istio-system", &["./*"], &[])), [""; 0], "that of the root namespace");
    assert_eq!(found(("other", &["other/*"], &[("app", "x")])), [OVERRULED], "other clients have none");
}

pub(super) fn mk_declared_in(namespace: &str, view: &ServiceView) -> Arc<ServiceView> {
    let key = mk_key(view.key.host.as_str(), namespace);
    Arc::new(ServiceView { key, ..view.clone() })
}

#[test]
fn clients_have_the_routes_of_virtual_services_that_their_sidecar_imports() {
    let found = |hosts: &[&str], labels: &[(&str, &str)]| {
        let sidecar = Sidecar {
            egress: mk_egress(&[(None, hosts)]),
            selector: labels.iter().copied().collect(),
            ..Sidecar::default()
        };
        let route = || vec![mk_to_subset("pay.shop.svc", "v1")];
        let candidate = mk_candidate("a", "pay.shop.svc", Visibility::Public, route());
        let all = vec![mk_service("a", &["pay.shop.svc"], route()), mk_sidecar("other", "s", sidecar)];
        let service = mk_declared_in("infra", &mk_overruled("other", vec![candidate]));
        let other = Selectable { labels: [("app", "web")].into_iter().collect(), ..mk_selectable("other") };
        let clients = [mk_selectable("shop"), mk_selectable("web"), other];
        let found = shown_beside(vec![service], all, Beside { clients: &clients, elsewhere: None });
        found.into_iter().filter(|line| line.starts_with("a:")).collect::<Vec<_>>()
    };
    assert_eq!(found(&["*/*"], &[]), [OVERRULED]);
    assert_eq!(found(&["shop/*"], &[]), [OVERRULED], "the service need not be imported");
    assert_eq!(found(&["infra/*"], &[]), [""; 0], "they have the usual route");
    assert_eq!(found(&["infra/*"], &[("app", "web")]), [""; 0], "it selects the only client that is known");
    assert_eq!(found(&["infra/*"], &[("app", "api")]), [OVERRULED]);
}

#[test]
fn clients_that_a_route_names_are_compared_without_known_ones() {
    let own = {
        let view = ServiceView::clone(&mk_served("own.shop.svc", true, vec![]));
        let declared = mk_view("own.shop.svc", "shop", &[Visibility::Namespaces([mk_ns("web")].into())]);
        Arc::new(ServiceView { declarations: declared.declarations.clone(), ..view })
    };
    let route = mk_for_clients_of("other", mk_route(&[], &["own.shop.svc"]));
    let candidate = mk_candidate("a", "pay.shop.svc", Visibility::Public, vec![route.clone()]);
    let services = vec![own, mk_served("pay.shop.svc", true, vec![candidate])];
    let hidden =
        "a: TRB0465 no client of it may see these destinations, by their exportTo: http[0] (own.shop.svc)";
    assert_eq!(shown_to(services, vec![mk_service("a", &["pay.shop.svc"], vec![route])], &[]), [hidden]);
}

#[test]
fn clients_whose_requests_another_virtual_service_routes_lack_nothing() {
    let routes = || vec![mk_to_subset("pay.shop.svc", "v1")];
    let found = |of_other: Visibility| {
        let other = mk_candidate("o", "pay.shop.svc", of_other, vec![mk_route(&[], &["pay.shop.svc"])]);
        let candidate = mk_candidate("a", "pay.shop.svc", Visibility::Public, routes());
        let all = vec![mk_service("a", &["pay.shop.svc"], routes())];
        shown_to(vec![mk_overruled("other", vec![candidate, other])], all, &["shop", "other"])
    };
    assert_eq!(found(Visibility::Hidden), [OVERRULED]);
    assert_eq!(found(Visibility::Namespaces([mk_ns("other")].into())), [""; 0]);
}

#[test]
fn clients_of_namespaces_without_the_rule_or_service_are_named() {
    let ruled = mk_ruled("pay.shop.svc", Some("shop"));
    let with = |view: &ServiceView, candidates: Vec<HttpCandidate>| {
        let route = mk_served("pay.shop.svc", true, candidates).ports[0].route.clone();
        Arc::new(ServiceView { ports: [PortView { route, ..view.ports[0].clone() }].into(), ..view.clone() })
    };
    let hidden = || {
        let declared = mk_view("own.shop.svc", "shop", &[Visibility::Namespaces([mk_ns("other")].into())]);
        let view = ServiceView::clone(&mk_served("own.shop.svc", true, vec![]));
        Arc::new(ServiceView { declarations: declared.declarations.clone(), ..view })
    };
    let found = |route: HttpRoute, clients: &[&str]| {
        let candidate = mk_candidate("a", "pay.shop.svc", Visibility::Public, vec![route.clone()]);
        let services = vec![with(&ruled, vec![candidate]), hidden()];
        shown_to(services, vec![mk_service("a", &["pay.shop.svc"], vec![route])], clients)
    };
    let lacks =
        |what: &str| vec![format!("a: TRB0474 some clients lack these destinations: http[0] ({what})")];
    let (to_v1, to_own) = (|| mk_to_subset("pay.shop.svc", "v1"), || mk_route(&[], &["own.shop.svc"]));
    let no_rule = "have no subset v1 of pay.shop.svc: no DestinationRule applies to them";
    assert_eq!(found(to_v1(), &["shop", "other"]), lacks(&format!("clients of namespace other {no_rule}")));
    assert_eq!(found(to_v1(), &[]), lacks(&format!("clients of most namespaces {no_rule}")));
    let unseen = "may not see own.shop.svc, by its exportTo";
    assert_eq!(found(to_own(), &["shop", "other"]), lacks(&format!("clients of namespace shop {unseen}")));
    assert_eq!(
        found(to_own(), &["web", "shop"]),
        lacks(&format!("clients of namespaces shop, web {unseen}"))
    );
    let most = format!("clients of namespace shop and of most others {unseen}");
    assert_eq!(found(to_own(), &[]), lacks(&most));
    // clients that do not see the host do not use the VirtualService
    let of_host = vec![mk_service("a", &["own.shop.svc"], vec![to_own()])];
    assert_eq!(shown_to(vec![hidden()], of_host, &["shop"]), [""; 0]);
}

#[test]
fn subset_or_hidden_service_without_a_share_is_not_named() {
    let own = |host: &str| {
        let view = ServiceView::clone(&mk_served(host, true, vec![]));
        let declared = mk_view(host, "other", &[Visibility::Hidden]);
        Arc::new(ServiceView { declarations: declared.declarations.clone(), ..view })
    };
    let services = || vec![mk_ruled("pay.shop.svc", None), own("own.shop.svc")];
    let found = |route: HttpRoute| {
        let all = vec![mk_service("a", &["pay.shop.svc"], vec![route])];
        shown_to(services(), all, &["web"]).iter().map(|line| line[3..10].to_owned()).collect::<Vec<_>>()
    };
    let cases =
        [(mk_to_subset("pay.shop.svc", "v9"), "TRB0451"), (mk_route(&[], &["own.shop.svc"]), "TRB0465")];
    for (route, code) in cases {
        assert_eq!(found(route.clone()), [code]);
        assert_eq!(found(mk_without_share(route, "pay.shop.svc")), [""; 0], "{code}");
    }
}

#[test]
fn clients_of_a_delegate_are_those_of_its_roots() {
    let own = || {
        let view = ServiceView::clone(&mk_served("own.shop.svc", true, vec![]));
        let declared = mk_view("own.shop.svc", "shop", &[Visibility::Own]);
        Arc::new(ServiceView { declarations: declared.declarations.clone(), ..view })
    };
    let services = || vec![own(), mk_ruled("pay.shop.svc", Some("other"))];
    let found = |export: &[&str], clients: &[&str]| {
        let to = DelegateRef { name: "d".into(), namespace: mk_ns("shop") };
        let root = HttpRoute { action: HttpAction::Delegate(to, None), ..mk_route(&[], &[]) };
        let root = exported(mk_service("a", &["pay.shop.svc"], vec![root]), export);
        let to_own = mk_route(&["/own"], &["own.shop.svc"]);
        let delegate = mk_service("d", &[], vec![to_own, mk_to_subset("pay.shop.svc", "v1")]);
        shown_to(services(), vec![root, delegate], clients)
    };
    let hidden =
        "d: TRB0465 no client of it may see these destinations, by their exportTo: http[0] (own.shop.svc)";
    let undeclared = "d: TRB0451 no DestinationRule declares these subsets, or no version of it is valid: http[1] (v1 of pay.shop.svc)";
    assert_eq!(found(&["web"], &["shop", "web"]), [undeclared, hidden]);
    assert_eq!(found(&["*"], &["shop", "web"]), [undeclared]);
    assert_eq!(found(&["*"], &["shop", "other"]), [""; 0]);
}

#[test]
fn subset_of_an_alias_is_that_of_its_end() {
    let services = || {
        vec![
            mk_ruled("pay.shop.svc", None),
            mk_alias("old.shop.svc", "mid.shop.svc"),
            mk_alias("mid.shop.svc", "pay.shop.svc"),
        ]
    };
    let found = |subset: &str| {
        let route = vec![mk_to_subset("old.shop.svc", subset)];
        shown_in(services(), vec![mk_service("a", &["pay.shop.svc"], route)], None)
    };
    assert_eq!(found("v1"), [""; 0]);
    let lost = "a: TRB0451 no DestinationRule declares these subsets, or no version of it is valid: http[0] (v9 of pay.shop.svc, of which \
                old.shop.svc is an alias)";
    assert_eq!(found("v9"), [lost]);
}

#[test]
fn rule_of_an_alias_has_no_effect() {
    let found = |host: &str| {
        let rule = DestinationRule {
            host: HostPattern::new(host).unwrap(),
            export: ExportTo::default(),
            selector: Default::default(),
            policies: Default::default(),
            subsets: Arc::default(),
            ignored: Arc::default(),
        };
        let (mut key, view) = mk_service("r", &[], vec![]);
        let source = Source::new(ObjectId::new("DestinationRule", "shop", "r"));
        let declared = DeclaredPolicy { source, created: None, policy: Policy::DestinationRule(rule) };
        key.kind = PolicyKind::DestinationRule;
        let view = PolicyView { declared: Arc::new(declared), ..PolicyView::clone(&view) };
        let alias = mk_alias("old.shop.svc", "pay.shop.svc");
        shown_in(vec![mk_ruled("pay.shop.svc", None), alias], vec![(key, Shared::new(view))], None)
    };
    let lost = "r: TRB0446 old.shop.svc is an alias of pay.shop.svc: clients have the settings and subsets of rules for \
                pay.shop.svc";
    assert_eq!(found("old.shop.svc"), [lost]);
    assert_eq!(found("*ld.shop.svc"), [lost]);
    assert!(!found("*.shop.svc").iter().any(|line| line.contains("alias")), "it applies to others");
}

#[test]
fn ports_of_requests_that_a_destination_lacks_are_named() {
    let two = || mk_on_ports("two.shop.svc", Protocol::Http, &[80, 8080]);
    let on_port = |number: u32| {
        let mut route = mk_route(&["/"], &["pay.shop.svc"]);
        route.matches = [HttpMatch { port: Some(mk_port(number)), ..route.matches[0].clone() }].into();
        route
    };
    let lost = "a: TRB0468 these destinations name no port and lack ports of the hosts, so that what comes there fails: http[0] (pay.shop.svc has \
                no port 8080)";
    let none = "a: TRB0450 these destinations do not exist: http[0] (pay.shop.svc has no port 8080, as the hosts have)";
    let cases = [
        (mk_route(&[], &["pay.shop.svc"]), Some(lost)),
        (mk_route(&[], &["pay.shop.svc:80"]), None),
        (mk_route(&[], &["two.shop.svc"]), None),
        (on_port(80), None),
        (on_port(8080), Some(none)),
    ];
    for (at, (route, want)) in cases.into_iter().enumerate() {
        let services = vec![two(), mk_served("pay.shop.svc", true, vec![])];
        let found = shown_in(services, vec![mk_service("a", &["two.shop.svc"], vec![route])], None);
        assert_eq!(found, want.into_iter().collect::<Vec<_>>(), "case {at}");
    }
}

/// Returns a service with these ports of a protocol.
pub(super) fn mk_on_ports(host: &str, protocol: Protocol, ports: &[u32]) -> Arc<ServiceView> {
    let view = ServiceView::clone(&mk_served(host, true, vec![]));
    let port = |number: &u32| PortView { number: mk_port(*number), protocol, ..view.ports[0].clone() };
    Arc::new(ServiceView { ports: ports.iter().map(port).collect(), ..view })
}

#[test]
fn ports_of_connections_that_a_destination_of_several_lacks_are_named() {
    let to = |host: &str, port: Option<u32>| {
        let destination = RouteDestination { host: mk_host(host), subset: None, port: port.map(mk_port) };
        Arc::from([tributary_model::L4Destination { destination, weight: 0 }])
    };
    let found = |hosts_have: &[u32], to: Arc<[tributary_model::L4Destination]>, on: Option<u32>| {
        let services = vec![
            mk_on_ports("db.shop.svc", Protocol::Tcp, hosts_have),
            mk_on_ports("one.shop.svc", Protocol::Tcp, &[90]),
            mk_on_ports("two.shop.svc", Protocol::Tcp, &[90, 91]),
        ];
        let before = on.map(|port| tributary_model::TcpRoute {
            matches: [tributary_model::L4Match { port: Some(mk_port(port)), ..Default::default() }].into(),
            destinations: to_one(),
        });
        let route = tributary_model::TcpRoute { matches: Arc::default(), destinations: to };
        let (_, view) = mk_service("a", &["db.shop.svc"], vec![]);
        let own = view.virtual_service().unwrap().clone();
        let tcp = before.into_iter().chain([route]).collect();
        shown_in(services, vec![mk_declared("a", VirtualService { tcp, ..own })], None)
    };
    let none = "a: TRB0450 these destinations do not exist: tcp[0] (two.shop.svc has no port 5432, as the hosts have)";
    let lost = "a: TRB0468 these destinations name no port and lack ports of the hosts, so that what comes there fails: tcp[0] (two.shop.svc has \
                no port 5432)";
    assert_eq!(found(&[5432], to("two.shop.svc", None), None), [none]);
    assert_eq!(found(&[90, 5432], to("two.shop.svc", None), None), [lost]);
    assert_eq!(found(&[90, 5432], to("two.shop.svc", None), Some(5432)), [""; 0], "a route before takes it");
    assert_eq!(found(&[5432], to("two.shop.svc", Some(90)), None), [""; 0]);
    assert_eq!(found(&[5432], to("one.shop.svc", None), None), [""; 0], "its only port");
}

fn to_one() -> Arc<[tributary_model::L4Destination]> {
    let destination = RouteDestination { host: mk_host("one.shop.svc"), subset: None, port: None };
    [tributary_model::L4Destination { destination, weight: 0 }].into()
}

#[test]
fn ports_that_routes_before_take_are_not_named() {
    let two = || mk_on_ports("two.shop.svc", Protocol::Http, &[80, 8080]);
    let on = |number: u32, path: &str| {
        let mut route = mk_route(&[path], &["two.shop.svc"]);
        route.matches = [HttpMatch { port: Some(mk_port(number)), ..route.matches[0].clone() }].into();
        route
    };
    let to_pay = |paths: &[&str]| mk_route(paths, &["pay.shop.svc"]);
    let lost = "TRB0468 these destinations name no port and lack ports of the hosts, so that what comes there fails: http[1] (pay.shop.svc has no \
                port 8080)";
    let none =
        "TRB0450 these destinations do not exist: http[1] (pay.shop.svc has no port 8080, as the hosts have)";
    let cases: &[(Vec<HttpRoute>, &[&str])] = &[
        (vec![on(8080, "/"), to_pay(&[])], &[]),
        (vec![on(8080, "/a"), to_pay(&["/a/b"])], &[]),
        (vec![on(8080, "/a"), to_pay(&["/a/b", "/c"])], &[lost]),
        (vec![on(8080, "/a"), to_pay(&[])], &[lost]),
        (vec![on(80, "/"), to_pay(&[])], &[none]),
    ];
    for (at, (routes, want)) in cases.iter().enumerate() {
        let services = vec![two(), mk_served("pay.shop.svc", true, vec![])];
        let found = shown_in(services, vec![mk_service("a", &["two.shop.svc"], routes.clone())], None);
        let want: Vec<String> = want.iter().map(|want| format!("a: {want}")).collect();
        assert_eq!(found, want, "case {at}");
    }
}
