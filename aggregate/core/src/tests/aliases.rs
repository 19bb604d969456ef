//! Aliases: hosts that point to other hosts.

use super::fixtures::*;
use tributary_model::{Code, Declaration, ExportTo, Fact, Resolution, Visibility};

fn alias(name: &str, to: &str) -> Fact {
    let resolution = Resolution::Alias(mk_host(to));
    mk_service(&format!("shop/{name}"), Declaration { resolution, ..mk_decl(name, "80 http") })
}
fn concrete(name: &str) -> Fact {
    mk_service(&format!("shop/{name}"), mk_decl(name, "80 http"))
}
fn aliases(world: &mut World, service: &str) -> Vec<String> {
    let view = world.view(service);
    view.map(|v| v.alias_hosts().into_iter().map(ToString::to_string).collect()).unwrap_or_default()
}

#[test]
fn alias_chain_is_flattened_onto_its_end() {
    let mut world = World::of_files();
    world.put("file", [alias("a.shop", "b.shop"), alias("b.shop", "c.shop")]);
    assert_eq!(world.codes("shop/a.shop"), [Code::ALIAS_DANGLING]);
    let outcome = world.put("file", [concrete("c.shop")]);
    assert_eq!(outcome.changed.hosts.len(), 3, "the end and all its aliases");
    assert_eq!(aliases(&mut world, "shop/c.shop"), ["a.shop", "b.shop"]);
    assert!(world.codes("shop/a.shop").is_empty());
    let possible = world.catalog().aliases_of(&mk_host("c.shop")).len();
    assert_eq!(possible, 2, "the catalog lists them for any client");
    assert!(aliases(&mut world, "shop/b.shop").is_empty());
}

#[test]
fn changed_port_changes_the_aliases_of_its_service() {
    let mut world = World::of_files();
    let with = |ports| mk_service("shop/c.shop", mk_decl("c.shop", ports));
    world.put("file", [alias("a.shop", "c.shop"), with("80 http")]);
    let changed = |world: &mut World, fact| {
        world.put("file", [fact]).changed.hosts.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(changed(&mut world, with("80 http, 81 admin")), ["a.shop", "c.shop"]);
    assert_eq!(changed(&mut world, with("80 http, 81 admin tcp")), ["c.shop"], "no port came or went");
}

#[test]
fn changed_visibility_of_an_alias_changes_no_other_host() {
    let mut world = World::of_files();
    world.put("file", [alias("b.shop", "a.shop"), alias("a.shop", "c.shop"), concrete("c.shop")]);
    let only = Visibility::Namespaces([mk_ns("web")].into());
    let narrowed = |name: &str, to: Option<&str>| {
        let Fact::Service(key, value) = to.map_or_else(|| concrete(name), |to| alias(name, to)) else {
            panic!()
        };
        Fact::Service(key, Declaration { export: ExportTo::Set(only.clone()), ..(*value).clone() }.into())
    };
    let changed = |world: &mut World, fact| {
        world.put("file", [fact]).changed.hosts.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(changed(&mut world, narrowed("b.shop", Some("a.shop"))), ["b.shop"]);
    assert_eq!(
        changed(&mut world, narrowed("a.shop", Some("c.shop"))),
        ["a.shop", "b.shop"],
        "b leads through it"
    );
    assert_eq!(changed(&mut world, narrowed("c.shop", None)), ["a.shop", "b.shop", "c.shop"]);
}

#[test]
fn alias_of_a_second_declaration_is_listed_for_those_who_see_it() {
    let mut world = World::of_files();
    let second = Declaration { resolution: Resolution::Alias(mk_host("b.shop")), ..mk_decl("z", "80 http") };
    world.put("file", [concrete("a.shop"), mk_service("shop/a.shop", second), concrete("b.shop")]);
    let listed = |world: &mut World| {
        world
            .catalog()
            .aliases_of(&mk_host("b.shop"))
            .into_iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut world), ["a.shop"]);
    assert!(aliases(&mut world, "shop/b.shop").is_empty(), "the first declaration is no alias");
}

#[test]
fn changed_middle_of_an_alias_chain_builds_both_ends() {
    let mut world = World::of_files();
    world.put(
        "file",
        [alias("a.shop", "b.shop"), alias("b.shop", "c.shop"), concrete("c.shop"), concrete("d.shop")],
    );
    world.put("file", [alias("b.shop", "d.shop")]);
    assert!(aliases(&mut world, "shop/c.shop").is_empty());
    assert_eq!(aliases(&mut world, "shop/d.shop"), ["a.shop", "b.shop"]);
    world.put("file", [concrete("b.shop")]);
    assert!(aliases(&mut world, "shop/d.shop").is_empty());
    assert_eq!(aliases(&mut world, "shop/b.shop"), ["a.shop"]);
}

#[test]
fn alias_loop_is_a_condition_until_it_is_broken() {
    let mut world = World::of_files();
    world.put("file", [alias("a.shop", "b.shop"), alias("b.shop", "a.shop"), alias("c.shop", "c.shop")]);
    for service in ["shop/a.shop", "shop/b.shop", "shop/c.shop"] {
        assert_eq!(world.codes(service), [Code::ALIAS_LOOP], "{service}");
    }
    world.put("file", [concrete("b.shop")]);
    assert!(world.codes("shop/a.shop").is_empty());
    assert_eq!(aliases(&mut world, "shop/b.shop"), ["a.shop"]);
    assert_eq!(world.codes("shop/c.shop"), [Code::ALIAS_LOOP]);
}

#[test]
fn changed_endpoint_of_an_aliased_host_builds_one_service() {
    let mut world = World::of_files();
    world.put("file", [alias("a.shop", "c.shop"), concrete("c.shop")]);
    let before = world.core.counters().views;
    world.put("file", [mk_group("shop/c.shop", "c.shop", "g", "10.0.0.1:http=80")]);
    assert_eq!(world.core.counters().views, before + 1);
}

#[test]
fn names_are_updated_first_and_each_service_is_built_once() {
    let mut world = World::of_files();
    world.put("file", [alias("a.shop", "b.shop"), alias("b.shop", "c.shop"), concrete("c.shop")]);
    assert_eq!(world.core.counters().views, 3, "a chain in one batch");
    assert_eq!(aliases(&mut world, "shop/c.shop"), ["a.shop", "b.shop"]);
    let before = world.core.counters().views;
    world.put("file", [concrete("d.shop"), alias("b.shop", "d.shop")]);
    assert_eq!(world.core.counters().views, before + 4, "the chain, its old and its new end");
}

#[test]
fn alias_serves_no_endpoints_of_its_own() {
    let mut world = World::of_files();
    world
        .put("file", [alias("a.shop", "c.shop"), mk_group("shop/a.shop", "a.shop", "g", "10.0.0.1:http=80")]);
    assert!(world.served("shop/a.shop", 80).is_empty());
}
