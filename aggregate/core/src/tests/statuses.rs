//! Status changes: which registries an outcome names, so that readers need not poll.

use super::fixtures::*;
use std::sync::Arc;
use tributary_model::{
    Code, Completeness, Evidence, Mono, ObjectId, ObjectRef, Problem, ProviderId, RegistryName,
    RegistryUpdate, SourceState, SourceStatus, Withheld,
};

fn names(statuses: impl IntoIterator<Item = RegistryName>) -> Vec<String> {
    statuses.into_iter().map(|name| name.to_string()).collect()
}
fn status(state: SourceState, reason: &str) -> RegistryUpdate {
    RegistryUpdate::Status(mk_scope(SCOPE), SourceStatus::new(state, reason))
}
fn mk_world() -> World {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("file", ProviderId::SERVICE_ENTRY)]);
    world.list("east", []);
    world.list("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    world
}

#[test]
fn changed_status_names_its_registry_once() {
    let mut world = mk_world();
    let outcome = world.report("file", [status(SourceState::Live, "partial view")]);
    assert_eq!(names(outcome.statuses), ["file"]);
    let outcome = world.report("file", [status(SourceState::Live, "partial view")]);
    assert!(outcome.statuses.is_empty(), "an equal status is not a change");
    assert!(world.core.tick(Mono(world.now)).statuses.is_empty());
    let outcome = world.report("file", [status(SourceState::Live, "")]);
    assert_eq!(names(outcome.statuses), ["file"], "the reason changed");
}

#[test]
fn changed_facts_change_no_status() {
    let mut world = mk_world();
    let outcome = world.put("file", [mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=80")]);
    assert!(outcome.statuses.is_empty(), "{:?}", outcome.statuses);
    assert!(outcome.changed.concerns_clients());
}

#[test]
fn lists_failures_and_membership_change_a_status() {
    let mut world = mk_world();
    let withheld = RegistryUpdate::Withheld(mk_collection(KINDS[0]), Withheld::forbidden("403"));
    assert_eq!(names(world.report("file", [withheld]).statuses), ["file"]);
    let failed = world.core.fail(Mono(500), &mk_name("east"), &Arc::from("it broke"));
    assert_eq!(names(failed.statuses), ["east"]);
    let order = world.order("east");
    let (begun, _) = world.core.serve(Mono(600), &order).unwrap();
    assert_eq!(names(begun.statuses), ["east"]);
    let removed = world.core.remove_registry(&mk_name("east"), &Evidence::Operator);
    assert_eq!(names(removed.statuses), ["east"]);
    let added = world.core.add_registry(&mk_spec("west", ProviderId::KUBERNETES)).unwrap();
    assert_eq!(names(added.statuses), ["west"]);
}

#[test]
fn shadow_changes_the_status_of_its_registry() {
    let mut world = mk_world();
    let shadow = world.shadow("file");
    let outcome = world.report_in("file", shadow, [status(SourceState::Syncing, "")]);
    assert_eq!(names(outcome.statuses), ["file"]);
    let mut updates = mk_list([]);
    updates.pop();
    let outcome = world.report_in("file", shadow, updates);
    assert_eq!(names(outcome.statuses), ["file"], "the obstacle may have changed");
}

#[test]
fn slices_of_a_batch_report_statuses_at_its_end() {
    let mut world = mk_world();
    let (name, generation) = ("file", world.generation("file"));
    let stamped = |world: &World, update| vec![world.stamp(name, generation, update)];
    let first = stamped(&world, status(SourceState::Unreachable, "connection refused"));
    let outcome = world.core.apply_part(Mono(700), first);
    assert!(outcome.statuses.is_empty());
    let last = stamped(&world, status(SourceState::Live, ""));
    assert_eq!(names(world.core.apply(Mono(700), last).statuses), ["file"]);
}

#[test]
fn changed_problem_of_an_object_changes_a_status() {
    let mut world = mk_world();
    let problem = |message: &str| Problem { code: Code::INVALID_HOST, message: message.into() };
    let mut report = |problem| {
        let object = ObjectRef::new(ObjectId::new("ServiceEntry", "shop", "pay"));
        names(world.report("file", [RegistryUpdate::Problem(mk_scope(SCOPE), object, problem)]).statuses)
    };
    assert_eq!(report(Some(problem("bad"))), ["file"]);
    assert_eq!(report(Some(problem("worse"))), ["file"]);
    assert_eq!(report(None), ["file"]);
}

#[test]
fn state_of_a_scope_lasts_until_it_changes() {
    let mut world = mk_world();
    let mut since = |update| {
        world.report("file", [update]);
        let status = world.core.status().into_iter().find(|one| one.id.name == mk_name("file")).unwrap();
        let (scope, view) = status.sources.first_key_value().unwrap();
        (status.overall_of(scope).state.as_str(), world.now - view.since.unwrap())
    };
    assert_eq!(since(status(SourceState::Live, "")), ("Live", 0));
    assert_eq!(since(status(SourceState::Syncing, "a list")), ("Live", 10), "its facts are followed");
    assert_eq!(since(status(SourceState::Unreachable, "no path")), ("Unreachable", 0));
    assert_eq!(since(status(SourceState::Unreachable, "timeout")), ("Unreachable", 10), "another reason");
    assert_eq!(since(status(SourceState::Live, "")), ("Live", 0));
    let withheld = RegistryUpdate::Withheld(mk_collection(KINDS[0]), Withheld::forbidden("403"));
    assert_eq!(since(withheld), ("Stale", 0), "its source stays live");
    assert_eq!(since(status(SourceState::Live, "")), ("Stale", 10));
    let listed = RegistryUpdate::ListEnded(mk_collection(KINDS[0]), Completeness::Complete);
    assert_eq!(since(listed), ("Live", 0));
}
