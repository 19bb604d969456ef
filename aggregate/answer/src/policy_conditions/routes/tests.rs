//! Conditions of VirtualServices over small catalogs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    AbortStatus, ClientKind, ClientMatch, DeclaredPolicy, DelegateRef, ExportTo, FaultAbort, FaultInjection,
    Hostname, HttpAction, HttpCandidate, HttpMatch, HttpRoute, ObjectId, Policy, PortView, Protocol,
    RequestShare, ResourceInputs, RouteCandidate, RouteDestination, RouteOwner, RoutePosition, RouteSettings,
    ServiceView, Shared, Source, TextMatch, WeightedDestination,
};

use super::*;
use crate::fixtures::*;
use crate::policy_conditions::{Beside, Selectable, policy_conditions};

mod listening;
mod seen;
mod several;
mod shadowed;

type Declared = (PolicyKey, Shared<PolicyView>);

/// Returns a route with these paths, each a prefix, to hosts such as `pay.shop.svc:81 90`: a port and a weight.
fn mk_route(paths: &[&str], to: &[&str]) -> HttpRoute {
    let found =
        |path: &&str| HttpMatch { uri: Some(TextMatch::Prefix((*path).into())), ..HttpMatch::default() };
    let weighted = |text: &&str| {
        let (to, weight) = text.split_once(' ').unwrap_or((text, "0"));
        let (host, port) = to.split_once(':').map_or((to, None), |(host, port)| (host, port.parse().ok()));
        let port = port.map(mk_port);
        let destination = RouteDestination { host: Hostname::new(host).unwrap(), subset: None, port };
        WeightedDestination { destination, weight: weight.parse().unwrap(), headers: None }
    };
    HttpRoute {
        name: "".into(),
        matches: paths.iter().map(found).collect(),
        action: HttpAction::Route(to.iter().map(weighted).collect()),
        settings: RouteSettings::default(),
        delegate: None,
        position: RoutePosition::default(),
    }
}

/// Returns a route with these paths that names a delegate.
fn mk_naming(delegate: &str, paths: &[&str]) -> HttpRoute {
    let delegate = DelegateRef { name: delegate.into(), namespace: mk_ns("shop") };
    HttpRoute { action: HttpAction::Delegate(delegate, None), ..mk_route(paths, &[]) }
}

fn mk_service(name: &str, hosts: &[&str], http: Vec<HttpRoute>) -> Declared {
    mk_declared(
        name,
        VirtualService {
            hosts: hosts.iter().map(|host| HostPattern::new(host).unwrap()).collect(),
            export: ExportTo::default(),
            mesh: true,
            http: http.into(),
            tls: Arc::default(),
            tcp: Arc::default(),
            ignored: Arc::default(),
        },
    )
}

fn mk_declared(name: &str, service: VirtualService) -> Declared {
    let key = PolicyKey { kind: PolicyKind::VirtualService, namespace: mk_ns("shop"), name: name.into() };
    let source = Source::new(ObjectId::new("VirtualService", "shop", name));
    let declared = DeclaredPolicy { source, created: None, policy: Policy::VirtualService(service) };
    let view = PolicyView {
        shard: mk_shard("east"),
        precedence: Default::default(),
        declared: Arc::new(declared),
        conditions: Arc::default(),
    };
    (key, Shared::new(view))
}

/// Returns a service with port 80, with an endpoint or none, and with candidates such as `a pay.shop.svc`.
fn mk_served(host: &str, has_endpoint: bool, candidates: Vec<HttpCandidate>) -> Arc<ServiceView> {
    let addresses = if has_endpoint { vec![mk_address("10.0.0.1")] } else { Vec::new() };
    let mut port = mk_port_view(mk_one(addresses));
    let route =
        tributary_model::RouteInputs { virtual_services: candidates.into(), ..port.route.inputs.clone() };
    port.route = Shared::new(ResourceInputs::new(route, tributary_model::ClientDimensions::KIND));
    let view = ServiceView::clone(&mk_view(host, "shop", &[Visibility::Public]));
    Arc::new(ServiceView { ports: [port].into(), ..view })
}

fn mk_candidate(name: &str, host: &str, visibility: Visibility, routes: Vec<HttpRoute>) -> HttpCandidate {
    let key = PolicyKey { kind: PolicyKind::VirtualService, namespace: mk_ns("shop"), name: name.into() };
    let host = HostPattern::new(host).unwrap();
    let of = RouteOwner { key, visibility, hosts: [host.clone()].into(), delegates: Arc::default() };
    RouteCandidate { of: Arc::new(of), host, routes: routes.into() }
}

fn shown_in(services: Vec<Arc<ServiceView>>, all: Vec<Declared>, elsewhere: Option<&[&str]>) -> Vec<String> {
    let hosts: Option<Vec<HostPattern>> =
        elsewhere.map(|all| all.iter().map(|host| HostPattern::new(host).unwrap()).collect());
    shown_beside(services, all, Beside { clients: &[], elsewhere: hosts.as_deref() })
}

fn shown_beside(services: Vec<Arc<ServiceView>>, all: Vec<Declared>, beside: Beside<'_>) -> Vec<String> {
    let catalog = Catalog { complete: true, policies: all.into_iter().collect(), ..mk_catalog(services) };
    let found = policy_conditions(&catalog, beside, &|_| true);
    let line = |key: &PolicyKey, one: &Condition| format!("{}: {} {}", key.name, one.code, one.message);
    found.iter().flat_map(|(key, list)| list.iter().map(move |one| line(key, one))).collect()
}

fn shown(all: Vec<Declared>) -> Vec<String> {
    shown_in(
        vec![mk_served("pay.shop.svc", true, vec![]), mk_served("img.shop.svc", false, vec![])],
        all,
        None,
    )
}

#[test]
fn destination_that_leads_nowhere_is_named() {
    let cases: &[(&[&str], &str)] = &[
        (&["pay.shop.svc"], ""),
        (&["pay.shop.svc:80 1", "img.shop.svc 0"], ""),
        (&["pay.shop.svc 1", "pay.shop 0"], ""),
        (&["pay.shop.svc 1", "pay.shop.svc:81 0"], ""),
        (
            &["pay.shop"],
            "TRB0450 these destinations do not exist: http[0] (no service has the host pay.shop)",
        ),
        (
            &["pay.shop.svc:81"],
            "TRB0450 these destinations do not exist: http[0] (pay.shop.svc has no port 81)",
        ),
        (&["img.shop.svc"], "TRB0457 these destinations have no endpoints: http[0] (img.shop.svc)"),
        (
            &["pay.shop.svc 1", "img.shop.svc 1"],
            "TRB0457 these destinations have no endpoints: http[0] (img.shop.svc)",
        ),
    ];
    for (to, want) in cases {
        let found = shown(vec![mk_service("a", &["pay.shop.svc"], vec![mk_route(&[], to)])]);
        let want: Vec<String> = (!want.is_empty()).then(|| format!("a: {want}")).into_iter().collect();
        assert_eq!(found, want, "{to:?}");
    }
}

#[test]
fn destination_behind_a_fault_that_refuses_all_requests_lacks_nothing() {
    let refused = |share: RequestShare| {
        let abort = Some(FaultAbort { status: AbortStatus::Http(503), share: Some(share) });
        let fault = Some(Arc::new(FaultInjection { delay: None, abort }));
        let settings = RouteSettings { fault, ..RouteSettings::default() };
        let to_none = mk_route(&[], &["pay.shop.svc 1", "img.shop.svc 1"]);
        mk_service("a", &["pay.shop.svc"], vec![HttpRoute { settings, ..to_none }])
    };
    let empty = "a: TRB0457 these destinations have no endpoints: http[0] (img.shop.svc)";
    assert_eq!(shown(vec![refused(RequestShare::ALL)]), [""; 0]);
    assert_eq!(shown(vec![refused(RequestShare::new(999_999).unwrap())]), [empty]);
    let grpc = Selectable { kind: ClientKind::Grpc, ..mk_selectable("shop") };
    let services = vec![mk_served("pay.shop.svc", true, vec![]), mk_served("img.shop.svc", false, vec![])];
    let found = shown_beside(
        services,
        vec![refused(RequestShare::ALL)],
        Beside { clients: &[grpc], elsewhere: None },
    );
    assert_eq!(found, [empty], "gRPC clients do not use faults");
}

fn mk_selectable(namespace: &str) -> crate::policy_conditions::Selectable {
    let kind = tributary_model::ClientKind::Sidecar;
    let namespace = mk_ns(namespace);
    crate::policy_conditions::Selectable {
        kind,
        is_grpc_server: false,
        namespace,
        labels: Default::default(),
        is_known: true,
    }
}

#[test]
fn destination_or_service_that_no_client_sees_is_named() {
    let own = || {
        let view = ServiceView::clone(&mk_served("own.shop.svc", true, vec![]));
        let declared = mk_view("own.shop.svc", "shop", &[Visibility::Own]);
        Arc::new(ServiceView { declarations: declared.declarations.clone(), ..view })
    };
    let exported = |to: &[&str]| {
        let (_, view) = mk_service("a", &["own.shop.svc"], vec![mk_route(&[], &["own.shop.svc"])]);
        let mut service = view.virtual_service().unwrap().clone();
        service.export = ExportTo::parse(to.iter().copied(), &mk_ns("shop"));
        let clients = [mk_selectable("web"), mk_selectable("api")];
        let beside = Beside { clients: &clients, elsewhere: None };
        shown_beside(vec![own()], vec![mk_declared("a", service)], beside)
    };
    let hidden =
        "a: TRB0465 no client of it may see these destinations, by their exportTo: http[0] (own.shop.svc)";
    assert_eq!(exported(&["web"]), [hidden]);
    assert_eq!(exported(&["*"]), [""; 0], "its exportTo names shop");
    assert_eq!(exported(&["shop", "web"]), [""; 0]);
    let empty =
        "a: TRB0456 no known workload and no connected client is in a namespace of its exportTo: none, shop";
    assert_eq!(exported(&["shop", "none"]), [empty]);
}

#[test]
fn mirror_without_endpoints_loses_no_request() {
    let mut route = mk_route(&[], &["pay.shop.svc"]);
    let destination = RouteDestination { host: mk_host("img.shop.svc"), subset: None, port: None };
    let mut mirror = tributary_model::Mirror { destination, share: RequestShare::ALL };
    let only = |mirror: &tributary_model::Mirror| {
        let first = Some(mirror.clone());
        Some(Arc::new(tributary_model::Mirroring { first, ..tributary_model::Mirroring::default() }))
    };
    route.settings.mirroring = only(&mirror);
    assert_eq!(shown(vec![mk_service("a", &["pay.shop.svc"], vec![route.clone()])]), [""; 0]);
    mirror.destination.subset = tributary_model::Subset::new("v2");
    mirror.share = RequestShare::NONE;
    route.settings.mirroring = only(&mirror);
    assert_eq!(shown(vec![mk_service("a", &["pay.shop.svc"], vec![route.clone()])]), [""; 0], "no copies");
    mirror.share = RequestShare::ALL;
    route.settings.mirroring = only(&mirror);
    let found = shown(vec![mk_service("a", &["pay.shop.svc"], vec![route])]);
    assert_eq!(
        found,
        [
            "a: TRB0451 no DestinationRule declares these subsets, or no version of it is valid: http[0] mirror (v2 of img.shop.svc)"
        ]
    );
}

#[test]
fn host_of_no_service_is_named() {
    let of = |hosts: &[&str]| vec![mk_service("a", hosts, vec![mk_route(&[], &["pay.shop.svc"])])];
    assert_eq!(shown(of(&["*.shop.svc", "pay.shop.svc"])), [""; 0]);
    let lost = "a: TRB0453 no service has the host pya.shop.svc, no service has the host *.x";
    assert_eq!(shown(of(&["pya.shop.svc", "pay.shop.svc", "*.x"])), [lost]);
}

#[test]
fn services_that_are_declared_elsewhere_are_not_missing() {
    let of = |host: &str, to: &str| vec![mk_service("a", &[host], vec![mk_route(&[], &[to])])];
    let elsewhere: &[&str] = &["*.svc.cluster.local", "*.consul", "pay.shop.global"];
    let found = |host: &str, to: &str| shown_in(Vec::new(), of(host, to), Some(elsewhere));
    assert_eq!(found("pay", "pay.shop.svc.cluster.local:81"), [""; 0]);
    assert_eq!(found("*.local", "pay"), [""; 0]);
    assert_eq!(found("*.service.consul", "pay.service.consul"), [""; 0]);
    assert_eq!(found("*.shop.global", "pay.shop.global"), [""; 0]);
    assert_eq!(found("pay", "pya.shop.global").len(), 1);
    assert_eq!(found("pay.test", "pay").len(), 1);
    assert_eq!(found("pay", "pay.test").len(), 1);
}

#[test]
fn one_that_concerns_no_client_is_named() {
    let route = || vec![mk_route(&[], &["pay.shop.svc"])];
    let with = |change: fn(&mut VirtualService)| {
        let (_, view) = mk_service("a", &["pay.shop.svc"], route());
        let mut own = view.virtual_service().unwrap().clone();
        change(&mut own);
        shown(vec![mk_declared("a", own)])
    };
    assert_eq!(with(|_| {}), [""; 0]);
    let gateways = "a: TRB0456 its gateways do not name mesh, and gateways are not served";
    assert_eq!(with(|own| own.mesh = false), [gateways]);
    let hidden = "a: TRB0456 its exportTo names no namespace";
    assert_eq!(with(|own| own.export = ExportTo::Set(Visibility::Hidden)), [hidden]);
    let unnamed = "a: TRB0456 it has no hosts, and no VirtualService names it as a delegate";
    assert_eq!(with(|own| own.hosts = Arc::default()), [unnamed]);
}

#[test]
fn delegate_that_is_not_used_is_named() {
    let all = vec![
        mk_service("a", &["pay.shop.svc"], ["b", "c", "d"].map(|name| mk_naming(name, &["/"])).into()),
        mk_service("b", &[], vec![mk_route(&["/b"], &["pay.shop.svc"])]),
        mk_service("c", &["pay.shop.svc"], vec![]),
    ];
    let want = "a: TRB0455 routes to these delegates are left out: shop/c (it has hosts), shop/d (it does not exist, or no version of it is valid)";
    assert_eq!(shown(all), [want]);
}

#[test]
fn route_of_a_delegate_outside_its_root_is_named() {
    let delegate = DelegateRef { name: "b".into(), namespace: mk_ns("shop") };
    let root = HttpRoute { action: HttpAction::Delegate(delegate, None), ..mk_route(&["/api"], &[]) };
    let to = |paths: &[&str]| mk_route(paths, &["pay.shop.svc"]);
    let with = |routes: Vec<HttpRoute>, root: &HttpRoute| {
        shown(vec![mk_service("a", &["pay.shop.svc"], vec![root.clone()]), mk_service("b", &[], routes)])
    };
    let routes = || vec![to(&["/api/v1"]), to(&["/other"]), to(&["/api", "/no"]), to(&[])];
    let want = "a: TRB0464 routes of delegates are left out, because a match of each lies within none of the route that names the \
                delegate: http[1] of shop/b (in http[0]), http[2] of shop/b (in http[0])";
    assert_eq!(with(routes(), &root), [want]);
    let any = HttpRoute { matches: [].into(), ..root };
    assert_eq!(with(routes(), &any), [""; 0], "a root without conditions takes every route");
}

#[test]
fn host_that_others_serve_for_every_client_is_named() {
    let route = || vec![mk_route(&[], &["pay.shop.svc"])];
    let found = |candidates: Vec<HttpCandidate>| {
        let names: BTreeSet<String> = candidates.iter().map(|one| one.of.key.name.to_string()).collect();
        let all = names.iter().map(|name| mk_service(name, &["pay.shop.svc"], route())).collect();
        shown_in(vec![mk_served("pay.shop.svc", true, candidates)], all, None)
    };
    let public = |name: &str, routes| mk_candidate(name, "pay.shop.svc", Visibility::Public, routes);
    let taken =
        "b: TRB0454 VirtualService shop/a routes in its place the requests of every client of pay.shop.svc";
    assert_eq!(found(vec![public("a", route()), public("b", route())]), [taken]);
    let both = "c: TRB0454 VirtualService shop/a, VirtualService shop/b route in its place the requests of every client of pay.shop.svc";
    let own = |name, routes| mk_candidate(name, "pay.shop.svc", Visibility::Own, routes);
    let found_both = found(vec![own("a", route()), public("b", route()), public("c", route())]);
    assert_eq!(found_both, [both]);
    let limited = || {
        let clients = ClientMatch { namespace: Some(mk_ns("web")), ..ClientMatch::default() };
        let found = HttpMatch { clients, ..HttpMatch::default() };
        vec![HttpRoute { matches: [found].into(), ..mk_route(&[], &["pay.shop.svc"]) }]
    };
    assert_eq!(found(vec![public("a", limited()), public("b", route())]), [""; 0], "for other clients");
    let own = mk_candidate("a", "pay.shop.svc", Visibility::Own, route());
    assert_eq!(found(vec![own, public("b", route())]), [""; 0], "for other namespaces");
    let wild = || mk_candidate("a", "*.svc", Visibility::Public, route());
    let taken =
        "a: TRB0454 VirtualService shop/b routes in its place the requests of every client of pay.shop.svc";
    assert_eq!(found(vec![wild(), public("b", route())]), [taken]);
    let named = "a: TRB0454 no client of pay.shop.svc has its http routes: VirtualService shop/b names the host more exactly, with routes for some clients or ports only";
    assert_eq!(
        found(vec![wild(), public("b", limited())]),
        [named],
        "the other clients have the usual route"
    );
}

#[test]
fn exception_from_a_wildcard_is_named_apart() {
    let route = || vec![mk_route(&[], &["pay.shop.svc"])];
    let wild = || mk_candidate("a", "*.shop.svc", Visibility::Public, route());
    let exact = || mk_candidate("b", "pay.shop.svc", Visibility::Public, route());
    let found = |others: Vec<HttpCandidate>, of_pay: Vec<HttpCandidate>| {
        let services = vec![mk_served("pay.shop.svc", true, of_pay), mk_served("img.shop.svc", true, others)];
        let all =
            vec![mk_service("a", &["*.shop.svc"], route()), mk_service("b", &["pay.shop.svc"], route())];
        shown_in(services, all, None)
    };
    let applies = "VirtualService shop/b routes in its place the requests of every client of pay.shop.svc";
    let apart = "a: TRB0475 VirtualService shop/b names these hosts more exactly and routes their requests in its place: \
                 pay.shop.svc";
    assert_eq!(found(vec![wild()], vec![wild(), exact()]), [apart]);
    assert_eq!(found(vec![], vec![wild(), exact()]), [format!("a: TRB0454 {applies}")], "it serves nothing");
    let older = mk_candidate("b", "*.shop.svc", Visibility::Public, route());
    let equal = found(vec![wild()], vec![older, wild()]);
    assert_eq!(equal, [format!("a: TRB0454 {applies}")], "its host is not more exact");
}

/// Returns the conditions beside a service of TCP on port 90 and one of TLS on port 443.
fn shown_beside_l4(all: Vec<Declared>) -> Vec<String> {
    let mk_on = |host: &str, number: u32, protocol: Protocol| {
        let view = ServiceView::clone(&mk_served(host, true, vec![]));
        let port = PortView { number: mk_port(number), protocol, ..view.ports[0].clone() };
        Arc::new(ServiceView { ports: [port].into(), ..view })
    };
    let services = vec![
        mk_served("pay.shop.svc", true, vec![]),
        mk_on("tcp.shop.svc", 90, Protocol::Tcp),
        mk_on("tls.shop.svc", 443, Protocol::Tls),
    ];
    shown_in(services, all, None)
}

#[test]
fn routes_for_ports_that_no_service_has_are_named() {
    let destination = |host: &str| RouteDestination { host: mk_host(host), subset: None, port: None };
    let l4 = |host: &str| {
        let to = tributary_model::L4Destination { destination: destination(host), weight: 0 };
        Arc::from([tributary_model::TcpRoute { matches: Arc::default(), destinations: [to].into() }])
    };
    let declared = |hosts: &[&str], http: Vec<HttpRoute>, tcp: Option<&str>| {
        let (_, view) = mk_service("a", hosts, http);
        let own = view.virtual_service().unwrap().clone();
        mk_declared("a", VirtualService { tcp: tcp.map(l4).unwrap_or_default(), ..own })
    };
    let on_port = |number: u32| {
        let mut route = mk_route(&["/"], &["pay.shop.svc"]);
        let found = HttpMatch { port: Some(mk_port(number)), ..route.matches[0].clone() };
        route.matches = [found].into();
        route
    };
    let on_tcp_port = |number: u32| {
        let found = tributary_model::L4Match { port: Some(mk_port(number)), ..Default::default() };
        let (_, view) = declared(&["tcp.shop.svc"], vec![], Some("tcp.shop.svc"));
        let own = view.virtual_service().unwrap().clone();
        let matched = tributary_model::TcpRoute { matches: [found].into(), ..own.tcp[0].clone() };
        mk_declared("a", VirtualService { tcp: [matched].into(), ..own })
    };
    let lost = |what: &str| vec![format!("a: TRB0463 no service of the hosts has a port for: {what}")];
    let to_pay = || vec![mk_route(&[], &["pay.shop.svc"])];
    let cases = [
        (declared(&["pay.shop.svc"], vec![], Some("tcp.shop.svc")), lost("tcp")),
        (
            declared(&["tcp.shop.svc"], vec![mk_route(&[], &["pay.shop.svc"])], None),
            lost("http (they apply to requests to port 80 alone)"),
        ),
        (declared(&["tls.shop.svc"], vec![], Some("tcp.shop.svc")), lost("tcp")),
        (declared(&["tls.shop.svc", "tcp.shop.svc"], vec![], Some("tcp.shop.svc")), vec![]),
        (declared(&["pay.shop.svc", "tcp.shop.svc"], to_pay(), Some("tcp.shop.svc")), vec![]),
        (declared(&["pay.shop.svc"], vec![on_port(9999)], None), lost("http[0] (port 9999)")),
        (declared(&["pay.shop.svc"], vec![on_port(80)], None), vec![]),
        (on_tcp_port(9), lost("tcp[0] (port 9)")),
        (on_tcp_port(90), vec![]),
    ];
    for (at, (service, want)) in cases.into_iter().enumerate() {
        assert_eq!(shown_beside_l4(vec![service]), want, "case {at}");
    }
}

#[test]
fn destination_without_a_port_needs_that_of_the_listener() {
    let off = |host: &str| {
        format!("TRB0450 these destinations do not exist: http[0] ({host} has no port 80, as the hosts have)")
    };
    let cases = [
        ("pay.shop.svc", "tcp.shop.svc", Some(off("tcp.shop.svc"))),
        ("pay.shop.svc", "tcp.shop.svc:90", None),
        ("pay.shop.svc", "pay.shop.svc", None),
        // a host without a service is at fault itself
        ("none.shop.svc", "tcp.shop.svc", None),
        ("none.shop.svc", "pay.shop.svc", None),
    ];
    for (host, to, want) in cases {
        let found = shown_beside_l4(vec![mk_service("a", &[host], vec![mk_route(&[], &[to])])]);
        let found: Vec<&String> = found.iter().filter(|line| !line.contains("TRB0453")).collect();
        let want: Vec<String> = want.into_iter().map(|want| format!("a: {want}")).collect();
        assert_eq!(found, want.iter().collect::<Vec<_>>(), "{host} to {to}");
    }
}
