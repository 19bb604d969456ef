//! The update channel against a naive receiver that gets every update.

#![allow(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod naive;

use std::sync::Arc;
use std::time::Duration;

use naive::{Naive, mk_world};
use proptest::prelude::*;
use tributary_model::{Generation, Mono, RegistryName, RegistryUpdate};
use tributary_registry_api::{ManualClock, Run, UpdateReceiver, UpdateSender, Wake, update_channel};

fn mk_channel() -> (UpdateSender, UpdateReceiver, Arc<ManualClock>, Wake) {
    let (clock, wake) = (Arc::new(ManualClock::default()), Wake::default());
    let run = Run { registry: RegistryName::new("r").unwrap(), generation: Generation(3) };
    let (updates, receiver) = update_channel(run, clock.clone(), wake.clone());
    (updates, receiver, clock, wake)
}

/// Sends the updates, takes after the marked ones, and returns the state of the naive receiver.
fn through_the_channel(sequence: &[(RegistryUpdate, bool)], can_confirm: bool) -> Naive {
    let (updates, mut receiver, _, _) = mk_channel();
    let mut state = Naive::new(can_confirm);
    for (update, take) in sequence {
        updates.send(update.clone());
        if *take {
            state.apply_all(receiver.take().into_iter().map(|s| s.value));
        }
    }
    state.apply_all(receiver.take().into_iter().map(|s| s.value));
    state
}

fn raw(sequence: &[(RegistryUpdate, bool)], can_confirm: bool) -> Naive {
    let mut state = Naive::new(can_confirm);
    state.apply_all(sequence.iter().map(|(update, _)| update.clone()));
    state
}

fn any_updates(problems: bool) -> impl Strategy<Value = Vec<(RegistryUpdate, bool)>> {
    let update = (naive::any_update(problems), prop::bool::weighted(0.05));
    prop::collection::vec(update, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn taken_updates_give_the_same_state_as_raw_updates(updates in any_updates(false), can_confirm: bool) {
        let (taken, sent) = (through_the_channel(&updates, can_confirm), raw(&updates, can_confirm));
        prop_assert_eq!(taken, sent);
    }

    #[test]
    fn invalid_objects_lose_no_facts(updates in any_updates(true), can_confirm: bool) {
        let (taken, sent) = (through_the_channel(&updates, can_confirm), raw(&updates, can_confirm));
        prop_assert_eq!(&taken.problems, &sent.problems);
        prop_assert_eq!(taken.without_problems_ever(), sent.without_problems_ever());
        for (key, known) in &sent.known {
            let also = taken.known.get(key);
            prop_assert!(also.is_some(), "{key:?} was lost; raw: {known:?}");
        }
    }

    #[test]
    fn pending_updates_are_bounded_by_their_subjects(sent in prop::collection::vec(naive::any_update(true), 0..300)) {
        let (updates, mut receiver, _, _) = mk_channel();
                for update in &sent {
            updates.send(update.clone());
        }
        let taken = receiver.take();
        let world = mk_world();
        let lists = world.collections.len();
        let objects = world.objects.len() * (1 + 4 * lists);
        let bound = 4 * world.keys.len() + 8 * lists + objects + 3 * world.scopes.len() + 2;
        prop_assert!(taken.len() <= bound, "{} updates are pending for {} keys", taken.len(), world.keys.len());
        let stats = updates.stats();
        prop_assert_eq!(stats.received, sent.len() as u64);
        prop_assert_eq!(stats.conflated, (sent.len() - taken.len()) as u64);
    }
}

#[test]
fn put_stays_after_the_start_of_its_list() {
    let world = mk_world();
    let key = &world.keys[0];
    let sequence = [world.put(key, 1), world.restart(key), world.put(key, 2), world.synced(key)];
    let taken = through_the_channel(&sequence.map(|update| (update, false)), false);
    assert_eq!(taken.known.len(), 1, "the end of the list keeps the facts of the list");
}

#[test]
fn list_end_stays_after_its_puts() {
    let world = mk_world();
    let (updates, mut receiver, _, _) = mk_channel();
    updates.send_all([
        world.restart(&world.keys[0]),
        world.put(&world.keys[0], 1),
        world.synced(&world.keys[0]),
    ]);
    updates.send(world.put(&world.keys[0], 2));
    let taken: Vec<RegistryUpdate> = receiver.take().into_iter().map(|s| s.value).collect();
    let (restart, put, end) =
        (world.restart(&world.keys[0]), world.put(&world.keys[0], 2), world.synced(&world.keys[0]));
    assert_eq!(taken, [restart, put, end]);
}

#[test]
fn interrupted_lists_leave_two_updates_per_key() {
    let world = mk_world();
    let (updates, mut receiver, _, _) = mk_channel();
    for round in 0..100 {
        updates.send(world.restart(&world.keys[0]));
        updates.send(world.put(&world.keys[0], round));
    }
    updates.send(world.unsure(&world.keys[0], 100));
    let taken: Vec<RegistryUpdate> = receiver.take().into_iter().map(|s| s.value).collect();
    let key = &world.keys[0];
    let expected = [world.restart(key), world.restart(key), world.put(key, 99), world.unsure(key, 100)];
    assert_eq!(taken, expected);
}

#[test]
fn updates_are_stamped_with_run_and_time() {
    let (updates, mut receiver, clock, _) = mk_channel();
    let world = mk_world();
    updates.send(world.put(&world.keys[0], 1));
    clock.advance(Duration::from_millis(70));
    updates.send(world.put(&world.keys[1], 1));
    let taken = receiver.take();
    let stamps: Vec<(Generation, Mono)> = taken.iter().map(|s| (s.generation, s.at)).collect();
    assert_eq!(stamps, [(Generation(3), Mono(0)), (Generation(3), Mono(70))]);
}

#[tokio::test]
async fn several_updates_wake_the_receiver_once() {
    let (updates, mut receiver, _, wake) = mk_channel();
    let world = mk_world();
    updates.send(world.put(&world.keys[0], 1));
    updates.send(world.put(&world.keys[1], 1));
    wake.notified().await;
    assert_eq!(receiver.take().len(), 2);
    assert!(receiver.take().is_empty(), "taken updates are no longer pending");
}

#[test]
fn updates_after_the_end_of_a_run_are_rejected() {
    let (updates, mut receiver, _, _) = mk_channel();
    let world = mk_world();
    assert!(updates.send(world.put(&world.keys[0], 1)));
    assert_eq!(receiver.close().len(), 1, "updates from before the end count");
    assert!(!updates.send(world.put(&world.keys[0], 2)));
    assert!(receiver.take().is_empty());
    assert_eq!(updates.stats().late, 1);
    drop(receiver);
    assert!(updates.is_closed());
}

#[test]
fn concurrent_take_and_send_lose_no_updates() {
    let (updates, mut receiver, _, _) = mk_channel();
    let world = mk_world();
    let mut state = Naive::new(false);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..world.keys.len())
            .map(|i| {
                let (updates, world) = (updates.clone(), mk_world());
                scope.spawn(move || {
                    for value in 0..=500 {
                        updates.send(world.put(&world.keys[i], value));
                    }
                })
            })
            .collect();
        while senders.iter().any(|sender| !sender.is_finished()) {
            state.apply_all(receiver.take().into_iter().map(|s| s.value));
        }
    });
    state.apply_all(receiver.take().into_iter().map(|s| s.value));
    let last = raw(&world.keys.iter().map(|key| (world.put(key, 500), false)).collect::<Vec<_>>(), false);
    assert_eq!(state.known, last.known);
}
