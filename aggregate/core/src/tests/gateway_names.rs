//! Host names of gateways: which services a name's addresses reach, and that the order of gateways and answers does not matter.

use proptest::prelude::*;
use proptest::sample::subsequence;
use tributary_model::*;

use super::fixtures::*;

fn mk_named(object: &str, network: &str, name: &str) -> Fact {
    let Fact::Gateway(key, gateway) = mk_gateway_of(object, network, None) else { unreachable!() };
    let address = Some(GatewayAddress::Name(name.into()));
    Fact::Gateway(key, std::sync::Arc::new(Gateway { address, ..Gateway::clone(&gateway) }))
}

fn mk_answer(name: &str, ips: &[&str]) -> Fact {
    let ips = ips.iter().map(|ip| ip.parse().unwrap());
    Fact::GatewayName(name.into(), std::sync::Arc::new(ResolvedName::new(ips)))
}

fn failing(fact: &Fact, since: u64) -> Fact {
    let Fact::GatewayName(name, resolved) = fact else { unreachable!() };
    let failure = NameFailure { since: Mono(since), reason: "no answer".into() };
    Fact::GatewayName(name.clone(), std::sync::Arc::new(resolved.failing(failure)))
}

/// Returns a service with an endpoint in a network.
fn mk_in(service: &str, network: &str) -> [Fact; 2] {
    let key = mk_group_key(&format!("shop/{service}.shop"), service, service);
    let group = mk_group_at(service, "10.0.0.1:http=80", mk_topology(network));
    [
        mk_service(&format!("shop/{service}.shop"), mk_decl(service, "80 http")),
        Fact::Group(key, std::sync::Arc::new(group)),
    ]
}

/// World of two registries: one declares services and gateways, one resolves.
fn mk_world() -> World {
    World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY), mk_spec("dns", ProviderId::DNS)])
}

/// Returns the sockets through which the network of a service is entered.
fn sockets(world: &mut World, service: &str) -> Option<Vec<String>> {
    let view = world.view(&format!("shop/{service}.shop")).unwrap();
    let gated = view.ports[0].endpoints.inputs.gated.first()?;
    let text =
        |at: &GatewaySocket| format!("{}:{} {}", at.address, at.port, at.name.as_deref().unwrap_or("-"));
    Some(gated.gateways.iter().map(text).collect())
}

#[test]
fn name_reaches_exactly_the_services_of_its_networks() {
    let mut world = mk_world();
    world.put("file", [mk_in("far", "net-b"), mk_in("near", "net-a")].concat());
    world.put("file", [mk_named("gw", "net-b", "gw.test"), mk_gateway("net-a", "1.1.1.1")]);
    assert_eq!(sockets(&mut world, "far"), Some(vec![]), "a name without an answer keeps the network closed");
    let before = world.core.counters().views;
    let outcome = world.put("dns", [mk_answer("gw.test", &["3.3.3.3", "2.2.2.2"])]);
    let hosts: Vec<String> = outcome.changed.hosts.iter().map(ToString::to_string).collect();
    assert_eq!((hosts, outcome.urgent), (vec!["far.shop".to_owned()], false));
    assert!(outcome.changed.gateway_names && !outcome.changed.gateways);
    assert_eq!(world.core.counters().views, before + 1);
    let both = vec!["2.2.2.2:15443 gw.test".to_owned(), "3.3.3.3:15443 gw.test".to_owned()];
    assert_eq!(sockets(&mut world, "far"), Some(both));
    let outcome = world.put("dns", [mk_answer("gw.test", &["3.3.3.3"])]);
    assert!(outcome.urgent, "a lost address is removed without delay");
    assert_eq!(sockets(&mut world, "far"), Some(vec!["3.3.3.3:15443 gw.test".to_owned()]));
    let unused = world.put("dns", [mk_answer("other.test", &["9.9.9.9"])]);
    assert!(unused.changed.hosts.is_empty());
}

#[test]
fn unchanged_answer_wakes_no_one() {
    let mut world = mk_world();
    world.put("file", [&mk_in("far", "net-b")[..], &[mk_named("gw", "net-b", "gw.test")]].concat());
    world.put("dns", [mk_answer("gw.test", &["2.2.2.2", "3.3.3.3"])]);
    let (views, catalog) = (world.core.counters().views, world.catalog());
    let outcome = world.put("dns", [mk_answer("gw.test", &["3.3.3.3", "2.2.2.2"])]);
    assert!(outcome.changed.is_empty() && outcome.records.is_empty(), "{outcome:?}");
    assert_eq!(world.core.counters().views, views);
    assert_eq!(world.catalog().generation, catalog.generation, "nothing is published");
}

#[test]
fn failure_keeps_the_addresses_and_concerns_no_client() {
    let mut world = mk_world();
    world.put("file", [&mk_in("far", "net-b")[..], &[mk_named("gw", "net-b", "gw.test")]].concat());
    let answer = mk_answer("gw.test", &["2.2.2.2"]);
    world.put("dns", [answer.clone()]);
    let outcome = world.put("dns", [failing(&answer, 5)]);
    assert!(outcome.changed.gateway_names && !outcome.changed.concerns_clients() && !outcome.urgent);
    assert_eq!(sockets(&mut world, "far"), Some(vec!["2.2.2.2:15443 gw.test".to_owned()]));
    let shown = world.catalog().gateway_names["gw.test"].failure.clone().unwrap();
    assert_eq!((shown.since, &*shown.reason), (Mono(5), "no answer"));
}

#[test]
fn one_socket_of_several_names_counts_once() {
    let mut world = mk_world();
    let gateways =
        [mk_named("a", "net-b", "a.test"), mk_named("b", "net-b", "b.test"), mk_gateway("net-b", "2.2.2.2")];
    world.put("file", [&mk_in("far", "net-b")[..], &gateways].concat());
    world.put("dns", [mk_answer("b.test", &["2.2.2.2", "4.4.4.4"]), mk_answer("a.test", &["4.4.4.4"])]);
    let both = vec!["2.2.2.2:15443 -".to_owned(), "4.4.4.4:15443 a.test".to_owned()];
    assert_eq!(sockets(&mut world, "far"), Some(both));
}

#[test]
fn name_whose_gateway_changes_is_joined_with_its_new_networks_only() {
    let mut world = mk_world();
    world.put("file", [mk_in("far", "net-b"), mk_in("near", "net-a")].concat());
    world.put("file", [mk_named("gw", "net-b", "gw.test")]);
    world.put("dns", [mk_answer("gw.test", &["2.2.2.2"])]);
    world.put("file", [mk_named("gw", "net-b", "new.test")]);
    assert_eq!(sockets(&mut world, "far"), Some(vec![]));
    let outcome = world.put("dns", [mk_answer("gw.test", &["3.3.3.3"])]);
    assert!(outcome.changed.hosts.is_empty(), "no gateway has the name");
    world.put("dns", [mk_answer("new.test", &["4.4.4.4"])]);
    assert_eq!(sockets(&mut world, "far"), Some(vec!["4.4.4.4:15443 new.test".to_owned()]));
    world.report("file", [mk_deleted(&mk_named("gw", "net-b", "new.test"))]);
    assert_eq!(sockets(&mut world, "far"), None, "without a gateway the network is reached directly");
    world.report("dns", [mk_deleted(&mk_answer("new.test", &[])), mk_deleted(&mk_answer("gw.test", &[]))]);
    assert!(world.catalog().gateway_names.is_empty());
}

/// Facts of which later ones replace earlier ones of the same key.
fn all() -> Vec<(&'static str, Fact)> {
    let dns = [
        mk_answer("a.test", &["2.2.2.2"]),
        mk_answer("a.test", &["3.3.3.3", "2.2.2.2"]),
        mk_answer("b.test", &["4.4.4.4"]),
        failing(&mk_answer("b.test", &["4.4.4.4"]), 3),
    ];
    let file = [
        mk_named("x", "net-b", "a.test"),
        mk_named("x", "net-b", "b.test"),
        mk_named("y", "net-a", "a.test"),
        mk_gateway_of("y", "net-a", Some("1.1.1.1")),
        mk_gateway_of("z", "net-b", None),
    ];
    let services = [mk_in("far", "net-b"), mk_in("near", "net-a")].concat();
    let named = |name: &'static str, facts: Vec<Fact>| facts.into_iter().map(move |fact| (name, fact));
    named("dns", dns.to_vec()).chain(named("file", file.to_vec())).chain(named("file", services)).collect()
}

fn state(world: &mut World) -> (String, Vec<Option<Vec<String>>>) {
    let catalog = world.catalog();
    let seen = ["far", "near"].map(|service| {
        let known = catalog.has_service(&format!("{service}.shop"));
        known.then(|| sockets(world, service)).flatten()
    });
    (format!("{:?} {:?}", catalog.gateways, catalog.gateway_names), seen.to_vec())
}

proptest! {
    /// Gateways, answers and services in any order, with any removals between, end in the state of a fresh build.
    #[test]
    fn any_order_of_gateways_and_answers_ends_in_a_fresh_build(
        steps in subsequence(all(), 0..=all().len()).prop_shuffle(),
        removed in proptest::collection::vec(any::<bool>(), all().len()),
    ) {
        let mut world = mk_world();
        let mut last: std::collections::BTreeMap<(&str, FactId), Fact> = std::collections::BTreeMap::new();
        for ((registry, fact), removed) in steps.into_iter().zip(removed) {
            world.put(registry, [fact.clone()]);
            last.insert((registry, fact.item()), fact.clone());
            if removed {
                world.report(registry, [mk_deleted(&fact)]);
                last.remove(&(registry, fact.item()));
            }
        }
        let mut fresh = mk_world();
        for registry in ["dns", "file"] {
            let own = last.iter().filter(|((of, _), _)| *of == registry);
            fresh.put(registry, own.map(|(_, fact)| fact.clone()).collect::<Vec<_>>());
        }
        prop_assert_eq!(state(&mut world), state(&mut fresh));
    }
}
