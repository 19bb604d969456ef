//! The decision table of `xds.md` 1.5 as amended by `core.md` 7.

use super::*;
use crate::session::SyncStatus;

const WORLD: &[(ResourceType, &str, &str)] =
    &[(C, "a", "1"), (C, "b", "1"), (E, "a", "1"), (E, "b", "1"), (E, "c", ""), (L, "l", "1"), (R, "r", "1")];

fn mk_synced() -> (Talk, String, String) {
    let mut talk = Talk::sotw(WORLD);
    talk.ask(C, &[], "");
    let clusters = talk.all();
    talk.ask(C, &[], &clusters[0].nonce);
    talk.ask(E, &["a", "b"], "");
    let endpoints = talk.all();
    talk.ask(E, &["a", "b"], &endpoints[0].nonce);
    assert_eq!(talk.says(), Vec::<String>::new());
    (talk, clusters[0].nonce.clone(), endpoints[0].nonce.clone())
}

#[test]
fn a_first_request_is_answered_with_all_that_is_subscribed() {
    let mut talk = Talk::sotw(WORLD);
    talk.ask(C, &[], "");
    assert_eq!(talk.says(), ["cds a=1 b=1"]);
    talk.ask(E, &["a", "x"], "");
    assert_eq!(talk.says(), ["eds a=1 x="], "a name that nobody knows has an empty assignment");
    talk.ask(L, &[], "");
    talk.ask(R, &["r"], "");
    assert_eq!(talk.says(), ["lds l=1", "rds r=1"]);
}

#[test]
fn a_first_request_is_answered_even_when_there_is_nothing() {
    let mut talk = Talk::sotw(&[]);
    talk.ask(C, &[], "");
    talk.ask(L, &["grpc:80"], "");
    talk.ask(R, &["none"], "");
    assert_eq!(talk.says(), ["cds", "lds", "rds"]);
}

#[test]
fn an_acknowledgement_is_not_answered() {
    let (talk, ..) = mk_synced();
    let status: Vec<_> = talk.session.statuses(talk.now).iter().map(|s| (s.kind, s.status)).collect();
    assert_eq!(status, [("cds", SyncStatus::Synced), ("eds", SyncStatus::Synced)]);
}

#[test]
fn a_refusal_is_recorded_and_not_answered() {
    let (mut talk, ..) = mk_synced();
    talk.set(C, "a", "2");
    let sent = talk.all();
    talk.now = Mono(5);
    talk.refuse(C, &[], &sent[0].nonce, "a is bad");
    assert_eq!(talk.says(), Vec::<String>::new());
    let status = talk.session.statuses(Mono(7));
    assert_eq!(status[0].status, SyncStatus::Error);
    let nack = status[0].nack.as_ref().unwrap();
    assert_eq!((&*nack.text, nack.generation, nack.age_ms), ("a is bad", Some(2), 2));
    talk.set(L, "l", "2");
    assert_eq!(talk.says(), Vec::<String>::new(), "what was refused is not sent again as it is");
    talk.set(C, "a", "3");
    let sent = talk.all();
    assert_eq!(sent[0].text(), "cds a=3 b=1");
    talk.ask(C, &[], &sent[0].nonce);
    assert_eq!(talk.session.statuses(Mono(7))[0].status, SyncStatus::Synced);
}

#[test]
fn subscriptions_ride_on_refusals_too() {
    let (mut talk, _, nonce) = mk_synced();
    talk.refuse(E, &["a", "b", "c"], &nonce, "bad");
    assert_eq!(talk.says(), ["eds c="]);
}

#[test]
fn no_names_end_the_subscription_of_a_type_without_a_wildcard() {
    let (mut talk, _, nonce) = mk_synced();
    talk.ask(E, &[], &nonce);
    talk.set(E, "a", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.ask(E, &["a"], "");
    assert_eq!(talk.says(), ["eds a=2"]);
}

#[test]
fn a_request_without_a_nonce_is_answered_in_full_again() {
    let (mut talk, ..) = mk_synced();
    talk.ask(E, &["a", "b"], "");
    assert_eq!(talk.says(), ["eds a=1 b=1"]);
}

#[test]
fn a_nonce_of_another_stream_does_not_hide_a_first_request() {
    let mut talk = Talk::sotw(WORLD);
    talk.ask_with(SotwRequest { nonce: "zz".into(), version: "v".into(), ..mk_sotw(C) });
    assert_eq!(talk.says(), ["cds a=1 b=1"], "a reconnect is never elided by its version");
}

#[test]
fn a_stale_nonce_is_ignored() {
    let (mut talk, _, old) = mk_synced();
    talk.set(E, "a", "2");
    let new = talk.all();
    talk.ask(E, &["a", "b", "c"], &old);
    assert_eq!(talk.says(), Vec::<String>::new());
    assert_eq!(talk.count("stale_nonces"), 1);
    talk.ask(E, &["a", "b", "c"], &new[0].nonce);
    assert_eq!(talk.says(), ["eds c="]);
}

#[test]
fn additions_to_endpoints_are_answered_alone_and_removals_not_at_all() {
    let (mut talk, _, nonce) = mk_synced();
    talk.ask(E, &["a", "c"], &nonce);
    let added = talk.all();
    assert_eq!(added[0].text(), "eds c=");
    talk.ask(E, &["a"], &added[0].nonce);
    talk.set(E, "c", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
}

#[test]
fn any_change_of_names_on_a_wildcard_type_is_answered_in_full() {
    let mut talk = Talk::sotw(WORLD);
    talk.ask(C, &["a"], "");
    let first = talk.all();
    assert_eq!(first[0].text(), "cds a=1");
    talk.ask(C, &["a", "b"], &first[0].nonce);
    let second = talk.all();
    assert_eq!(second[0].text(), "cds a=1 b=1");
    talk.ask(C, &["b"], &second[0].nonce);
    assert_eq!(talk.says(), ["cds b=1"]);
}

#[test]
fn no_names_after_some_are_none_and_a_star_is_all() {
    let mut talk = Talk::sotw(WORLD);
    talk.ask(C, &["a"], "");
    let first = talk.all();
    talk.ask(C, &[], &first[0].nonce);
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.set(C, "b", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.ask(C, &["*"], &first[0].nonce);
    assert_eq!(talk.says(), ["cds a=1 b=2"]);
}

#[test]
fn full_state_tells_what_is_gone_by_leaving_it_out() {
    let (mut talk, ..) = mk_synced();
    talk.drop(&[(C, "b"), (E, "b")]);
    assert_eq!(talk.says(), ["cds a=1", "eds b="]);
}

#[test]
fn named_full_state_is_complete_whenever_one_name_changes() {
    let mut talk = Talk::sotw(&[(L, "x.y", "1"), (L, "z.y", "1"), (L, "other.y", "1")]);
    talk.ask(L, &["x.y", "z.y"], "");
    assert_eq!(talk.says(), ["lds x.y=1 z.y=1"]);
    talk.set(L, "z.y", "2");
    assert_eq!(talk.says(), ["lds x.y=1 z.y=2"]);
    talk.set(L, "other.y", "2");
    assert_eq!(talk.says(), Vec::<String>::new());
    talk.drop(&[(L, "x.y")]);
    assert_eq!(talk.says(), ["lds z.y=2"]);
}

#[test]
fn the_first_clusters_of_a_stream_send_its_endpoints_again() {
    let mut talk = Talk::sotw(WORLD);
    talk.ask(E, &["a", "b"], "");
    assert_eq!(talk.says(), ["eds a=1 b=1"]);
    talk.ask(C, &[], "");
    assert_eq!(talk.says(), ["cds a=1 b=1", "eds a=1 b=1"]);
}

#[test]
fn a_changed_cluster_is_followed_by_its_endpoints() {
    let (mut talk, ..) = mk_synced();
    talk.set(C, "a", "2");
    assert_eq!(talk.says(), ["cds a=2 b=1", "eds a=1"]);
    assert_eq!(talk.count("endpoints_forced"), 1);
}

#[test]
fn a_cluster_that_is_added_for_a_subscribed_name_is_followed_by_its_endpoints() {
    let (mut talk, _, nonce) = mk_synced();
    talk.ask(E, &["a", "b", "c"], &nonce);
    assert_eq!(talk.says(), ["eds c="]);
    talk.set(C, "c", "1");
    assert_eq!(talk.says(), ["cds a=1 b=1 c=1", "eds c="]);
}

#[test]
fn types_that_are_not_served_are_not_answered_and_do_not_end_the_stream() {
    let mut talk = Talk::sotw(WORLD);
    talk.ask_with(SotwRequest { type_url: "istio.io/debug".into(), ..SotwRequest::default() });
    assert_eq!(talk.says(), Vec::<String>::new());
    assert_eq!(talk.session.unknown_type().map(|t| &**t), Some("istio.io/debug"));
    talk.ask(C, &[], "");
    assert_eq!(talk.says(), ["cds a=1 b=1"]);
}

#[test]
fn a_reconnect_gets_the_same_versions() {
    let (mut talk, ..) = mk_synced();
    talk.set(E, "a", "2");
    let before = talk.all().remove(0);
    let mut again = talk.reconnect();
    again.ask_with(SotwRequest {
        version: before.version.as_str().into(),
        names: list(&["b", "a"]),
        ..mk_sotw(E)
    });
    let after = again.all().remove(0);
    assert_eq!(after.version, before.version, "a partial response carries the version of the whole");
    assert_eq!(after.text(), "eds a=2 b=1");
}
