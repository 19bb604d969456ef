//! Declarations and groups become services: ports, precedence, conflicts, reuse.

use super::fixtures::*;
use std::sync::Arc;

use tributary_model::{
    Attributes, Code, Declaration, EndpointGroup, Fact, Identity, PortView, ProviderId, Resolution,
    ServiceAddress,
};

#[test]
fn declaration_with_a_group_is_served() {
    let mut world = World::of_files();
    let outcome = world.put(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080 10.0.0.2:http=8080!"),
        ],
    );
    assert_eq!(outcome.changed.hosts.len(), 1);
    assert_eq!(fact_records(&outcome).len(), 2);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:8080", "10.0.0.2:8080!"]);
}

#[test]
fn group_waits_for_its_declaration() {
    let mut world = World::of_files();
    world.put("file", [mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080")]);
    assert!(world.view("shop/pay.shop").is_none());
    assert_eq!(world.core.status()[0].waiting, 1);
    world.put("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:8080"]);
    assert_eq!(world.core.status()[0].waiting, 0);
}

#[test]
fn group_without_endpoints_does_not_wait() {
    let mut world = World::of_files();
    world.put("file", [mk_group("shop/proxy.shop", "proxy", "a", "")]);
    let conditions = world.catalog().registries.get(&mk_name("file")).unwrap().conditions.len();
    assert_eq!((conditions, world.core.status()[0].waiting), (0, 0));
}

#[test]
fn port_conflict_reported_and_isolated() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("west", ProviderId::KUBERNETES)]);
    world.put(
        "east",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http http, 81 admin http")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080+admin=8081"),
        ],
    );
    world.put(
        "west",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 web tcp, 82 extra http")),
            mk_group("shop/pay.shop", "pay", "b", "10.1.0.1:web=9090+extra=9091"),
        ],
    );
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:8080", "10.1.0.1:9090"]);
    assert_eq!(world.served("shop/pay.shop", 81), ["10.0.0.1:8081"]);
    assert_eq!(world.served("shop/pay.shop", 82), ["10.1.0.1:9091"]);
    let view = world.view("shop/pay.shop").unwrap();
    assert_eq!(view.ports[0].name.as_str(), "http", "east takes precedence over west");
    assert_eq!(world.codes("shop/pay.shop"), [Code::PORT_CONFLICT]);
}

#[test]
fn removed_group_does_not_wait() {
    let mut world = World::of_files();
    let group = mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080");
    let conditions =
        |world: &mut World| world.catalog().registries.get(&mk_name("file")).unwrap().conditions.len();
    world.put("file", [group.clone()]);
    assert_eq!(conditions(&mut world), 1);
    world.report("file", [mk_deleted(&group)]);
    assert_eq!((conditions(&mut world), world.core.status()[0].waiting), (0, 0));
}

#[test]
fn identities_and_addresses_combine_all_shards_in_order() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("west", ProviderId::KUBERNETES)]);
    let declaration = |ip: u8, identity: &str| {
        let address =
            ServiceAddress { cluster: None, ip: [10, 9, 0, ip].into(), prefix: 32, allocated: false };
        let own =
            Attributes { identities: Arc::from([Identity::new(identity).unwrap()]), ..Attributes::default() };
        Declaration { addresses: Arc::from([address]), attributes: own, ..mk_decl("pay", "80 http") }
    };
    let group = |identity: &str| {
        let mut group = mk_group_value("a", "10.0.0.1:http=80!");
        let mut address = group.addresses[0].clone();
        address.identity = Identity::new(identity).ok();
        group = EndpointGroup::new(group.source.clone(), group.port_sets.to_vec(), vec![], vec![address]);
        Fact::Group(mk_group_key("shop/pay.shop", "pay", "a"), Arc::new(group))
    };
    world.put("east", [mk_service("shop/pay.shop", declaration(9, "z")), group("d")]);
    world.put("west", [mk_service("shop/pay.shop", declaration(1, "a")), group("b")]);
    let port = world.view("shop/pay.shop").unwrap().ports[0].clone();
    let identities: Vec<&str> = port.cluster.inputs.identities.iter().map(Identity::as_str).collect();
    assert_eq!(identities, ["a", "b", "d", "z"], "identities do not depend on health");
    let addresses: Vec<String> = port.listener.inputs.addresses.iter().map(|a| a.ip.to_string()).collect();
    assert_eq!(addresses, ["10.9.0.1", "10.9.0.9"]);
    world.report("west", [mk_deleted(&group("b"))]);
    let port = world.view("shop/pay.shop").unwrap().ports[0].clone();
    assert_eq!(port.cluster.inputs.identities.len(), 3, "the removed identity is gone");
}

#[test]
fn only_ports_without_any_endpoint_are_unmatched() {
    let mut world = World::of_files();
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http, 81 admin")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080"),
            mk_group("shop/pay.shop", "pay", "b", "10.0.0.2:admin=9090"),
        ],
    );
    assert!(world.codes("shop/pay.shop").is_empty(), "each port has an endpoint");
    world.put("file", [mk_group("shop/pay.shop", "pay", "b", "10.0.0.2:metrics=9090")]);
    let view = world.view("shop/pay.shop").unwrap();
    let messages: Vec<&str> = view.conditions.iter().map(|c| &*c.message).collect();
    assert_eq!(world.codes("shop/pay.shop"), [Code::UNMATCHED_PORT]);
    assert_eq!(messages.len(), 2, "one for 81, one for metrics: {messages:?}");
}

#[test]
fn adapter_warning_is_a_condition_while_it_is_reported() {
    let warning =
        tributary_model::DeclarationWarning { code: Code::DYNAMIC_PORTS, message: "9 numbers".into() };
    let attributes = Attributes { warnings: Arc::from([warning]), ..Attributes::default() };
    let mut world = World::of_files();
    world.put("file", [mk_service("shop/pay.shop", Declaration { attributes, ..mk_decl("pay", "80 http") })]);
    let view = world.view("shop/pay.shop").unwrap();
    assert_eq!(&*view.conditions[0].message, "9 numbers");
    assert_eq!(world.codes("shop/pay.shop"), [Code::DYNAMIC_PORTS]);
    world.put("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    assert!(world.codes("shop/pay.shop").is_empty());
}

#[test]
fn listeners_match_endpoints_of_tcp_without_address() {
    let matched = |edit: &dyn Fn(&mut Declaration)| {
        let mut world = World::of_files();
        let mut declaration = mk_decl("pay", "80 web http, 90 db tcp, 443 secure tls");
        edit(&mut declaration);
        world.put("file", [mk_service("shop/pay.shop", declaration)]);
        let view = world.view("shop/pay.shop").unwrap();
        let is_matched = |port: &&PortView| port.listener.inputs.endpoints.is_some();
        view.ports.iter().filter(is_matched).map(|port| port.number.get()).collect::<Vec<_>>()
    };
    let addressed = |allocated| {
        let ip = "10.9.0.1".parse().unwrap();
        [ServiceAddress { cluster: None, ip, prefix: 32, allocated }].into()
    };
    assert_eq!(matched(&|_| {}), [90]);
    assert_eq!(matched(&|d| d.resolution = Resolution::DnsStrict), [90]);
    assert_eq!(matched(&|d| d.addresses = addressed(false)), []);
    assert_eq!(matched(&|d| d.addresses = addressed(true)), [90], "only DNS capture uses it");
    assert_eq!(matched(&|d| d.resolution = Resolution::Passthrough), [], "any destination is its own");
    let selecting = |d: &mut Declaration| {
        (d.resolution, d.selector) = (Resolution::Passthrough, Some(mk_selector("app=pay")));
    };
    assert_eq!(matched(&selecting), [90]);
    let headless = |d: &mut Declaration| {
        (d.resolution, d.attributes.headless) = (Resolution::Passthrough, true);
    };
    assert_eq!(matched(&headless), [90, 443]);
    assert_eq!(matched(&|d| d.resolution = Resolution::Dynamic), []);
}

#[test]
fn target_port_of_none_replaces_the_destinations_port() {
    let target = |resolution, ports| {
        let mut world = World::of_files();
        world.put("file", [mk_service("shop/pay.shop", Declaration { resolution, ..mk_decl("pay", ports) })]);
        world.view("shop/pay.shop").unwrap().ports[0].cluster.inputs.target.map(|port| port.get())
    };
    assert_eq!(target(Resolution::Passthrough, "443 https tls > 8443"), Some(8443));
    assert_eq!(target(Resolution::Passthrough, "443 https tls > 443"), None);
    assert_eq!(target(Resolution::Passthrough, "443 https tls"), None);
    assert_eq!(target(Resolution::ClientSide, "443 https tls > 8443"), None, "endpoints have their own");
}
