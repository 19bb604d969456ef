//! Order within a round, and its single generation.

use super::*;

fn mk_busy(variant: Variant) -> TestStream {
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
    let mut stream = TestStream::new(variant, world);
    if variant == Variant::Sotw {
        stream.request(R, &["r", "s"], "");
        stream.request(L, &[], "");
        stream.request(E, &["a", "b"], "");
        stream.request(C, &[], "");
    } else {
        stream.sub(R, &["r", "s"], &[], "");
        stream.sub(L, &[], &[], "");
        stream.sub(E, &["a", "b"], &[], "");
        stream.sub(C, &[], &[], "");
    }
    let responses = stream.responses();
    assert_eq!(responses[..4], ["cds a=1 b=1", "eds a=1 b=1", "lds l=1 m=1", "rds r=1 s=1"]);
    stream
}

fn churn(world: &mut World) {
    *world =
        mk_world(&[(C, "a", "2"), (C, "c", "1"), (E, "a", "1"), (E, "c", "1"), (L, "l", "2"), (R, "r", "2")]);
}

#[test]
fn delta_adds_in_order_and_removes_in_reverse() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(churn);
    assert_eq!(
        stream.responses(),
        ["cds a=2 c=1", "eds a=1", "lds l=2", "rds r=2", "lds -m", "rds -s", "cds -b", "eds b="]
    );
}

#[test]
fn sotw_response_omits_removed_resources() {
    let mut stream = mk_busy(Variant::Sotw);
    stream.change(churn);
    assert_eq!(stream.responses(), ["cds a=2 c=1", "eds a=1", "lds l=2", "rds r=2", "eds b="]);
}

#[test]
fn round_keeps_its_generation() {
    let mut stream = mk_busy(Variant::Delta);
    stream.set(C, "a", "2");
    assert_eq!(stream.next().unwrap().text(), "cds a=2");
    stream.change(|world| {
        world.insert((C, "a".into()), "3".into());
        world.insert((E, "a".into()), "3".into());
        world.insert((L, "l".into()), "3".into());
    });
    assert_eq!(stream.responses(), ["eds a=1", "cds a=3", "eds a=3", "lds l=3"]);
}

#[test]
fn a_request_within_a_round_is_answered_from_its_generation() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.insert((R, "r".into()), "2".into());
    });
    assert_eq!(stream.next().unwrap().text(), "cds a=2");
    stream.set(E, "b", "9");
    stream.sub(E, &["b"], &[], "");
    stream.sub(C, &["*"], &[], "");
    assert_eq!(stream.next().unwrap().text(), "cds a=2 b=1");
    assert_eq!(stream.responses(), ["eds a=1 b=1", "rds r=2", "eds b=9"]);
}

#[test]
fn cluster_restored_between_rounds_is_not_removed() {
    let mut stream = mk_busy(Variant::Delta);
    stream.drop(&[(C, "b"), (E, "b")]);
    stream.change(|world| {
        world.insert((C, "b".into()), "1".into());
        world.insert((E, "b".into()), "1".into());
    });
    assert_eq!(stream.responses(), Vec::<String>::new());
}

#[test]
fn an_assignment_is_not_emptied_while_its_cluster_is_still_held() {
    let mut stream = mk_busy(Variant::Delta);
    stream.drop(&[(C, "b"), (E, "b")]);
    assert_eq!(stream.next().unwrap().text(), "cds -b");
    assert_eq!(stream.next().unwrap().text(), "eds b=");
}

#[test]
fn name_unsubscribed_in_a_round_is_not_removed() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(churn);
    assert_eq!(stream.next().unwrap().text(), "cds a=2 c=1");
    stream.sub(R, &[], &["s"], "");
    let responses = stream.responses();
    assert!(!responses.iter().any(|s| s.contains("-s")), "{responses:?}");
}

#[test]
fn endpoints_alone_need_no_round_of_clusters() {
    let mut stream = mk_busy(Variant::Delta);
    let sends = stream.count("sends");
    stream.set(E, "a", "2");
    assert_eq!(stream.responses(), ["eds a=2"]);
    assert_eq!(stream.count("sends"), sends + 1);
}
