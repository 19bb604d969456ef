//! Conditions of ports: of the routes of delegates, and of destinations that receive nothing.

use tributary_model::{DirectResponse, L4Destination, TcpRoute};

use super::seen::mk_on_ports;
use super::*;

const LOST: &str =
    "d: TRB0450 these destinations do not exist: http[0] (h2.shop.svc has no port 13562, as the hosts have)";
const PARTLY: &str = "d: TRB0468 these destinations name no port and lack ports of the hosts, so that what comes there fails: http[0] (h2.shop.svc \
                      has no port 13562)";
const PORTLESS: &str = "d: TRB0463 no service of the hosts has a port for: http[0] (port 99)";

fn on_port(path: &str, port: u32, to: &[&str]) -> HttpRoute {
    let mut route = mk_route(&[path], to);
    route.matches = [HttpMatch { port: Some(mk_port(port)), ..route.matches[0].clone() }].into();
    route
}

/// Makes a route name the delegate.
fn to_delegate(route: HttpRoute) -> HttpRoute {
    HttpRoute { action: mk_naming("d", &[]).action, ..route }
}

fn answered(route: HttpRoute) -> HttpRoute {
    let answer = Arc::new(DirectResponse { status: 200, body: None });
    let HttpAction::Delegate(to, _) = route.action else { return route };
    HttpRoute { action: HttpAction::Delegate(to, Some(answer)), ..route }
}

/// Returns the conditions of a delegate with one route, of root `a` for h1 and of root `b` for another host.
fn of_delegate(own: HttpRoute, a: Vec<HttpRoute>, b: Option<&str>) -> Vec<String> {
    let services = vec![
        mk_on_ports("h1.shop.svc", Protocol::Http, &[13561, 13562]),
        mk_on_ports("h2.shop.svc", Protocol::Http, &[13561]),
        mk_on_ports("h3.shop.svc", Protocol::Http, &[99]),
    ];
    let b = b.map(|host| mk_service("b", &[host], vec![to_delegate(mk_route(&["/q"], &[]))]));
    let roots = [mk_service("a", &["h1.shop.svc"], a), mk_service("d", &[], vec![own])];
    shown_in(services, roots.into_iter().chain(b).collect(), None)
}

#[test]
fn routes_of_a_delegate_are_for_the_ports_of_its_roots() {
    let root = || to_delegate(mk_route(&["/q"], &[]));
    let root_on = |port: u32| to_delegate(on_port("/q", port, &[]));
    let any = || mk_route(&["/q/1"], &["h2.shop.svc"]);
    let on = |port: u32, to: &str| on_port("/q/1", port, &[to]);
    let (b, taker) = (Some("h2.shop.svc"), on_port("/q/1", 13562, &["h1.shop.svc"]));
    let cases: [(_, _, _, &[&str]); 11] = [
        (any(), vec![root()], None, &[PARTLY]),
        (on(13562, "h2.shop.svc"), vec![root()], None, &[LOST]),
        (on(99, "h1.shop.svc"), vec![root()], None, &[PORTLESS]),
        (on(99, "h3.shop.svc"), vec![root()], Some("h3.shop.svc"), &[]),
        (mk_route(&["/q/1"], &["h1.shop.svc"]), vec![root()], None, &[]),
        // the route that names it is for one port
        (any(), vec![root_on(13561)], None, &[]),
        (any(), vec![root_on(13562)], None, &[LOST]),
        (any(), vec![root_on(13562)], b, &[PARTLY]),
        (any(), vec![root_on(13561), root()], None, &[PARTLY]),
        // a route of the root takes the requests, or answers them
        (any(), vec![taker, root()], None, &[]),
        (any(), vec![answered(root())], None, &[]),
    ];
    for (at, (own, a, b, want)) in cases.into_iter().enumerate() {
        assert_eq!(of_delegate(own, a, b), want, "case {at}");
    }
}

#[test]
fn ports_of_requests_that_a_delegate_takes_are_not_named() {
    let found = |delegate: HttpRoute| {
        let services = vec![
            mk_on_ports("h1.shop.svc", Protocol::Http, &[13561, 13562]),
            mk_on_ports("h2.shop.svc", Protocol::Http, &[13561]),
        ];
        let root = vec![mk_naming("d", &["/q"]), mk_route(&["/q/1"], &["h2.shop.svc"])];
        let all = vec![mk_service("a", &["h1.shop.svc"], root), mk_service("d", &[], vec![delegate])];
        shown_in(services, all, None)
    };
    assert_eq!(found(on_port("/q", 13562, &["h1.shop.svc"])), [""; 0]);
    let lost = PARTLY.replace("d: ", "a: ").replace("http[0]", "http[1]");
    assert_eq!(found(on_port("/q/2", 13562, &["h1.shop.svc"])), [lost]);
}

#[test]
fn ports_are_those_of_all_hosts_of_a_wildcard() {
    let services = vec![
        mk_on_ports("a.w.svc", Protocol::Http, &[80, 81]),
        mk_on_ports("b.w.svc", Protocol::Http, &[80, 82]),
        mk_on_ports("h2.shop.svc", Protocol::Http, &[80]),
    ];
    let found =
        shown_in(services, vec![mk_service("a", &["*.w.svc"], vec![mk_route(&[], &["h2.shop.svc"])])], None);
    let lost = "a: TRB0468 these destinations name no port and lack ports of the hosts, so that what comes there fails: http[0] (h2.shop.svc has no port \
                81, 82)";
    assert_eq!(found, [lost]);
}

#[test]
fn destination_without_a_share_is_not_missing() {
    let (h1, h2) = ("h1.shop.svc", "h2.shop.svc");
    let to = |weights: [u32; 2], second: &str| {
        [(h1, weights[0]), (second, weights[1])].map(|(host, weight)| L4Destination {
            destination: RouteDestination { host: mk_host(host), subset: None, port: None },
            weight,
        })
    };
    let services = || {
        let tcp = |host, ports| mk_on_ports(host, Protocol::Tcp, ports);
        vec![tcp(h1, &[13561, 13562]), tcp(h2, &[7, 8])]
    };
    let found = |weights: [u32; 2], second: &str| {
        let route = TcpRoute { matches: Arc::default(), destinations: to(weights, second).into() };
        let (_, view) = mk_service("a", &[h1], vec![]);
        let own = view.virtual_service().unwrap().clone();
        let own = VirtualService { tcp: [route].into(), ..own };
        shown_in(services(), vec![mk_declared("a", own)], None).len()
    };
    for second in [h2, "none.shop.svc"] {
        assert_eq!((found([100, 0], second), found([99, 1], second)), (0, 1), "{second}");
    }
}
