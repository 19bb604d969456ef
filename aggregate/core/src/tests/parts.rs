//! Multi-cluster services with exports and imports.

use tributary_model::{
    Attributes, ClusterId, Code, Declaration, DeclarationRole, Fact, ObjectId, ProviderId, Resolution,
    ServiceAddress, Source, Visibility,
};

use super::fixtures::*;

const HOST: &str = "shop/pay.shop.svc.clusterset.local";

fn mk_part(part: DeclarationRole, ports: &str) -> Declaration {
    let kind = if part == DeclarationRole::Import { "ServiceImport" } else { "Service" };
    Declaration {
        source: Source::new(ObjectId::new(kind, "shop", "pay")),
        attributes: Attributes { role: part, ..Attributes::default() },
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
    World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("west", ProviderId::KUBERNETES)])
}

#[test]
fn service_in_parts_needs_an_export_and_an_import() {
    let mut world = world();
    world.put("east", [mk_import("10.9.0.1", "east", "")]);
    assert!(world.view(HOST).is_none(), "no export");
    world.put("west", [mk_offer("80 http")]);
    let view = world.view(HOST).unwrap();
    assert_eq!(view.ports.len(), 1);
    assert_eq!(
        view.first().unwrap().declaration.attributes.role,
        DeclarationRole::Offer,
        "the export defines the service"
    );
    world.report("east", [mk_deleted(&mk_import("10.9.0.1", "east", ""))]);
    assert!(world.view(HOST).is_none(), "no import");
    world.put("west", [mk_import("10.9.0.2", "west", "")]);
    assert!(world.view(HOST).is_some());
    world.report("west", [mk_deleted(&mk_offer(""))]);
    assert!(world.view(HOST).is_none(), "no export");
}

#[test]
fn exports_add_endpoints_and_imports_add_addresses() {
    let mut world = world();
    let group = |name: &str, ip: &str| {
        let Fact::Group(mut key, group) = mk_group(HOST, "pay", name, &format!("{ip}:http=8080")) else {
            panic!()
        };
        key.declaration = ObjectId::new("Service", "shop", "pay");
        Fact::Group(key, group)
    };
    world.put("east", [mk_import("10.9.0.1", "east", ""), mk_offer("80 http"), group("a", "10.0.0.1")]);
    world.put("west", [mk_import("10.9.0.2", "west", ""), mk_offer("80 http"), group("b", "10.0.0.2")]);
    assert_eq!(world.served(HOST, 80), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    let view = world.view(HOST).unwrap();
    let ips: Vec<String> = view.ports[0].listener.inputs.addresses.iter().map(|a| a.ip.to_string()).collect();
    assert_eq!(ips, ["10.9.0.1", "10.9.0.2"]);
    assert_eq!(world.codes(HOST), []);
}

#[test]
fn conflict_of_export_and_import_is_a_condition() {
    let mut world = world();
    world.put("east", [mk_import("10.9.0.1", "east", "80 x, 443 y"), mk_offer("80 http http")]);
    assert_eq!(world.codes(HOST), [Code::IMPORT_CONFLICT], "no export offers 443");
    assert_eq!(world.view(HOST).unwrap().ports.len(), 1, "the port is not served");
    let headless = Declaration {
        resolution: Resolution::Passthrough,
        ..mk_part(DeclarationRole::Offer, "80 web tcp, 443 y tcp")
    };
    world.put("west", [mk_service(HOST, headless)]);
    let codes = world.codes(HOST);
    assert!(codes.contains(&Code::PORT_CONFLICT) && codes.contains(&Code::RESOLUTION_CONFLICT), "{codes:?}");
    assert!(!codes.contains(&Code::IMPORT_CONFLICT), "west offers it");
}

#[test]
fn exports_define_the_visibility() {
    let mut world = world();
    let only = Visibility::Namespaces([mk_ns("shop")].into());
    let offer = Declaration {
        export: tributary_model::ExportTo::Set(only.clone()),
        ..mk_part(DeclarationRole::Offer, "80 http")
    };
    world.put("east", [mk_import("10.9.0.1", "east", ""), mk_service(HOST, offer)]);
    let view = world.view(HOST).unwrap();
    assert!(view.declarations.iter().all(|d| d.visibility == only));
}
