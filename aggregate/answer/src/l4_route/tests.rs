//! TLS and TCP routes, as recorded from pilot-discovery.

use tributary_model::{
    ClientKind, ClientMatch, L4Candidate, Namespace, Protocol, RouteDestination, TlsMatch, Visibility,
};

use super::*;
use crate::fixtures::*;
use crate::listener::listener;

mod naive;

fn mk_to(host: &str, weight: u32) -> L4Destination {
    let destination = RouteDestination { host: mk_host(host), subset: None, port: None };
    L4Destination { destination, weight }
}
fn mk_match(subnets: &[&str]) -> L4Match {
    let subnets = subnets.iter().map(|net| net.parse().unwrap()).collect();
    L4Match { subnets, ..L4Match::default() }
}
fn of_namespace(namespace: &str) -> L4Match {
    let clients = ClientMatch { namespace: Namespace::new(namespace).ok(), ..ClientMatch::default() };
    L4Match { clients, ..L4Match::default() }
}
fn mk_tcp(matches: &[L4Match], host: &str) -> TcpRoute {
    TcpRoute { matches: matches.into(), destinations: [mk_to(host, 0)].into() }
}
fn mk_tls(names: &[&str], connection: L4Match, host: &str) -> TlsRoute {
    let names = names.iter().map(|name| HostPattern::new(name).unwrap()).collect();
    TlsRoute { matches: [TlsMatch { names, connection }].into(), destinations: [mk_to(host, 0)].into() }
}
fn mk_candidate(tls: &[TlsRoute], tcp: &[TcpRoute]) -> L4Candidate {
    mk_l4_candidate(L4Routes { tls: tls.into(), tcp: tcp.into() })
}
/// Returns the parts of a port's listeners for a client that has all candidates, with these outcomes of each.
fn shown(
    protocol: Protocol,
    addresses: &[(&str, u8)],
    candidates: Vec<L4Candidate>,
    outcomes: &[&[bool]],
) -> Vec<String> {
    let facts = ListenerInputs { virtual_services: candidates.into(), ..mk_facts_of(protocol, addresses) };
    let choice =
        |(candidate, fulfilled): (u16, &&[bool])| RouteChoice { candidate, fulfilled: (*fulfilled).into() };
    let choices = (0..).zip(outcomes).map(choice).collect();
    let client = Projection { choices: Some(choices), ..mk_projection(ClientKind::Sidecar) };
    let line = |part: ListenerPlan| {
        let range = part.matches.range.map(|(ip, prefix)| format!(" {ip}/{prefix}")).unwrap_or_default();
        let sni = part.matches.sni.as_ref().map(|sni| format!(" sni {sni}")).unwrap_or_default();
        let serves = match &part.serves {
            Serves::Routes => "routes".to_owned(),
            Serves::Http(..) => "http".to_owned(),
            Serves::Cluster(cluster, _) => cluster.host.to_string(),
            Serves::Weighted(all, _) => {
                all.iter().map(|(to, weight)| format!("{}={weight}", to.host)).collect::<Vec<_>>().join("+")
            }
        };
        format!("{}{range}{sni} {serves}", part.name())
    };
    listener(&facts, &client, &mut ()).into_iter().map(line).collect()
}

const ADDRESS: &[(&str, u8)] = &[("10.0.0.1", 32)];

#[test]
fn first_tcp_route_for_any_destination_ends_the_list() {
    let here = || L4Match { port: Some(mk_port(80)), ..mk_match(&[]) };
    let elsewhere = || L4Match { port: Some(mk_port(1)), ..mk_match(&[]) };
    let cases: [(&[TcpRoute], &[&str]); 7] = [
        (&[mk_tcp(&[], "b.test"), mk_tcp(&[], "c.test")], &["10.0.0.1_80 b.test"]),
        (&[mk_tcp(&[here()], "b.test")], &["10.0.0.1_80 b.test"]),
        (&[mk_tcp(&[elsewhere()], "b.test")], &["10.0.0.1_80 pay.shop"]),
        (&[mk_tcp(&[elsewhere()], "b.test"), mk_tcp(&[], "c.test")], &["10.0.0.1_80 c.test"]),
        (
            &[mk_tcp(&[mk_match(&["10.96.1.12/32", "10.97.0.0/16"])], "b.test"), mk_tcp(&[], "c.test")],
            &["10.0.0.1_80 10.96.1.12/32 b.test", "10.0.0.1_80 10.97.0.0/16 b.test", "10.0.0.1_80 c.test"],
        ),
        (
            &[mk_tcp(&[mk_match(&["10.98.0.0/16"])], "b.test")],
            &["10.0.0.1_80 10.98.0.0/16 b.test", "10.0.0.1_80 pay.shop"],
        ),
        (&[mk_tcp(&[mk_match(&["10.99.0.0/16"]), here()], "b.test")], &["10.0.0.1_80 b.test"]),
    ];
    for (routes, want) in cases {
        let candidates = vec![mk_candidate(&[], routes)];
        assert_eq!(shown(Protocol::Tcp, ADDRESS, candidates, &[&[]]), want, "{routes:?}");
    }
}

#[test]
fn virtual_services_of_a_host_are_tried_in_order() {
    let far = mk_candidate(&[], &[mk_tcp(&[of_namespace("far")], "b.test")]);
    let both = || vec![far.clone(), mk_candidate(&[], &[mk_tcp(&[], "c.test")])];
    assert_eq!(shown(Protocol::Tcp, ADDRESS, both(), &[&[false], &[]]), ["10.0.0.1_80 c.test"]);
    assert_eq!(shown(Protocol::Tcp, ADDRESS, both(), &[&[true], &[]]), ["10.0.0.1_80 b.test"]);
    assert_eq!(shown(Protocol::Tcp, ADDRESS, both(), &[]), ["10.0.0.1_80 pay.shop"]);
}

#[test]
fn range_of_an_address_is_that_of_its_route_unless_this_has_one() {
    let candidates = || {
        let ranged = mk_tcp(&[mk_match(&["10.97.0.0/16"])], "b.test");
        vec![mk_candidate(&[], &[ranged, mk_tcp(&[], "c.test")])]
    };
    let range = [("10.1.0.0", 16), ("10.2.0.0", 16)];
    let want =
        ["0.0.0.0_80 10.97.0.0/16 b.test", "0.0.0.0_80 10.1.0.0/16 c.test", "0.0.0.0_80 10.2.0.0/16 c.test"];
    assert_eq!(shown(Protocol::Tcp, &range, candidates(), &[&[]]), want, "Envoy refuses a match twice");
    let same = [("10.97.0.0", 16)];
    assert_eq!(shown(Protocol::Tcp, &same, candidates(), &[&[]]), ["0.0.0.0_80 10.97.0.0/16 b.test"]);
}

#[test]
fn tls_routes_take_the_place_of_the_service() {
    let any = || mk_match(&[]);
    let twice = [mk_tls(&["pay.shop"], any(), "b.test"), mk_tls(&["pay.shop"], any(), "c.test")];
    let elsewhere = L4Match { port: Some(mk_port(1)), ..any() };
    type Case<'a> = (&'a [(&'a str, u8)], &'a [TlsRoute], &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        (&[], &twice, &["0.0.0.0_80 sni pay.shop b.test"]),
        (ADDRESS, &twice, &["10.0.0.1_80 sni pay.shop b.test"]),
        (
            ADDRESS,
            &[mk_tls(&["pay.shop"], mk_match(&["10.97.0.0/16"]), "b.test")],
            &["10.0.0.1_80 10.97.0.0/16 sni pay.shop b.test"],
        ),
        (
            &[],
            &[mk_tls(&["x.shop", "y.shop"], any(), "b.test"), mk_tls(&["*.deep.shop"], any(), "c.test")],
            &[
                "0.0.0.0_80 sni x.shop b.test",
                "0.0.0.0_80 sni y.shop b.test",
                "0.0.0.0_80 sni *.deep.shop c.test",
            ],
        ),
        (&[], &[mk_tls(&["pay.shop"], elsewhere, "b.test")], &["0.0.0.0_80 sni pay.shop pay.shop"]),
        (&[], &[mk_tls(&["*-a.shop", "x.shop"], any(), "b.test")], &["0.0.0.0_80 sni x.shop b.test"]),
    ];
    for (addresses, routes, want) in cases {
        let candidates = vec![mk_candidate(routes, &[])];
        assert_eq!(shown(Protocol::Tls, addresses, candidates, &[&[]]), want, "{routes:?}");
    }
}

#[test]
fn each_kind_of_route_has_its_ports() {
    let both = || {
        let tls = mk_tls(&["pay.shop"], mk_match(&[]), "b.test");
        vec![mk_candidate(&[tls], &[mk_tcp(&[], "c.test")])]
    };
    assert_eq!(shown(Protocol::Tcp, ADDRESS, both(), &[&[]]), ["10.0.0.1_80 c.test"]);
    assert_eq!(shown(Protocol::Https, ADDRESS, both(), &[&[]]), ["10.0.0.1_80 sni pay.shop b.test"]);
    let tcp = vec![mk_candidate(&[], &[mk_tcp(&[], "c.test")])];
    assert_eq!(shown(Protocol::Tls, ADDRESS, tcp, &[&[]]), ["10.0.0.1_80 pay.shop"]);
    assert_eq!(shown(Protocol::Http, &[], both(), &[&[]]), ["0.0.0.0_80 routes"]);
}

#[test]
fn shares_of_0_receive_nothing() {
    let of = |all: &[(&str, u32)]| {
        let destinations = all.iter().map(|(host, weight)| mk_to(host, *weight)).collect();
        let route = TcpRoute { matches: Arc::default(), destinations };
        shown(Protocol::Tcp, ADDRESS, vec![mk_candidate(&[], &[route])], &[&[]]).remove(0)
    };
    assert_eq!(of(&[("b.test", 7)]), "10.0.0.1_80 b.test");
    assert_eq!(of(&[("b.test", 20), ("c.test", 80)]), "10.0.0.1_80 b.test=20+c.test=80");
    assert_eq!(of(&[("b.test", 0), ("c.test", 100)]), "10.0.0.1_80 c.test=100");
    assert_eq!(of(&[("b.test", 0), ("c.test", 0)]), "10.0.0.1_80 b.test");
}

#[test]
fn destination_without_a_port_has_the_only_one_of_its_service() {
    let target = |host: &str, end: &str, port| {
        let destination = mk_to(host, 0).destination;
        ConnectionTarget { destination, host: mk_host(end), port, policy: None }
    };
    let to = |host: &str, destinations: Vec<ConnectionTarget>| {
        let facts = ListenerInputs {
            virtual_services: [mk_candidate(&[], &[mk_tcp(&[], host)])].into(),
            destinations: destinations.into(),
            ..mk_facts_of(Protocol::Tcp, ADDRESS)
        };
        let choices = [RouteChoice { candidate: 0, fulfilled: Box::default() }];
        let client = Projection { choices: Some(choices.into()), ..mk_projection(ClientKind::Sidecar) };
        match listener(&facts, &client, &mut ()).remove(0).serves {
            Serves::Cluster(cluster, None) => cluster.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(to("b.test", Vec::new()), "outbound|80||b.test");
    let only = vec![target("b.test", "b.test", Some(mk_port(5_000)))];
    assert_eq!(to("b.test", only.clone()), "outbound|5000||b.test");
    assert_eq!(to("c.test", only), "outbound|80||c.test");
    let alias = vec![target("alias.test", "b.test", Some(mk_port(5_000)))];
    assert_eq!(to("alias.test", alias), "outbound|5000||b.test");
}
