//! Poll budget of a scope: which services have a long poll, and what growth, removal and overloads change.

use std::collections::BTreeSet;

use super::world::{Lie, World, mk_settings};
use super::{ALL, SECOND, settled};
use crate::answer::RequestFailure;
use crate::machine::{Mode, RequestTarget};

/// Returns the services whose long polls wait, by number.
fn polled(world: &World) -> BTreeSet<u8> {
    let number = |target: &RequestTarget| match target {
        RequestTarget::Service(name) => name[1..].parse().ok(),
        RequestTarget::Names | RequestTarget::Checks | RequestTarget::Token => None,
    };
    world.long_polls().filter_map(|request| number(&request.target)).collect()
}

fn polls_checks(world: &World) -> bool {
    world.long_polls().any(|request| request.target == RequestTarget::Checks)
}

fn mk_world(polls: usize, services: u8) -> World {
    let mut world = World::new(mk_settings(polls), 1);
    (0..services).for_each(|service| world.put(service, 0));
    world.run(60 * SECOND);
    assert_eq!(world.served(), world.truth());
    world
}

fn overload(world: &mut World, seconds: u32) {
    world.lie = Some(Lie::Fail(RequestFailure::Overload));
    world.break_all();
    world.run(seconds * SECOND);
    world.lie = None;
}

#[test]
fn growth_past_the_budget_restarts_no_long_poll() {
    let mut world = mk_world(4, 4);
    assert_eq!((polled(&world).len(), polls_checks(&world)), (4, false));
    world.cancelled.clear();
    let before = world.sent_to_services();
    (4..8).for_each(|service| world.put(service, 0));
    world.run(SECOND);
    assert_eq!((world.served(), world.cancelled.len()), (world.truth(), 0));
    assert_eq!((polled(&world), polls_checks(&world)), ((0..4).collect(), true));
    world.run(5 * SECOND);
    assert!(world.sent_to_services() - before <= 12, "{} reads", world.sent_to_services() - before);
    assert_eq!(world.machine.report().mode_reason, "more services than connections allow");
}

#[test]
fn vanished_service_gives_its_long_poll_to_another() {
    let mut world = mk_world(4, 6);
    assert_eq!(world.machine.mode(), Mode::Mixed);
    world.vanish(0);
    world.vanish(1);
    world.run(30 * SECOND);
    assert_eq!((polled(&world), world.machine.mode()), ((2..6).collect(), Mode::PerService));
    assert!(!polls_checks(&world), "the checks are polled only while a service needs them");
    world.flip(5);
    world.run(SECOND);
    assert_eq!(world.served(), world.truth());
}

#[test]
fn change_of_a_service_with_a_long_poll_causes_no_read() {
    let mut world = mk_world(4, 40);
    world.run(600 * SECOND);
    let before = world.sent_to_services();
    world.flip(1);
    world.run(SECOND);
    assert_eq!(world.served(), world.truth());
    let reads = world.sent_to_services() - before;
    assert!(reads <= 1, "{reads}: only the next long poll");
}

#[test]
fn smaller_share_keeps_every_service_followed() {
    for polls in [2, 0] {
        let mut world = settled(ALL, 20);
        world.flip(3);
        world.share_polls(polls);
        world.run(SECOND);
        assert_eq!((polled(&world).len(), world.served()), (polls, world.truth()));
        (0..20).for_each(|service| world.flip(service));
        world.run(3 * SECOND);
        assert_eq!(world.served(), world.truth(), "{polls} polls");
        world.share_polls(ALL);
        world.run(60 * SECOND);
        assert_eq!((polled(&world).len(), world.machine.mode()), (20, Mode::PerService));
    }
}

#[test]
fn change_before_the_first_list_of_checks_is_found_in_seconds() {
    let mut world = settled(ALL, 6);
    world.run(600 * SECOND);
    world.unanswered = Some(RequestTarget::Checks);
    world.share_polls(0);
    world.run(SECOND);
    (0..6).for_each(|service| world.flip(service));
    world.unanswered = None;
    world.run(5 * SECOND);
    assert_eq!(world.served(), world.truth());
}

#[test]
fn free_long_poll_goes_to_the_service_that_changed_last() {
    let mut world = mk_world(2, 6);
    for service in [3, 5, 4] {
        world.flip(service);
        world.run(10 * SECOND);
    }
    world.vanish(0);
    world.run(10 * SECOND);
    assert_eq!(polled(&world), [1, 4].into());
}

#[test]
fn overloads_take_polls_and_calm_returns_them() {
    let mut world = settled(ALL, 20);
    assert_eq!(world.machine.mode(), Mode::PerService);
    overload(&mut world, 40);
    world.run(20 * SECOND);
    let report = world.machine.report();
    assert!(report.polled <= 10, "{} polls", report.polled);
    assert!(report.mode_reason.contains("too many requests"), "{}", report.mode_reason);
    world.put(1, 3);
    world.run(30 * SECOND);
    assert_eq!(world.served(), world.truth());
    world.run(700 * SECOND);
    world.put(19, 3);
    world.put(21, 1);
    world.run(30 * SECOND);
    assert_eq!((world.machine.mode(), world.served()), (Mode::PerService, world.truth()));
}

#[test]
fn single_overload_lowers_the_rate_and_takes_no_poll() {
    let mut world = settled(ALL, 20);
    let whole = world.machine.report().rate;
    overload(&mut world, 1);
    world.run(SECOND);
    let rate = world.machine.report().rate;
    assert!(rate < whole, "{rate} of {whole}");
    world.run(60 * SECOND);
    assert_eq!((world.machine.mode(), world.served()), (Mode::PerService, world.truth()));
    (0..20).for_each(|service| world.flip(service));
    world.run(600 * SECOND);
    assert_eq!(world.machine.report().rate, whole, "it recovers");
}
