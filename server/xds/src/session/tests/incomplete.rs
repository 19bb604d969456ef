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
