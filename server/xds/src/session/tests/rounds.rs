//! The order within a round, and that a round stays with its generation.

use super::*;

fn mk_busy(variant: Variant) -> Talk {
    let world = &[
        (C, "a", "1"),
        (C, "b", "1"),
        (E, "a", "1"),
        (E, "b", "1"),
        (L, "l", "1"),
        (L, "m", "1"),
        (R, "r", "1"),
        (R, "s", "1"),
    ];
    let mut talk = Talk::new(variant, world);
    if variant == Variant::Sotw {
        talk.ask(R, &["r", "s"], "");
        talk.ask(L, &[], "");
        talk.ask(E, &["a", "b"], "");
        talk.ask(C, &[], "");
    } else {
        talk.sub(R, &["r", "s"], &[], "");
        talk.sub(L, &[], &[], "");
        talk.sub(E, &["a", "b"], &[], "");
        talk.sub(C, &[], &[], "");
    }
    let says = talk.says();
    assert_eq!(says[..4], ["cds a=1 b=1", "eds a=1 b=1", "lds l=1 m=1", "rds r=1 s=1"]);
    talk
}

fn churn(world: &mut World) {
    *world =
        mk_world(&[(C, "a", "2"), (C, "c", "1"), (E, "a", "1"), (E, "c", "1"), (L, "l", "2"), (R, "r", "2")]);
}

#[test]
fn delta_adds_in_order_and_removes_in_reverse() {
    let mut talk = mk_busy(Variant::Delta);
    talk.change(churn);
    assert_eq!(
        talk.says(),
        ["cds a=2 c=1", "eds a=1", "lds l=2", "rds r=2", "lds -m", "rds -s", "cds -b", "eds b="]
    );
}

#[test]
fn state_of_the_world_leaves_out_what_is_gone() {
    let mut talk = mk_busy(Variant::Sotw);
    talk.change(churn);
    assert_eq!(talk.says(), ["cds a=2 c=1", "eds a=1", "lds l=2", "rds r=2", "eds b="]);
}

#[test]
fn a_round_is_never_moved_to_another_generation() {
    let mut talk = mk_busy(Variant::Delta);
    talk.set(C, "a", "2");
    assert_eq!(talk.next().unwrap().text(), "cds a=2");
    talk.change(|world| {
        world.insert((C, "a".into()), "3".into());
        world.insert((E, "a".into()), "3".into());
        world.insert((L, "l".into()), "3".into());
    });
    assert_eq!(talk.says(), ["eds a=1", "cds a=3", "eds a=3", "lds l=3"]);
}

#[test]
fn a_request_within_a_round_is_answered_from_its_generation() {
    let mut talk = mk_busy(Variant::Delta);
    talk.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.insert((R, "r".into()), "2".into());
    });
    assert_eq!(talk.next().unwrap().text(), "cds a=2");
    talk.set(E, "b", "9");
    talk.sub(E, &["b"], &[], "");
    talk.sub(C, &["*"], &[], "");
    assert_eq!(talk.next().unwrap().text(), "cds a=2 b=1");
    assert_eq!(talk.says(), ["eds a=1 b=1", "rds r=2", "eds b=9"]);
}

#[test]
fn a_cluster_that_goes_and_comes_back_between_rounds_is_not_told_gone() {
    let mut talk = mk_busy(Variant::Delta);
    talk.drop(&[(C, "b"), (E, "b")]);
    talk.change(|world| {
        world.insert((C, "b".into()), "1".into());
        world.insert((E, "b".into()), "1".into());
    });
    assert_eq!(talk.says(), Vec::<String>::new());
}

#[test]
fn an_assignment_is_not_emptied_while_its_cluster_is_still_held() {
    let mut talk = mk_busy(Variant::Delta);
    talk.drop(&[(C, "b"), (E, "b")]);
    assert_eq!(talk.next().unwrap().text(), "cds -b");
    assert_eq!(talk.next().unwrap().text(), "eds b=");
}

#[test]
fn a_name_that_is_given_up_within_a_round_is_not_told_gone() {
    let mut talk = mk_busy(Variant::Delta);
    talk.change(churn);
    assert_eq!(talk.next().unwrap().text(), "cds a=2 c=1");
    talk.sub(R, &[], &["s"], "");
    let says = talk.says();
    assert!(!says.iter().any(|s| s.contains("-s")), "{says:?}");
}

#[test]
fn endpoints_alone_need_no_round_of_clusters() {
    let mut talk = mk_busy(Variant::Delta);
    let sends = talk.count("sends");
    talk.set(E, "a", "2");
    assert_eq!(talk.says(), ["eds a=2"]);
    assert_eq!(talk.count("sends"), sends + 1);
}
