//! Hosts of VirtualServices without a service: a sidecar has a virtual host for them on port 80.

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use tributary_model::Visibility;

use super::aliases::{mk_leading, table_of};
use super::*;

fn mk_rule(name: &str, hosts: &[&str]) -> Rule {
    let hosts = hosts.iter().map(|&host| host.into()).collect();
    Rule { name: name.into(), namespace: "shop".into(), hosts, visibility: Visibility::Public }
}

/// Services, hosts of VirtualServices in order of precedence, and the virtual hosts on port 80.
type Case = (&'static str, Vec<Svc>, &'static [&'static [&'static str]], &'static [&'static str]);

#[test]
fn host_of_a_virtual_service_has_a_virtual_host() {
    let on = |host: &str, protocol| mk_svc(host).on(&[(80, protocol)]);
    let cases: [Case; 8] = [
        ("no service", vec![], &[&["pay.test"]], &["pay.test:80: pay.test"]),
        ("its service", vec![mk_svc("pay.test")], &[&["pay.test"]], &["pay.test:80: pay.test pay.test."]),
        (
            "port of connections",
            vec![on("pay.test", Protocol::Tcp)],
            &[&["pay.test"]],
            &["pay.test:80: pay.test"],
        ),
        (
            "other port",
            vec![mk_svc("pay.test").on(&[(81, Protocol::Http)])],
            &[&["pay.test"]],
            &["pay.test:80: pay.test"],
        ),
        ("wildcard", vec![], &[&["*.test"]], &["*.test:80: *.test"]),
        ("wildcard of a service", vec![mk_svc("a.test")], &[&["*.test"]], &["a.test:80: a.test a.test."]),
        (
            "alias",
            vec![mk_leading("old.shop", "pay.shop"), mk_svc("pay.shop")],
            &[&["old.shop"]],
            &["old.shop:80: old.shop old.shop.", "pay.shop:80: pay.shop pay.shop."],
        ),
        (
            "alias without the port",
            vec![mk_leading("old.shop", "pay.shop").on(&[]), mk_svc("pay.shop")],
            &[&["old.shop"]],
            &["old.shop:80: old.shop", "pay.shop:80: pay.shop pay.shop."],
        ),
    ];
    for (what, services, rules, expected) in cases {
        let rules: Vec<Rule> =
            rules.iter().zip(["a", "b"]).map(|(hosts, name)| mk_rule(name, hosts)).collect();
        let (catalog, answers) = (World::default().routed(&services, &rules), CatalogAnswers::default());
        let table = table_of(&answers, &catalog, &mk_class(ClientKind::Sidecar, "web"), "80");
        assert_eq!(table, expected, "{what}");
    }
}

#[test]
fn first_virtual_service_of_a_host_answers() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let class = mk_class(ClientKind::Sidecar, "web");
    let mut route = |rules: &[Rule]| {
        let catalog = world.routed(&[], rules);
        let found = answers.one(&catalog, &class, ResourceType::Route, "80")?;
        let body = answers.bytes(&catalog, &class, ResourceType::Route, &found).unwrap();
        let table = RouteConfiguration::decode(body).unwrap();
        let host = table.virtual_hosts.into_iter().find(|host| host.name == "pay.test:80")?;
        Some(host.routes[0].name.clone())
    };
    let (first, second) = (mk_rule("a", &["pay.test"]), mk_rule("b", &["pay.test"]));
    let private = Rule { visibility: Visibility::Own, ..first.clone() };
    assert_eq!(route(&[first, second.clone()]).as_deref(), Some("a"));
    assert_eq!(route(&[private.clone(), second]).as_deref(), Some("b"));
    assert_eq!(route(&[private]), None, "it concerns clients of another namespace");
}
