//! Federated services: services of several registries under one host.

use std::sync::Arc;

use super::fixtures::*;
use tributary_model::{
    Code, Declaration, ExportTo, Fact, FederatedMember, FederatedService, ProviderId, Resolution,
    ServiceAddress, Trace, Visibility,
};

fn mk_world() -> World {
    World::with(&[
        mk_spec("config", ProviderId::CONFIG),
        mk_spec("east", ProviderId::KUBERNETES),
        mk_spec("vms", ProviderId::CONSUL),
    ])
}
/// Returns a federated service with members such as `vms:pay.vms`, separated by blanks.
pub(super) fn mk_federated(host: &str, members: &str, change: impl FnOnce(&mut FederatedService)) -> Fact {
    let member = |text: &str| {
        let (registry, host) = text.split_once(':').unwrap_or(("", text));
        let registry = (!registry.is_empty()).then(|| mk_name(registry));
        FederatedMember { registry, ..FederatedMember::new(mk_host(host)) }
    };
    let mut federated = FederatedService {
        namespace: mk_ns("default"),
        export: ExportTo::Default,
        members: members.split_whitespace().map(member).collect(),
        min_healthy_active: None,
        standby_after_stale: None,
        by_name: false,
    };
    change(&mut federated);
    Fact::FederatedService(mk_host(host), Arc::new(federated))
}
fn members(federated: &mut FederatedService, change: impl Fn(usize, &mut FederatedMember)) {
    let mut all = federated.members.to_vec();
    all.iter_mut().enumerate().for_each(|(at, member)| change(at, member));
    federated.members = all.into();
}
fn service(world: &mut World, registry: &str, host: &str, ports: &str, endpoints: &str) {
    let key = format!("shop/{host}");
    let declared = mk_service(&key, mk_decl(host, ports));
    world.put(registry, [declared, mk_group(&key, host, "g", endpoints)]);
}
fn pair(world: &mut World) {
    service(world, "east", "pay.east", "80 http", "10.0.0.1:http=8080");
    service(world, "vms", "pay.vms", "8000 default", "10.1.0.1:default=8000");
}
fn mapped(federated: &mut FederatedService) {
    members(federated, |at, member| {
        if at == 1 {
            member.ports = [(mk_port(80), mk_port(8000))].into();
        }
    });
}

#[test]
fn federated_service_serves_its_members_by_port_maps() {
    let mut world = mk_world();
    pair(&mut world);
    let outcome = world.put("config", [mk_federated("pay.mesh", "pay.east pay.vms", mapped)]);
    assert_eq!(outcome.changed.hosts.len(), 1, "the members do not change");
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.1:8080", "10.1.0.1:8000"]);
    assert!(world.codes("default/pay.mesh").is_empty());
    assert_eq!(world.served("shop/pay.vms", 8000), ["10.1.0.1:8000"]);
    let view = world.view("default/pay.mesh").unwrap();
    let declared: Vec<&ProviderId> = view.declarations.iter().map(|d| &d.shard.registry.provider).collect();
    assert_eq!(declared, [&ProviderId::KUBERNETES, &ProviderId::CONSUL], "in order of precedence");
}

#[test]
fn port_that_a_member_lacks_is_a_condition() {
    let mut world = mk_world();
    service(&mut world, "east", "pay.east", "80 http, 81 admin", "10.0.0.1:http=8080+admin=9");
    service(&mut world, "vms", "pay.vms", "80 default http", "10.1.0.1:default=8000");
    world.put("config", [mk_federated("pay.mesh", "pay.east pay.vms", |_| ())]);
    let view = world.view("default/pay.mesh").unwrap();
    assert_eq!(view.ports.iter().map(|p| p.number.get()).collect::<Vec<_>>(), [80]);
    assert_eq!(world.codes("default/pay.mesh"), [Code::FEDERATED_PORT]);
    assert!(view.conditions[0].message.contains("port 81") && view.conditions[0].message.contains("pay.vms"));
}

#[test]
fn first_provider_gives_protocol_and_virtual_address() {
    let mut world = mk_world();
    let address = |ip: &str| {
        Arc::from([ServiceAddress { cluster: None, ip: ip.parse().unwrap(), prefix: 32, allocated: false }])
    };
    let own = |name: &str, ports: &str, ip: &str| {
        mk_service(&format!("shop/{name}"), Declaration { addresses: address(ip), ..mk_decl(name, ports) })
    };
    world.put("vms", [own("pay.vms", "80 a tcp", "240.0.0.1")]);
    world.put("east", [own("pay.east", "80 b http", "10.96.0.1")]);
    world.put("config", [mk_federated("pay.mesh", "pay.vms pay.east", |_| ())]);
    let view = world.view("default/pay.mesh").unwrap();
    assert_eq!(view.ports[0].protocol.as_str(), "HTTP", "Kubernetes takes precedence over Consul");
    let addresses = &view.ports[0].listener.inputs.addresses;
    assert_eq!(addresses.iter().map(|a| a.ip.to_string()).collect::<Vec<_>>(), ["10.96.0.1"]);
    assert_eq!(world.codes("default/pay.mesh"), [Code::FEDERATED_PROTOCOL]);
}

#[test]
fn unusable_member_does_not_affect_the_others() {
    let mut world = mk_world();
    pair(&mut world);
    let dns = Declaration { resolution: Resolution::DnsStrict, ..mk_decl("db.shop", "80 http") };
    world.put("east", [mk_service("shop/db.shop", dns)]);
    world.put("config", [mk_federated("pay.mesh", "pay.east db.shop gone.shop vms:pay.east", |_| ())]);
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.1:8080"]);
    let codes = [Code::FEDERATED_MEMBER_MISSING, Code::FEDERATED_MEMBER_REFUSED];
    assert_eq!(world.codes("default/pay.mesh"), codes);
    let view = world.view("default/pay.mesh").unwrap();
    assert_eq!(
        view.conditions.iter().filter(|c| c.code == codes[0]).count(),
        2,
        "the member's registry must match"
    );
}

fn mk_named(world: &mut World, endpoints: &str) {
    let dns = Declaration { resolution: Resolution::DnsStrict, ..mk_decl("pay.vms", "80 http") };
    world.put("vms", [mk_service("shop/pay.vms", dns), mk_group("shop/pay.vms", "pay.vms", "g", endpoints)]);
}

#[test]
fn host_name_among_addresses_excludes_only_itself() {
    let mut world = mk_world();
    service(&mut world, "east", "pay.east", "80 http", "10.0.0.1:http=8080");
    service(&mut world, "vms", "pay.vms", "80 http", "10.1.0.1:http=8000");
    world.put("config", [mk_federated("pay.mesh", "pay.vms pay.east", |_| ())]);
    let joined = ["10.0.0.1:8080", "10.1.0.1:8000"];
    assert_eq!(world.served("default/pay.mesh", 80), joined);
    mk_named(&mut world, "10.1.0.1:http=8000 vm.example.com:http=8000");
    let view = world.view("default/pay.mesh").unwrap();
    let facts = &view.ports[0].endpoints.inputs;
    assert_eq!(facts.resolution, Resolution::ClientSide, "clients still receive addresses");
    let mut ips = world.served("default/pay.mesh", 80);
    ips.retain(|endpoint| !endpoint.starts_with("vm."));
    assert_eq!(ips, joined);
    assert_eq!(
        world.codes("default/pay.mesh"),
        [Code::FEDERATED_MEMBER_REFUSED],
        "the host name is a condition"
    );
    mk_named(&mut world, "vm.example.com:http=8000");
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.1:8080"], "no address to join");
}

#[test]
fn federated_service_without_members_is_a_condition() {
    let mut world = mk_world();
    world.put("config", [mk_federated("pay.mesh", "pay.east pay.vms", |_| ())]);
    assert!(world.view("default/pay.mesh").is_none());
    let odd = |world: &mut World| {
        let catalog = world.catalog();
        let view = catalog.registries.get(&mk_name("config")).unwrap();
        view.conditions.iter().map(|c| c.code).collect::<Vec<_>>()
    };
    assert_eq!(odd(&mut world), [Code::FEDERATED_MEMBER_MISSING]);
    pair(&mut world);
    assert!(odd(&mut world).is_empty());
    assert!(world.view("default/pay.mesh").is_some());
}

#[test]
fn federated_service_hides_other_claimants_of_its_host() {
    let mut world = mk_world();
    pair(&mut world);
    service(&mut world, "vms", "pay.east", "80 http", "10.9.0.1:http=1");
    let federated = |federated: &mut FederatedService| {
        federated.namespace = mk_ns("shop");
        mapped(federated);
    };
    world.put("config", [mk_federated("pay.east", "east:pay.east pay.vms", federated)]);
    assert_eq!(world.served("shop/pay.east", 80), ["10.0.0.1:8080", "10.1.0.1:8000"]);
    assert_eq!(world.codes("shop/pay.east"), [Code::FEDERATED_SHADOWED]);
    let other = mk_federated("pay.east", "east:pay.east pay.vms", mapped);
    world.put("config", [other.clone()]);
    let catalog = world.catalog();
    let claimants = &catalog.hosts.get(&mk_host("pay.east")).unwrap().claimants;
    assert_eq!(claimants.iter().map(|v| v.key.to_string()).collect::<Vec<_>>(), ["default/pay.east"]);
    world.report("config", [mk_deleted(&other)]);
    assert_eq!(
        world.served("shop/pay.east", 80),
        ["10.0.0.1:8080", "10.9.0.1:1"],
        "both claimants are served again"
    );
    assert_eq!(world.codes("shop/pay.east"), [Code::HOST_CONFLICT]);
}

#[test]
fn federated_service_is_built_only_when_a_member_changes() {
    let mut world = mk_world();
    pair(&mut world);
    service(&mut world, "vms", "cart.vms", "80 http", "10.2.0.1:http=80");
    world.put("config", [mk_federated("pay.mesh", "pay.east pay.vms", mapped)]);
    let before = world.core.counters().views;
    world.put("vms", [mk_group("shop/cart.vms", "cart.vms", "g", "10.2.0.2:http=80")]);
    assert_eq!(world.core.counters().views, before + 1, "not a member");
    let outcome = world.put("vms", [mk_group("shop/pay.vms", "pay.vms", "g", "10.1.0.2:default=8000")]);
    assert_eq!(world.core.counters().views, before + 3, "the member and the federated service");
    assert!(outcome.changed.hosts.contains(&mk_host("pay.mesh")));
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.1:8080", "10.1.0.2:8000"]);
}

#[test]
fn member_of_a_different_namespace_builds_nothing() {
    let mut world = mk_world();
    pair(&mut world);
    let of_shop = |federated: &mut FederatedService| {
        members(federated, |_, member| member.namespace = Some(mk_ns("shop")))
    };
    world.put("config", [mk_federated("pay.mesh", "pay.east", of_shop)]);
    let before = world.core.counters().views;
    world.put("east", [mk_service("web/pay.east", mk_decl("pay.east", "80 http"))]);
    assert_eq!(world.core.counters().views, before + 1, "a different service");
    world.put("east", [mk_group("shop/pay.east", "pay.east", "g", "10.0.0.2:http=8080")]);
    assert_eq!(world.core.counters().views, before + 3, "the member and the federated service");
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.2:8080"]);
}

#[test]
fn failed_registry_stays_joined_and_a_removed_one_does_not() {
    let mut world = mk_world();
    pair(&mut world);
    world.put("config", [mk_federated("pay.mesh", "pay.east pay.vms", mapped)]);
    let served = world.view("default/pay.mesh").unwrap();
    world.core.fail(tributary_model::Mono(world.now), &mk_name("vms"), &"killed".into());
    let after = world.view("default/pay.mesh").unwrap();
    assert!(Arc::ptr_eq(&served, &after), "a failed run keeps its endpoints");
    world.core.remove_registry(&mk_name("vms"), &tributary_model::Evidence::Operator);
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.1:8080"]);
    assert_eq!(world.codes("default/pay.mesh"), [Code::FEDERATED_MEMBER_MISSING]);
    assert_eq!(world.core.counters().unexplained_empty, 0);
}

#[test]
fn used_standby_members_are_a_condition() {
    let mut world = mk_world();
    pair(&mut world);
    let waiting = |federated: &mut FederatedService| {
        mapped(federated);
        members(federated, |at, member| member.standby = at == 1);
        federated.min_healthy_active = Some(1);
    };
    world.put("config", [mk_federated("pay.mesh", "pay.east pay.vms", waiting)]);
    assert!(world.codes("default/pay.mesh").is_empty());
    world.put("east", [mk_group("shop/pay.east", "pay.east", "g", "10.0.0.1:http=8080!")]);
    assert_eq!(world.codes("default/pay.mesh"), [Code::FEDERATED_STANDBY]);
}

#[test]
fn federated_service_has_its_own_visibility_and_trace() {
    let mut world = mk_world();
    pair(&mut world);
    let own = |federated: &mut FederatedService| {
        federated.export = ExportTo::Set(Visibility::Namespaces([mk_ns("web")].into()))
    };
    world.put("config", [mk_federated("pay.mesh", "pay.east", own)]);
    let catalog = world.catalog();
    let view = catalog.service(&mk_key("default/pay.mesh")).unwrap();
    assert_eq!(view.declarations[0].visibility, Visibility::Namespaces([mk_ns("web")].into()));
    assert!(catalog.scoped.get(&mk_ns("web")).is_some_and(|hosts| hosts.contains(&mk_host("pay.mesh"))));
    let mut trace = Trace::default();
    world.core.trace(&mk_key("default/pay.mesh"), &mut trace);
    let step = trace.steps.iter().find(|s| s.code == Code::FEDERATED).unwrap();
    assert_eq!(step.detail, "joined as shop/pay.east by the federated service");
    assert!(trace.steps.iter().any(|s| s.endpoint == "10.0.0.1:8080"));
}

#[test]
fn federated_service_first_in_precedence_is_effective() {
    let second = mk_spec_of(mk_registry("other", ProviderId::CONFIG), 2);
    let mut world = World::with(&[
        second,
        mk_spec("config", ProviderId::CONFIG),
        mk_spec("east", ProviderId::KUBERNETES),
    ]);
    service(&mut world, "east", "a.shop", "80 http", "10.0.0.1:http=80");
    service(&mut world, "east", "b.shop", "80 http", "10.0.0.2:http=80");
    world.put("other", [mk_federated("pay.mesh", "b.shop", |_| ())]);
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.2:80"]);
    let first = mk_federated("pay.mesh", "a.shop", |_| ());
    world.put("config", [first.clone()]);
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.1:80"]);
    world.report("config", [mk_deleted(&first)]);
    assert_eq!(world.served("default/pay.mesh", 80), ["10.0.0.2:80"]);
}
