//! Multi-cluster services: offered by some, imported by others.

use tributary_model::{
    Attributes, ClusterId, Code, Declaration, DeclarationRole, Fact, ObjectId, Provider, Resolution,
    ServiceAddress, Source, Visibility,
};

use super::fixtures::*;

const HOST: &str = "shop/pay.shop.svc.clusterset.local";

fn mk_part(part: DeclarationRole, ports: &str) -> Declaration {
    let kind = if part == DeclarationRole::Import { "ServiceImport" } else { "Service" };
    Declaration {
        source: Source::new(ObjectId::new(kind, "shop", "pay")),
        attributes: Attributes { part, ..Attributes::default() },
        ..mk_decl("pay", ports)
    }
}
fn mk_import(ip: &str, cluster: &str, ports: &str) -> Fact {
    let address = ServiceAddress {
        cluster: Some(ClusterId::new(cluster).unwrap()),
        ip: ip.parse().unwrap(),
        prefix: 32,
        allocated: false,
    };
    mk_service(HOST, Declaration { addresses: [address].into(), ..mk_part(DeclarationRole::Import, ports) })
}
fn mk_offer(ports: &str) -> Fact {
    mk_service(HOST, mk_part(DeclarationRole::Offer, ports))
}
fn world() -> World {
    World::with(&[mk_spec("east", Provider::Kubernetes), mk_spec("west", Provider::Kubernetes)])
}

#[test]
fn a_part_alone_is_no_service() {
    let mut world = world();
    world.puts("east", [mk_import("10.9.0.1", "east", "")]);
    assert!(world.view(HOST).is_none(), "nobody offers it");
    world.puts("west", [mk_offer("80 http")]);
    let view = world.view(HOST).unwrap();
    assert_eq!(view.ports.len(), 1);
    assert_eq!(
        view.first().unwrap().declaration.attributes.part,
        DeclarationRole::Offer,
        "what is offered decides"
    );
    world.says("east", [mk_deleted(&mk_import("10.9.0.1", "east", ""))]);
    assert!(world.view(HOST).is_none(), "nobody imports it");
    world.puts("west", [mk_import("10.9.0.2", "west", "")]);
    assert!(world.view(HOST).is_some());
    world.says("west", [mk_deleted(&mk_offer(""))]);
    assert!(world.view(HOST).is_none(), "it is gone everywhere");
}

#[test]
fn every_cluster_that_offers_it_gives_endpoints_and_every_one_that_imports_it_an_address() {
    let mut world = world();
    let group = |name: &str, ip: &str| {
        let Fact::Group(mut key, group) = mk_group(HOST, "pay", name, &format!("{ip}:http=8080")) else {
            panic!()
        };
        key.declaration = ObjectId::new("Service", "shop", "pay");
        Fact::Group(key, group)
    };
    world.puts("east", [mk_import("10.9.0.1", "east", ""), mk_offer("80 http"), group("a", "10.0.0.1")]);
    world.puts("west", [mk_import("10.9.0.2", "west", ""), mk_offer("80 http"), group("b", "10.0.0.2")]);
    assert_eq!(world.served(HOST, 80), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    let view = world.view(HOST).unwrap();
    let ips: Vec<String> = view.ports[0].listener.inputs.addresses.iter().map(|a| a.ip.to_string()).collect();
    assert_eq!(ips, ["10.9.0.1", "10.9.0.2"]);
    assert_eq!(world.codes(HOST), []);
}

#[test]
fn what_the_parts_disagree_on_is_a_condition() {
    let mut world = world();
    world.puts("east", [mk_import("10.9.0.1", "east", "80 x, 443 y"), mk_offer("80 http http")]);
    assert_eq!(world.codes(HOST), [Code::IMPORT_CONFLICT], "nobody offers 443");
    assert_eq!(world.view(HOST).unwrap().ports.len(), 1, "and it is not served");
    let headless = Declaration {
        resolution: Resolution::Passthrough,
        ..mk_part(DeclarationRole::Offer, "80 web tcp, 443 y tcp")
    };
    world.puts("west", [mk_service(HOST, headless)]);
    let codes = world.codes(HOST);
    assert!(codes.contains(&Code::PORT_CONFLICT) && codes.contains(&Code::RESOLUTION_CONFLICT), "{codes:?}");
    assert!(!codes.contains(&Code::IMPORT_CONFLICT), "west offers it");
}

#[test]
fn who_sees_it_is_for_those_to_say_who_offer_it() {
    let mut world = world();
    let only = Visibility::Namespaces([mk_ns("shop")].into());
    let offer = Declaration {
        export: tributary_model::ExportTo::Set(only.clone()),
        ..mk_part(DeclarationRole::Offer, "80 http")
    };
    world.puts("east", [mk_import("10.9.0.1", "east", ""), mk_service(HOST, offer)]);
    let view = world.view(HOST).unwrap();
    assert!(view.declarations.iter().all(|d| d.visibility == only));
}
