//! Delta exchanges (docs/reference/xds.md#delta).

use super::*;
use crate::session::SyncStatus;

const WORLD: &[(ResourceType, &str, &str)] =
    &[(C, "a", "1"), (C, "b", "1"), (E, "a", "1"), (E, "b", "1"), (R, "r", "1")];

fn mk_synced() -> TestStream {
    let mut stream = TestStream::delta(WORLD);
    stream.sub(C, &[], &[], "");
    stream.sub(E, &["a", "b"], &[], "");
    assert_eq!(stream.responses(), ["cds a=1 b=1", "eds a=1 b=1"]);
    stream
}

#[test]
fn only_what_changes_is_sent() {
    let mut stream = mk_synced();
    stream.set(E, "b", "2");
    assert_eq!(stream.responses(), ["eds b=2"]);
    stream.set(C, "new", "1");
    assert_eq!(stream.responses(), ["cds new=1"]);
    stream.set(L, "unwanted", "1");
    assert_eq!(stream.responses(), Vec::<String>::new());
    assert_eq!(stream.count("wakeups_for_nothing"), 1);
}

#[test]
fn wildcard_is_answered_even_without_resources() {
    let mut stream = TestStream::delta(&[]);
    stream.sub(C, &["*"], &[], "");
    stream.sub(L, &[], &[], "");
    assert_eq!(stream.responses(), ["cds", "lds"]);
}

#[test]
fn a_reconnect_with_equal_versions_costs_nothing() {
    let stream = mk_synced();
    let (a, b) = (stream.version(C, "a"), stream.version(C, "b"));
    let (ea, eb) = (stream.version(E, "a"), stream.version(E, "b"));
    let mut again = stream.reconnect();
    again.claim(C, &[], &[("a", &a), ("b", &b)]);
    again.claim(E, &["a", "b"], &[("a", &ea), ("b", &eb)]);
    assert_eq!(again.responses(), ["cds"], "an empty CDS response, and no EDS response");
}

#[test]
fn reconnect_gets_changes_and_removals() {
    let mut stream = mk_synced();
    let (a, b) = (stream.version(C, "a"), stream.version(C, "b"));
    let (ea, eb) = (stream.version(E, "a"), stream.version(E, "b"));
    stream.set(C, "a", "2");
    stream.drop(&[(C, "b"), (E, "b")]);
    let mut again = stream.reconnect();
    again.claim(C, &[], &[("a", &a), ("b", &b)]);
    again.claim(E, &["a", "b"], &[("a", &ea), ("b", &eb)]);
    assert_eq!(
        again.responses(),
        ["cds a=2", "eds a=1", "cds -b", "eds b="],
        "the changed cluster forces its endpoints"
    );
}

#[test]
fn cluster_changed_while_away_forces_later_endpoints() {
    let mut stream = mk_synced();
    let (a, b, ea) = (stream.version(C, "a"), stream.version(C, "b"), stream.version(E, "a"));
    stream.set(C, "a", "2");
    let mut again = stream.reconnect();
    again.claim(C, &["*"], &[("a", &a), ("b", &b)]);
    assert_eq!(again.responses(), ["cds a=2"]);
    again.claim(E, &["a"], &[("a", &ea)]);
    assert_eq!(again.responses(), ["eds a=1"]);
}

#[test]
fn versions_of_another_server_are_not_trusted() {
    let stream = mk_synced();
    let mut again = stream.reconnect();
    again.claim(C, &["*"], &[("a", "2026-11-21T09:00:00Z/7"), ("b", "")]);
    assert_eq!(again.responses(), ["cds a=1 b=1"]);
}

#[test]
fn stale_nonce_may_change_the_subscription() {
    let mut stream = mk_synced();
    stream.sub(E, &["c"], &[], "not a nonce");
    assert_eq!(stream.responses(), ["eds c="]);
    stream.sub(E, &[], &["a"], "not a nonce");
    stream.set(E, "a", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    assert_eq!(stream.count("stale_nonces"), 2);
}

#[test]
fn resubscription_sends_the_resource_again() {
    let mut stream = mk_synced();
    stream.sub(E, &["a"], &[], "");
    assert_eq!(stream.responses(), ["eds a=1"]);
    stream.sub(C, &["*"], &[], "");
    assert_eq!(stream.responses(), ["cds a=1 b=1", "eds a=1 b=1"]);
}

#[test]
fn unknown_name_is_removed_or_empty() {
    let mut stream = TestStream::delta(&[]);
    stream.sub(C, &["x"], &[], "");
    stream.sub(L, &["x"], &[], "");
    stream.sub(R, &["x"], &[], "");
    stream.sub(E, &["x"], &[], "");
    let responses = stream.responses();
    for response in ["eds x=", "lds -x", "rds -x", "cds -x"] {
        assert_eq!(responses.iter().filter(|s| *s == response).count(), 1, "{response} in {responses:?}");
    }
    stream.sub(R, &["x"], &[], "");
    assert_eq!(stream.responses(), ["rds -x"], "a repeated request gets a response");
    stream.set(R, "x", "1");
    assert_eq!(stream.responses(), ["rds x=1"], "an unknown name stays subscribed");
}

#[test]
fn name_unsubscribed_under_a_wildcard_is_sent_again() {
    let mut stream = TestStream::delta(WORLD);
    stream.sub(C, &["*", "a", "x"], &[], "");
    assert_eq!(stream.responses(), ["cds a=1 b=1", "cds -x"]);
    stream.sub(C, &[], &["a", "x", "never"], "");
    assert_eq!(stream.responses(), ["cds a=1", "cds -x"]);
}

#[test]
fn unsubscribing_from_the_wildcard_keeps_names() {
    let mut stream = TestStream::delta(WORLD);
    stream.sub(C, &["*", "a"], &[], "");
    stream.responses();
    stream.sub(C, &[], &["*"], "");
    stream.set(C, "b", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.set(C, "a", "2");
    assert_eq!(stream.responses(), ["cds a=2"]);
}

#[test]
fn a_legacy_wildcard_ends_with_the_first_name() {
    let mut stream = mk_synced();
    stream.sub(C, &["a"], &[], "");
    assert_eq!(stream.responses(), ["cds a=1", "eds a=1"]);
    stream.set(C, "b", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
}

#[test]
fn on_demand_subscription_starts_empty() {
    let mut stream = TestStream::delta(WORLD);
    stream.sub(C, &["*"], &["*"], "");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.sub(C, &["b"], &[], "");
    assert_eq!(stream.responses(), ["cds b=1"]);
}

#[test]
fn unsubscribed_names_are_forgotten() {
    let mut stream = mk_synced();
    stream.sub(E, &[], &["a", "unknown"], "");
    stream.set(E, "a", "2");
    assert_eq!(stream.responses(), Vec::<String>::new());
    stream.sub(E, &["a"], &[], "");
    assert_eq!(stream.responses(), ["eds a=2"]);
}

#[test]
fn endpoints_are_emptied_instead_of_removed() {
    let mut stream = TestStream::delta(WORLD);
    stream.sub(E, &["a"], &[], "");
    stream.responses();
    stream.drop(&[(E, "a")]);
    assert_eq!(stream.responses(), ["eds a="]);
    stream.set(E, "a", "3");
    assert_eq!(stream.responses(), ["eds a=3"]);
}

#[test]
fn rejected_response_is_shown_until_one_is_accepted() {
    let mut stream = mk_synced();
    stream.set(C, "a", "2");
    let sent = stream.all();
    let error = Some(ErrorDetail { code: 13, message: "no".into() });
    stream.send_delta(DeltaRequest { nonce: sent[0].nonce.as_str().into(), error, ..mk_delta(C) });
    assert_eq!(stream.responses(), Vec::<String>::new());
    let status = &stream.session.status().statuses(stream.now)[0];
    assert_eq!(status.nack.as_ref().unwrap().names, ["a".into()]);
    assert_eq!(&*stream.session.status().delivery(C, "a").refused.unwrap(), "no");
    assert_eq!(stream.session.status().delivery(C, "b").refused, None);
    stream.set(C, "b", "2");
    let sent = stream.all();
    assert_eq!(sent[0].text(), "cds b=2", "the rejected resource is not sent again");
    stream.sub(C, &[], &[], &sent[0].nonce);
    assert_eq!(
        stream.session.status().statuses(stream.now)[0].status,
        SyncStatus::Error,
        "a is still rejected"
    );
    stream.set(C, "a", "3");
    let sent = stream.all();
    stream.sub(C, &[], &[], &sent[0].nonce);
    assert_eq!(stream.session.status().statuses(stream.now)[0].status, SyncStatus::Synced);
}

#[test]
fn delivery_reports_the_held_version() {
    let stream = mk_synced();
    let a = stream.session.status().delivery(E, "a");
    assert_eq!(a.version.map(|v| v.to_string()), Some(stream.version(E, "a")));
    assert!(!stream.session.status().delivery(E, "zz").subscribed);
    assert_eq!(stream.session.status().delivery(R, "r").status, SyncStatus::NotSent);
}
