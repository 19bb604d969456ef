//! The routes of VirtualServices, as recorded from pilot-discovery.

use tributary_model::{
    ClientMatch, DelegateRef, HeaderOperations, Mirror, Mirroring, Namespace, RedirectPath, Rewrite,
    RoutePosition, Subset, TextMatch,
};

use super::*;
use crate::fixtures::*;

fn mk_destination(host: &str) -> RouteDestination {
    RouteDestination { host: mk_host(host), subset: None, port: None }
}
fn mk_weighted(host: &str, weight: u32) -> WeightedDestination {
    WeightedDestination { destination: mk_destination(host), weight, headers: None }
}
fn mk_to(destinations: &[WeightedDestination]) -> HttpRoute {
    HttpRoute {
        name: "r".into(),
        matches: Arc::default(),
        action: HttpAction::Route(destinations.into()),
        settings: RouteSettings::default(),
        delegate: None,
        position: RoutePosition::default(),
    }
}
fn mk_path(prefix: &str) -> HttpMatch {
    HttpMatch { uri: Some(TextMatch::Prefix(prefix.into())), ..HttpMatch::default() }
}
fn mk_header(name: &str) -> HttpMatch {
    HttpMatch { headers: [(name.into(), TextMatch::Present)].into(), ..HttpMatch::default() }
}
fn mk_matched(matches: &[HttpMatch]) -> HttpRoute {
    HttpRoute { matches: matches.into(), ..mk_to(&[mk_weighted("b.test", 0)]) }
}
/// Plans for a client that fulfils every condition on it, with a hash for the hosts `h…`.
fn planned(routes: &[HttpRoute]) -> Vec<RoutePlan> {
    planned_for(routes, &|_, _| true)
}
fn planned_for(routes: &[HttpRoute], applies: &dyn Fn(usize, &HttpMatch) -> bool) -> Vec<RoutePlan> {
    let hash = |to: &RouteDestination| {
        to.host.as_str().starts_with('h').then(|| Arc::new(HashKey::Header(to.host.as_str().into())))
    };
    let resolve = |to: &RouteDestination| Target { hash: hash(to), ..Target::of(to) };
    http_routes(routes, &RouteContext { port: mk_port(80), retries: None, applies, resolve: &resolve })
}
fn forwarded(route: HttpRoute) -> Forward {
    match planned(&[route]).remove(0).action {
        RouteAction::Forward(forward) => forward,
        other => panic!("{other:?}"),
    }
}
fn names(plans: &[RoutePlan]) -> Vec<&str> {
    plans.iter().map(|plan| &*plan.name).collect()
}
/// Returns the weights and xDS clusters; a weight of 0 for a route without weights.
fn shares(route: HttpRoute) -> Vec<(u32, String)> {
    match forwarded(route).targets {
        Targets::One(cluster) => vec![(0, cluster.to_string())],
        Targets::Weighted(all) => all.iter().map(|to| (to.weight, to.cluster.to_string())).collect(),
    }
}

#[test]
fn each_match_is_a_route_until_one_catches_everything() {
    let named = |name: &str, found: HttpMatch| HttpMatch { name: name.into(), ..found };
    let several =
        mk_matched(&[named("first", mk_path("/one")), mk_path("/two"), named("third", mk_header("x"))]);
    assert_eq!(names(&planned(std::slice::from_ref(&several))), ["r.first", "r", "r.third"]);
    let ends = mk_matched(&[mk_path("/three"), named("all", mk_path("/")), mk_path("/never")]);
    assert_eq!(
        names(&planned(&[several.clone(), ends, several.clone()])),
        ["r.first", "r", "r.third", "r", "r.all"]
    );
    let unconditional = mk_to(&[mk_weighted("c.test", 0)]);
    assert_eq!(planned(&[unconditional.clone(), several.clone()]).len(), 1);
    assert_eq!(planned(&[several, unconditional]).len(), 4);
}

#[test]
fn port_and_client_decide_which_matches_are_routes() {
    let to_port = |port| HttpMatch { port: Some(mk_port(port)), ..mk_path("/p") };
    let clients = ClientMatch { namespace: Namespace::new("far").ok(), ..ClientMatch::default() };
    let of_far = HttpMatch { clients, name: "far".into(), ..HttpMatch::default() };
    let routes =
        [mk_matched(&[to_port(80), to_port(81)]), mk_matched(&[mk_path("/q"), of_far, mk_path("/s")])];
    let near = planned_for(&routes, &|at, found| {
        assert_eq!(at == 3, &*found.name == "far", "match {at}");
        at != 3
    });
    assert_eq!(names(&near), ["r", "r", "r"]);
    assert_eq!(names(&planned(&routes)), ["r", "r", "r.far"], "nothing follows a route for every request");
    assert_eq!(planned_for(&routes[1..], &|_, _| false), []);
}

#[test]
fn destinations_are_weighted_unless_there_is_one() {
    let one = |weight| mk_to(&[mk_weighted("a.test", weight)]);
    for weight in [0, 7] {
        assert_eq!(shares(one(weight)), [(0, "outbound|80||a.test".to_owned())]);
    }
    let several = [
        mk_weighted("a.test", 0),
        mk_weighted("a.test", 30),
        mk_weighted("b.test", 1),
        mk_weighted("a.test", 30),
    ];
    let want = [(30, "outbound|80||a.test"), (1, "outbound|80||b.test"), (30, "outbound|80||a.test")];
    assert_eq!(shares(mk_to(&several)), want.map(|(weight, name)| (weight, name.to_owned())));
    assert_eq!(shares(mk_to(&several[..2])), [(30, "outbound|80||a.test".to_owned())]);
    let none = planned(&[mk_to(&[mk_weighted("a.test", 0), mk_weighted("b.test", 0)])]);
    assert!(matches!(&none[0].action, RouteAction::Respond(response) if response.status == 503));
}

#[test]
fn destination_names_its_port_its_subset_and_the_host_that_it_means() {
    let to = RouteDestination {
        subset: Subset::new("v1"),
        port: Some(mk_port(99)),
        ..mk_destination("alias.test")
    };
    let route = mk_to(&[WeightedDestination { destination: to, weight: 0, headers: None }]);
    let resolve = |_: &RouteDestination| Target { host: mk_host("real.test"), hash: None };
    let context = RouteContext { port: mk_port(80), retries: None, applies: &|_, _| true, resolve: &resolve };
    let plans = http_routes(&[route], &context);
    let RouteAction::Forward(forward) = &plans[0].action else { panic!("{plans:?}") };
    assert_eq!(forward.targets, Targets::One("outbound|99|v1|real.test".parse().unwrap()));
}

#[test]
fn one_hashed_destination_keeps_its_endpoint_in_retries() {
    let keys = |forward: &Forward| forward.hash.len();
    let others = |forward: &Forward| forward.retries.as_ref().is_none_or(|retries| retries.other_hosts);
    let one = forwarded(mk_to(&[mk_weighted("h1.test", 0)]));
    assert_eq!((keys(&one), others(&one)), (1, false));
    let several = [mk_weighted("h1.test", 50), mk_weighted("h2.test", 25), mk_weighted("a.test", 25)];
    let several = forwarded(mk_to(&several));
    assert_eq!((keys(&several), others(&several)), (2, true));
    let declared = |declares_other_hosts| {
        let retries = Arc::new(RouteRetries { retries: HttpRetries::default(), declares_other_hosts });
        let settings = RouteSettings { retries: Some(retries), ..RouteSettings::default() };
        forwarded(HttpRoute { settings, ..mk_to(&[mk_weighted("h1.test", 0)]) })
    };
    assert!(others(&declared(true)) && !others(&declared(false)));
}

#[test]
fn retries_are_those_of_the_route_else_of_the_mesh() {
    let of = |attempts| HttpRetries { attempts, ..HttpRetries::default() };
    let mesh = Arc::new(of(9));
    let none = RouteRetries { retries: of(0), declares_other_hosts: false };
    let cases = [(None, None, None), (None, Some(&mesh), Some(9)), (Some(&none), Some(&mesh), Some(0))];
    for (own, mesh, want) in cases {
        assert_eq!(retries(own, mesh, false).map(|retries| retries.attempts), want, "{own:?}");
    }
}

#[test]
fn host_is_that_of_the_rewrite_else_of_headers_else_of_the_only_destination() {
    let headers = |host: &str| {
        Some(Arc::new(HeaderChanges { authority: Some(host.into()), ..HeaderChanges::default() }))
    };
    let rewrite = |host: &str| Some(Arc::new(Rewrite { path: None, authority: Some(host.into()) }));
    let cases = [
        (rewrite("w.test"), headers("r.test"), headers("d.test"), Some("w.test")),
        (None, headers("r.test"), headers("d.test"), Some("r.test")),
        (rewrite(""), None, headers("d.test"), Some("d.test")),
        (None, None, None, None),
    ];
    for (rewrite, of_route, of_destination, want) in cases {
        let only = WeightedDestination { headers: of_destination, ..mk_weighted("a.test", 5) };
        let settings = RouteSettings { rewrite, headers: of_route, ..RouteSettings::default() };
        let of = |all: &[WeightedDestination]| {
            let forward = forwarded(HttpRoute { settings: settings.clone(), ..mk_to(all) });
            forward.authority.as_deref().map(str::to_owned)
        };
        assert_eq!(of(std::slice::from_ref(&only)).as_deref(), want);
        let several = [only, mk_weighted("b.test", 5)];
        assert_eq!(of(&several).as_deref(), want.filter(|host| *host != "d.test"));
    }
}

#[test]
fn headers_of_the_only_destination_follow_those_of_the_route() {
    let set = |name: &str| {
        let set = [(Arc::from(name), Arc::from("1"))].into();
        let request = HeaderOperations { set, ..HeaderOperations::default() };
        Arc::new(HeaderChanges { request, ..HeaderChanges::default() })
    };
    let only = WeightedDestination { headers: Some(set("d")), ..mk_weighted("a.test", 5) };
    let settings = RouteSettings { headers: Some(set("r")), ..RouteSettings::default() };
    let of = |all: &[WeightedDestination]| {
        planned(&[HttpRoute { settings: settings.clone(), ..mk_to(all) }]).remove(0)
    };
    assert_eq!(of(std::slice::from_ref(&only)).headers, [set("r"), set("d")]);
    let several = of(&[only, mk_weighted("b.test", 5)]);
    assert_eq!(several.headers, [set("r")]);
    let RouteAction::Forward(Forward { targets: Targets::Weighted(all), .. }) = several.action else {
        panic!()
    };
    assert_eq!(all[0].headers, Some(set("d")));
}

#[test]
fn copies_go_to_mirrors_with_a_share() {
    let mirror = |host: &str, share| Mirror {
        destination: mk_destination(host),
        share: RequestShare::new(share).unwrap(),
    };
    let others = [mirror("b.test", 100_000), mirror("b.test", 0), mirror("unknown.test", 1_000_000)];
    let mirroring = Mirroring { first: Some(mirror("a.test", 1)), share: None, others: Some(others.into()) };
    let mirroring = Some(Arc::new(mirroring));
    let settings = RouteSettings { mirroring, ..RouteSettings::default() };
    let forward = forwarded(HttpRoute { settings, ..mk_to(&[mk_weighted("a.test", 0)]) });
    let copies: Vec<_> =
        forward.mirrors.iter().map(|(to, share)| (to.to_string(), share.millionths())).collect();
    let want = [
        ("outbound|80||a.test", 1),
        ("outbound|80||b.test", 100_000),
        ("outbound|80||unknown.test", 1_000_000),
    ];
    assert_eq!(copies, want.map(|(to, share)| (to.to_owned(), share)));
}

#[test]
fn redirect_names_no_usual_port() {
    let cases = [
        (RedirectPort::Undeclared, None, None),
        (RedirectPort::OfScheme, Some("https"), None),
        (RedirectPort::OfListener, Some("https"), Some(80)),
        (RedirectPort::OfListener, Some("http"), None),
        (RedirectPort::OfListener, None, None),
        (RedirectPort::Number(mk_port(8_443)), None, Some(8_443)),
        (RedirectPort::Number(mk_port(443)), None, Some(443)),
        (RedirectPort::Number(mk_port(443)), Some("https"), None),
        (RedirectPort::Number(mk_port(80)), Some("http"), None),
    ];
    for (port, scheme, want) in cases {
        let scheme = scheme.map(Arc::from);
        let redirect = Redirect { path: RedirectPath::Keep, authority: None, scheme, port, status: 301 };
        assert_eq!(redirect_port(&redirect, mk_port(80)).map(PortNumber::get), want, "{redirect:?}");
    }
}

#[test]
fn route_without_its_delegate_is_left_out() {
    let delegate = DelegateRef { name: "gone".into(), namespace: Namespace::new("shop").unwrap() };
    let missing = HttpRoute { action: HttpAction::Delegate(delegate, None), ..mk_to(&[]) };
    let all = [missing.clone(), mk_matched(&[mk_path("/x")])];
    assert_eq!(planned(&all).len(), 1);
    assert_eq!(planned(&[missing]), []);
}
