//! Audit of unexplained losses: what it counts when the removal guard is bypassed, and what explains a loss.

use super::fixtures::*;
use tributary_model::{Basis, Evidence, Fact, FactKey, Mono};

fn decl() -> Fact {
    mk_service("shop/pay.shop", mk_decl("pay", "80 http"))
}
fn group(endpoints: &str) -> Fact {
    mk_group("shop/pay.shop", "pay", "a", endpoints)
}
fn unexplained(world: &World) -> u64 {
    world.core.counters().unexplained_empty
}
/// Removes a fact without the removal guard.
fn take_away(world: &mut World, registry: &str, fact: &Fact, evidence: Evidence) {
    let FactKey { scope, item } = mk_fact_key(fact);
    let shard = world.core.state.context.shards.find(&mk_name(registry), &scope).unwrap();
    world.core.begin(Mono(world.now));
    assert!(world.core.state.remove(shard, &item, evidence));
    world.core.finish();
}
fn mk_world() -> World {
    let mut world = World::confirming();
    world.put("east", [decl(), group("10.0.0.1:http=80")]);
    world
}

#[test]
fn host_emptied_by_absence_is_counted() {
    for fact in [group("10.0.0.1:http=80"), decl()] {
        let mut world = mk_world();
        take_away(&mut world, "east", &fact, Evidence::AbsentFromList);
        assert_eq!(unexplained(&world), 1, "{fact:?}");
    }
}

#[test]
fn evidence_and_reported_values_explain_a_loss() {
    for evidence in [Evidence::Confirmed, Evidence::Operator, Evidence::Withdrawn] {
        let mut world = mk_world();
        take_away(&mut world, "east", &group("10.0.0.1:http=80"), evidence);
        assert_eq!(unexplained(&world), 0);
    }
    let mut world = mk_world();
    world.report(
        "east",
        [tributary_model::RegistryUpdate::Put(mk_scope(SCOPE), group(""), Basis::Authoritative)],
    );
    assert!(world.served("shop/pay.shop", 80).is_empty());
    assert_eq!(unexplained(&world), 0, "the source reported an empty group");
}

#[test]
fn remaining_endpoint_prevents_an_unexplained_loss() {
    let mut world = mk_world();
    world.put("east", [mk_group("shop/pay.shop", "pay", "b", "10.0.0.2:http=80")]);
    take_away(&mut world, "east", &group("10.0.0.1:http=80"), Evidence::AbsentFromList);
    assert_eq!(unexplained(&world), 0);
}

#[test]
fn evidence_for_a_different_host_explains_nothing() {
    let mut world = mk_world();
    let other = mk_service("shop/other.shop", mk_decl("other", "80 http"));
    world.put("east", [other.clone()]);
    let keys = [(other, Evidence::Operator), (group("10.0.0.1:http=80"), Evidence::AbsentFromList)];
    world.core.begin(Mono(world.now));
    for (fact, evidence) in keys {
        let FactKey { scope, item } = mk_fact_key(&fact);
        let shard = world.core.state.context.shards.find(&mk_name("east"), &scope).unwrap();
        assert!(world.core.state.remove(shard, &item, evidence));
    }
    world.core.finish();
    assert_eq!(unexplained(&world), 1);
}
