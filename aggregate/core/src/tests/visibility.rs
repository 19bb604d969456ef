//! Visibility: exportTo resolved by settings, order of a host's claimants, settings per field.

use super::fixtures::*;
use std::sync::Arc;
use std::time::Duration;
use tributary_model::{
    Attributes, ClientDimensions, Code, Declaration, EntryVisibility, ExcludedObject, ExportTo, Fact,
    HttpRetries, ObjectId, ObjectRef, Precedence, ProviderId, RegistrySpec, RegistryUpdate, Settings,
    Timestamp, TrafficDistribution, Visibility,
};

fn exported(name: &str, visibility: Visibility) -> Declaration {
    Declaration { export: ExportTo::Set(visibility), ..mk_decl(name, "80 http") }
}
fn to(namespace: &str) -> Visibility {
    Visibility::Namespaces([mk_ns(namespace)].into())
}
fn settings(export: Option<Visibility>, timeout: Option<u64>) -> Fact {
    let connect_timeout = timeout.map(Duration::from_secs);
    Fact::Settings(Arc::new(Settings { default_export: export, connect_timeout, ..Settings::default() }))
}
fn visibility(world: &mut World, service: &str) -> Visibility {
    world.view(service).unwrap().declarations[0].visibility.clone()
}
fn claimants(world: &mut World, host: &str) -> Vec<String> {
    let catalog = world.catalog();
    catalog.hosts.get(&mk_host(host)).unwrap().claimants.iter().map(|v| v.key.to_string()).collect()
}

#[test]
fn default_visibility_follows_the_settings() {
    let mut world = World::of_files();
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http")),
            mk_service("shop/cart.shop", exported("cart", to("web"))),
        ],
    );
    assert_eq!(visibility(&mut world, "shop/pay.shop"), Visibility::Public);
    let outcome = world.put("file", [settings(Some(Visibility::Own), None)]);
    assert!(outcome.changed.settings);
    assert_eq!(visibility(&mut world, "shop/pay.shop"), to("shop"), "its own namespace is explicit");
    assert_eq!(visibility(&mut world, "shop/cart.shop"), to("web"));
    assert_eq!(world.core.counters().full_passes.settings, 1);
}

#[test]
fn config_file_takes_precedence_per_field() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("config", ProviderId::CONFIG)]);
    world.put(
        "east",
        [settings(Some(Visibility::Own), Some(3)), mk_service("shop/pay.shop", mk_decl("pay", "80 http"))],
    );
    world.put("config", [settings(None, Some(7))]);
    let catalog = world.catalog();
    assert_eq!(catalog.settings.connect_timeout, Some(Duration::from_secs(7)));
    assert_eq!(catalog.settings.default_export, Some(Visibility::Own));
    let cluster = world.view("shop/pay.shop").unwrap().ports[0].cluster.inputs.connect_timeout;
    assert_eq!(cluster, Duration::from_secs(7));
    world.report("config", [mk_deleted(&settings(None, None))]);
    assert_eq!(world.catalog().settings.connect_timeout, Some(Duration::from_secs(3)));
}

#[test]
fn retries_of_the_settings_reach_every_route() {
    let mut world = World::of_files();
    world.put("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    let attempts = |world: &mut World| {
        let route = &world.view("shop/pay.shop").unwrap().ports[0].route;
        route.inputs.retries.as_ref().map(|retries| retries.attempts)
    };
    assert_eq!(attempts(&mut world), None);
    let retries = Some(Arc::new(HttpRetries { attempts: 5, ..HttpRetries::default() }));
    let changed = Fact::Settings(Arc::new(Settings { http_retries: retries, ..Settings::default() }));
    let outcome = world.put("file", [changed]);
    assert!(outcome.changed.settings && outcome.changed.hosts.contains(&mk_host("pay.shop")));
    assert_eq!(attempts(&mut world), Some(5));
    let before = world.view("shop/pay.shop").unwrap().ports[0].clone();
    world.put("file", [settings(None, Some(3))]);
    let after = world.view("shop/pay.shop").unwrap().ports[0].clone();
    assert_eq!(attempts(&mut world), None);
    assert!(before.route != after.route && before.listener == after.listener);
}

#[test]
fn mesh_text_is_carried_and_builds_no_service() {
    let mut world = World::of_files();
    world.put("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http")), settings(None, Some(3))]);
    let before = world.view("shop/pay.shop").unwrap();
    let with_text = |mesh: &str| {
        let text = tributary_model::settings::MeshText { mesh: mesh.into(), networks: "".into() };
        let connect_timeout = Some(Duration::from_secs(3));
        let settings = Settings { mesh_text: Some(Arc::new(text)), connect_timeout, ..Settings::default() };
        Fact::Settings(Arc::new(settings))
    };
    for mesh in ["# first", "# second"] {
        let outcome = world.put("file", [with_text(mesh)]);
        assert!(outcome.changed.settings && outcome.changed.hosts.is_empty(), "{:?}", outcome.changed);
        assert_eq!(&*world.catalog().settings.mesh_text.as_ref().unwrap().mesh, mesh);
    }
    assert!(Arc::ptr_eq(&before, &world.view("shop/pay.shop").unwrap()));
}

#[test]
fn claimants_of_a_host_are_ordered_with_a_condition() {
    let created = |second| Timestamp::from_second(second).ok();
    let mut world =
        World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY), mk_spec("east", ProviderId::KUBERNETES)]);
    world.put(
        "file",
        [
            mk_service("young/pay.shop", Declaration { created: created(9), ..mk_decl("y", "80 http") }),
            mk_service("old/pay.shop", Declaration { created: created(1), ..mk_decl("o", "80 http") }),
            mk_service("none/pay.shop", Declaration { created: None, ..mk_decl("n", "80 http") }),
        ],
    );
    assert_eq!(claimants(&mut world, "pay.shop"), ["old/pay.shop", "young/pay.shop", "none/pay.shop"]);
    world.put(
        "east",
        [mk_service("zz/pay.shop", Declaration { created: created(99), ..mk_decl("k", "80 http") })],
    );
    let all = ["zz/pay.shop", "old/pay.shop", "young/pay.shop", "none/pay.shop"];
    assert_eq!(claimants(&mut world, "pay.shop"), all, "other providers cannot take a cluster's name");
    for service in all {
        assert_eq!(world.codes(service), [Code::HOST_CONFLICT], "{service}");
    }
    let condition = &world.view("none/pay.shop").unwrap().conditions[0];
    assert_eq!(&*condition.objects[0].id.name, "k", "the first claimant is named first");
    world.report("east", [mk_deleted(&mk_service("zz/pay.shop", mk_decl("k", "")))]);
    for (service, object) in [("young/pay.shop", "y"), ("none/pay.shop", "n")] {
        world.report("file", [mk_deleted(&mk_service(service, mk_decl(object, "")))]);
    }
    assert!(world.codes("old/pay.shop").is_empty(), "no conflict remains");
}

#[test]
fn service_of_two_providers_is_merged_with_a_condition() {
    let mut world =
        World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY), mk_spec("east", ProviderId::KUBERNETES)]);
    world.put("file", [mk_service("shop/pay.shop", mk_decl("entry", "80 web"))]);
    world.put("east", [mk_service("shop/pay.shop", mk_decl("service", "80 http"))]);
    assert_eq!(world.codes("shop/pay.shop"), [Code::PORT_CONFLICT, Code::HOST_CONFLICT]);
    let view = world.view("shop/pay.shop").unwrap();
    let objects: Vec<&str> = view.declarations.iter().map(|d| &*d.declaration.source.object.name).collect();
    assert_eq!(objects, ["service", "entry"]);
}

#[test]
fn endpoints_depend_on_namespace_if_visibilities_differ() {
    let mut world = World::of_files();
    let dims = |world: &mut World| world.view("shop/pay.shop").unwrap().ports[0].endpoints.dimensions;
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", exported("a", to("web"))),
            mk_group("shop/pay.shop", "a", "g", "10.0.0.1:http=80"),
        ],
    );
    assert_eq!(
        dims(&mut world),
        ClientDimensions::NONE,
        "each client that sees the service sees all endpoints"
    );
    world.put("file", [mk_service("shop/pay.shop", exported("b", Visibility::Public))]);
    assert_eq!(
        dims(&mut world),
        ClientDimensions::NAMESPACE,
        "a client that sees only b does not see endpoints of a"
    );
}

#[test]
fn preferred_endpoints_fork_assignments_and_not_listeners() {
    let mut world = World::of_files();
    let attributes =
        Attributes { headless: true, traffic: TrafficDistribution::SameNode, ..Attributes::default() };
    let declaration = Declaration { attributes, ..mk_decl("a", "80 tcp tcp") };
    world.put(
        "file",
        [mk_service("shop/pay.shop", declaration), mk_group("shop/pay.shop", "a", "g", "10.0.0.1:tcp=80")],
    );
    let view = world.view("shop/pay.shop").unwrap();
    let port = &view.ports[0];
    assert!(port.listener.inputs.endpoints.is_some(), "its listeners match endpoints");
    assert!(port.endpoints.dimensions.contains(ClientDimensions::NODE | ClientDimensions::LOCALITY));
    for dimension in [ClientDimensions::NODE, ClientDimensions::LOCALITY, ClientDimensions::NETWORK] {
        assert!(!port.listener.dimensions.contains(dimension), "{dimension:?}");
    }
}

#[test]
fn gateway_builds_only_the_services_of_its_network() {
    let mut world = World::of_files();
    let group = |service: &str, object: &str, network: &str| {
        let key = mk_group_key(service, object, object);
        Fact::Group(key, Arc::new(mk_group_at(object, "10.0.0.1:http=80", mk_topology(network))))
    };
    world.put(
        "file",
        [
            mk_service("shop/far.shop", mk_decl("far", "80 http")),
            group("shop/far.shop", "far", "net-b"),
            mk_service("shop/near.shop", mk_decl("near", "80 http")),
            group("shop/near.shop", "near", "net-a"),
        ],
    );
    let before = world.core.counters().views;
    let outcome = world.put("file", [mk_gateway("net-b", "1.2.3.4")]);
    assert!(outcome.changed.gateways);
    assert_eq!(outcome.changed.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["far.shop"]);
    assert_eq!(world.core.counters().views, before + 1);
    let facts = world.view("shop/far.shop").unwrap().ports[0].endpoints.clone();
    let crossing = ClientDimensions::KIND | ClientDimensions::CERTIFICATES | ClientDimensions::FAMILIES;
    assert_eq!(facts.dimensions, ClientDimensions::NETWORK | crossing);
    let gateways = |world: &mut World| {
        let gated = &world.view("shop/far.shop").unwrap().ports[0].endpoints.inputs.gated[0];
        gated.gateways.iter().map(|at| format!("{}:{}", at.address, at.port)).collect::<Vec<_>>()
    };
    assert_eq!(gateways(&mut world), ["1.2.3.4:15443"]);
    world.put("file", [mk_gateway("net-b", "1.2.3.5")]);
    assert_eq!(
        world.core.counters().views,
        before + 2,
        "a second gateway changes the services of its network"
    );
    assert_eq!(gateways(&mut world), ["1.2.3.4:15443", "1.2.3.5:15443"]);
    world.report(
        "file",
        [mk_deleted(&mk_gateway("net-b", "1.2.3.4")), mk_deleted(&mk_gateway("net-b", "1.2.3.5"))],
    );
    assert!(world.view("shop/far.shop").unwrap().ports[0].endpoints.inputs.gated.is_empty());
    assert!(world.catalog().gateways.is_empty());
}

#[test]
fn network_stays_behind_gateways_until_none_is_declared() {
    let mut world = World::of_files();
    let key = mk_group_key("shop/far.shop", "far", "far");
    let group = Fact::Group(key, Arc::new(mk_group_at("far", "10.0.0.1:http=80", mk_topology("net-b"))));
    let gateway = |at| mk_gateway_of("gw", "net-b", at);
    world.put("file", [mk_service("shop/far.shop", mk_decl("far", "80 http")), group]);
    let gates = |world: &mut World| {
        let view = world.view("shop/far.shop").unwrap();
        let shown = view.conditions.iter().any(|condition| condition.code == Code::OTHER_NETWORK);
        let gated = &view.ports[0].endpoints.inputs.gated;
        (gated.iter().map(|network| network.gateways.len()).collect::<Vec<_>>(), shown)
    };
    world.put("file", [gateway(Some("1.2.3.4"))]);
    assert_eq!(gates(&mut world), (vec![1], false));
    world.put("file", [gateway(None)]);
    assert_eq!(gates(&mut world), (vec![0], true), "its last address is gone");
    world.put("file", [mk_gateway("net-b", "1.2.3.5")]);
    assert_eq!(gates(&mut world), (vec![1], false), "another gateway is left");
    world.report("file", [mk_deleted(&gateway(None)), mk_deleted(&mk_gateway("net-b", "1.2.3.5"))]);
    assert_eq!(gates(&mut world), (Vec::new(), false), "none is declared");
}

#[test]
fn contested_service_keeps_its_view_when_nothing_changes() {
    let mut world = World::of_files();
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("a", "80 http")),
            mk_service("web/pay.shop", mk_decl("b", "80 http")),
        ],
    );
    let before = world.view("shop/pay.shop").unwrap();
    let other = Settings { block_unknown: Some(true), ..Settings::default() };
    let outcome = world.put("file", [Fact::Settings(Arc::new(other))]);
    assert!(outcome.changed.settings && outcome.changed.hosts.is_empty());
    assert!(Arc::ptr_eq(&before, &world.view("shop/pay.shop").unwrap()));
}

#[test]
fn settings_make_hosts_cluster_local() {
    let mut world = World::of_files();
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http")),
            mk_group("shop/pay.shop", "pay", "g", "10.0.0.1:http=80"),
            mk_service("shop/pay.web", mk_decl("web", "80 http")),
        ],
    );
    let local = |world: &mut World, service: &str| {
        let port = world.view(service).unwrap().ports[0].clone();
        (port.cluster.inputs.attributes.cluster_local, port.endpoints.dimensions)
    };
    let settings =
        Settings { cluster_local: Some([(mk_host("*.shop").into(), true)].into()), ..Settings::default() };
    world.put("file", [Fact::Settings(Arc::new(settings.clone()))]);
    assert_eq!(local(&mut world, "shop/pay.shop"), (true, ClientDimensions::CLUSTER));
    assert_eq!(local(&mut world, "shop/pay.web"), (false, ClientDimensions::NONE));
    world.report("file", [mk_deleted(&Fact::Settings(Arc::new(settings)))]);
    assert_eq!(local(&mut world, "shop/pay.shop"), (false, ClientDimensions::NONE));
}

#[test]
fn visibility_cap_applies_to_service_entries_only() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("file", ProviderId::SERVICE_ENTRY)]);
    let entry_visibility =
        EntryVisibility { default: Visibility::Own, namespaces: [(mk_ns("web"), Visibility::Public)].into() };
    let capped = Settings { entry_visibility: Some(Arc::new(entry_visibility)), ..Settings::default() };
    world.put("east", [mk_service("shop/pay.svc", mk_decl("pay", "80 http"))]);
    world.put(
        "file",
        [
            mk_service("shop/own.com", mk_decl("own", "80 http")),
            mk_service("shop/other.com", exported("other", to("web"))),
            mk_service("web/open.com", mk_decl("open", "80 http")),
        ],
    );
    let seen = |world: &mut World| {
        ["shop/pay.svc", "shop/own.com", "shop/other.com", "web/open.com"].map(|s| visibility(world, s))
    };
    let uncapped = seen(&mut world);
    world.put("east", [Fact::Settings(Arc::new(capped))]);
    let want = [Visibility::Public, to("shop"), Visibility::Hidden, Visibility::Public];
    assert_eq!(seen(&mut world), want);
    world.put("east", [Fact::Settings(Arc::new(Settings::default()))]);
    assert_eq!(seen(&mut world), uncapped);
}

#[test]
fn declared_properties_apply_to_any_provider() {
    let nacos = mk_registry("nacos", ProviderId::new("Nacos").unwrap());
    let spec = RegistrySpec::new(nacos, 1).limiting_visibility().overriding_settings();
    let mut world = World::with(&[mk_spec("east", ProviderId::KUBERNETES), spec]);
    world.put("east", [mk_service("shop/a.com", mk_decl("a", "80 http"))]);
    world.put("nacos", [settings(Some(to("web")), None), mk_service("shop/b.com", mk_decl("b", "80 http"))]);
    world.put("east", [settings(Some(Visibility::Own), None)]);
    assert_eq!(world.catalog().settings.default_export, Some(to("web")), "its settings come first");
    let capped = EntryVisibility { default: Visibility::Hidden, namespaces: [].into() };
    let capped = Settings { entry_visibility: Some(Arc::new(capped)), ..Settings::default() };
    world.put("east", [Fact::Settings(Arc::new(capped))]);
    assert_eq!(visibility(&mut world, "shop/a.com"), to("web"));
    assert_eq!(visibility(&mut world, "shop/b.com"), Visibility::Hidden);
}

#[test]
fn claimants_of_new_providers_are_ordered_by_name() {
    let of = |name: &str| RegistrySpec::new(mk_registry(name, ProviderId::new(name.to_owned()).unwrap()), 1);
    let first = of("zk").provider_position(Precedence::of_provider(&ProviderId::CONSUL));
    let mut world = World::with(&[of("nacos"), of("eureka"), first, mk_spec("vms", ProviderId::CONSUL)]);
    for (second, name) in (1..).zip(["nacos", "eureka", "zk", "vms"]) {
        let created = Timestamp::from_second(second).ok();
        let declaration = Declaration { created, ..mk_decl(name, "80 http") };
        world.put(name, [mk_service(&format!("{name}/pay.shop"), declaration)]);
    }
    let all = ["vms/pay.shop", "zk/pay.shop", "eureka/pay.shop", "nacos/pay.shop"];
    assert_eq!(claimants(&mut world, "pay.shop"), all);
}

#[test]
fn excluded_objects_last_until_the_next_report() {
    let mut world = World::of_files();
    let excluded = |name: &str| ExcludedObject {
        object: ObjectRef::new(ObjectId::new("Namespace", "", name)),
        code: Code::NAMESPACE_NOT_SELECTED,
        message: "not selected".into(),
        hosts: Arc::from([]),
    };
    let names = |world: &mut World| {
        let catalog = world.catalog();
        let lists = catalog.registries.values().flat_map(|r| r.excluded.iter());
        lists.flat_map(|l| l.iter()).map(|l| l.object.id.name.to_string()).collect::<Vec<_>>()
    };
    world.report("file", [RegistryUpdate::Excluded(mk_scope(SCOPE), [excluded("a"), excluded("b")].into())]);
    assert_eq!(names(&mut world), ["a", "b"]);
    world.report("file", [RegistryUpdate::Excluded(mk_scope(SCOPE), [excluded("b")].into())]);
    assert_eq!(names(&mut world), ["b"]);
    let many: Arc<[ExcludedObject]> = (0..=ExcludedObject::MAX).map(|n| excluded(&n.to_string())).collect();
    world.report("file", [RegistryUpdate::Excluded(mk_scope(SCOPE), many)]);
    assert_eq!(names(&mut world).len(), ExcludedObject::MAX);
    world.report("file", [RegistryUpdate::Excluded(mk_scope(SCOPE), Arc::from([]))]);
    assert_eq!(names(&mut world), [""; 0]);
}

#[test]
fn client_gets_ports_of_visible_declarations_only() {
    let mut world = World::of_files();
    let admin = Declaration { export: ExportTo::Set(to("web")), ..mk_decl("a", "80 web tcp, 81 admin http") };
    let group = |object, at| mk_group("shop/pay.shop", object, object, at);
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", admin),
            mk_service("shop/pay.shop", exported("b", Visibility::Public)),
            group("a", "10.0.0.1:web=1+admin=2"),
            group("b", "10.0.0.2:http=3"),
        ],
    );
    let ports = |world: &mut World, namespace: Option<&str>| {
        let view = world.view("shop/pay.shop").unwrap();
        let seen = view.seen_by(namespace.map(mk_ns).as_ref()).clone();
        seen.ports.iter().map(|p| format!("{} {}", p.number, p.protocol.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(ports(&mut world, Some("web")), ["80 TCP", "81 HTTP"], "it sees both");
    for namespace in [None, Some("shop"), Some("other")] {
        assert_eq!(ports(&mut world, namespace), ["80 HTTP"], "{namespace:?} does not see the first");
    }
    let before = world.view("shop/pay.shop").unwrap().seen_by(None).clone();
    assert!(!before.ports[0].endpoints.dimensions.contains(ClientDimensions::NAMESPACE));
    world.put("file", [group("a", "10.0.0.9:web=1+admin=2")]);
    let view = world.view("shop/pay.shop").unwrap();
    assert!(Arc::ptr_eq(&before, view.seen_by(None)), "an endpoint that it does not see changed");
    world.report("file", [mk_deleted(&mk_service("shop/pay.shop", exported("b", Visibility::Public)))]);
    assert!(world.view("shop/pay.shop").unwrap().audiences.is_empty(), "one visibility remains");
}
