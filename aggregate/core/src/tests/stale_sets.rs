//! Lists of the core's own: what they do not name is gone, unless its object is bad or the list is
//! not complete.

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
fn a_complete_list_sweeps_what_it_does_not_name() {
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b")]);
    let turn = world.lists("file", [decl("b"), decl("c")]);
    assert_eq!(hosts(&mut world), ["b.shop", "c.shop"]);
    assert!(turn.urgent);
    assert!(turn.records.contains(&Record::Drop(
        mk_name("file"),
        mk_fact_key(&decl("a")),
        Evidence::AbsentFromList
    )));
}

#[test]
fn no_reap_before_complete_list() {
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b")]);
    world.says("file", [restart(), mk_put(decl("b"))]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"]);
    for how in [Completeness::Filtered, Completeness::Partial] {
        world.says("file", [synced(how)]);
        assert_eq!(hosts(&mut world), ["a.shop", "b.shop"], "{how:?}");
    }
    world.says("file", [synced(Completeness::Complete)]);
    assert_eq!(hosts(&mut world), ["b.shop"]);
}

#[test]
fn an_interrupted_list_is_continued_by_the_next() {
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b"), decl("c")]);
    world.says("file", [restart(), mk_put(decl("a"))]);
    world.restart("file");
    world.says("file", [restart(), mk_put(decl("b")), mk_put(decl("d")), synced(Completeness::Complete)]);
    assert_eq!(hosts(&mut world), ["b.shop", "d.shop"]);
}

#[test]
fn a_bad_object_keeps_its_last_good_version_until_it_is_good_or_gone() {
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b")]);
    world.restart("file");
    world.says("file", [problem("a", true)]);
    world.lists("file", [decl("b")]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"], "the object is bad, not gone");
    assert_eq!(world.core.problems().count(), 1);
    world.says("file", [problem("a", false), mk_put(decl("a"))]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"], "it is good again");
    world.restart("file");
    world.says("file", [problem("a", true)]);
    world.lists("file", [decl("b")]);
    world.says("file", [problem("a", false)]);
    assert_eq!(hosts(&mut world), ["b.shop"], "it is good without naming its facts: they are gone");
}

#[test]
fn a_bad_object_that_is_put_before_it_is_called_good_stays() {
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b")]);
    world.restart("file");
    world.says("file", [problem("a", true)]);
    world.lists("file", [decl("b")]);
    world.says("file", [mk_put(decl("a"))]);
    world.says("file", [problem("a", false)]);
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"]);
}

#[test]
fn a_rotation_spares_what_is_bad_until_it_is_good_or_gone() {
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b")]);
    let shadow = world.shadow("file");
    world.says_in("file", shadow, [problem("a", true)]);
    world.says_in("file", shadow, mk_list([decl("b")]));
    assert_eq!(hosts(&mut world), ["a.shop", "b.shop"]);
    world.says_in("file", shadow, [problem("a", false)]);
    assert_eq!(hosts(&mut world), ["b.shop"]);
}

#[test]
fn a_problem_that_the_next_run_does_not_know_is_over() {
    let mut world = World::of_files();
    world.lists("file", [decl("a")]);
    world.says("file", [problem("a", true)]);
    world.restart("file");
    world.lists("file", [decl("b")]);
    assert_eq!(world.core.problems().count(), 0);
    assert_eq!(hosts(&mut world), ["b.shop"], "its problem was the old run's word");
}

#[test]
fn blank_and_unknown_fields_quarantine_object() {
    // What the core owes to it: the object alone is spared, its neighbours are served and swept.
    let mut world = World::of_files();
    world.lists("file", [decl("a"), decl("b"), decl("c")]);
    world.restart("file");
    world.says("file", [problem("a", true)]);
    world.lists("file", [decl("c")]);
    assert_eq!(hosts(&mut world), ["a.shop", "c.shop"]);
}

#[test]
fn a_shadow_sweeps_its_own_facts() {
    let mut world = World::of_files();
    world.lists("file", [decl("a")]);
    let shadow = world.shadow("file");
    world.says_in("file", shadow, [restart(), mk_put(decl("a")), mk_put(decl("b"))]);
    world.says_in("file", shadow, mk_list([decl("b")]));
    assert_eq!(hosts(&mut world), ["b.shop"]);
}

#[test]
fn object_that_is_bad_in_two_scopes_is_one_problem() {
    let mut world = World::of_files();
    let elsewhere = |bad| match problem("a", bad) {
        RegistryUpdate::Problem(_, object, problem) => {
            RegistryUpdate::Problem(mk_scope("elsewhere"), object, problem)
        }
        other => other,
    };
    world.says("file", [problem("a", true), elsewhere(true), problem("b", true)]);
    assert_eq!((world.core.problems().count(), world.core.status()[0].problems), (2, 2));
    world.says("file", [problem("a", false)]);
    assert_eq!(
        (world.core.problems().count(), world.core.status()[0].problems),
        (2, 2),
        "it is bad elsewhere"
    );
    world.says("file", [elsewhere(false)]);
    assert_eq!((world.core.problems().count(), world.core.status()[0].problems), (1, 1));
}
