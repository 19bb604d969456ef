//! Positions of objects that move in their source: shown everywhere, without a change of the catalog.

use std::sync::Arc;

use tributary_model::{Code, Fact, Mono, Position};

use super::fixtures::*;

/// Returns the fact with its object at a position.
fn at(mut fact: Fact, position: &str) -> Fact {
    let position = Position::new(position.into());
    match &mut fact {
        Fact::Service(_, value) => Arc::make_mut(value).source.position = position,
        Fact::Group(_, value) => Arc::make_mut(value).source.position = position,
        Fact::Workload(_, value) => Arc::make_mut(value).source.position = position,
        Fact::Gateway(_, value) => Arc::make_mut(value).source.position = position,
        Fact::Policy(_, value) => Arc::make_mut(value).source.position = position,
        _ => panic!("it has no source"),
    }
    fact
}

/// Facts of every kind that has a source, each at a line of its file.
fn all(line: u32) -> Vec<Fact> {
    let facts = [
        mk_service("shop/a.test", mk_decl("a", "80 http")),
        mk_group("shop/a.test", "a", "g", "10.0.0.1:http=80+more=81"),
        mk_workload("w", "10.0.0.2", "app=w"),
        mk_gateway("n", "10.0.0.3"),
        mk_sidecar("shop/s", "", Some(1)),
        mk_sidecar("shop/t", "", Some(2)),
    ];
    facts.into_iter().zip(1..).map(|(fact, file)| at(fact, &format!("{file}.yaml:{line}:1"))).collect()
}

/// Returns the positions that the catalog shows.
fn shown(world: &mut World) -> Vec<String> {
    let catalog = world.catalog();
    let view = world.view("shop/a.test").unwrap();
    let port = view.ports.first().unwrap();
    let services = view.declarations.iter().map(|seen| &seen.declaration.source);
    let groups = port.endpoints.inputs.sources.iter().map(|source| &source.group.source);
    let workloads = catalog.workloads.values().map(|view| &view.workload.source);
    let gateways = catalog.gateways.values().map(|gateway| &gateway.source);
    let policies = catalog.policies.values().map(|view| &view.declared.source);
    let sources = services.chain(groups).chain(workloads).chain(gateways).chain(policies);
    sources.map(|source| source.position.to_string()).collect()
}

#[test]
fn object_that_moves_in_its_source_is_shown_there_and_changes_nothing() {
    let mut world = World::of_files();
    world.list("file", all(3));
    let outcome = world.put("file", all(9));
    assert!(outcome.changed.is_empty(), "{:?}", outcome.changed);
    assert_eq!(fact_records(&outcome).len(), 6, "a restarted server has them there");
    let expected: Vec<String> = (1..=6).map(|file| format!("{file}.yaml:9:1")).collect();
    assert_eq!(shown(&mut world), expected);
    let catalog = world.catalog();
    let conflicts = catalog.policies.values().flat_map(|view| view.conditions.iter());
    let conflicts: Vec<_> = conflicts.filter(|one| one.code == Code::POLICY_CONFLICT).cloned().collect();
    let objects = conflicts.iter().flat_map(|one| one.objects.iter());
    let named: Vec<String> = objects.map(|object| object.position.to_string()).collect();
    assert!(conflicts.iter().all(|one| !one.message.contains(".yaml")), "{conflicts:?}");
    let service = world.view("shop/a.test").unwrap();
    let text = service.conditions.iter().map(|one| one.message.to_string()).collect::<String>();
    assert!(!text.is_empty() && !text.contains(".yaml"), "{text}");
    assert!(!named.is_empty() && named.iter().all(|position| position.ends_with(":9:1")), "{named:?}");
}

#[test]
fn restored_object_is_shown_where_the_next_list_has_it() {
    let mut world = World::of_files();
    let first = world.list("file", all(3));
    let mut restored = World::of_files();
    restored.core.restore(Mono(50), &mk_name("file"), fact_records(&first), false);
    restored.restart("file");
    restored.list("file", all(9));
    assert!(shown(&mut restored).iter().all(|position| position.ends_with(":9:1")));
}
