//! Changed policies that leave a route without its subset: another object completes the change.

use super::*;

fn mk_subsets(subsets: &str) -> Fact {
    mk_rule("svc/r", 1, "*.test", "", subsets)
}

fn mk_leading(subset: &str) -> Fact {
    mk_vs("svc/v@1 front.test", &[&format!("- * pay.test|{subset}")])
}

/// Returns whether the change waits for another one, and whether it is published at once.
fn judged(world: &mut World, facts: impl IntoIterator<Item = Fact>) -> (bool, bool) {
    let outcome = world.put("file", facts);
    (outcome.incomplete, outcome.urgent)
}

fn mk_world() -> World {
    let mut world = World::of_files();
    world.list("file", [mk_service(PAY, mk_decl("pay", "80 http")), mk_subsets("v1"), mk_leading("v1")]);
    world
}

#[test]
fn renamed_subset_waits_for_its_routes_in_either_order() {
    let mut world = mk_world();
    assert_eq!(judged(&mut world, [mk_subsets("v2")]), (true, false), "the route has no subset");
    assert_eq!(judged(&mut world, [mk_leading("v2")]), (false, true), "complete");
    assert_eq!(judged(&mut world, [mk_leading("v3")]), (true, false), "the subset is not there yet");
    assert_eq!(judged(&mut world, [mk_subsets("v3")]), (false, true));
    assert_eq!(judged(&mut world, [mk_subsets("v4"), mk_leading("v4")]), (false, true), "in one batch");
    assert_eq!(judged(&mut world, [mk_subsets("v4,v5")]), (false, true), "no route loses its subset");
    assert_eq!(judged(&mut world, [mk_subsets("v4")]), (false, true), "no route leads to it");
}

#[test]
fn removed_rule_waits_for_the_removal_of_its_routes() {
    let mut world = mk_world();
    let remove = |fact: Fact| mk_deleted(&fact);
    let outcome = world.report("file", [remove(mk_subsets("v1"))]);
    assert!(outcome.incomplete && !outcome.urgent);
    let outcome = world.report("file", [remove(mk_leading("v1"))]);
    assert!(!outcome.incomplete && outcome.urgent);
}
