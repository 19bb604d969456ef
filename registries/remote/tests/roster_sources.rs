//! Sources of the roster: what a failure, a mass disappearance and a hostile size do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use rosters::*;
use tributary_model::Timestamp;
use tributary_remote::roster::{
    ClaimObject, Event, MOST_CLAIMS, MOST_CLUSTERS, MOST_OBJECTS, Policy, RestoredCluster, Roster,
    RosterSettings, SourceHealth, SourceKind, State,
};

#[path = "support/rosters.rs"]
mod rosters;

const NONE: [&str; 0] = [];

fn fail(roster: &mut Roster, seconds: u64) {
    assert_eq!(apply(roster, seconds, Event::Health(SECRETS, SourceHealth::Failed)), NONE);
}

fn is_in_grace(roster: &Roster, cluster: &str) -> bool {
    matches!(state(roster, cluster), State::Grace { .. })
}

fn long_grace(roster: &Roster, cluster: &str) -> bool {
    matches!(state(roster, cluster), State::Grace { is_long: true, .. })
}

#[test]
fn failed_source_proves_no_removal() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    fail(&mut roster, 1);
    delete(&mut roster, 2, "n/s");
    assert_eq!(apply(&mut roster, 9_999, Event::Tick), NONE);
    assert_eq!(state(&roster, "a"), State::Joined);
    assert_eq!(apply(&mut roster, 10_000, Event::List(SECRETS, Vec::new())), NONE);
    assert!(is_in_grace(&roster, "a"), "its list is the proof");
    assert_eq!(apply(&mut roster, 10_030, Event::Tick), ["leave a"]);
}

#[test]
fn grace_counts_while_its_source_is_complete() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    delete(&mut roster, 1, "n/s");
    fail(&mut roster, 2);
    assert_eq!(roster.next_due(), None);
    assert_eq!(apply(&mut roster, 9_999, Event::Tick), NONE, "an object of the same name may be back");
    assert_eq!(apply(&mut roster, 10_000, Event::Health(SECRETS, SourceHealth::Synced)), NONE);
    assert_eq!(roster.next_due(), Some(at(10_029)), "one second of it had passed");
    assert_eq!(put(&mut roster, 10_001, "n/s", &["a=1"]), NONE, "what the watch missed arrives after it");
    assert_eq!(state(&roster, "a"), State::Joined);
    delete(&mut roster, 20_000, "n/s");
    assert_eq!(roster.next_due(), Some(at(20_030)), "a new grace is a whole one");
}

#[test]
fn source_that_fails_again_and_again_does_not_postpone_a_leave_for_ever() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    delete(&mut roster, 0, "n/s");
    for round in 0..9 {
        fail(&mut roster, round * 10 + 3);
        assert_eq!(apply(&mut roster, round * 10 + 10, Event::Health(SECRETS, SourceHealth::Synced)), NONE);
    }
    assert_eq!(roster.next_due(), Some(at(93)), "nine times three seconds have passed");
    assert_eq!(apply(&mut roster, 93, Event::Tick), ["leave a"]);
}

#[test]
fn leave_rests_on_absent_secrets_unless_a_claim_asks_for_it_or_another_source_declared_the_cluster() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    assert!(!roster.rests_on_absent_secrets(&id("a")), "it is declared");
    delete(&mut roster, 1, "n/s");
    assert_eq!(apply(&mut roster, 31, Event::Tick), ["leave a"]);
    assert!(roster.rests_on_absent_secrets(&id("a")));

    put(&mut roster, 40, "n/b", &["b=1"]);
    assert_eq!(apply(&mut roster, 41, Event::Put(SECRETS, mk_with("n/b", &["b=1"], remove()))), ["leave b"]);
    assert!(!roster.rests_on_absent_secrets(&id("b")), "its claim asks for the removal");

    apply(&mut roster, 50, Event::Put(DIRECTORY, mk_object("f", &["c=1"])));
    apply(&mut roster, 51, Event::Delete(DIRECTORY, "f".to_owned()));
    assert_eq!(apply(&mut roster, 81, Event::Tick), ["leave c"]);
    assert!(!roster.rests_on_absent_secrets(&id("c")), "a directory is read where it is");
}

#[test]
fn source_without_a_list_does_not_become_synced() {
    let mut roster = Roster::new(mk_settings());
    let restored = RestoredCluster { cluster: id("a"), source: Some(SourceKind::Secrets) };
    apply(&mut roster, 0, Event::Restored(vec![restored]));
    for source in [SECRETS, OWN_SECRETS] {
        apply(&mut roster, 0, Event::Health(source, SourceHealth::Synced));
    }
    assert_eq!(state(&roster, "a"), State::Restored);
    apply(&mut roster, 1, Event::List(SECRETS, Vec::new()));
    assert_eq!(state(&roster, "a"), State::Restored, "the watch of the other label is not listed");
    apply(&mut roster, 2, Event::List(OWN_SECRETS, Vec::new()));
    assert!(is_in_grace(&roster, "a"), "the directory did not declare it, and is not waited for");
}

#[test]
fn restored_cluster_of_unknown_source_waits_for_every_source() {
    let mut roster = Roster::new(mk_settings());
    apply(&mut roster, 0, Event::Restored(vec![RestoredCluster { cluster: id("a"), source: None }]));
    for source in SOURCES {
        assert_eq!(state(&roster, "a"), State::Restored);
        apply(&mut roster, 1, Event::List(source, Vec::new()));
    }
    assert!(is_in_grace(&roster, "a"));
}

#[test]
fn source_that_is_not_enabled_is_not_read_and_not_waited_for() {
    let mut roster = Roster::new(RosterSettings { sources: [FILE].into(), ..mk_settings() });
    assert_eq!(put(&mut roster, 0, "n/s", &["a=1"]), NONE);
    assert_eq!(apply(&mut roster, 0, Event::List(SECRETS, vec![mk_object("n/s", &["a=1"])])), NONE);
    let restored = RestoredCluster { cluster: id("b"), source: Some(SourceKind::Secrets) };
    apply(&mut roster, 1, Event::Restored(vec![restored]));
    assert!(is_in_grace(&roster, "b"), "the operator switched Secrets off");
    assert_eq!(roster.status().sources.len(), 1);
}

#[test]
fn other_source_of_a_cluster_keeps_it_while_it_fails() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    apply(&mut roster, 0, Event::Put(DIRECTORY, mk_object("f", &["a=1"])));
    apply(&mut roster, 1, Event::Health(DIRECTORY, SourceHealth::Failed));
    delete(&mut roster, 2, "n/s");
    assert_eq!((state(&roster, "a"), claims(&roster, "a")), (State::Joined, vec!["wins f".to_owned()]));
}

#[test]
fn over_half_of_three_clusters_get_the_long_grace() {
    let mut roster = mk_roster();
    for name in ["a", "b", "c", "d", "e"] {
        put(&mut roster, 0, name, &[&format!("{name}=1")]);
    }
    delete(&mut roster, 100, "a");
    delete(&mut roster, 110, "b");
    assert!(!long_grace(&roster, "a") && !long_grace(&roster, "b"), "two of five are not over half");
    delete(&mut roster, 130, "c");
    assert!(["a", "b", "c"].iter().all(|name| long_grace(&roster, name)), "three within 30 s");
    delete(&mut roster, 500, "d");
    assert_eq!(apply(&mut roster, 530, Event::Tick), ["leave d"], "one within 30 s");
    assert_eq!(apply(&mut roster, 699, Event::Tick), NONE);
    assert_eq!(apply(&mut roster, 700, Event::Tick), ["leave a"]);
    assert_eq!(apply(&mut roster, 730, Event::Tick), ["leave b", "leave c"]);
}

#[test]
fn clusters_that_vanish_slowly_or_are_few_get_the_short_grace() {
    let mut slow = mk_roster();
    for name in ["a", "b", "c"] {
        put(&mut slow, 0, name, &[&format!("{name}=1")]);
    }
    for (seconds, name) in [(0, "a"), (31, "b"), (62, "c")] {
        delete(&mut slow, seconds, name);
        assert_eq!(apply(&mut slow, seconds + 30, Event::Tick), [format!("leave {name}")]);
    }
    let mut few = mk_roster();
    put(&mut few, 0, "a", &["a=1"]);
    put(&mut few, 0, "b", &["b=1"]);
    apply(&mut few, 1, Event::List(SECRETS, Vec::new()));
    assert_eq!(apply(&mut few, 31, Event::Tick), ["leave a", "leave b"]);
}

#[test]
fn empty_list_of_restored_clusters_has_the_long_grace() {
    let mut roster = Roster::new(mk_settings());
    let restored = |name: &&str| RestoredCluster { cluster: id(name), source: None };
    apply(&mut roster, 0, Event::Restored(["a", "b", "c"].iter().map(restored).collect()));
    for source in SOURCES {
        apply(&mut roster, 1, Event::List(source, Vec::new()));
    }
    assert_eq!(apply(&mut roster, 600, Event::Tick), NONE);
    assert_eq!(apply(&mut roster, 601, Event::Tick), ["leave a", "leave b", "leave c"]);
}

/// Object with this many clusters, `PREFIX0000` and on.
fn mk_large(name: &str, prefix: &str, clusters: usize) -> ClaimObject {
    let claims: Vec<String> = (0..clusters).map(|at| format!("{prefix}{at:04}=1")).collect();
    mk_object(name, &claims.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn clusters_beyond_the_bound_of_a_secret_are_refused_and_shown() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/old", &["z=1"]);
    let object = mk_large("n/s", "c", MOST_CLAIMS + 44);
    assert_eq!(roster.apply(at(0), Event::Put(SECRETS, object.clone())).len(), MOST_CLAIMS);
    let status = roster.status();
    assert_eq!((status.clusters.len(), status.objects[0].beyond), (MOST_CLAIMS + 1, 44));
    // a held cluster that another object declares beyond its bound
    let mut claims = object.claims;
    claims.insert(id("z"), mk_verdict("1"));
    apply(&mut roster, 1, Event::Put(SECRETS, ClaimObject { claims, ..mk_object("n/s", &[]) }));
    delete(&mut roster, 2, "n/old");
    assert_eq!((state(&roster, "z"), claims_of_z(&roster)), (State::Joined, vec!["refused n/s".to_owned()]));
}

fn claims_of_z(roster: &Roster) -> Vec<String> {
    claims(roster, "z")
}

#[test]
fn clusters_beyond_the_bound_of_all_are_refused_and_wait() {
    let mut roster = mk_roster();
    let objects: Vec<ClaimObject> = (0..5)
        .map(|number| {
            let object = mk_large(&format!("n/{number}"), &format!("{}-", 9 - number), 250);
            ClaimObject { created: Timestamp::from_second(number).ok(), ..object }
        })
        .collect();
    let orders = roster.apply(at(0), Event::List(SECRETS, objects.clone()));
    assert_eq!(orders.len(), MOST_CLUSTERS);
    assert!(!orders.iter().any(|order| order.cluster.as_str().starts_with("5-")), "the last object waits");
    assert_eq!(
        (state(&roster, "5-0000"), claims(&roster, "5-0000")),
        (State::Refused, vec!["refused n/4".to_owned()])
    );
    assert_eq!(
        put(&mut roster, 1, "n/a", &["0=1"]),
        NONE,
        "an early name does not displace one that is held"
    );
    apply(
        &mut roster,
        2,
        Event::Put(
            SECRETS,
            ClaimObject { claims: objects[0].claims.clone(), ..mk_with("n/0", &[], remove()) },
        ),
    );
    let leave =
        roster.status().clusters.into_iter().filter(|one| matches!(one.state, State::Leaving { .. })).count();
    assert_eq!(leave, 250);
    let mut fewer = objects[1].clone();
    fewer.claims.clear();
    fewer.claims.insert(id("8-0000"), mk_verdict("1"));
    fewer.policy = remove();
    let orders = roster.apply(at(3), Event::Put(SECRETS, fewer));
    let leave = orders.iter().find(|order| order.cluster == id("8-0000")).unwrap().clone();
    assert!(roster.withdraw(&leave.cluster, leave.number));
    let next = apply(&mut roster, 4, Event::Receipt(leave.cluster, leave.number));
    assert_eq!(next, ["join 5-0000 by n/4"], "one slot is free, and the first in order takes it");
}

#[test]
fn objects_beyond_the_bound_are_counted_and_remove_nothing() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    let many = |extra: usize| {
        (0..MOST_OBJECTS + extra).map(|at| mk_object(&format!("m/{at:05}"), &[])).collect::<Vec<_>>()
    };
    let policy = Policy { priority: 1, ..Policy::default() };
    let list: Vec<ClaimObject> = [many(2), vec![mk_with("z/first", &["p=1"], policy)]].concat();
    assert_eq!(
        apply(&mut roster, 1, Event::List(SECRETS, list)),
        ["join p by z/first"],
        "the first in order are kept"
    );
    let secrets = roster.status().sources.into_iter().find(|one| one.source == SECRETS).unwrap();
    assert_eq!((secrets.objects, secrets.beyond), (MOST_OBJECTS, 3));
    assert_eq!(apply(&mut roster, 9_999, Event::Tick), NONE);
    assert_eq!(state(&roster, "a"), State::Joined, "one of the objects that are not read may declare it");
    apply(&mut roster, 10_000, Event::List(SECRETS, many(0)));
    assert!(is_in_grace(&roster, "a"));
    assert_eq!(put(&mut roster, 10_001, "n/new", &["b=1"]), NONE, "no object beyond the bound is added");
    assert_eq!(apply(&mut roster, 99_999, Event::Tick), NONE, "the source is not complete");
}
