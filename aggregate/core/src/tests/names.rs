//! Services with the same name in a cluster and in a Consul.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::{
    Attributes, Catalog, Code, Declaration, ExportTo, Fact, MergeByName, MergeName, NameOutcome, ProviderId,
    Resolution, SeparateReason, Settings, Trace, Visibility,
};

use super::fixtures::*;
use super::joins::mk_federated;

const REGISTRIES: [&str; 3] = ["east", "file", "vms"];
const PAY: &str = "shop/pay.shop.svc.cluster.local";
const CONSUL: &str = "consul/pay.service.consul";

fn mk_world() -> World {
    World::with(&[
        mk_spec("config", ProviderId::CONFIG),
        mk_spec("east", ProviderId::KUBERNETES),
        mk_spec("file", ProviderId::SERVICE_ENTRY),
        mk_spec("vms", ProviderId::CONSUL),
    ])
}
/// Returns a core in which every registry has synced without facts.
fn mk_begun(mode: MergeByName) -> World {
    let mut world = mk_world();
    REGISTRIES.iter().for_each(|registry| drop(world.list(registry, [])));
    world.list("config", [mk_mode(mode)]);
    world
}
fn mk_mode(mode: MergeByName) -> Fact {
    Fact::Settings(Arc::new(Settings { merge_by_name: Some(mode), ..Settings::default() }))
}
/// Returns the merge name that adapters give to these hosts.
fn merge_name(service: &str) -> Option<MergeName> {
    let (namespace, host) = service.split_once('/').unwrap();
    let (name, rest) = host.split_once('.').unwrap();
    if rest == format!("{namespace}.svc.cluster.local") {
        return Some(MergeName::base(name.into(), mk_host(host)));
    }
    let short = rest.starts_with("service.") && !rest.contains(".dc.") && !rest.contains(".peer.");
    short.then(|| MergeName::joining(name.into(), mk_host(host)))
}
/// Returns a declaration as the adapter of the service's provider reports it.
fn mk_named(service: &str, declaration: Declaration) -> Fact {
    mk_service(service, Declaration { merge_name: merge_name(service), ..declaration })
}
fn mk_facts(service: &str, declaration: Declaration, endpoints: &str) -> Vec<Fact> {
    let object = declaration.source.object.name.to_string();
    vec![mk_named(service, declaration), mk_group(service, &object, "g", endpoints)]
}
fn put(world: &mut World, registry: &str, service: &str, ports: &str, endpoints: &str) {
    world.put(registry, mk_facts(service, mk_decl("pay", ports), endpoints));
}
fn pair(world: &mut World) {
    put(world, "east", PAY, "80 http", "10.0.0.1:http=8080");
    put(world, "vms", CONSUL, "80 default http", "10.1.0.1:default=8000");
}
fn outcome(world: &mut World) -> Option<NameOutcome> {
    world.catalog().same_names.get("pay").map(|same| same.outcome.clone())
}
/// Returns why the services stay separate, with the message.
fn separate(world: &mut World) -> (SeparateReason, String) {
    match outcome(world) {
        Some(NameOutcome::Separate { why, message }) => (why, message.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn same_names_are_reported_or_merged_by_the_settings() {
    let mut world = mk_begun(MergeByName::Off);
    pair(&mut world);
    assert_eq!((outcome(&mut world), world.codes(PAY)), (None, vec![]));
    world.put("config", [mk_mode(MergeByName::Report)]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Possible));
    assert_eq!(world.served(PAY, 80), ["10.0.0.1:8080"], "a report changes nothing");
    assert_eq!((world.codes(PAY), world.codes(CONSUL)), (vec![Code::SAME_NAME], vec![Code::SAME_NAME]));
    world.put("config", [mk_mode(MergeByName::On)]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
    assert_eq!(world.served(PAY, 80), ["10.0.0.1:8080", "10.1.0.1:8000"]);
    assert_eq!(world.served(CONSUL, 80), ["10.1.0.1:8000"], "the Consul host is unchanged");
    assert_eq!((world.codes(PAY), world.codes(CONSUL)), (vec![], vec![]));
    let same = world.catalog().same_names.get("pay").cloned().unwrap();
    let shown: Vec<_> =
        same.services.iter().map(|s| (s.key.to_string(), s.registries[0].to_string())).collect();
    assert_eq!(shown, [(PAY.to_owned(), "east".to_owned()), (CONSUL.to_owned(), "vms".to_owned())]);
    assert_eq!(same.services[0].ports[0].0.get(), 80);
    world.put("config", [mk_mode(MergeByName::Off)]);
    assert_eq!((world.served(PAY, 80), outcome(&mut world)), (vec!["10.0.0.1:8080".to_owned()], None));
    assert_eq!(world.core.counters().unexplained_empty, 0);
}

#[test]
fn host_name_among_consul_addresses_keeps_the_merge() {
    let mut world = mk_begun(MergeByName::On);
    pair(&mut world);
    let named = Declaration { resolution: Resolution::DnsStrict, ..mk_decl("pay", "80 default http") };
    let endpoints = "10.1.0.1:default=8000 vm.example.com:default=8000";
    world.put("vms", mk_facts(CONSUL, named, endpoints));
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
    assert!(world.served(PAY, 80).contains(&"10.1.0.1:8000".to_owned()));
}

#[test]
fn name_in_several_namespaces_is_never_merged() {
    let mut world = mk_begun(MergeByName::On);
    pair(&mut world);
    put(&mut world, "east", "test/pay.test.svc.cluster.local", "80 http", "10.9.0.1:http=1");
    let (why, message) = separate(&mut world);
    assert_eq!(why, SeparateReason::Ambiguous);
    assert_eq!(message, format!("the cluster has several: {PAY}, test/pay.test.svc.cluster.local"));
    assert_eq!(world.served(PAY, 80), ["10.0.0.1:8080"], "the merge ended");
    assert_eq!(world.codes("test/pay.test.svc.cluster.local"), [Code::SAME_NAME]);
    put(&mut world, "vms", "consul/pay.service.shop.ns.consul", "80 http", "10.1.0.2:http=1");
    put(&mut world, "vms", "consul/pay.service.dc2.dc.consul", "80 http", "10.1.0.3:http=1");
    put(&mut world, "vms", "consul/pay.service.east.peer.consul", "80 http", "10.1.0.4:http=1");
    world.report("east", [mk_deleted(&mk_service("test/pay.test.svc.cluster.local", mk_decl("pay", "")))]);
    let message = format!("Consul has several: {CONSUL}, consul/pay.service.shop.ns.consul");
    assert_eq!(
        separate(&mut world),
        (SeparateReason::Ambiguous, message),
        "services of a different datacenter or of a peer do not count"
    );
    world.report("vms", [mk_deleted(&mk_service("consul/pay.service.shop.ns.consul", mk_decl("pay", "")))]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
}

#[test]
fn merge_that_would_remove_something_is_refused() {
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
    for (why, text, declaration) in kube {
        let mut world = mk_begun(MergeByName::On);
        world.put("east", mk_facts(PAY, declaration, "10.0.0.1:http=8080"));
        put(&mut world, "vms", CONSUL, "80 default http", "10.1.0.1:default=8000");
        let (found, message) = separate(&mut world);
        assert_eq!(found, why);
        assert!(message.contains(text), "{message}");
        let view = world.view(PAY).unwrap();
        let condition = view.conditions.iter().find(|c| c.code == Code::SAME_NAME).unwrap();
        assert!(condition.message.contains(&message), "{}", condition.message);
    }
}

#[test]
fn claimed_or_federated_names_stay_separate() {
    let mut world = mk_begun(MergeByName::On);
    pair(&mut world);
    let other = mk_service("web/pay.shop.svc.cluster.local", mk_decl("mine", "80 http"));
    world.put("file", [other.clone()]);
    assert_eq!(separate(&mut world).0, SeparateReason::Contested);
    world.report("file", [mk_deleted(&other)]);
    let export = Declaration { export: ExportTo::Set(Visibility::Hidden), ..mk_decl("mine", "80 http") };
    let other = mk_service(PAY, export);
    world.put("file", [other.clone()]);
    assert_eq!(separate(&mut world).0, SeparateReason::Visibility);
    world.report("file", [mk_deleted(&other)]);
    let federated = mk_federated("pay.mesh", "pay.service.consul", |_| ());
    world.put("config", [federated.clone()]);
    assert_eq!(separate(&mut world).0, SeparateReason::Federated);
    assert_eq!((world.served(PAY, 80), world.codes(PAY)), (vec!["10.0.0.1:8080".to_owned()], vec![]));
    world.report("config", [mk_deleted(&federated)]);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
}

#[test]
fn merge_by_name_has_the_visibility_of_the_clusters_service() {
    let mut world = mk_begun(MergeByName::On);
    let own = ExportTo::Set(Visibility::Namespaces([mk_ns("web")].into()));
    world.put(
        "east",
        mk_facts(PAY, Declaration { export: own, ..mk_decl("pay", "80 http") }, "10.0.0.1:http=8080"),
    );
    put(&mut world, "vms", CONSUL, "80 default http", "10.1.0.1:default=8000");
    let view = world.view(PAY).unwrap();
    let seen = Visibility::Namespaces([mk_ns("web")].into());
    assert!(view.declarations.iter().all(|d| d.visibility == seen));
    let mut trace = Trace::default();
    world.core.trace(&mk_key(PAY), &mut trace);
    let by: Vec<&str> =
        trace.steps.iter().filter(|s| s.code == Code::FEDERATED).map(|s| &*s.detail).collect();
    assert_eq!(by[1], format!("joined as {CONSUL} by its name (merge.byName)"));
    put(&mut world, "east", "test/pay.test.svc.cluster.local", "80 http", "10.9.0.1:http=1");
    let mut trace = Trace::default();
    world.core.trace(&mk_key(PAY), &mut trace);
    let step = trace.steps.iter().find(|s| s.code == Code::SAME_NAME).unwrap();
    assert!(step.detail.contains("several"), "{}", step.detail);
}

#[test]
fn merge_by_name_begins_when_all_are_known_and_then_lasts() {
    let mut world = mk_world();
    world.list("config", [mk_mode(MergeByName::On)]);
    world.list("file", []);
    let east = mk_facts(PAY, mk_decl("pay", "80 http"), "10.0.0.1:http=8080");
    world.put("east", east.clone());
    let vms = mk_facts(CONSUL, mk_decl("pay", "80 default http"), "10.1.0.1:default=8000");
    world.list("vms", vms);
    assert_eq!(separate(&mut world).0, SeparateReason::Unsynced);
    world.list("east", east);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged));
    world.core.fail(tributary_model::Mono(world.now), &mk_name("vms"), &"killed".into());
    world.core.add_registry(&mk_spec("west", ProviderId::KUBERNETES)).unwrap();
    assert!(!world.catalog().complete);
    assert_eq!(outcome(&mut world), Some(NameOutcome::Merged), "an unknown registry does not end a merge");
}

#[test]
fn changed_endpoint_builds_its_service_and_the_merge() {
    let mut world = mk_begun(MergeByName::On);
    for name in 0..50 {
        let (kube, vms) =
            (format!("shop/n{name}.shop.svc.cluster.local"), format!("consul/n{name}.service.consul"));
        put(&mut world, "east", &kube, "80 http", "10.0.0.1:http=8080");
        put(&mut world, "vms", &vms, "80 default http", "10.1.0.1:default=8000");
    }
    assert_eq!(world.catalog().same_names.len(), 50);
    let before = world.core.counters().views;
    world.put("vms", [mk_group("consul/n7.service.consul", "pay", "g", "10.1.0.9:default=8000")]);
    assert_eq!(world.core.counters().views, before + 2, "the Consul host and the merged one");
    assert_eq!(world.served("shop/n7.shop.svc.cluster.local", 80), ["10.0.0.1:8080", "10.1.0.9:8000"]);
    for registry in ["east", "vms", "file", "config"] {
        world.core.remove_registry(&mk_name(registry), &tributary_model::Evidence::Operator);
    }
    assert!(world.core.is_empty() && world.catalog().same_names.is_empty());
    assert_eq!(world.core.counters().unexplained_empty, 0);
}

/// Registry (its index), fact, and whether it is put or deleted.
type Update = (usize, Fact, bool);

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
        let declaration = Declaration { resolution, ..mk_decl("pay", ports) };
        // a file declares the same hosts without a merge name
        let fact = if REGISTRIES[registry] == "file" { mk_service } else { mk_named };
        (registry, fact(service, declaration))
    })
}
fn any_update() -> impl Strategy<Value = Update> {
    let group = any_declared().prop_flat_map(|(registry, fact)| {
        let service = match fact {
            Fact::Service(key, _) => key.service.to_string(),
            _ => String::new(),
        };
        (1..4_u8)
            .prop_map(move |n| (registry, mk_group(&service, "pay", "g", &format!("10.0.0.{n}:http=80"))))
    });
    let federated = select(&["pay.mesh", "pay.shop.svc.cluster.local"][..])
        .prop_map(|host| (3, mk_federated(host, "pay.shop.svc.cluster.local cart.service.consul", |_| ())));
    let mode = select(&[MergeByName::Off, MergeByName::Report, MergeByName::On, MergeByName::On][..])
        .prop_map(|mode| (3, mk_mode(mode)));
    let update = prop_oneof![8 => any_declared(), 4 => group, 1 => federated, 1 => mode];
    (update, 0..4_u8).prop_map(|((registry, fact), n)| {
        let put = n > 0 || matches!(fact, Fact::Settings(_));
        (registry, fact, put)
    })
}
fn of(registry: usize) -> &'static str {
    REGISTRIES.get(registry).copied().unwrap_or("config")
}
/// Returns the outcomes, endpoints and conditions of all names.
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
    fn names_end_in_a_fresh_build_for_any_order(
        history in proptest::collection::vec(any_update(), 1..40),
    ) {
        let mut world = mk_begun(MergeByName::On);
        let mut facts = BTreeMap::from([((3, tributary_model::FactId::Settings), mk_mode(MergeByName::On))]);
        for (registry, fact, put) in &history {
            let delta = if *put { mk_put(fact.clone()) } else { mk_deleted(fact) };
            world.report(of(*registry), [delta]);
            let key = (*registry, fact.item());
            let _ = if *put { facts.insert(key, fact.clone()) } else { facts.remove(&key) };
        }
        let mut fresh = mk_world();
        for registry in [2, 0, 3, 1] {
            let own = facts.iter().filter(|((r, _), _)| *r == registry).map(|(_, fact)| fact.clone());
            fresh.list(of(registry), own.collect::<Vec<_>>());
        }
        prop_assert_eq!(shown(&world.catalog()), shown(&fresh.catalog()));
        prop_assert_eq!(world.core.counters().unexplained_empty, 0);
    }
}
