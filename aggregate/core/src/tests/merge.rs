//! Declarations and groups become services: ports, precedence, conflicts, reuse.

use super::mk::*;
use tributary_model::{Code, Provider};

#[test]
fn a_declaration_with_a_group_is_served() {
    let mut world = World::of_files();
    let turn = world.puts(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080 10.0.0.2:http=8080!"),
        ],
    );
    assert_eq!(turn.changed.hosts.len(), 1);
    assert_eq!(turn.records.len(), 2);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:8080", "10.0.0.2:8080!"]);
}

#[test]
fn a_group_waits_for_its_declaration() {
    let mut world = World::of_files();
    world.puts("file", [mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080")]);
    assert!(world.view("shop/pay.shop").is_none());
    assert_eq!(world.core.groups_waiting().count(), 1);
    world.puts("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:8080"]);
    assert_eq!(world.core.groups_waiting().count(), 0);
}

#[test]
fn port_conflict_reported_and_isolated() {
    let mut world =
        World::with(&[mk_spec("east", Provider::Kubernetes), mk_spec("west", Provider::Kubernetes)]);
    world.puts(
        "east",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http http, 81 admin http")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080+admin=8081"),
        ],
    );
    world.puts(
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
    assert_eq!(view.ports[0].name.as_str(), "http", "east precedes west");
    assert_eq!(world.codes("shop/pay.shop"), [Code::PORT_CONFLICT]);
}
