//! Law 1: an incomplete server does not remove a name that it has never had.

use super::*;

fn mk_incomplete(world: &[(ResourceType, &str, &str)]) -> TestStream {
    let mut stream = TestStream::delta(world);
    stream.complete(false);
    stream
}

#[test]
fn claimed_names_are_held_and_settled_when_complete() {
    let mut stream = mk_incomplete(&[(C, "a", "1"), (E, "a", "1")]);
    let (a, ea) = (stream.version(C, "a"), stream.version(E, "a"));
    stream.claim(C, &["*"], &[("a", &a), ("later", "00000000000000aa"), ("never", "00000000000000bb")]);
    stream.claim(
        E,
        &["a", "later", "never"],
        &[("a", &ea), ("later", "00000000000000aa"), ("never", "00000000000000bb")],
    );
    assert_eq!(stream.responses(), ["cds"], "neither removed nor emptied");
    assert_eq!(stream.session.status().statuses(stream.now)[0].held, 2);
    stream.change(|world| {
        world.insert((C, "later".into()), "1".into());
        world.insert((E, "later".into()), "1".into());
    });
    assert_eq!(stream.responses(), ["cds later=1", "eds later=1"]);
    stream.complete(true);
    assert_eq!(stream.responses(), ["cds -never", "eds never="]);
    assert_eq!(stream.session.status().statuses(stream.now)[0].held, 0);
    stream.complete(true);
    assert_eq!(stream.responses(), Vec::<String>::new());
}

#[test]
fn held_name_that_appears_unchanged_is_not_sent() {
    let mut stream = mk_incomplete(&[]);
    let mut there = TestStream::delta(&[(R, "r", "1")]);
    let version = there.version(R, "r");
    there.responses();
    stream.claim(R, &["r"], &[("r", &version)]);
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.set(R, "r", "1");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.drop(&[(R, "r")]);
    assert_eq!(stream.responses(), ["rds -r"], "the server has had this name");
}

#[test]
fn held_name_stays_held_when_requested_again() {
    let mut stream = mk_incomplete(&[]);
    stream.claim(C, &["*"], &[("x", "00000000000000aa")]);
    stream.responses();
    stream.sub(C, &["x"], &[], "");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.complete(true);
    assert_eq!(stream.responses(), ["cds -x"]);
}

#[test]
fn unclaimed_unknown_names_get_a_response() {
    let mut stream = mk_incomplete(&[]);
    stream.sub(E, &["x"], &[], "");
    stream.sub(R, &["x"], &[], "");
    assert_eq!(stream.responses(), ["eds x=", "rds -x"]);
}

#[test]
fn incomplete_server_removes_names_that_it_has_had() {
    let mut stream = mk_incomplete(&[(C, "a", "1")]);
    stream.sub(C, &["*"], &[], "");
    assert_eq!(stream.responses(), ["cds a=1"]);
    stream.drop(&[(C, "a")]);
    assert_eq!(stream.responses(), ["cds -a"]);
}

#[test]
fn reconnecting_sotw_client_keeps_assignments_until_complete() {
    let mut stream = TestStream::sotw(&[(E, "a", "1")]);
    stream.complete(false);
    stream.send_sotw(SotwRequest { version: "old".into(), names: list(&["a", "b"]), ..mk_sotw(E) });
    assert_eq!(stream.responses(), ["eds a=1"]);
    stream.complete(true);
    assert_eq!(stream.responses(), ["eds b="]);
}

/// A server without state may read the services of a registry and not their endpoints.
fn mk_unread(mut stream: TestStream) -> TestStream {
    stream.fake.set_unread(&["a"]);
    stream.complete(false);
    stream
}

fn becomes_readable(stream: &mut TestStream, endpoints: &str) {
    stream.fake.set_unread(&[]);
    stream.set(E, "a", endpoints);
}

#[test]
fn claimed_assignment_is_not_emptied_while_its_endpoints_are_unread() {
    let mut stream = mk_unread(TestStream::delta(&[(C, "a", "1"), (E, "a", ""), (E, "b", "2")]));
    stream.sub(C, &["*"], &[], "");
    stream.claim(E, &["a", "b"], &[("a", "00000000000000aa"), ("b", "00000000000000bb")]);
    assert_eq!(stream.responses(), ["cds a=1", "eds b=2"], "other services are served");
    assert_eq!(stream.session.status().statuses(stream.now)[1].held, 1);
    assert!(stream.session.holds_names(), "a readable collection wakes it");
    stream.set(C, "a", "2");
    assert_eq!(stream.responses(), ["cds a=2"], "its xDS cluster warms, and the old one serves");
    becomes_readable(&mut stream, "1");
    assert_eq!(stream.responses(), ["eds a=1"]);
    assert!(!stream.session.holds_names());
    stream.set(E, "a", "");
    assert_eq!(stream.responses(), ["eds a="], "the server has read that it is empty");
}

#[test]
fn unread_assignment_of_a_reconnecting_sotw_client_is_not_emptied() {
    let mut stream = mk_unread(TestStream::sotw(&[(C, "a", "1"), (E, "a", ""), (E, "b", "2")]));
    stream.request(C, &[], "");
    stream.send_sotw(SotwRequest { version: "old".into(), names: list(&["a", "b"]), ..mk_sotw(E) });
    assert_eq!(stream.responses(), ["cds a=1", "eds b=2"]);
    becomes_readable(&mut stream, "");
    assert_eq!(stream.responses(), ["eds a="], "the server has read that it is empty");
}

/// An xDS cluster warms until its first assignment, without a limit: a client that has none must get one.
#[test]
fn client_without_endpoints_receives_the_empty_assignment() {
    let mut stream = mk_unread(TestStream::delta(&[(C, "a", "1"), (E, "a", "")]));
    stream.sub(C, &["*"], &[], "");
    stream.sub(E, &["a"], &[], "");
    assert_eq!(stream.responses(), ["cds a=1", "eds a="]);
    let mut stream = mk_unread(TestStream::sotw(&[(E, "a", ""), (E, "b", "2")]));
    stream.send_sotw(SotwRequest { version: "old".into(), names: list(&["b"]), ..mk_sotw(E) });
    let first = stream.all().pop().unwrap();
    stream.request(E, &["a", "b"], &first.nonce);
    assert_eq!(stream.responses(), ["eds a="], "a name that the client did not carry over");
}
