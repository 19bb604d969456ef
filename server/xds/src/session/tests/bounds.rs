//! What a client may not grow, and what a client that does not read costs.

use super::*;
use crate::session::{Interest, PICKER_NAMES};
use std::time::Duration;
use tributary_model::Code;
use tributary_proto::GrpcCode;

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("s{n}.x")).collect()
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn more_names_than_the_bound_end_the_stream() {
    let mut talk = Talk::delta(&[]);
    let all = names(0..200_000);
    talk.sub(E, &refs(&all), &[], "");
    let more = names(200_000..300_000);
    let request = DeltaRequest { subscribe: list(&refs(&more)), ..mk_delta(R) };
    let refusal = talk.session.on_delta(&request, talk.now).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (GrpcCode::ResourceExhausted, Code::CLIENT_LIMIT));
}

#[test]
fn few_names_are_picked_and_many_are_followed() {
    let mut talk = Talk::delta(&[]);
    let few = names(0..PICKER_NAMES);
    talk.sub(E, &refs(&few), &[], "");
    talk.says();
    assert!(!talk.session.follows() && talk.session.base_generation().is_none());
    assert_eq!(talk.session.known_names(), PICKER_NAMES);
    assert!(
        matches!(talk.session.take_interest(), Some(Interest::Hosts(hosts)) if hosts.len() == PICKER_NAMES)
    );
    assert_eq!(talk.session.take_interest(), None, "said once");

    talk.sub(E, &["one.more"], &[], "");
    talk.says();
    assert!(talk.session.follows() && talk.session.base_generation() == Some(1));
    assert_eq!((talk.session.known_names(), talk.session.take_interest()), (0, Some(Interest::Every)));

    talk.sub(E, &[], &["one.more"], "");
    talk.change(|_| {});
    talk.says();
    assert_eq!((talk.session.base_generation(), talk.session.known_names()), (None, PICKER_NAMES));
}

#[test]
fn a_picker_is_told_changes_of_its_names_only() {
    let mut talk = Talk::sotw(&[(E, "a.x", "1"), (E, "b.x", "1")]);
    talk.ask(E, &["a.x", "new.x"], "");
    talk.says();
    talk.set(E, "b.x", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.set(E, "new.x", "1");
    assert_eq!(talk.says(), ["eds new.x=1"]);
    talk.drop(&[(E, "a.x")]);
    assert_eq!(talk.says(), ["eds a.x="]);
}

#[test]
fn a_follower_advances_even_when_nothing_is_for_it() {
    let mut talk = Talk::delta(&[(C, "a", "1")]);
    talk.sub(C, &["*"], &[], "");
    talk.says();
    talk.set(R, "elsewhere", "1");
    assert_eq!(talk.says(), Vec::<String>::new());
    assert_eq!(talk.session.base_generation(), Some(2));
}

#[test]
fn equal_subscriptions_are_held_once() {
    let mut talk = Talk::delta(&[]);
    let many = names(0..2_000);
    let mut others: Vec<Talk> = (0..10).map(|_| talk.reconnect()).collect();
    talk.sub(E, &refs(&many), &[], "");
    others.iter_mut().for_each(|other| other.sub(E, &refs(&many), &[], ""));
    assert_eq!(talk.env.subscriptions.len(), 1);
}

#[test]
fn a_client_that_does_not_read_gives_up_its_base_and_then_its_stream() {
    let mut talk = Talk::delta(&[(C, "a", "1"), (C, "b", "1"), (E, "a", "1")]);
    talk.sub(C, &["*"], &[], "");
    talk.sub(E, &["a"], &[], "");
    talk.says();
    talk.set(C, "a", "2");
    assert_eq!(talk.next().unwrap().text(), "cds a=2");
    assert_eq!(talk.session.deadline(), Some(Mono(30_000)));
    talk.session.on_tick(Mono(29_999)).unwrap();
    assert_eq!(talk.session.base_generation(), Some(1));

    talk.session.on_tick(Mono(30_000)).unwrap();
    assert_eq!((talk.session.base_generation(), talk.count("bases_dropped")), (None, 1));
    assert_eq!(talk.session.deadline(), Some(Mono(300_000)));

    let refusal = talk.session.on_tick(Mono(300_000)).unwrap_err();
    assert_eq!(refusal.code, Code::CLIENT_SLOW);
}

#[test]
fn a_client_that_reads_again_gets_exactly_what_it_missed() {
    let mut talk = Talk::delta(&[(C, "a", "1"), (C, "b", "1"), (C, "c", "1"), (E, "a", "1"), (L, "l", "1")]);
    talk.sub(C, &["*"], &[], "");
    talk.sub(E, &["a"], &[], "");
    talk.sub(L, &[], &[], "");
    talk.says();
    talk.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.remove(&(C, "b".into()));
        world.insert((L, "l".into()), "2".into());
    });
    assert_eq!(talk.next().unwrap().text(), "cds a=2");
    talk.session.on_tick(Mono(30_000)).unwrap();
    talk.set(C, "c", "2");
    assert_eq!(
        talk.says(),
        ["cds c=2", "eds a=1", "lds l=2", "cds -b"],
        "the forced assignment is not forgotten"
    );
    assert_eq!(talk.session.base_generation(), Some(3), "it follows again");
}

#[test]
fn a_slow_picker_has_no_base_to_give_up() {
    let mut talk = Talk::delta(&[(E, "a", "1")]);
    talk.sub(E, &["a"], &[], "");
    talk.next();
    talk.session.on_tick(Mono(30_000)).unwrap();
    talk.set(E, "a", "2");
    assert_eq!(talk.says(), ["eds a=2"]);
}

#[test]
fn a_flood_of_requests_is_told_to_wait() {
    let mut talk = Talk::sotw(&[]);
    let request = SotwRequest { nonce: "spam".into(), ..mk_sotw(C) };
    let waits: Vec<Duration> =
        (0..5_000).map(|_| talk.session.on_sotw(&request, talk.now).unwrap()).collect();
    assert!(waits[0].is_zero() && !waits[4_999].is_zero());
    assert_eq!(talk.says().len(), 1, "however often it confirms, one answer is owed");
}

#[test]
fn a_picker_looks_only_at_the_hosts_that_were_touched() {
    let mut talk = Talk::delta(&[(E, "a.x", "1"), (E, "b.x", "1")]);
    talk.sub(E, &["a.x", "b.x"], &[], "");
    talk.says();
    assert!(matches!(talk.session.take_interest(), Some(Interest::Hosts(_))));
    let before = talk.fake.asked();
    talk.touch(&["b.x"], |world| drop(world.insert((E, "b.x".into()), "2".into())));
    assert_eq!(talk.says(), ["eds b.x=2"]);
    assert!(talk.fake.asked() <= before + 2, "{} look-ups for one host", talk.fake.asked() - before);
    talk.touch(&["unknown.x"], |_| {});
    assert_eq!((talk.says().len(), talk.count("wakeups_for_nothing")), (0, 1));
}
