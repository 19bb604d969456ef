//! Lists: a complete list removes the facts that it lacks, unless their object has a problem.

use super::fixtures::*;
use tributary_model::{
    Code, Completeness, Evidence, Fact, ObjectId, ObjectRef, Problem, Record, RegistryUpdate,
};

fn decl(name: &str) -> Fact {
    mk_service(&format!("shop/{name}.shop"), mk_decl(name, "80 http"))
}
fn hosts(world: &mut World) -> Vec<String> {
    world.catalog().hosts.keys().map(ToString::to_string).collect()
}
fn restart() -> RegistryUpdate {
    RegistryUpdate::ListStarted(mk_collection(KINDS[0]))
}
fn synced(how: Completeness) -> RegistryUpdate {
    RegistryUpdate::ListEnded(mk_collection(KINDS[0]), how)
}
fn problem(name: &str, bad: bool) -> RegistryUpdate {
    let object = ObjectRef::new(ObjectId::new("ServiceEntry", "shop", name));
    let problem = Problem { code: Code::INVALID_HOST, message: "bad".into() };
    RegistryUpdate::Problem(mk_scope(SCOPE), object, bad.then_some(problem))
}

#[test]
fn complete_list_removes_facts_that_it_lacks() {
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b")]);
    let outcome = world.list("file", [decl("b"), decl("c")]);
    assert_eq!(hosts(&mut world), ["b.shop", "c.shop"]);
    assert!(outcome.urgent);
    assert!(outcome.records.contains(&Record::Remove(
        mk_name("file"),
        mk_fact_key(&decl("a")),
        Evidence::AbsentFromList
    )));
}

#[test]
fn no_reap_before_complete_list() {
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b")]);
    world.report("file", [restart(), mk_put(decl("b"))]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"]);
    for how in [Completeness::Filtered, Completeness::Partial] {
        world.report("file", [synced(how)]);
        assert_eq!(hosts(&mut world), ["a.shop", "b.shop"], "{how:?}");
    }
    world.report("file", [synced(Completeness::Complete)]);
    assert_eq!(hosts(&mut world), ["b.shop"]);
}

#[test]
fn next_list_continues_an_interrupted_one() {
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b"), decl("c")]);
    world.report("file", [restart(), mk_put(decl("a"))]);
    world.restart("file");
    world.report("file", [restart(), mk_put(decl("b")), mk_put(decl("d")), synced(Completeness::Complete)]);
    assert_eq!(hosts(&mut world), ["b.shop", "d.shop"]);
}

#[test]
fn invalid_object_keeps_its_last_valid_facts() {
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b")]);
    world.restart("file");
    world.report("file", [problem("a", true)]);
    world.list("file", [decl("b")]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"], "the object is invalid, not removed");
    assert_eq!(world.core.problems().count(), 1);
    world.report("file", [problem("a", false), mk_put(decl("a"))]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"], "the problem ended and the fact was reported");
    world.restart("file");
    world.report("file", [problem("a", true)]);
    world.list("file", [decl("b")]);
    world.report("file", [problem("a", false)]);
    assert_eq!(hosts(&mut world), ["b.shop"], "the problem ended without a report of the fact");
}

#[test]
fn invalid_object_put_before_its_problem_ends_stays() {
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b")]);
    world.restart("file");
    world.report("file", [problem("a", true)]);
    world.list("file", [decl("b")]);
    world.report("file", [mk_put(decl("a"))]);
    world.report("file", [problem("a", false)]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"]);
}

#[test]
fn rotation_spares_facts_of_invalid_objects() {
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b")]);
    let shadow = world.shadow("file");
    world.report_in("file", shadow, [problem("a", true)]);
    world.report_in("file", shadow, mk_list([decl("b")]));
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"]);
    world.report_in("file", shadow, [problem("a", false)]);
    assert_eq!(hosts(&mut world), ["b.shop"]);
}

#[test]
fn next_run_ends_problems_that_it_does_not_report() {
    let mut world = World::of_files();
    world.list("file", [decl("a")]);
    world.report("file", [problem("a", true)]);
    world.restart("file");
    world.list("file", [decl("b")]);
    assert_eq!(world.core.problems().count(), 0);
    assert_eq!(hosts(&mut world), ["b.shop"], "only the old run reported the problem");
}

#[test]
fn blank_and_unknown_fields_quarantine_object() {
    // only the facts of the invalid object are spared; the list decides about the others
    let mut world = World::of_files();
    world.list("file", [decl("a"), decl("b"), decl("c")]);
    world.restart("file");
    world.report("file", [problem("a", true)]);
    world.list("file", [decl("c")]);
    assert_eq!(hosts(&mut world), ["a.shop", "c.shop"]);
}

#[test]
fn shadow_list_removes_the_shadows_own_facts() {
    let mut world = World::of_files();
    world.list("file", [decl("a")]);
    let shadow = world.shadow("file");
    world.report_in("file", shadow, [restart(), mk_put(decl("a")), mk_put(decl("b"))]);
    world.report_in("file", shadow, mk_list([decl("b")]));
    assert_eq!(hosts(&mut world), ["b.shop"]);
}

#[test]
fn object_invalid_in_two_scopes_is_one_problem() {
    let mut world = World::of_files();
    let elsewhere = |bad| match problem("a", bad) {
        RegistryUpdate::Problem(_, object, problem) => {
            RegistryUpdate::Problem(mk_scope("elsewhere"), object, problem)
        }
        other => other,
    };
    world.report("file", [problem("a", true), elsewhere(true), problem("b", true)]);
    assert_eq!((world.core.problems().count(), world.core.status()[0].problems), (2, 2));
    world.report("file", [problem("a", false)]);
    assert_eq!(
        (world.core.problems().count(), world.core.status()[0].problems),
        (2, 2),
        "the object is invalid in a second scope"
    );
    world.report("file", [elsewhere(false)]);
    assert_eq!((world.core.problems().count(), world.core.status()[0].problems), (1, 1));
}
