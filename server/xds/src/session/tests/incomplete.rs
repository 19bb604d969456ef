//! Law 1: an incomplete server does not say "gone" of a name that it has never had.

use super::*;

fn mk_incomplete(world: &[(ResourceType, &str, &str)]) -> Talk {
    let mut talk = Talk::delta(world);
    talk.complete(false);
    talk
}

#[test]
fn claimed_names_are_held_and_settled_when_complete() {
    let mut talk = mk_incomplete(&[(C, "a", "1"), (E, "a", "1")]);
    let (a, ea) = (talk.version(C, "a"), talk.version(E, "a"));
    talk.claim(C, &["*"], &[("a", &a), ("later", "00000000000000aa"), ("never", "00000000000000bb")]);
    talk.claim(
        E,
        &["a", "later", "never"],
        &[("a", &ea), ("later", "00000000000000aa"), ("never", "00000000000000bb")],
    );
    assert_eq!(talk.says(), ["cds"], "neither gone nor emptied");
    assert_eq!(talk.session.statuses(talk.now)[0].held, 2);
    talk.change(|world| {
        world.insert((C, "later".into()), "1".into());
        world.insert((E, "later".into()), "1".into());
    });
    assert_eq!(talk.says(), ["cds later=1", "eds later=1"]);
    talk.complete(true);
    assert_eq!(talk.says(), ["cds -never", "eds never="]);
    assert_eq!(talk.session.statuses(talk.now)[0].held, 0);
    talk.complete(true);
    assert_eq!(talk.says(), Vec::<String>::new());
}

#[test]
fn a_held_name_that_turns_up_as_the_client_holds_it_is_not_sent() {
    let mut talk = mk_incomplete(&[]);
    let mut there = Talk::delta(&[(R, "r", "1")]);
    let version = there.version(R, "r");
    there.says();
    talk.claim(R, &["r"], &[("r", &version)]);
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.set(R, "r", "1");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.drop(&[(R, "r")]);
    assert_eq!(talk.says(), ["rds -r"], "now it is a name that the server has had");
}

#[test]
fn a_held_name_stays_held_when_it_is_asked_for_again() {
    let mut talk = mk_incomplete(&[]);
    talk.claim(C, &["*"], &[("x", "00000000000000aa")]);
    talk.says();
    talk.sub(C, &["x"], &[], "");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.complete(true);
    assert_eq!(talk.says(), ["cds -x"]);
}

#[test]
fn names_that_were_never_claimed_are_answered() {
    let mut talk = mk_incomplete(&[]);
    talk.sub(E, &["x"], &[], "");
    talk.sub(R, &["x"], &[], "");
    assert_eq!(talk.says(), ["eds x=", "rds -x"]);
}

#[test]
fn what_the_server_has_had_is_told_gone_although_incomplete() {
    let mut talk = mk_incomplete(&[(C, "a", "1")]);
    talk.sub(C, &["*"], &[], "");
    assert_eq!(talk.says(), ["cds a=1"]);
    talk.drop(&[(C, "a")]);
    assert_eq!(talk.says(), ["cds -a"]);
}

#[test]
fn a_reconnecting_sotw_client_keeps_assignments_that_are_not_known_yet() {
    let mut talk = Talk::sotw(&[(E, "a", "1")]);
    talk.complete(false);
    talk.ask_with(SotwRequest { version: "old".into(), names: list(&["a", "b"]), ..mk_sotw(E) });
    assert_eq!(talk.says(), ["eds a=1"]);
    talk.complete(true);
    assert_eq!(talk.says(), ["eds b="]);
}
