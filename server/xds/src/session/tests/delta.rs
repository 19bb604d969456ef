//! Delta conversations (`xds.md` 2, 10.1 scenarios 6 to 9).

use super::*;
use crate::session::SyncStatus;

const WORLD: &[(ResourceType, &str, &str)] =
    &[(C, "a", "1"), (C, "b", "1"), (E, "a", "1"), (E, "b", "1"), (R, "r", "1")];

fn mk_synced() -> Talk {
    let mut talk = Talk::delta(WORLD);
    talk.sub(C, &[], &[], "");
    talk.sub(E, &["a", "b"], &[], "");
    assert_eq!(talk.says(), ["cds a=1 b=1", "eds a=1 b=1"]);
    talk
}

#[test]
fn only_what_changes_is_sent() {
    let mut talk = mk_synced();
    talk.set(E, "b", "2");
    assert_eq!(talk.says(), ["eds b=2"]);
    talk.set(C, "new", "1");
    assert_eq!(talk.says(), ["cds new=1"]);
    talk.set(L, "unwanted", "1");
    assert_eq!(talk.says(), Vec::<String>::new());
    assert_eq!(talk.count("wakeups_for_nothing"), 1);
}

#[test]
fn a_wildcard_is_answered_even_when_there_is_nothing() {
    let mut talk = Talk::delta(&[]);
    talk.sub(C, &["*"], &[], "");
    talk.sub(L, &[], &[], "");
    assert_eq!(talk.says(), ["cds", "lds"]);
}

#[test]
fn a_reconnect_with_equal_versions_costs_nothing() {
    let talk = mk_synced();
    let (a, b) = (talk.version(C, "a"), talk.version(C, "b"));
    let (ea, eb) = (talk.version(E, "a"), talk.version(E, "b"));
    let mut again = talk.reconnect();
    again.claim(C, &[], &[("a", &a), ("b", &b)]);
    again.claim(E, &["a", "b"], &[("a", &ea), ("b", &eb)]);
    assert_eq!(again.says(), ["cds"], "zero clusters, and silence on endpoints");
}

#[test]
fn a_reconnect_gets_what_differs_and_what_is_gone() {
    let mut talk = mk_synced();
    let (a, b) = (talk.version(C, "a"), talk.version(C, "b"));
    let (ea, eb) = (talk.version(E, "a"), talk.version(E, "b"));
    talk.set(C, "a", "2");
    talk.drop(&[(C, "b"), (E, "b")]);
    let mut again = talk.reconnect();
    again.claim(C, &[], &[("a", &a), ("b", &b)]);
    again.claim(E, &["a", "b"], &[("a", &ea), ("b", &eb)]);
    assert_eq!(
        again.says(),
        ["cds a=2", "eds a=1", "cds -b", "eds b="],
        "the changed cluster forces its endpoints"
    );
}

#[test]
fn a_cluster_that_changed_while_away_forces_endpoints_that_are_asked_for_later() {
    let mut talk = mk_synced();
    let (a, b, ea) = (talk.version(C, "a"), talk.version(C, "b"), talk.version(E, "a"));
    talk.set(C, "a", "2");
    let mut again = talk.reconnect();
    again.claim(C, &["*"], &[("a", &a), ("b", &b)]);
    assert_eq!(again.says(), ["cds a=2"]);
    again.claim(E, &["a"], &[("a", &ea)]);
    assert_eq!(again.says(), ["eds a=1"]);
}

#[test]
fn versions_of_another_server_are_not_trusted() {
    let talk = mk_synced();
    let mut again = talk.reconnect();
    again.claim(C, &["*"], &[("a", "2026-11-21T09:00:00Z/7"), ("b", "")]);
    assert_eq!(again.says(), ["cds a=1 b=1"]);
}

#[test]
fn subscriptions_are_honoured_on_a_stale_nonce() {
    let mut talk = mk_synced();
    talk.sub(E, &["c"], &[], "not a nonce");
    assert_eq!(talk.says(), ["eds c="]);
    talk.sub(E, &[], &["a"], "not a nonce");
    talk.set(E, "a", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    assert_eq!(talk.count("stale_nonces"), 2);
}

#[test]
fn subscribing_again_sends_again() {
    let mut talk = mk_synced();
    talk.sub(E, &["a"], &[], "");
    assert_eq!(talk.says(), ["eds a=1"]);
    talk.sub(C, &["*"], &[], "");
    assert_eq!(talk.says(), ["cds a=1 b=1", "eds a=1 b=1"]);
}

#[test]
fn a_name_that_does_not_exist_is_told_gone_or_empty() {
    let mut talk = Talk::delta(&[]);
    talk.sub(C, &["x"], &[], "");
    talk.sub(L, &["x"], &[], "");
    talk.sub(R, &["x"], &[], "");
    talk.sub(E, &["x"], &[], "");
    let says = talk.says();
    for told in ["eds x=", "lds -x", "rds -x", "cds -x"] {
        assert_eq!(says.iter().filter(|s| *s == told).count(), 1, "{told} in {says:?}");
    }
    talk.sub(R, &["x"], &[], "");
    assert_eq!(talk.says(), ["rds -x"], "asking again is answered again");
    talk.set(R, "x", "1");
    assert_eq!(talk.says(), ["rds x=1"], "a name that does not exist stays subscribed");
}

#[test]
fn a_wildcard_client_that_gives_up_a_name_is_told_what_the_wildcard_says() {
    let mut talk = Talk::delta(WORLD);
    talk.sub(C, &["*", "a", "x"], &[], "");
    assert_eq!(talk.says(), ["cds a=1 b=1", "cds -x"]);
    talk.sub(C, &[], &["a", "x", "never"], "");
    assert_eq!(talk.says(), ["cds a=1", "cds -x"]);
}

#[test]
fn giving_up_the_star_keeps_the_names() {
    let mut talk = Talk::delta(WORLD);
    talk.sub(C, &["*", "a"], &[], "");
    talk.says();
    talk.sub(C, &[], &["*"], "");
    talk.set(C, "b", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.set(C, "a", "2");
    assert_eq!(talk.says(), ["cds a=2"]);
}

#[test]
fn a_legacy_wildcard_ends_with_the_first_name() {
    let mut talk = mk_synced();
    talk.sub(C, &["a"], &[], "");
    assert_eq!(talk.says(), ["cds a=1", "eds a=1"]);
    talk.set(C, "b", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
}

#[test]
fn on_demand_begins_with_nothing() {
    let mut talk = Talk::delta(WORLD);
    talk.sub(C, &["*"], &["*"], "");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.sub(C, &["b"], &[], "");
    assert_eq!(talk.says(), ["cds b=1"]);
}

#[test]
fn unsubscribed_names_are_forgotten() {
    let mut talk = mk_synced();
    talk.sub(E, &[], &["a", "unknown"], "");
    talk.set(E, "a", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.sub(E, &["a"], &[], "");
    assert_eq!(talk.says(), ["eds a=2"]);
}

#[test]
fn endpoints_are_never_told_gone() {
    let mut talk = Talk::delta(WORLD);
    talk.sub(E, &["a"], &[], "");
    talk.says();
    talk.drop(&[(E, "a")]);
    assert_eq!(talk.says(), ["eds a="]);
    talk.set(E, "a", "3");
    assert_eq!(talk.says(), ["eds a=3"]);
}

#[test]
fn a_refused_response_is_shown_with_its_names_until_something_is_taken() {
    let mut talk = mk_synced();
    talk.set(C, "a", "2");
    let sent = talk.all();
    let error = Some(ErrorDetail { code: 13, message: "no".into() });
    talk.tell(DeltaRequest { nonce: sent[0].nonce.as_str().into(), error, ..mk_delta(C) });
    assert_eq!(talk.says(), Vec::<String>::new());
    let status = &talk.session.statuses(talk.now)[0];
    assert_eq!(status.nack.as_ref().unwrap().names, ["a".into()]);
    assert_eq!(&*talk.session.delivery(C, "a").refused.unwrap(), "no");
    assert_eq!(talk.session.delivery(C, "b").refused, None);
    talk.set(C, "b", "2");
    let sent = talk.all();
    assert_eq!(sent[0].text(), "cds b=2", "the refused one is not sent again");
    talk.sub(C, &[], &[], &sent[0].nonce);
    assert_eq!(talk.session.statuses(talk.now)[0].status, SyncStatus::Synced);
}

#[test]
fn what_a_client_holds_can_be_asked_for() {
    let talk = mk_synced();
    let a = talk.session.delivery(E, "a");
    assert_eq!(a.version.map(|v| v.to_string()), Some(talk.version(E, "a")));
    assert!(!talk.session.delivery(E, "zz").subscribed);
    assert_eq!(talk.session.delivery(R, "r").status, SyncStatus::NotSent);
}
