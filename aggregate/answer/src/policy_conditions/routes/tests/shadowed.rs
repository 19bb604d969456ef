//! Routes behind others that take all that they match.

use tributary_model::{L4Destination, L4Match, TcpRoute, TlsMatch, TlsRoute};

use super::*;

#[test]
fn route_behind_others_that_take_its_requests_is_named() {
    let routes = |all: &[&[&str]]| all.iter().map(|paths| mk_route(paths, &["pay.shop.svc"])).collect();
    let found = |all: &[&[&str]]| shown(vec![mk_service("a", &["pay.shop.svc"], routes(all))]);
    assert_eq!(
        found(&[&["/a"], &["/"], &[]]),
        ["a: TRB0452 routes before them take every request of: http[2] (by http[1])"]
    );
    assert_eq!(
        found(&[&["/a"], &["/b"], &["/ab", "/bc"]]),
        ["a: TRB0452 routes before them take every request of: http[2] (by http[0] and http[1])"]
    );
    assert_eq!(found(&[&["/a"], &["/ab", "/c"], &[]]), [""; 0]);
}

#[test]
fn route_behind_others_for_each_port_of_the_hosts_is_named() {
    let at = |ports: &[u32]| {
        let found = |port: &u32| HttpMatch { port: Some(mk_port(*port)), ..HttpMatch::default() };
        let matches = ports.iter().map(found).collect();
        HttpRoute { matches, ..mk_route(&[], &["pay.shop.svc:80"]) }
    };
    let shadowed = |routes: Vec<HttpRoute>| {
        let all = shown(vec![mk_service("a", &["pay.shop.svc"], routes)]);
        all.into_iter().filter(|line| line.contains("TRB0452")).collect::<Vec<_>>()
    };
    let text = "a: TRB0452 routes before them take every request of: ";
    assert_eq!(shadowed(vec![at(&[80]), at(&[])]), [format!("{text}http[1] (by http[0])")]);
    assert_eq!(shadowed(vec![at(&[81]), at(&[])]), [""; 0], "requests come to port 80");
    assert_eq!(shadowed(vec![at(&[]), at(&[81])]), [format!("{text}http[1] (by http[0])")]);
}

/// Returns the shadowed routes of VirtualServices for one host and of delegates, each with its name.
fn shadowed_of(all: &[(&str, &[&str], Vec<HttpRoute>)]) -> Vec<String> {
    let all = all.iter().map(|(name, hosts, routes)| mk_service(name, hosts, routes.clone())).collect();
    let found = shown(all);
    found
        .iter()
        .filter_map(|line| line.split_once("take every request of: "))
        .map(|(of, routes)| {
            assert!(of.contains("TRB0452"), "{of}");
            format!("{} {routes}", &of[..2])
        })
        .collect()
}

#[test]
fn route_behind_those_of_a_delegate_is_named() {
    let (hosts, to): (&[&str], _) = (&["pay.shop.svc"], |paths: &[&str]| mk_route(paths, &["pay.shop.svc"]));
    let found = |root: Vec<HttpRoute>, delegate: Vec<HttpRoute>| {
        shadowed_of(&[("a", hosts, root), ("d", &[], delegate)])
    };
    let root = || vec![mk_naming("d", &["/a"]), to(&["/a/b"]), to(&[])];
    let taken = "a: http[1] (by http[0] of shop/d)";
    assert_eq!(found(root(), vec![to(&[])]), [taken]);
    assert_eq!(found(root(), vec![to(&["/a/c"]), to(&["/a"])]), ["a: http[1] (by http[1] of shop/d)"]);
    assert_eq!(found(root(), vec![to(&["/a/c"])]), [""; 0]);
    assert_eq!(found(root(), vec![to(&["/x"])]), [""; 0], "it is left out");
    let every = vec![mk_naming("d", &[]), mk_naming("none", &["/x"]), to(&[])];
    let taken = "a: http[1] (by http[0] of shop/d), http[2] (by http[0] of shop/d)";
    assert_eq!(found(every, vec![to(&[])]), [taken]);
}

#[test]
fn route_of_a_delegate_behind_others_is_named() {
    let (hosts, to): (&[&str], _) = (&["pay.shop.svc"], |paths: &[&str]| mk_route(paths, &["pay.shop.svc"]));
    let own = || vec![to(&["/a/b"]), to(&[])];
    let naming = || mk_naming("d", &["/a"]);
    let found =
        |all: Vec<HttpRoute>| shadowed_of(&[("a", hosts, all), ("d", &[], own()), ("e", &[], vec![to(&[])])]);
    assert_eq!(found(vec![naming()]), [""; 0]);
    assert_eq!(found(vec![to(&["/a/b"]), naming()]), ["d: http[0] (by http[0] of shop/a)"]);
    let by = |of: &str| format!("d: http[0] (by http[0] of shop/{of}), http[1] (by http[0] of shop/{of})");
    let naming_taken = |by: &str| format!("a: http[1] (by http[0]{by})");
    assert_eq!(found(vec![to(&[]), naming()]), [naming_taken(""), by("a")]);
    assert_eq!(found(vec![mk_naming("e", &[]), naming()]), [naming_taken(" of shop/e"), by("e")]);
    assert_eq!(
        found(vec![naming(), mk_naming("d", &["/a/x"])]),
        ["a: http[1] (by http[1] of shop/d)"],
        "once it serves requests"
    );
    let own = || vec![to(&[]), to(&["/a/b"])];
    let both = |b: Vec<HttpRoute>| {
        shadowed_of(&[
            ("a", hosts, vec![to(&["/a/b"]), naming()]),
            ("b", &["img.shop.svc"], b),
            ("d", &[], own()),
        ])
    };
    let within = "d: http[1] (by http[0] of shop/a and http[0])";
    assert_eq!(both(vec![naming()]), [within]);
}

/// Returns the routes that others take from, beside a service of TCP and one of TLS.
fn taken(tls: &[(&[&str], L4Match)], tcp: &[&[L4Match]]) -> Vec<String> {
    let to = |host: &str| -> Arc<[L4Destination]> {
        let destination = RouteDestination { host: mk_host(host), subset: None, port: None };
        [L4Destination { destination, weight: 0 }].into()
    };
    let tls_route = |(names, connection): &(&[&str], L4Match)| TlsRoute {
        matches: [TlsMatch {
            names: names.iter().map(|name| HostPattern::new(name).unwrap()).collect(),
            connection: connection.clone(),
        }]
        .into(),
        destinations: to("tls.shop.svc"),
    };
    let tcp_route =
        |matches: &&[L4Match]| TcpRoute { matches: (*matches).into(), destinations: to("tcp.shop.svc") };
    let (_, view) = mk_service("a", &["tcp.shop.svc", "tls.shop.svc"], Vec::new());
    let own = view.virtual_service().unwrap().clone();
    let (tls, tcp) = (tls.iter().map(tls_route).collect(), tcp.iter().map(tcp_route).collect());
    let found = shown_beside_l4(vec![mk_declared("a", VirtualService { tls, tcp, ..own })]);
    let lost = found.iter().filter_map(|line| line.split_once("take every connection of: "));
    lost.map(|(_, routes)| routes.to_owned()).collect()
}

fn mk_in(subnets: &[&str]) -> L4Match {
    L4Match { subnets: subnets.iter().map(|net| net.parse().unwrap()).collect(), ..L4Match::default() }
}

fn mk_on(port: u32) -> L4Match {
    L4Match { port: Some(mk_port(port)), ..L4Match::default() }
}

#[test]
fn tls_route_with_server_names_of_others_is_named() {
    let any = L4Match::default;
    let of = |names: &'static [&'static str], found: L4Match| (names, found);
    let both =
        taken(&[of(&["a.test"], any()), of(&["*.test"], any()), of(&["*.test", "a.test"], mk_on(443))], &[]);
    assert_eq!(both, ["tls[2] (by tls[0] and tls[1])"]);
    let on_each_port = taken(&[of(&["a.test"], mk_on(443)), of(&["a.test"], any())], &[]);
    assert_eq!(on_each_port, ["tls[1] (by tls[0])"]);
    let free: &[&[(&[&str], L4Match)]] = &[
        // Envoy takes the narrower name, and the narrower range
        &[of(&["*.test"], any()), of(&["a.test"], any())],
        &[of(&["a.test"], any()), of(&["a.test"], mk_in(&["10.0.0.0/8"]))],
        &[of(&["a.test"], mk_on(444)), of(&["a.test"], any())],
        &[of(&["a.test"], any()), of(&["a.test", "b.test"], any())],
    ];
    for (case, routes) in free.iter().enumerate() {
        assert_eq!(taken(routes, &[]), [""; 0], "case {case}");
    }
}

#[test]
fn tcp_route_with_destinations_of_others_is_named() {
    let (ten, wide) = (|| mk_in(&["10.0.0.0/8"]), || mk_in(&["10.0.0.0/8", "11.0.0.0/8"]));
    let cases: &[(&[&[L4Match]], &[&str])] = &[
        (&[&[ten()], &[ten()]], &["tcp[1] (by tcp[0])"]),
        (&[&[wide()], &[ten()]], &["tcp[1] (by tcp[0])"]),
        (&[&[ten()], &[wide()]], &[]),
        (&[&[mk_in(&["10.0.0.0/8"])], &[mk_in(&["10.1.0.0/16"])]], &[]),
        (&[&[ten()], &[]], &[]),
        (&[&[], &[ten()]], &["tcp[1] (by tcp[0])"]),
        (&[&[mk_on(90)], &[L4Match { subnets: ten().subnets, ..mk_on(90) }]], &["tcp[1] (by tcp[0])"]),
        // connections come to port 90, and those of TLS are not for TCP routes
        (&[&[mk_on(90)], &[ten()]], &["tcp[1] (by tcp[0])"]),
        (&[&[mk_on(90)], &[]], &["tcp[1] (by tcp[0])"]),
        (&[&[mk_on(91)], &[]], &[]),
        (&[&[L4Match { subnets: ten().subnets, ..mk_on(90) }], &[]], &[]),
    ];
    for (at, (routes, want)) in cases.iter().enumerate() {
        assert_eq!(taken(&[], routes), *want, "case {at}");
    }
}
