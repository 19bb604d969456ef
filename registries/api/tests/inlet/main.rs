//! The inlet against a naive listener that hears every word.

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

/// Sends the words, taking where told, and returns what the naive listener believes.
fn through_the_channel(words: &[(RegistryUpdate, bool)], can_confirm: bool) -> Naive {
    let (updates, mut receiver, _, _) = mk_channel();
    let mut heard = Naive::new(can_confirm);
    for (word, take) in words {
        updates.send(word.clone());
        if *take {
            heard.hear_all(receiver.take().into_iter().map(|s| s.value));
        }
    }
    heard.hear_all(receiver.take().into_iter().map(|s| s.value));
    heard
}

fn raw(words: &[(RegistryUpdate, bool)], can_confirm: bool) -> Naive {
    let mut heard = Naive::new(can_confirm);
    heard.hear_all(words.iter().map(|(word, _)| word.clone()));
    heard
}

fn words(problems: bool) -> impl Strategy<Value = Vec<(RegistryUpdate, bool)>> {
    let word = (naive::any_delta(problems), prop::bool::weighted(0.05));
    prop::collection::vec(word, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_taken_says_what_was_said(words in words(false), can_confirm: bool) {
        let (taken, said) = (through_the_channel(&words, can_confirm), raw(&words, can_confirm));
        prop_assert_eq!(taken, said);
    }

    #[test]
    fn with_bad_objects_nothing_more_is_lost(words in words(true), can_confirm: bool) {
        let (taken, said) = (through_the_channel(&words, can_confirm), raw(&words, can_confirm));
        prop_assert_eq!(&taken.problems, &said.problems);
        prop_assert_eq!(taken.without_problems_ever(), said.without_problems_ever());
        for (key, believed) in &said.believed {
            let also = taken.believed.get(key);
            prop_assert!(also.is_some(), "{key:?} was lost; raw: {believed:?}");
        }
    }

    #[test]
    fn what_is_pending_is_bounded_by_what_it_is_about(words in prop::collection::vec(naive::any_delta(true), 0..300)) {
        let (updates, mut receiver, _, _) = mk_channel();
        for word in &words {
            updates.send(word.clone());
        }
        let taken = receiver.take();
        let world = mk_world();
        let lists = world.collections.len();
        let objects = world.objects.len() * (1 + 4 * lists);
        let bound = 4 * world.keys.len() + 8 * lists + objects + 3 * world.scopes.len() + 2;
        prop_assert!(taken.len() <= bound, "{} words are pending about {} keys", taken.len(), world.keys.len());
        let stats = updates.stats();
        prop_assert_eq!(stats.received, words.len() as u64);
        prop_assert_eq!(stats.conflated, (words.len() - taken.len()) as u64);
    }
}

#[test]
fn a_put_does_not_move_before_the_restart_that_precedes_it() {
    let world = mk_world();
    let key = &world.keys[0];
    let words = [world.put(key, 1), world.restart(key), world.put(key, 2), world.synced(key)];
    let taken = through_the_channel(&words.map(|w| (w, false)), false);
    assert_eq!(taken.believed.len(), 1, "the end of the list must not sweep what the list held");
}

#[test]
fn the_end_of_a_list_stays_behind_its_puts() {
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
fn an_interrupted_list_leaves_two_words_a_key() {
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
fn words_are_stamped_with_their_run_and_time() {
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
async fn sending_wakes_the_pump_once_for_all() {
    let (updates, mut receiver, _, wake) = mk_channel();
    let world = mk_world();
    updates.send(world.put(&world.keys[0], 1));
    updates.send(world.put(&world.keys[1], 1));
    wake.notified().await;
    assert_eq!(receiver.take().len(), 2);
    assert!(receiver.take().is_empty(), "what was taken is gone");
}

#[test]
fn a_run_that_is_over_is_not_heard() {
    let (updates, mut receiver, _, _) = mk_channel();
    let world = mk_world();
    assert!(updates.send(world.put(&world.keys[0], 1)));
    assert_eq!(receiver.close().len(), 1, "what it said before its end counts");
    assert!(!updates.send(world.put(&world.keys[0], 2)));
    assert!(receiver.take().is_empty());
    assert_eq!(updates.stats().late, 1);
    drop(receiver);
    assert!(updates.is_closed());
}

#[test]
fn taking_while_others_send_loses_nothing() {
    let (updates, mut receiver, _, _) = mk_channel();
    let world = mk_world();
    let mut heard = Naive::new(false);
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
            heard.hear_all(receiver.take().into_iter().map(|s| s.value));
        }
    });
    heard.hear_all(receiver.take().into_iter().map(|s| s.value));
    let last = raw(&world.keys.iter().map(|key| (world.put(key, 500), false)).collect::<Vec<_>>(), false);
    assert_eq!(heard.believed, last.believed);
}
