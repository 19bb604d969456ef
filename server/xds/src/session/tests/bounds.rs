//! Bounds on what a client may use, and cost of a client that does not read.

use super::*;
use crate::session::{Interest, MAX_NAMED};
use std::time::Duration;
use tonic::Code as GrpcCode;
use tributary_model::Code;

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("s{n}.x")).collect()
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn more_names_than_the_bound_end_the_stream() {
    let mut stream = TestStream::delta(&[]);
    let all = names(0..200_000);
    stream.sub(E, &refs(&all), &[], "");
    let more = names(200_000..300_000);
    let request = DeltaRequest { subscribe: list(&refs(&more)), ..mk_delta(R) };
    let refusal = stream.session.on_delta(&request, stream.now).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (GrpcCode::ResourceExhausted, Code::CLIENT_LIMIT));
}

#[test]
fn few_names_are_indexed_and_many_use_a_base() {
    let mut stream = TestStream::delta(&[]);
    let few = names(0..MAX_NAMED);
    stream.sub(E, &refs(&few), &[], "");
    stream.responses();
    assert!(!stream.session.is_bulk() && stream.session.status().base_generation().is_none());
    assert_eq!(stream.session.status().recorded_names(), MAX_NAMED);
    assert!(
        matches!(stream.session.take_interest(), Some(Interest::Hosts(hosts)) if hosts.len() == MAX_NAMED)
    );
    assert_eq!(stream.session.take_interest(), None, "returned once");

    stream.sub(E, &["one.more"], &[], "");
    stream.responses();
    assert!(stream.session.is_bulk() && stream.session.status().base_generation() == Some(1));
    assert_eq!(
        (stream.session.status().recorded_names(), stream.session.take_interest()),
        (0, Some(Interest::Every))
    );

    stream.sub(E, &[], &["one.more"], "");
    stream.change(|_| {});
    stream.responses();
    assert_eq!(
        (stream.session.status().base_generation(), stream.session.status().recorded_names()),
        (None, MAX_NAMED)
    );
}

#[test]
fn client_with_few_names_receives_only_their_changes() {
    let mut stream = TestStream::sotw(&[(E, "a.x", "1"), (E, "b.x", "1")]);
    stream.request(E, &["a.x", "new.x"], "");
    stream.responses();
    stream.set(E, "b.x", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.set(E, "new.x", "1");
    assert_eq!(stream.responses(), ["eds new.x=1"]);
    stream.drop(&[(E, "a.x")]);
    assert_eq!(stream.responses(), ["eds a.x="]);
}

#[test]
fn base_advances_without_relevant_changes() {
    let mut stream = TestStream::delta(&[(C, "a", "1")]);
    stream.sub(C, &["*"], &[], "");
    stream.responses();
    stream.set(R, "elsewhere", "1");
    assert_eq!(stream.responses(), Vec::<String>::new());
    assert_eq!(stream.session.status().base_generation(), Some(2));
}

#[test]
fn equal_subscriptions_share_memory() {
    let mut stream = TestStream::delta(&[]);
    let many = names(0..2_000);
    let mut others: Vec<TestStream> = (0..10).map(|_| stream.reconnect()).collect();
    stream.sub(E, &refs(&many), &[], "");
    others.iter_mut().for_each(|other| other.sub(E, &refs(&many), &[], ""));
    assert_eq!(stream.env.subscriptions.len(), 1);
}

#[test]
fn unread_stream_releases_its_base_and_then_ends() {
    let mut stream = TestStream::delta(&[(C, "a", "1"), (C, "b", "1"), (E, "a", "1")]);
    stream.sub(C, &["*"], &[], "");
    stream.sub(E, &["a"], &[], "");
    stream.responses();
    stream.set(C, "a", "2");
    assert_eq!(stream.next().unwrap().text(), "cds a=2");
    assert_eq!(stream.session.deadline(), Some(Mono(30_000)));
    stream.session.on_tick(Mono(29_999)).unwrap();
    assert_eq!(stream.session.status().base_generation(), Some(1));

    stream.session.on_tick(Mono(30_000)).unwrap();
    assert_eq!((stream.session.status().base_generation(), stream.count("bases_dropped")), (None, 1));
    assert_eq!(stream.session.deadline(), Some(Mono(300_000)));

    let refusal = stream.session.on_tick(Mono(300_000)).unwrap_err();
    assert_eq!(refusal.code, Code::CLIENT_SLOW);
}

#[test]
fn client_that_resumes_reading_gets_only_missed_changes() {
    let mut stream =
        TestStream::delta(&[(C, "a", "1"), (C, "b", "1"), (C, "c", "1"), (E, "a", "1"), (L, "l", "1")]);
    stream.sub(C, &["*"], &[], "");
    stream.sub(E, &["a"], &[], "");
    stream.sub(L, &[], &[], "");
    stream.responses();
    stream.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.remove(&(C, "b".into()));
        world.insert((L, "l".into()), "2".into());
    });
    assert_eq!(stream.next().unwrap().text(), "cds a=2");
    stream.session.on_tick(Mono(30_000)).unwrap();
    stream.set(C, "c", "2");
    assert_eq!(
        stream.responses(),
        ["cds c=2", "eds a=1", "lds l=2", "cds -b"],
        "the forced assignment is kept"
    );
    assert_eq!(stream.session.status().base_generation(), Some(3), "it has a base again");
}

#[test]
fn slow_client_with_few_names_has_no_base() {
    let mut stream = TestStream::delta(&[(E, "a", "1")]);
    stream.sub(E, &["a"], &[], "");
    stream.next();
    stream.session.on_tick(Mono(30_000)).unwrap();
    stream.set(E, "a", "2");
    assert_eq!(stream.responses(), ["eds a=2"]);
}

#[test]
fn flood_of_requests_is_delayed() {
    let mut stream = TestStream::sotw(&[]);
    let request = SotwRequest { nonce: "spam".into(), ..mk_sotw(C) };
    let waits: Vec<Duration> =
        (0..5_000).map(|_| stream.session.on_sotw(&request, stream.now).unwrap()).collect();
    assert!(waits[0].is_zero() && !waits[4_999].is_zero());
    assert_eq!(stream.responses().len(), 1, "repeated requests cause one response");
}

#[test]
fn client_with_few_names_compares_only_changed_hosts() {
    let mut stream = TestStream::delta(&[(E, "a.x", "1"), (E, "b.x", "1")]);
    stream.sub(E, &["a.x", "b.x"], &[], "");
    stream.responses();
    assert!(matches!(stream.session.take_interest(), Some(Interest::Hosts(_))));
    let before = stream.fake.lookups();
    stream.touch(&["b.x"], |world| drop(world.insert((E, "b.x".into()), "2".into())));
    assert_eq!(stream.responses(), ["eds b.x=2"]);
    assert!(stream.fake.lookups() <= before + 2, "{} look-ups for one host", stream.fake.lookups() - before);
    stream.touch(&["unknown.x"], |_| {});
    assert_eq!((stream.responses().len(), stream.count("wakeups_for_nothing")), (0, 1));
}

#[test]
fn one_changed_assignment_of_many_reads_no_other() {
    let all = names(0..2 * MAX_NAMED);
    let world: Vec<(ResourceType, &str, &str)> = all.iter().map(|name| (E, name.as_str(), "1")).collect();
    let mut stream = TestStream::sotw(&world);
    stream.request(E, &refs(&all), "");
    let first = stream.next().unwrap();
    stream.request(E, &refs(&all), &first.nonce);
    assert!(stream.responses().is_empty() && stream.session.is_bulk());
    for (name, body, expected) in
        [("s7.x", "2", "eds s7.x=2"), ("s7.x", "1", "eds s7.x=1"), ("s9.x", "3", "eds s9.x=3")]
    {
        let before = stream.fake.lookups();
        stream.set(E, name, body);
        let changed = stream.next().unwrap();
        assert_eq!((changed.text().as_str(), stream.next().is_none()), (expected, true));
        let read = stream.fake.lookups() - before;
        assert!(read <= 8, "{read} look-ups for one assignment");
        let mut other = stream.reconnect();
        other.request(E, &refs(&all), "");
        assert_eq!(other.next().unwrap().version, changed.version, "all replicas have one version");
    }
    stream.drop(&[(E, "s1.x")]);
    let emptied = stream.next().unwrap();
    let mut other = stream.reconnect();
    other.request(E, &refs(&all), "");
    assert_eq!((emptied.text().as_str(), other.next().unwrap().version), ("eds s1.x=", emptied.version));
}
