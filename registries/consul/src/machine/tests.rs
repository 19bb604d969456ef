//! A scope against a source that may give any answer, on a manual clock, with any poll budget.

mod budget;
mod proof;
mod scale;
pub(super) mod world;

use std::time::Duration;

use proptest::prelude::*;
use tributary_model::Mono;

use super::{LoopId, Output, RequestTarget, Settings};
use crate::answer::{Headers, RequestFailure};
use crate::watch::Mode as ReadMode;
use world::{Lie, World, mk_settings};

const SECOND: Duration = Duration::from_secs(1);

/// Poll budget that suffices for every test, and one that gives no service a long poll.
const ALL: usize = 100;
const NONE: usize = 0;

/// Poll budgets for the four services of a property: none, some, and more than all.
fn budgets() -> impl Strategy<Value = usize> {
    0_usize..6
}

fn lies() -> impl Strategy<Value = Lie> {
    let failure = prop::sample::select(vec![
        RequestFailure::Transient,
        RequestFailure::Overload,
        RequestFailure::Auth,
        RequestFailure::Config,
        RequestFailure::Broken,
    ]);
    prop_oneof![
        4 => failure.prop_map(Lie::Fail),
        3 => (0_usize..12).prop_map(Lie::Short),
        1 => Just(Lie::Stale),
        1 => Just(Lie::Filtered),
        1 => Just(Lie::NoIndex),
        1 => (1_u64..20).prop_map(Lie::Index),
    ]
}

/// Event in a scope.
#[derive(Debug, Clone)]
enum Move {
    Put(u8, u8),
    Take(u8, u8),
    Vanish(u8),
    Wait(u64),
    Lie(Lie),
    Truth,
    Token,
    Ask(u8),
    Polls(usize),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => (0_u8..4, 0_u8..4).prop_map(|(s, i)| Move::Put(s, i)),
        3 => (0_u8..4, 0_u8..4).prop_map(|(s, i)| Move::Take(s, i)),
        1 => (0_u8..4).prop_map(Move::Vanish),
        6 => (1_u64..3_000).prop_map(Move::Wait),
        4 => lies().prop_map(Move::Lie),
        2 => Just(Move::Truth),
        1 => Just(Move::Token),
        1 => (0_u8..5).prop_map(Move::Ask),
        2 => budgets().prop_map(Move::Polls),
    ]
}

fn play(world: &mut World, one: &Move) {
    match one {
        Move::Put(service, instance) => world.put(*service, *instance),
        Move::Take(service, instance) => world.take(*service, *instance),
        Move::Vanish(service) => world.vanish(*service),
        Move::Wait(millis) => world.run(Duration::from_millis(*millis)),
        Move::Lie(lie) => world.lie = Some(lie.clone()),
        Move::Truth => world.lie = None,
        Move::Token => world.change_token(),
        Move::Ask(service) => world.confirm(*service),
        Move::Polls(polls) => world.share_polls(*polls),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The world serves what was reported and removes only what the leader confirmed; the leader's answers are true.
    #[test]
    fn nothing_that_exists_is_lost_and_the_end_state_is_true(
        polls in budgets(),
        peer: bool,
        seed: u64,
        moves in prop::collection::vec(moves(), 1..50),
    ) {
        let mut world = World::new(Settings { peer, ..mk_settings(polls) }, seed);
        for one in &moves {
            play(&mut world, one);
            prop_assert_eq!(world.lost_falsely(), None, "after {:?}", one);
        }
        world.lie = None;
        world.run(Duration::from_secs(1_500));
        prop_assert_eq!(world.lost_falsely(), None);
        prop_assert_eq!(world.served(), world.truth());
        prop_assert!(world.synced, "it is ready in the end");
    }
}

fn settled(polls: usize, services: u8) -> World {
    let mut world = World::new(mk_settings(polls), 1);
    for service in 0..services {
        world.put(service, 0);
        world.put(service, 1);
    }
    world.run(60 * SECOND);
    assert_eq!(world.served(), world.truth());
    world
}

#[test]
fn scope_is_ready_after_every_service_was_read() {
    let mut world = World::new(mk_settings(ALL), 1);
    for service in 0..4 {
        world.put(service, 0);
    }
    world.unanswered = Some(RequestTarget::Service("s3".into()));
    world.run(SECOND);
    assert!(!world.synced, "one has not been read");
    world.unanswered = None;
    world.run(30 * SECOND);
    assert!(world.synced);
}

#[test]
fn unreadable_service_delays_readiness_only_if_temporary() {
    for (failure, ready) in
        [(RequestFailure::Broken, true), (RequestFailure::Config, true), (RequestFailure::Transient, false)]
    {
        let mut world = World::new(mk_settings(ALL), 1);
        for service in 0..4 {
            world.put(service, 0);
        }
        world.bad = Some((RequestTarget::Service("s3".into()), failure));
        world.run(60 * SECOND);
        assert_eq!(world.synced, ready, "{failure:?}");
        world.bad = None;
        world.run(400 * SECOND);
        assert_eq!((world.served(), world.synced), (world.truth(), true), "{failure:?}");
    }
}

#[test]
fn empty_view_has_a_reason() {
    for (has_token, starts) in [(false, "no token is configured"), (true, "the token sees no service")] {
        let mut settings = mk_settings(ALL);
        settings.has_token = has_token;
        let mut world = World::new(settings, 1);
        world.put(0, 0);
        let reason = |world: &World| world.machine.report().reason;
        world.lie = Some(Lie::Filtered);
        world.run(10 * SECOND);
        assert!(world.synced && reason(&world).starts_with(starts), "{has_token}: {:?}", reason(&world));
        world.lie = None;
        world.change_token();
        world.run(120 * SECOND);
        assert_eq!((world.served(), reason(&world)), (world.truth(), ""), "{has_token}");
    }
}

#[test]
fn an_outage_costs_one_probe_at_a_time() {
    for polls in [ALL, 20, NONE] {
        let mut world = settled(polls, 40);
        world.lie = Some(Lie::Fail(RequestFailure::Transient));
        world.break_all();
        world.run(10 * SECOND);
        let before = world.sent.len();
        world.run(300 * SECOND);
        let during = &world.sent[before..];
        assert!(
            during.iter().all(|(target, _)| *target == RequestTarget::Names),
            "{polls} polls: {during:?}"
        );
        assert!((5..60).contains(&during.len()), "{polls} polls: {} probes in five minutes", during.len());
        world.lie = None;
        world.put(3, 3);
        world.run(130 * SECOND);
        assert_eq!(world.served(), world.truth(), "{polls} polls");
    }
}

#[test]
fn recovery_after_an_outage_keeps_the_rate_limit() {
    let mut world = settled(ALL, 90);
    world.lie = Some(Lie::Fail(RequestFailure::Transient));
    world.break_all();
    world.run(120 * SECOND);
    world.lie = None;
    let before = world.sent.len();
    world.run(200 * SECOND);
    let mut times: Vec<Mono> = world.sent[before..].iter().map(|(_, at)| *at).collect();
    times.sort_unstable();
    let rate = mk_settings(ALL).limits.rate as usize;
    let most =
        times.iter().map(|from| times.iter().filter(|at| **at >= *from && at.since(*from) < SECOND).count());
    let most = most.max().unwrap_or_default();
    assert!(most <= 2 * rate + 4, "{most} requests within a second");
}

#[test]
fn status_change_is_reported_in_time() {
    for (polls, within) in [(ALL, 500), (30, 2_000), (NONE, 2_000)] {
        let mut world = settled(polls, 60);
        for round in 0..40_u8 {
            world.run(Duration::from_millis(700));
            world.flip(round % 60);
            let at = world.now();
            world.run_until(2 * SECOND, World::is_true);
            let took = world.now().since(at);
            assert!(took <= Duration::from_millis(within), "{polls} polls round {round}: {took:?}");
        }
    }
}

#[test]
fn status_change_costs_at_most_three_requests() {
    for polls in [ALL, 20, NONE] {
        let mut settings = mk_settings(polls);
        (settings.timing.wait, settings.timing.full_pass) = (3_600 * SECOND, 36_000 * SECOND);
        let mut world = World::new(settings, 1);
        (0..60).for_each(|service| world.put(service, 0));
        world.run(1_000 * SECOND);
        assert_eq!(world.served(), world.truth());
        let before = world.sent_to_services();
        world.flip(7);
        world.run(Duration::from_millis(900));
        let cost = world.sent_to_services() - before;
        assert!((1..=3).contains(&cost), "{polls} polls: {cost}");
    }
}

#[test]
fn answers_to_aborted_requests_are_dropped() {
    let mut world = settled(ALL, 2);
    let polls: Vec<u64> = world.open.keys().copied().collect();
    world.change_token();
    let cancelled: Vec<u64> = world.cancelled.clone();
    assert!(polls.iter().all(|number| cancelled.contains(number)), "{polls:?} {cancelled:?}");
    let late = world.answer_late(polls[0], Headers { index: Some(99), ..Headers::default() });
    assert!(late.iter().all(|output| !matches!(output, Output::Report(..) | Output::Gone(..))), "{late:?}");
}

#[test]
fn new_server_gets_no_index() {
    let mut settings = mk_settings(ALL);
    settings.servers = 2;
    let mut world = World::new(settings, 1);
    world.put(0, 0);
    world.run(10 * SECOND);
    world.lie = Some(Lie::Fail(RequestFailure::Transient));
    world.break_all();
    world.run(Duration::from_millis(10));
    world.lie = None;
    world.requests.clear();
    world.run(20 * SECOND);
    let first =
        world.requests.iter().find(|request| request.target == RequestTarget::Service("s0".into())).unwrap();
    assert_eq!((first.server, first.mode), (1, ReadMode::Any));
    assert_eq!(world.served(), world.truth());
}

#[test]
fn names_sort_before_checks_and_services() {
    assert!(LoopId::Names < LoopId::Checks && LoopId::Checks < LoopId::Service(0));
}

#[test]
fn unusable_list_of_checks_leads_to_reads_by_service() {
    for (peer, failure) in [(false, Some(RequestFailure::TooLarge)), (true, None)] {
        let mut settings = mk_settings(NONE);
        (settings.peer, settings.timing.full_pass) = (peer, 3_600 * SECOND);
        let mut world = World::new(settings, 1);
        (0..20).for_each(|service| world.put(service, 0));
        world.bad = failure.map(|failure| (RequestTarget::Checks, failure));
        world.run(120 * SECOND);
        assert_eq!(world.served(), world.truth(), "{peer}");
        let before = world.sent.len();
        world.flip(7);
        world.run_until(12 * SECOND, World::is_true);
        assert!(world.is_true(), "{peer}: {}", world.machine.report().mode_reason);
        world.run(60 * SECOND);
        let sent = &world.sent[before..];
        assert!(sent.iter().filter(|(target, _)| *target == RequestTarget::Checks).count() <= 1, "{peer}");
        assert!(sent.len() <= 72 * 6, "{peer}: {} requests", sent.len());
        let reason = world.machine.report().mode_reason;
        assert!(reason.contains("services without a long poll are read in turn"), "{peer}: {reason}");
    }
}

#[test]
fn address_edit_is_found_in_seconds_while_other_checks_change() {
    let mut settings = mk_settings(NONE);
    settings.timing.full_pass = 3_600 * SECOND;
    let mut world = World::new(settings, 1);
    (0..20).for_each(|service| world.put(service, 0));
    world.run(120 * SECOND);
    assert_eq!(world.served(), world.truth());
    for round in 0..20_u8 {
        world.flip(round % 10);
        world.run(Duration::from_millis(500));
        if round == 5 {
            world.edit(15);
        }
    }
    world.run(3 * SECOND);
    assert_eq!(world.served(), world.truth());
}

#[test]
fn address_edit_is_found_in_seconds_beside_registrations() {
    let mut settings = mk_settings(NONE);
    settings.timing.full_pass = 3_600 * SECOND;
    for (edit_after, removals) in [(100, false), (600, false), (900, true)] {
        let mut world = World::new(settings, 1);
        (0..20).for_each(|service| world.put(service, 0));
        world.run(120 * SECOND);
        for round in 1..20_u8 {
            world.put(round % 10, round);
            if removals {
                world.take(round % 10, round - 1);
            }
            world.run(Duration::from_millis(if round == 7 { edit_after } else { 1_000 }));
            if round == 7 {
                world.edit(15);
                world.run(Duration::from_millis(1_000 - edit_after));
            }
        }
        world.run(3 * SECOND);
        assert_eq!(world.served(), world.truth(), "edited {edit_after} ms after a registration");
    }
}

#[test]
fn address_edit_is_found_in_seconds_when_answers_combine_changes() {
    let mut settings = mk_settings(NONE);
    settings.timing.full_pass = 3_600 * SECOND;
    let mut world = World::new(settings, 1);
    (0..20).for_each(|service| world.put(service, 0));
    world.run(120 * SECOND);
    for round in 0..30_u8 {
        world.put(40 + round, 0);
        world.edit(round % 20);
        world.put(80 + round, 0);
        world.run(SECOND);
    }
    world.run(15 * SECOND);
    assert_eq!(world.served(), world.truth());
}

#[test]
fn registration_with_a_check_starts_no_full_pass() {
    let mut settings = mk_settings(NONE);
    settings.timing.full_pass = 3_600 * SECOND;
    let mut world = World::new(settings, 1);
    (0..20).for_each(|service| world.put(service, 0));
    world.run(120 * SECOND);
    let before = world.sent_to_services();
    for round in 1..10_u8 {
        world.put(round, 1);
        world.run(SECOND);
        world.take(round, 1);
        world.run(SECOND);
    }
    world.run(10 * SECOND);
    let reads = world.sent_to_services() - before;
    assert!(reads <= 2 * 18, "{reads} reads for 18 changes");
    assert_eq!(world.served(), world.truth());
}

#[test]
fn edit_right_after_the_first_list_is_found_in_seconds() {
    let mut settings = mk_settings(NONE);
    settings.timing.full_pass = 3_600 * SECOND;
    for wait in [200, 500, 1_000, 1_400] {
        let mut world = World::new(settings, 1);
        (0..3).for_each(|service| world.put(service, 0));
        world.run(Duration::from_millis(wait));
        world.edit(1);
        world.run(20 * SECOND);
        assert_eq!(world.served(), world.truth(), "edited after {wait} ms");
    }
}
