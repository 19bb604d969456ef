//! Services of one name in a cluster and in a Consul.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::{
    Attributes, Catalog, Code, Declaration, ExportTo, Fact, MergeByName, NameOutcome, Provider, Resolution,
    SeparateReason, Settings, Trace, Visibility,
};

use super::fixtures::*;
use super::joins::mk_alias;

const REGISTRIES: [&str; 3] = ["east", "file", "vms"];
const PAY: &str = "shop/pay.shop.svc.cluster.local";
const CONSUL: &str = "consul/pay.service.consul";

fn mk_world() -> World {
    World::with(&[
        mk_spec("config", Provider::Config),
        mk_spec("east", Provider::Kubernetes),
        mk_spec("file", Provider::ServiceEntry),
        mk_spec("vms", Provider::Consul),
    ])
}
/// A world in which every registry has listed nothing.
fn mk_begun(mode: MergeByName) -> World {
    let mut world = mk_world();
    REGISTRIES.iter().for_each(|registry| drop(world.lists(registry, [])));
    world.lists("config", [mk_mode(mode)]);
    world
}
fn mk_mode(mode: MergeByName) -> Fact {
    Fact::Settings(Arc::new(Settings { merge_by_name: Some(mode), ..Settings::default() }))
}
fn mk_said(service: &str, declaration: Declaration, endpoints: &str) -> Vec<Fact> {
    let object = declaration.source.object.name.to_string();
    vec![mk_service(service, declaration), mk_group(service, &object, "g", endpoints)]
}
fn say(world: &mut World, registry: &str, service: &str, ports: &str, endpoints: &str) {
    world.puts(registry, mk_said(service, mk_decl("pay", ports), endpoints));
}
fn pair(world: &mut World) {
    say(world, "east", PAY, "80 http", "10.0.0.1:http=8080");
    say(world, "vms", CONSUL, "80 default http", "10.1.0.1:default=8000");
}
fn outcome(world: &mut World) -> Option<NameOutcome> {
    world.catalog().same_names.get("pay").map(|same| same.outcome.clone())
}
/// Why the services stay apart, in a word and in more.
fn apart(world: &mut World) -> (SeparateReason, String) {
    match outcome(world) {
        Some(NameOutcome::Apart { why, message }) => (why, message.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_has_one_name_is_shown_or_joined_as_the_settings_say() {
    let mut world = mk_begun(MergeByName::Off);
    pair(&mut world);
    assert_eq!((outcome(&mut world), world.codes(PAY)), (None, vec![]));
    world.puts("config", [mk_mode(MergeByName::Report)]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Possible));
    assert_eq!(world.served(PAY, 80), ["10.0.0.1:8080"], "what is only shown changes nothing");
    assert_eq!((world.codes(PAY), world.codes(CONSUL)), (vec![Code::SAME_NAME], vec![Code::SAME_NAME]));
    world.puts("config", [mk_mode(MergeByName::On)]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
    assert_eq!(world.served(PAY, 80), ["10.0.0.1:8080", "10.1.0.1:8000"]);
    assert_eq!(world.served(CONSUL, 80), ["10.1.0.1:8000"], "Consul's own host is as it was");
    assert_eq!((world.codes(PAY), world.codes(CONSUL)), (vec![], vec![]));
    let same = world.catalog().same_names.get("pay").cloned().unwrap();
    let shown: Vec<_> =
        same.services.iter().map(|s| (s.key.to_string(), s.registries[0].to_string())).collect();
    assert_eq!(shown, [(PAY.to_owned(), "east".to_owned()), (CONSUL.to_owned(), "vms".to_owned())]);
    assert_eq!(same.services[0].ports[0].0.get(), 80);
    world.puts("config", [mk_mode(MergeByName::Off)]);
    assert_eq!((world.served(PAY, 80), outcome(&mut world)), (vec!["10.0.0.1:8080".to_owned()], None));
    assert_eq!(world.core.counters().unexplained_empty, 0);
}

#[test]
fn a_host_name_among_consuls_instances_does_not_end_a_merge() {
    let mut world = mk_begun(MergeByName::On);
    pair(&mut world);
    let named = Declaration { resolution: Resolution::DnsStrict, ..mk_decl("pay", "80 default http") };
    let endpoints = "10.1.0.1:default=8000 vm.example.com:default=8000";
    world.puts("vms", mk_said(CONSUL, named, endpoints));
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
    assert!(world.served(PAY, 80).contains(&"10.1.0.1:8000".to_owned()));
}

#[test]
fn a_name_of_several_namespaces_is_never_joined() {
    let mut world = mk_begun(MergeByName::On);
    pair(&mut world);
    say(&mut world, "east", "test/pay.test.svc.cluster.local", "80 http", "10.9.0.1:http=1");
    let (why, message) = apart(&mut world);
    assert_eq!(why, SeparateReason::Ambiguous);
    assert_eq!(message, format!("the cluster has several: {PAY}, test/pay.test.svc.cluster.local"));
    assert_eq!(world.served(PAY, 80), ["10.0.0.1:8080"], "it was merged, and is no more");
    assert_eq!(world.codes("test/pay.test.svc.cluster.local"), [Code::SAME_NAME]);
    say(&mut world, "vms", "consul/pay.service.shop.ns.consul", "80 http", "10.1.0.2:http=1");
    say(&mut world, "vms", "consul/pay.service.dc2.dc.consul", "80 http", "10.1.0.3:http=1");
    say(&mut world, "vms", "consul/pay.service.east.peer.consul", "80 http", "10.1.0.4:http=1");
    world.says("east", [mk_deleted(&mk_service("test/pay.test.svc.cluster.local", mk_decl("pay", "")))]);
    let message = format!("Consul has several: {CONSUL}, consul/pay.service.shop.ns.consul");
    assert_eq!(
        apart(&mut world),
        (SeparateReason::Ambiguous, message),
        "another datacenter's and a peer's do not count"
    );
    world.says("vms", [mk_deleted(&mk_service("consul/pay.service.shop.ns.consul", mk_decl("pay", "")))]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
}

#[test]
fn what_would_take_something_away_or_mix_protocols_stays_apart() {
    let own = |change: fn(&mut Declaration)| {
        let mut declaration = mk_decl("pay", "80 http, 81 admin");
        change(&mut declaration);
        declaration
    };
    let kube: [(SeparateReason, &str, Declaration); 4] = [
        (SeparateReason::Ports, "consul/pay.service.consul has no port 81", own(|_| ())),
        (SeparateReason::Protocol, "port 80 speaks TCP by", own(|d| d.ports = mk_ports("80 http tcp"))),
        (
            SeparateReason::Resolution,
            "is resolved through DNS",
            own(|d| d.resolution = Resolution::DnsStrict),
        ),
        (
            SeparateReason::Resolution,
            "is headless",
            own(|d| d.attributes = Attributes { headless: true, ..d.attributes.clone() }),
        ),
    ];
    for (why, words, declaration) in kube {
        let mut world = mk_begun(MergeByName::On);
        world.puts("east", mk_said(PAY, declaration, "10.0.0.1:http=8080"));
        say(&mut world, "vms", CONSUL, "80 default http", "10.1.0.1:default=8000");
        let (found, message) = apart(&mut world);
        assert_eq!(found, why);
        assert!(message.contains(words), "{message}");
        let view = world.view(PAY).unwrap();
        let said = view.conditions.iter().find(|c| c.code == Code::SAME_NAME).unwrap();
        assert!(said.message.contains(&message), "{}", said.message);
    }
}

#[test]
fn what_others_claim_or_an_alias_names_stays_apart() {
    let mut world = mk_begun(MergeByName::On);
    pair(&mut world);
    let other = mk_service("web/pay.shop.svc.cluster.local", mk_decl("mine", "80 http"));
    world.puts("file", [other.clone()]);
    assert_eq!(apart(&mut world).0, SeparateReason::Contested);
    world.says("file", [mk_deleted(&other)]);
    let export = Declaration { export: ExportTo::Set(Visibility::Hidden), ..mk_decl("mine", "80 http") };
    let other = mk_service(PAY, export);
    world.puts("file", [other.clone()]);
    assert_eq!(apart(&mut world).0, SeparateReason::Visibility);
    world.says("file", [mk_deleted(&other)]);
    let alias = mk_alias("pay.mesh", "pay.service.consul", |_| ());
    world.puts("config", [alias.clone()]);
    assert_eq!(apart(&mut world).0, SeparateReason::Aliased);
    assert_eq!((world.served(PAY, 80), world.codes(PAY)), (vec!["10.0.0.1:8080".to_owned()], vec![]));
    world.says("config", [mk_deleted(&alias)]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
}

#[test]
fn a_merge_by_name_is_seen_by_whom_the_clusters_service_is_and_explained_as_one() {
    let mut world = mk_begun(MergeByName::On);
    let own = ExportTo::Set(Visibility::Namespaces([mk_ns("web")].into()));
    world.puts(
        "east",
        mk_said(PAY, Declaration { export: own, ..mk_decl("pay", "80 http") }, "10.0.0.1:http=8080"),
    );
    say(&mut world, "vms", CONSUL, "80 default http", "10.1.0.1:default=8000");
    let view = world.view(PAY).unwrap();
    let seen = Visibility::Namespaces([mk_ns("web")].into());
    assert!(view.declarations.iter().all(|d| d.visibility == seen));
    let mut trace = Trace::default();
    world.core.trace(&mk_key(PAY), &mut trace);
    let by: Vec<&str> = trace.steps.iter().filter(|s| s.code == Code::ALIASED).map(|s| &*s.detail).collect();
    assert_eq!(by[1], format!("joined as {CONSUL} by its name (merge.byName)"));
    say(&mut world, "east", "test/pay.test.svc.cluster.local", "80 http", "10.9.0.1:http=1");
    let mut trace = Trace::default();
    world.core.trace(&mk_key(PAY), &mut trace);
    let step = trace.steps.iter().find(|s| s.code == Code::SAME_NAME).unwrap();
    assert!(step.detail.contains("several"), "{}", step.detail);
}

#[test]
fn a_merge_begins_only_when_every_registry_has_been_heard_and_lasts_when_one_falls_silent() {
    let mut world = mk_world();
    world.lists("config", [mk_mode(MergeByName::On)]);
    world.lists("file", []);
    let east = mk_said(PAY, mk_decl("pay", "80 http"), "10.0.0.1:http=8080");
    world.puts("east", east.clone());
    let vms = mk_said(CONSUL, mk_decl("pay", "80 default http"), "10.1.0.1:default=8000");
    world.lists("vms", vms);
    assert_eq!(apart(&mut world).0, SeparateReason::Unsynced);
    world.lists("east", east);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
    world.core.fail(tributary_model::Mono(world.now), &mk_name("vms"), &"killed".into());
    world.core.add_registry(&mk_spec("west", Provider::Kubernetes)).unwrap();
    assert!(!world.catalog().complete);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged), "nothing is taken away because more may come");
}

#[test]
fn an_endpoints_change_costs_its_service_and_the_merge_and_nothing_is_left_behind() {
    let mut world = mk_begun(MergeByName::On);
    for name in 0..50 {
        let (kube, vms) =
            (format!("shop/n{name}.shop.svc.cluster.local"), format!("consul/n{name}.service.consul"));
        say(&mut world, "east", &kube, "80 http", "10.0.0.1:http=8080");
        say(&mut world, "vms", &vms, "80 default http", "10.1.0.1:default=8000");
    }
    assert_eq!(world.catalog().same_names.len(), 50);
    let before = world.core.counters().views;
    world.puts("vms", [mk_group("consul/n7.service.consul", "pay", "g", "10.1.0.9:default=8000")]);
    assert_eq!(world.core.counters().views, before + 2, "Consul's host and the one that is merged");
    assert_eq!(world.served("shop/n7.shop.svc.cluster.local", 80), ["10.0.0.1:8080", "10.1.0.9:8000"]);
    for registry in ["east", "vms", "file", "config"] {
        world.core.remove_registry(&mk_name(registry), &tributary_model::Evidence::Operator);
    }
    assert!(world.core.is_empty() && world.catalog().same_names.is_empty());
    assert_eq!(world.core.counters().unexplained_empty, 0);
}

/// A registry (its place) and what it says or takes back.
type Word = (usize, Fact, bool);

fn any_declared() -> impl Strategy<Value = (usize, Fact)> {
    let at = select(
        &[
            (0, PAY),
            (0, "test/pay.test.svc.cluster.local"),
            (0, "shop/cart.shop.svc.cluster.local"),
            (1, PAY),
            (1, "web/pay.shop.svc.cluster.local"),
            (2, CONSUL),
            (2, "consul/cart.service.consul"),
            (2, "consul/pay.service.dc1.dc.consul"),
            (2, "consul/pay.service.east.peer.consul"),
        ][..],
    );
    let ports = select(&["80 http", "80 http, 81 admin", "80 http tcp"][..]);
    let resolution = prop_oneof![5 => Just(Resolution::ClientSide), 1 => Just(Resolution::DnsStrict)];
    (at, ports, resolution).prop_map(|((registry, service), ports, resolution)| {
        (registry, mk_service(service, Declaration { resolution, ..mk_decl("pay", ports) }))
    })
}
fn any_word() -> impl Strategy<Value = Word> {
    let group = any_declared().prop_flat_map(|(registry, fact)| {
        let service = match fact {
            Fact::Service(key, _) => key.service.to_string(),
            _ => String::new(),
        };
        (1..4_u8)
            .prop_map(move |n| (registry, mk_group(&service, "pay", "g", &format!("10.0.0.{n}:http=80"))))
    });
    let alias = select(&["pay.mesh", "pay.shop.svc.cluster.local"][..])
        .prop_map(|host| (3, mk_alias(host, "pay.shop.svc.cluster.local cart.service.consul", |_| ())));
    let mode = select(&[MergeByName::Off, MergeByName::Report, MergeByName::On, MergeByName::On][..])
        .prop_map(|mode| (3, mk_mode(mode)));
    let word = prop_oneof![8 => any_declared(), 4 => group, 1 => alias, 1 => mode];
    (word, 0..4_u8).prop_map(|((registry, fact), n)| {
        let put = n > 0 || matches!(fact, Fact::Settings(_));
        (registry, fact, put)
    })
}
fn of(registry: usize) -> &'static str {
    REGISTRIES.get(registry).copied().unwrap_or("config")
}
/// Everything that names have to do with.
fn shown(catalog: &Catalog) -> Vec<String> {
    let names = catalog.same_names.values().map(|same| format!("{same:?}"));
    let views = catalog.services().map(|view| {
        let served: Vec<_> = [80, 81].map(|port| served(view, port)).into();
        format!("{} {served:?} {:?}", view.key, view.conditions)
    });
    names.chain(views).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn names_end_in_the_state_of_a_fresh_build_in_any_order(
        history in proptest::collection::vec(any_word(), 1..40),
    ) {
        let mut world = mk_begun(MergeByName::On);
        let mut facts = BTreeMap::from([((3, tributary_model::FactId::Settings), mk_mode(MergeByName::On))]);
        for (registry, fact, put) in &history {
            let delta = if *put { mk_put(fact.clone()) } else { mk_deleted(fact) };
            world.says(of(*registry), [delta]);
            let key = (*registry, fact.item());
            let _ = if *put { facts.insert(key, fact.clone()) } else { facts.remove(&key) };
        }
        let mut fresh = mk_world();
        for registry in [2, 0, 3, 1] {
            let own = facts.iter().filter(|((r, _), _)| *r == registry).map(|(_, fact)| fact.clone());
            fresh.lists(of(registry), own.collect::<Vec<_>>());
        }
        prop_assert_eq!(shown(&world.catalog()), shown(&fresh.catalog()));
        prop_assert_eq!(world.core.counters().unexplained_empty, 0);
    }
}
