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

/// Returns the stream of a delta client that rejects a change of its routes.
pub(super) fn mk_rejecting() -> TestStream {
    let mut stream = mk_busy(Variant::Delta);
    stream.set(R, "r", "bad");
    let bad = stream.all();
    let error = Some(ErrorDetail { code: 13, message: "no".into() });
    stream.send_delta(DeltaRequest { nonce: bad[0].nonce.as_str().into(), error, ..mk_delta(R) });
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
    let first = stream.all();
    assert_eq!(texts(&first), ["cds a=2 c=1", "eds a=1"]);
    stream.sub(E, &["c"], &[], "");
    stream.sub(C, &[], &[], &first[0].nonce);
    let rest = ["eds c=1", "lds l=2", "rds r=2", "lds -m", "rds -s", "cds -b", "eds b="];
    assert_eq!(stream.responses(), rest);
}

/// Envoy requests the endpoints of an xDS cluster again that was removed and added shortly before.
#[test]
fn endpoints_that_are_requested_again_stay_until_their_cluster_is_removed() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(churn);
    let first = stream.all();
    stream.sub(E, &["b", "c"], &[], "");
    assert_eq!(stream.responses(), ["eds c=1"]);
    stream.sub(C, &[], &[], &first[0].nonce);
    assert_eq!(stream.responses(), ["lds l=2", "rds r=2", "lds -m", "rds -s", "cds -b", "eds b="]);
}

#[test]
fn client_that_rejects_its_routes_keeps_what_the_accepted_ones_lead_to() {
    let mut stream = mk_rejecting();
    stream.change(churn);
    let first = stream.all();
    stream.sub(E, &["c"], &[], "");
    stream.sub(C, &[], &[], &first[0].nonce);
    let sent = stream.all();
    assert_eq!(texts(&sent), ["eds c=1", "lds l=2", "rds r=2", "lds -m", "rds -s"]);
    stream.set(E, "a", "2");
    assert_eq!(stream.responses(), ["eds a=2"], "everything else goes on");
    stream.sub(R, &[], &[], &sent[2].nonce);
    assert_eq!(stream.responses(), ["cds -b", "eds b="]);
    assert_eq!(stream.responses(), [""; 0]);
}

/// Envoy takes the route tables of a response one by one, and does not name the one that it rejects.
#[test]
fn tables_that_were_rejected_with_another_are_sent_again() {
    let mut stream = mk_busy(Variant::Delta);
    let reject = |stream: &mut TestStream, nonce: &str| {
        let error = Some(ErrorDetail { code: 13, message: "no".into() });
        stream.send_delta(DeltaRequest { nonce: nonce.into(), error, ..mk_delta(R) });
    };
    stream.change(|world| world.extend(mk_world(&[(R, "r", "2"), (R, "s", "bad")])));
    let both = stream.all();
    assert_eq!(texts(&both), ["rds r=2 s=bad"]);
    reject(&mut stream, &both[0].nonce);
    let first = stream.all();
    assert_eq!(texts(&first), ["rds r=2"]);
    stream.sub(R, &[], &[], &first[0].nonce);
    let second = stream.all();
    assert_eq!(texts(&second), ["rds s=bad"], "what is left is the culprit, or was not read");
    reject(&mut stream, &second[0].nonce);
    assert_eq!(stream.responses(), [""; 0], "a culprit alone is not sent again");
    stream.set(R, "s", "3");
    assert_eq!(stream.responses(), ["rds s=3"]);
}

/// A rejection that lasts is no answer to the next response.
#[test]
fn routes_wait_for_new_clusters_of_a_client_that_rejects_another() {
    let mut stream = mk_busy(Variant::Delta);
    stream.set(C, "a", "bad");
    let bad = stream.all();
    let error = Some(ErrorDetail { code: 13, message: "a: no".into() });
    stream.send_delta(DeltaRequest { nonce: bad[0].nonce.as_str().into(), error, ..mk_delta(C) });
    stream.change(|world| world.extend(mk_world(&[(C, "c", "1"), (E, "c", "1"), (R, "r", "2")])));
    let first = stream.all();
    assert_eq!(texts(&first), ["cds c=1"]);
    stream.sub(E, &["c"], &[], "");
    stream.sub(C, &[], &[], &first[0].nonce);
    assert_eq!(stream.responses(), ["eds c=1", "rds r=2"]);
}

#[test]
fn cluster_that_returns_while_its_removal_is_withheld_stays() {
    let mut stream = mk_rejecting();
    stream.drop(&[(C, "b"), (E, "b")]);
    assert_eq!(stream.responses(), [""; 0]);
    stream.change(|world| world.extend(mk_world(&[(C, "b", "2"), (E, "b", "2"), (R, "r", "2")])));
    let sent = stream.all();
    assert_eq!(texts(&sent), ["cds b=2", "eds b=2", "rds r=2"]);
    stream.sub(R, &[], &[], &sent[2].nonce);
    assert_eq!(stream.responses(), [""; 0]);
}

#[test]
fn sotw_lists_removed_clusters_until_the_routes_moved() {
    let mut stream = mk_busy(Variant::Sotw);
    stream.change(churn);
    let first = stream.all();
    assert_eq!(texts(&first), ["cds a=2 b=1 c=1", "eds a=1"]);
    stream.request(E, &["a", "b", "c"], &first[1].nonce);
    stream.request(C, &[], &first[0].nonce);
    assert_eq!(stream.responses(), ["eds c=1", "lds l=2", "rds r=2", "cds a=2 c=1", "eds b="]);
}

#[test]
fn sotw_removes_clusters_at_once_if_no_route_moves() {
    let mut stream = mk_busy(Variant::Sotw);
    stream.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.remove(&(C, "b".into()));
    });
    assert_eq!(stream.responses(), ["cds a=2", "eds a=1"]);
}

#[test]
fn sotw_sends_clusters_once_if_it_only_removes_them() {
    let mut stream = mk_busy(Variant::Sotw);
    stream.change(|world| {
        world.remove(&(C, "b".into()));
        world.insert((R, "r".into()), "2".into());
    });
    assert_eq!(stream.responses(), ["rds r=2", "cds a=1"]);
}

#[test]
fn sotw_request_within_a_round_does_not_remove_clusters_early() {
    let mut stream = mk_busy(Variant::Sotw);
    stream.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.remove(&(C, "b".into()));
        world.insert((R, "r".into()), "2".into());
    });
    let first = stream.next().unwrap();
    assert_eq!(first.text(), "cds a=2 b=1");
    stream.request(C, &["*", "x"], &first.nonce);
    assert_eq!(stream.responses(), ["cds a=2 b=1", "eds a=1", "rds r=2", "cds a=2"]);
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

fn texts(all: &[TestResponse]) -> Vec<String> {
    all.iter().map(TestResponse::text).collect()
}

/// Adds an xDS cluster with endpoints, and changes the routes to it.
fn lead_to_new(world: &mut World) {
    world.insert((C, "c".into()), "1".into());
    world.insert((E, "c".into()), "1".into());
    world.insert((R, "r".into()), "2".into());
}

#[test]
fn routes_wait_until_new_clusters_have_endpoints() {
    for variant in [Variant::Delta, Variant::Sotw] {
        let mut stream = mk_busy(variant);
        stream.change(lead_to_new);
        let first = stream.all();
        assert_eq!(first.len(), 1, "{:?}", texts(&first));
        assert!(stream.responses().is_empty(), "it waits for the client");
        let nonce = first[0].nonce.clone();
        match variant {
            Variant::Delta => {
                stream.sub(E, &["c"], &[], "");
                stream.sub(C, &[], &[], &nonce);
            }
            Variant::Sotw => {
                stream.request(E, &["a", "b", "c"], "");
                stream.request(C, &[], &nonce);
            }
        }
        let rest = stream.responses();
        assert!(rest[0].starts_with("eds") && rest[0].contains("c=1"), "{rest:?}");
        assert_eq!(rest[1..], ["rds r=2"]);
        assert_eq!(stream.session.deadline(), None);
    }
}

#[test]
fn client_that_does_not_answer_gets_the_routes_when_the_wait_ends() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(lead_to_new);
    assert_eq!(stream.responses(), ["cds c=1"]);
    assert!(stream.responses().is_empty());
    assert_eq!(stream.session.deadline(), Some(Mono(15_000)));
    stream.now = Mono(14_999);
    assert!(stream.responses().is_empty());
    // a request for other resources is answered after the wait, too
    stream.now = Mono(15_000);
    stream.session.on_tick(stream.now).unwrap();
    assert_eq!(stream.responses(), ["rds r=2"]);
    assert_eq!((stream.session.deadline(), stream.count("warms_expired")), (None, 1));
}

#[test]
fn rejection_of_new_clusters_ends_the_wait() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(lead_to_new);
    let first = stream.all();
    let error = Some(ErrorDetail { code: 3, message: "no".into() });
    stream.send_delta(DeltaRequest { nonce: first[0].nonce.as_str().into(), error, ..mk_delta(C) });
    assert_eq!(stream.responses(), ["rds r=2"]);
}

#[test]
fn changed_clusters_need_no_wait() {
    let mut stream = mk_busy(Variant::Delta);
    stream.change(|world| {
        world.insert((C, "a".into()), "2".into());
        world.insert((R, "r".into()), "2".into());
    });
    assert_eq!(stream.responses(), ["cds a=2", "eds a=1", "rds r=2"]);
}

/// A client that returns with an xDS cluster that is gone, and subscribes to its routes later, as Envoy does.
fn mk_returning() -> TestStream {
    let mut before = mk_busy(Variant::Delta);
    let held: Vec<(ResourceType, &str, String)> =
        [(C, "a"), (C, "b"), (R, "r")].map(|(kind, name)| (kind, name, before.version(kind, name))).into();
    before.change(|world| {
        world.remove(&(C, "b".into()));
        lead_to_new(world);
    });
    let mut stream = before.reconnect();
    let of =
        |kind| held.iter().filter(move |(of, ..)| *of == kind).map(|(_, name, version)| (*name, &**version));
    stream.claim(C, &[], &of(C).collect::<Vec<_>>());
    let first = stream.all();
    assert_eq!(texts(&first), ["cds c=1"], "the removal of b waits, too");
    stream.claim(R, &["r"], &of(R).collect::<Vec<_>>());
    assert!(stream.responses().is_empty());
    stream.sub(E, &["c"], &[], "");
    stream.sub(C, &[], &[], &first[0].nonce);
    stream
}

/// Answers the routes of a client that returned.
fn answer_routes(stream: &mut TestStream, error: Option<ErrorDetail>) -> Vec<String> {
    let sent = stream.all();
    assert_eq!(texts(&sent), ["eds c=1", "rds r=2"], "the removal waits for an answer to the routes");
    stream.send_delta(DeltaRequest { nonce: sent[1].nonce.as_str().into(), error, ..mk_delta(R) });
    stream.responses()
}

#[test]
fn routes_wait_for_new_clusters_of_a_client_that_returns() {
    let mut stream = mk_returning();
    assert_eq!(answer_routes(&mut stream, None), ["cds -b"]);
    // it is not waited for again
    stream.change(|world| {
        world.insert((R, "r".into()), "3".into());
        world.remove(&(C, "a".into()));
    });
    assert_eq!(stream.responses(), ["rds r=3", "cds -a"]);
    assert_eq!(stream.session.deadline(), None);
}

#[test]
fn client_that_returns_and_rejects_its_routes_keeps_what_the_accepted_ones_lead_to() {
    let error = ErrorDetail { code: 13, message: "no".into() };
    let mut stream = mk_returning();
    assert_eq!(answer_routes(&mut stream, Some(error)), [""; 0]);
    stream.set(R, "r", "3");
    let sent = stream.all();
    stream.sub(R, &[], &[], &sent[0].nonce);
    assert_eq!(stream.responses(), ["cds -b"]);
}

/// A sidecar that returns requests its routes only after its xDS clusters, and may have none.
#[test]
fn client_that_returns_without_routes_keeps_removed_clusters_for_a_while() {
    let mut before = mk_busy(Variant::Delta);
    let held = [(C, "a"), (C, "b")].map(|(kind, name)| (name, before.version(kind, name)));
    before.drop(&[(C, "b"), (E, "b")]);
    let mut stream = before.reconnect();
    stream.sub(L, &[], &[], "");
    assert_eq!(stream.responses(), ["lds l=1 m=1"]);
    stream.claim(C, &[], &held.each_ref().map(|(name, version)| (*name, &**version)));
    assert!(!stream.responses().contains(&"cds -b".to_owned()));
    stream.set(C, "a", "2");
    assert_eq!(stream.responses(), ["cds a=2"], "other changes do not wait");
    stream.now = stream.session.deadline().unwrap();
    stream.session.on_tick(stream.now).unwrap();
    assert_eq!(stream.responses(), ["cds -b"]);
}

/// A response with routes is what such a client never gets.
#[test]
fn client_that_returns_with_its_current_routes_loses_removed_clusters_at_once() {
    let mut before = mk_busy(Variant::Delta);
    let held = [(C, "a"), (C, "b"), (R, "r")].map(|(kind, name)| (kind, name, before.version(kind, name)));
    before.drop(&[(C, "b"), (E, "b")]);
    let mut stream = before.reconnect();
    let claims =
        |of| held.iter().filter(move |one| one.0 == of).map(|(_, name, version)| (*name, &**version));
    stream.sub(L, &[], &[], "");
    let listeners = stream.all();
    stream.sub(L, &[], &[], &listeners[0].nonce);
    stream.claim(C, &[], &claims(C).collect::<Vec<_>>());
    assert!(!stream.responses().contains(&"cds -b".to_owned()), "routes may follow");
    stream.claim(R, &["r"], &claims(R).collect::<Vec<_>>());
    assert_eq!(stream.responses(), ["cds -b"]);
    assert_eq!(stream.session.deadline(), None);
}
