//! State-of-the-world exchanges (docs/reference/xds.md#state-of-the-world).

use super::*;
use crate::session::SyncStatus;

const WORLD: &[(ResourceType, &str, &str)] =
    &[(C, "a", "1"), (C, "b", "1"), (E, "a", "1"), (E, "b", "1"), (E, "c", ""), (L, "l", "1"), (R, "r", "1")];

fn mk_synced() -> (TestStream, String, String) {
    let mut stream = TestStream::sotw(WORLD);
    stream.request(C, &[], "");
    let clusters = stream.all();
    stream.request(C, &[], &clusters[0].nonce);
    stream.request(E, &["a", "b"], "");
    let endpoints = stream.all();
    stream.request(E, &["a", "b"], &endpoints[0].nonce);
    assert_eq!(stream.responses(), Vec::<String>::new());
    (stream, clusters[0].nonce.clone(), endpoints[0].nonce.clone())
}

#[test]
fn first_request_is_answered_with_all_subscribed_resources() {
    let mut stream = TestStream::sotw(WORLD);
    stream.request(C, &[], "");
    assert_eq!(stream.responses(), ["cds a=1 b=1"]);
    stream.request(E, &["a", "x"], "");
    assert_eq!(stream.responses(), ["eds a=1 x="], "an unknown name has an empty assignment");
    stream.request(L, &[], "");
    stream.request(R, &["r"], "");
    assert_eq!(stream.responses(), ["lds l=1", "rds r=1"]);
}

#[test]
fn first_request_is_answered_even_without_resources() {
    let mut stream = TestStream::sotw(&[]);
    stream.request(C, &[], "");
    stream.request(L, &["grpc:80"], "");
    stream.request(R, &["none"], "");
    assert_eq!(stream.responses(), ["cds", "lds", "rds"]);
}

#[test]
fn an_acknowledgement_is_not_answered() {
    let (stream, ..) = mk_synced();
    let status: Vec<_> =
        stream.session.status().statuses(stream.now).iter().map(|s| (s.kind, s.status)).collect();
    assert_eq!(status, [("cds", SyncStatus::Synced), ("eds", SyncStatus::Synced)]);
}

#[test]
fn rejection_is_recorded_and_not_answered() {
    let (mut stream, ..) = mk_synced();
    stream.set(C, "a", "2");
    let sent = stream.all();
    stream.now = Mono(5);
    stream.refuse(C, &[], &sent[0].nonce, "a is bad");
    assert_eq!(stream.responses(), Vec::<String>::new());
    let status = stream.session.status().statuses(Mono(7));
    assert_eq!(status[0].status, SyncStatus::Error);
    let nack = status[0].nack.as_ref().unwrap();
    assert_eq!((&*nack.text, nack.generation, nack.age_ms), ("a is bad", Some(2), 2));
    stream.set(L, "l", "2");
    assert_eq!(stream.responses(), Vec::<String>::new(), "a rejected resource is not sent again unchanged");
    stream.set(C, "a", "3");
    let sent = stream.all();
    assert_eq!(sent[0].text(), "cds a=3 b=1");
    stream.request(C, &[], &sent[0].nonce);
    assert_eq!(stream.session.status().statuses(Mono(7))[0].status, SyncStatus::Synced);
}

#[test]
fn rejection_may_change_the_subscription() {
    let (mut stream, _, nonce) = mk_synced();
    stream.refuse(E, &["a", "b", "c"], &nonce, "bad");
    assert_eq!(stream.responses(), ["eds c="]);
}

#[test]
fn no_names_end_the_subscription_of_a_type_without_a_wildcard() {
    let (mut stream, _, nonce) = mk_synced();
    stream.request(E, &[], &nonce);
    stream.set(E, "a", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.request(E, &["a"], "");
    assert_eq!(stream.responses(), ["eds a=2"]);
}

#[test]
fn a_request_without_a_nonce_is_answered_in_full_again() {
    let (mut stream, ..) = mk_synced();
    stream.request(E, &["a", "b"], "");
    assert_eq!(stream.responses(), ["eds a=1 b=1"]);
}

#[test]
fn first_request_with_a_foreign_nonce_is_answered() {
    let mut stream = TestStream::sotw(WORLD);
    stream.send_sotw(SotwRequest { nonce: "zz".into(), version: "v".into(), ..mk_sotw(C) });
    assert_eq!(
        stream.responses(),
        ["cds a=1 b=1"],
        "a version does not suppress the response to a reconnect"
    );
}

/// Envoy requests the names of secrets one after the other, before the first response. It reads the files of a repeated secret
/// only once, and accepts it the second time.
#[test]
fn rejected_secret_stays_rejected_until_it_is_unsubscribed() {
    const S: ResourceType = ResourceType::Secret;
    let (bad, good) = ("file-root:/a", "file-root:/b");
    let mut stream = TestStream::sotw(&[(S, bad, "1"), (S, good, "1")]);
    stream.request(S, &[bad], "");
    let first = stream.all();
    stream.request(S, &[bad, good], "");
    let second = stream.all();
    let status = |stream: &TestStream| {
        let all = stream.session.status().statuses(Mono(9));
        all.iter().map(|s| (s.status, s.nack.as_ref().map(|n| n.names.len()))).collect::<Vec<_>>()
    };
    stream.refuse(S, &[bad, good], &first[0].nonce, "Invalid path: /a");
    stream.request(S, &[bad, good], &second[0].nonce);
    assert_eq!(status(&stream), [(SyncStatus::Error, Some(1))]);
    assert_eq!(stream.session.status().delivery(S, bad).refused.as_deref(), Some("Invalid path: /a"));
    assert_eq!(stream.session.status().delivery(S, good).refused, None);
    let mut all = TestStream::sotw(&[(S, bad, "1")]);
    all.request(S, &[bad], "");
    let sent = all.all();
    all.refuse(S, &[bad], &sent[0].nonce, "Invalid path: /a");
    assert_eq!(status(&all), [(SyncStatus::Error, Some(1))]);
    all.request(S, &[], &sent[0].nonce);
    assert!(status(&all).is_empty(), "nothing is subscribed");
    stream.request(S, &[good], &second[0].nonce);
    assert_eq!(status(&stream), [(SyncStatus::Synced, None)]);
}

#[test]
fn a_stale_nonce_is_ignored() {
    let (mut stream, _, old) = mk_synced();
    stream.set(E, "a", "2");
    let new = stream.all();
    stream.request(E, &["a", "b", "c"], &old);
    assert_eq!(stream.responses(), Vec::<String>::new());
    assert_eq!(stream.count("stale_nonces"), 1);
    stream.request(E, &["a", "b", "c"], &new[0].nonce);
    assert_eq!(stream.responses(), ["eds c="]);
}

#[test]
fn only_added_endpoint_names_are_answered() {
    let (mut stream, _, nonce) = mk_synced();
    stream.request(E, &["a", "c"], &nonce);
    let added = stream.all();
    assert_eq!(added[0].text(), "eds c=");
    stream.request(E, &["a"], &added[0].nonce);
    stream.set(E, "c", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
}

#[test]
fn any_change_of_names_on_a_wildcard_type_is_answered_in_full() {
    let mut stream = TestStream::sotw(WORLD);
    stream.request(C, &["a"], "");
    let first = stream.all();
    assert_eq!(first[0].text(), "cds a=1");
    stream.request(C, &["a", "b"], &first[0].nonce);
    let second = stream.all();
    assert_eq!(second[0].text(), "cds a=1 b=1");
    stream.request(C, &["b"], &second[0].nonce);
    assert_eq!(stream.responses(), ["cds b=1"]);
}

#[test]
fn empty_list_after_names_is_no_names_and_star_is_all() {
    let mut stream = TestStream::sotw(WORLD);
    stream.request(C, &["a"], "");
    let first = stream.all();
    stream.request(C, &[], &first[0].nonce);
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.set(C, "b", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.request(C, &["*"], &first[0].nonce);
    assert_eq!(stream.responses(), ["cds a=1 b=2"]);
}

#[test]
fn full_response_omits_removed_names() {
    let (mut stream, ..) = mk_synced();
    stream.drop(&[(C, "b"), (E, "b")]);
    assert_eq!(stream.responses(), ["cds a=1", "eds b="]);
}

#[test]
fn named_full_state_is_complete_whenever_one_name_changes() {
    let mut stream = TestStream::sotw(&[(L, "x.y", "1"), (L, "z.y", "1"), (L, "other.y", "1")]);
    stream.request(L, &["x.y", "z.y"], "");
    assert_eq!(stream.responses(), ["lds x.y=1 z.y=1"]);
    stream.set(L, "z.y", "2");
    assert_eq!(stream.responses(), ["lds x.y=1 z.y=2"]);
    stream.set(L, "other.y", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.drop(&[(L, "x.y")]);
    assert_eq!(stream.responses(), ["lds z.y=2"]);
}

#[test]
fn the_first_clusters_of_a_stream_send_its_endpoints_again() {
    let mut stream = TestStream::sotw(WORLD);
    stream.request(E, &["a", "b"], "");
    assert_eq!(stream.responses(), ["eds a=1 b=1"]);
    stream.request(C, &[], "");
    assert_eq!(stream.responses(), ["cds a=1 b=1", "eds a=1 b=1"]);
}

#[test]
fn a_changed_cluster_is_followed_by_its_endpoints() {
    let (mut stream, ..) = mk_synced();
    stream.set(C, "a", "2");
    assert_eq!(stream.responses(), ["cds a=2 b=1", "eds a=1"]);
    assert_eq!(stream.count("endpoints_forced"), 1);
}

#[test]
fn added_cluster_is_followed_by_subscribed_endpoints() {
    let (mut stream, _, nonce) = mk_synced();
    stream.request(E, &["a", "b", "c"], &nonce);
    assert_eq!(stream.responses(), ["eds c="]);
    stream.set(C, "c", "1");
    assert_eq!(stream.responses(), ["cds a=1 b=1 c=1", "eds c="]);
}

#[test]
fn unserved_types_are_ignored_without_ending_the_stream() {
    let mut stream = TestStream::sotw(WORLD);
    stream.send_sotw(SotwRequest { type_url: "istio.io/debug".into(), ..SotwRequest::default() });
    assert_eq!(stream.responses(), Vec::<String>::new());
    assert_eq!(stream.session.status().unknown_type.as_deref(), Some("istio.io/debug"));
    stream.request(C, &[], "");
    assert_eq!(stream.responses(), ["cds a=1 b=1"]);
}

#[test]
fn a_reconnect_gets_the_same_versions() {
    let (mut stream, ..) = mk_synced();
    stream.set(E, "a", "2");
    let before = stream.all().remove(0);
    let mut again = stream.reconnect();
    again.send_sotw(SotwRequest {
        version: before.version.as_str().into(),
        names: list(&["b", "a"]),
        ..mk_sotw(E)
    });
    let after = again.all().remove(0);
    assert_eq!(after.version, before.version, "a partial response has the version of the whole set");
    assert_eq!(after.text(), "eds a=2 b=1");
}

fn texts(all: &[TestResponse]) -> Vec<String> {
    all.iter().map(TestResponse::text).collect()
}

/// A reconnect with the version of the last CDS response, as Envoy begins it.
fn resume(of: &TestStream, version: &str) -> TestStream {
    let mut again = of.reconnect();
    again.now = of.now;
    again.send_sotw(SotwRequest { version: version.into(), ..mk_sotw(C) });
    again
}

/// Returns a stream with routes, after policies were added and removed while its client was away, and the version of the
/// xDS clusters that the client holds.
fn mk_away() -> (TestStream, String) {
    let mut stream = TestStream::sotw(WORLD);
    stream.set(L, "l", "1");
    stream.set(R, "r", "b");
    let mut version = String::new();
    for (kind, names) in [(C, &[][..]), (E, &["a", "b"]), (L, &[]), (R, &["r"])] {
        stream.request(kind, names, "");
        for response in stream.all() {
            if response.kind == C {
                version.clone_from(&response.version);
            }
            let names: &[&str] = if response.kind == kind { names } else { &["a", "b"] };
            stream.request(response.kind, names, &response.nonce);
        }
    }
    stream.session.on_end(stream.now);
    stream.change(|world| {
        world.retain(|(kind, name), _| *name != "b" || !matches!(*kind, C | E));
        world.insert((C, "c".into()), "1".into());
        world.insert((E, "c".into()), "1".into());
        world.insert((R, "r".into()), "c".into());
    });
    (stream, version)
}

#[test]
fn a_reconnect_keeps_removed_clusters_until_the_routes_moved() {
    let (stream, version) = mk_away();
    let mut again = resume(&stream, &version);
    let first = again.all();
    assert_eq!(texts(&first), ["cds a=1 b=1 c=1"]);
    for (kind, names) in [(E, &["a", "b"][..]), (L, &[]), (R, &["r"])] {
        again.send_sotw(SotwRequest { version: "1".into(), names: list(names), ..mk_sotw(kind) });
    }
    let warm = again.all();
    assert_eq!(texts(&warm), ["eds a=1"], "routes wait, and the removed xDS cluster keeps its endpoints");
    again.request(E, &["a", "b", "c"], &warm[0].nonce);
    again.request(C, &[], &first[0].nonce);
    assert_eq!(again.responses(), ["eds c=1", "lds l=1", "rds r=c", "cds a=1 c=1", "eds b="]);
    assert!(again.session.status().sent(C).is_some());
}

#[test]
fn only_the_version_of_a_remembered_stream_keeps_clusters() {
    let (stream, version) = mk_away();
    assert_eq!(resume(&stream, "ffff").responses(), ["cds a=1 c=1"], "another server sent it");
    assert_eq!(
        resume(&stream, &version).responses(),
        ["cds a=1 c=1"],
        "it is forgotten with the first stream"
    );
    let (mut stream, version) = mk_away();
    stream.now = stream.now.plus(crate::session::Remembered::KEPT);
    assert_eq!(resume(&stream, &version).responses(), ["cds a=1 c=1"], "its time is over");
    let (stream, _) = mk_away();
    let mut first = stream.reconnect();
    first.request(C, &[], "");
    assert_eq!(first.responses(), ["cds a=1 c=1"], "a client without a version holds nothing");
}
