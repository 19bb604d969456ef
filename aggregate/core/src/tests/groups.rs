//! Runs of several registries that begin to serve in one turn: no state in between, whatever ends, restarts or is replaced.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tributary_model::{Evidence, Generation, Mono, ProviderId, RegistryName};

use super::fixtures::*;
use super::generations::pay;
use crate::RunGroup;

const NAMES: [&str; 2] = ["away", "away-entries"];

fn mk_group(number: u64) -> RunGroup {
    RunGroup { number, names: NAMES.map(mk_name).into() }
}

fn mk_world() -> World {
    let specs = NAMES.map(|name| mk_spec(name, ProviderId::KUBERNETES).shadowing());
    let mut world = World::with(&specs);
    NAMES.into_iter().enumerate().for_each(|(at, name)| drop(world.list(name, mk_facts(at, 0))));
    world
}

/// Returns facts whose address names the registry and the lane.
fn mk_facts(at: usize, lane: u64) -> [tributary_model::Fact; 2] {
    pay(&format!("10.{at}.0.{}:http=80", lane + 1))
}

fn served_by(world: &mut World) -> Vec<String> {
    world.served("shop/pay.shop", 80)
}

#[test]
fn group_waits_for_a_run_that_begins_later() {
    let mut world = mk_world();
    let first = world.shadow_in(NAMES[0], Some(mk_group(1)));
    world.report_in(NAMES[0], first, mk_list(mk_facts(0, 1)));
    assert_eq!(served_by(&mut world), ["10.0.0.1:80", "10.1.0.1:80"]);
    let waits_for = world.core.status()[0].waits_for.clone().unwrap();
    assert!(waits_for.contains("registry away-entries"), "{waits_for}");

    // its run ends and the next one takes its place
    world.shadow_in(NAMES[1], Some(mk_group(1)));
    world.core.drop_shadow(&mk_name(NAMES[1]));
    assert_eq!(served_by(&mut world), ["10.0.0.1:80", "10.1.0.1:80"], "half a rotation");
    let second = world.shadow_in(NAMES[1], Some(mk_group(1)));
    let outcome = world.report_in(NAMES[1], second, mk_list(mk_facts(1, 1)));
    assert_eq!(served_by(&mut world), ["10.0.0.2:80", "10.1.0.2:80"]);
    assert!(!outcome.changed.hosts.is_empty(), "both in this turn");
    assert!(world.core.status().iter().all(|one| one.shadow.is_none()));
}

#[test]
fn registry_that_serves_its_group_already_is_not_waited_for() {
    let specs = NAMES.map(|name| mk_spec(name, ProviderId::KUBERNETES).shadowing());
    let mut world = World::with(&specs);
    // as when a cluster joins, and one of two has facts before the other begins
    let begin = |world: &mut World, name| {
        let order = crate::RunOrder { group: Some(mk_group(1)), ..world.order(name) };
        world.core.serve(Mono(300), &order).unwrap().1.in_shadow
    };
    assert!(!begin(&mut world, NAMES[0]));
    world.list(NAMES[0], mk_facts(0, 0));
    assert!(!begin(&mut world, NAMES[1]));
    let shadow = world.shadow_in(NAMES[0], Some(mk_group(1)));
    world.report_in(NAMES[0], shadow, mk_list(mk_facts(0, 1)));
    assert_eq!(served_by(&mut world), ["10.0.0.2:80"]);
}

#[test]
fn registry_without_facts_waits_for_the_run_that_replaces_those_of_the_other() {
    let specs = NAMES.map(|name| mk_spec(name, ProviderId::KUBERNETES).shadowing());
    let mut world = World::with(&specs);
    world.list(NAMES[0], mk_facts(0, 0));
    // as after a restart, when the journal has facts of one of two
    let order = |world: &World, name| crate::RunOrder { group: Some(mk_group(1)), ..world.order(name) };
    let orders = [order(&world, NAMES[1]), order(&world, NAMES[0])];
    let runs = orders.each_ref().map(|order| {
        assert!(world.core.serve(Mono(300), order).unwrap().1.in_shadow);
        order.generation
    });
    world.report_in(NAMES[1], runs[0], mk_list(mk_facts(1, 1)));
    assert_eq!(served_by(&mut world), ["10.0.0.1:80"], "another cluster may answer");
    world.report_in(NAMES[0], runs[1], mk_list(mk_facts(0, 1)));
    assert_eq!(served_by(&mut world), ["10.0.0.2:80", "10.1.0.2:80"]);
}

#[test]
fn shadow_continues_when_the_rest_of_its_group_is_removed() {
    let mut world = mk_world();
    let shadow = world.shadow_in(NAMES[0], Some(mk_group(1)));
    world.report_in(NAMES[0], shadow, mk_list(mk_facts(0, 1)));
    world.core.remove_registries(&[mk_name(NAMES[1])], &Evidence::Operator);
    assert_eq!(served_by(&mut world), ["10.0.0.2:80"]);
}

#[derive(Debug, Clone)]
enum Act {
    /// Begins a shadow of the newest rotation in one of both.
    Begin(usize),
    /// Rotates: both are to begin shadows of another number.
    Rotate,
    /// Lists everything in a shadow.
    List(usize),
    /// Ends the run of a shadow.
    End(usize),
    /// Ends the served run.
    Fail(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..2_usize).prop_map(Act::Begin),
        1 => Just(Act::Rotate),
        3 => (0..2_usize).prop_map(Act::List),
        1 => (0..2_usize).prop_map(Act::End),
        1 => (0..2_usize).prop_map(Act::Fail),
    ]
}

proptest! {
    #[test]
    fn registries_of_a_group_always_serve_one_lane(acts in proptest::collection::vec(any_act(), 1..60)) {
        let mut world = mk_world();
        let mut shadows: BTreeMap<RegistryName, (Generation, u64)> = BTreeMap::new();
        let mut lane = 1;
        for act in acts {
            match act.clone() {
                Act::Rotate => lane += 1,
                Act::Begin(at) => {
                    let generation = world.shadow_in(NAMES[at], Some(mk_group(lane)));
                    shadows.insert(mk_name(NAMES[at]), (generation, lane));
                }
                Act::List(at) => {
                    if let Some((generation, lane)) = shadows.get(&mk_name(NAMES[at])).copied() {
                        world.report_in(NAMES[at], generation, mk_list(mk_facts(at, lane)));
                    }
                }
                Act::End(at) => drop(world.core.drop_shadow(&mk_name(NAMES[at]))),
                Act::Fail(at) => drop(world.core.fail(Mono(world.now), &mk_name(NAMES[at]), &"401".into())),
            }
            let served = served_by(&mut world);
            let lane_of = |one: &String| one.rsplit_once('.').map(|(_, lane)| lane.to_owned());
            let lanes: Vec<String> = served.iter().filter_map(lane_of).collect();
            prop_assert!(lanes.len() == 2 && lanes[0] == lanes[1], "{:?} after {:?}", served, act);
        }
    }
}
