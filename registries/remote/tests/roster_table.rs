//! The transitions of a cluster in the roster, row by row.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use rosters::*;
use tributary_remote::roster::{Event, Policy, RestoredCluster, Roster, SourceHealth, State};

#[path = "support/rosters.rs"]
mod rosters;

const NONE: [&str; 0] = [];
const LEAVING: State = State::Leaving { is_withdrawn: false };

fn grace(since: u64) -> State {
    State::Grace { since: at(since), is_long: false }
}

/// Roster with one cluster `a` in a state, at second 0; `Absent`, `Refused`, `Restored`, `Joined`, `Paused`, `Grace` or `Leaving`.
fn mk_in(state: &str) -> Roster {
    let mut roster = mk_roster();
    match state {
        "Absent" => {}
        "Refused" => drop(put(&mut roster, 0, "s", &["a=!1"])),
        "Restored" => roster = restored(),
        "Joined" => assert_eq!(put(&mut roster, 0, "s", &["a=1"]), ["join a by s"]),
        "Paused" => {
            roster = mk_in("Joined");
            let pause = Event::Put(SECRETS, mk_with("s", &["a=1"], paused()));
            assert_eq!(apply(&mut roster, 0, pause), ["pause a"]);
        }
        "Grace" => {
            roster = mk_in("Joined");
            assert_eq!(delete(&mut roster, 0, "s"), NONE);
        }
        "Leaving" => {
            roster = mk_in("Joined");
            let leave = Event::Put(SECRETS, mk_with("s", &["a=1"], remove()));
            assert_eq!(apply(&mut roster, 0, leave), ["leave a"]);
        }
        _ => panic!("{state}"),
    }
    roster
}

/// Roster with a restored cluster before any list.
fn restored() -> Roster {
    let mut roster = Roster::new(mk_settings());
    let clusters = vec![RestoredCluster { cluster: id("a"), source: None }];
    assert_eq!(apply(&mut roster, 0, Event::Restored(clusters)), NONE);
    roster
}

fn list_all(roster: &mut Roster, seconds: u64) {
    for source in SOURCES {
        assert_eq!(apply(roster, seconds, Event::List(source, Vec::new())), NONE);
    }
}

/// Number of the next Leave of `a`, ordered by `remove`.
fn order_leave(roster: &mut Roster) -> u64 {
    let orders = roster.apply(at(0), Event::Put(SECRETS, mk_with("s", &["a=1"], remove())));
    assert_eq!(shown(&orders), ["leave a"]);
    orders[0].number
}

#[test]
fn vetted_claim_joins_an_absent_refused_or_restored_cluster() {
    for start in ["Absent", "Refused", "Restored"] {
        let mut roster = mk_in(start);
        assert_eq!(put(&mut roster, 1, "s", &["a=1"]), ["join a by s"], "{start}");
        assert_eq!(state(&roster, "a"), State::Joined);
    }
}

#[test]
fn refused_claims_alone_join_no_cluster_and_are_shown() {
    let mut roster = mk_in("Absent");
    assert_eq!(put(&mut roster, 0, "s", &["a=!1"]), NONE);
    assert_eq!((state(&roster, "a"), claims(&roster, "a")), (State::Refused, vec!["refused s".to_owned()]));
    delete(&mut roster, 1, "s");
    assert_eq!(state(&roster, "a"), State::Absent, "nothing is kept of a cluster that was never held");
    assert!(roster.status().clusters.is_empty());
}

#[test]
fn other_digest_of_the_first_claim_rotates() {
    let mut roster = mk_in("Joined");
    assert_eq!(put(&mut roster, 1, "s", &["a=2"]), ["rotate a by s"]);
    assert_eq!(state(&roster, "a"), State::Joined);
}

#[test]
fn equal_digest_sends_no_order() {
    let mut roster = mk_in("Joined");
    assert_eq!(put(&mut roster, 1, "s", &["a=1"]), NONE);
    let list = Event::List(SECRETS, vec![mk_object("s", &["a=1"])]);
    assert_eq!(apply(&mut roster, 2, list), NONE);
    assert_eq!(put(&mut roster, 3, "other", &["a=1"]), NONE, "another object with the same credential");
    assert_eq!(delete(&mut roster, 4, "other"), NONE);
}

#[test]
fn refused_claims_alone_keep_a_held_cluster_as_it_is() {
    for (start, expected) in
        [("Joined", State::Joined), ("Restored", State::Restored), ("Paused", State::Paused)]
    {
        let mut roster = mk_in(start);
        assert_eq!(put(&mut roster, 1, "s", &["a=!2"]), NONE, "{start}");
        assert_eq!(apply(&mut roster, 9_999, Event::Tick), NONE);
        assert_eq!((state(&roster, "a"), claims(&roster, "a")), (expected, vec!["refused s".to_owned()]));
    }
    let mut roster = mk_in("Joined");
    put(&mut roster, 1, "s", &["a=!2"]);
    assert_eq!(put(&mut roster, 2, "s", &["a=1"]), NONE, "the old credential again");
    assert_eq!(put(&mut roster, 3, "s", &["a=2"]), ["rotate a by s"]);
}

#[test]
fn deleted_or_unlisted_cluster_gets_its_grace() {
    for start in ["Joined", "Paused"] {
        let mut deleted = mk_in(start);
        assert_eq!(delete(&mut deleted, 5, "s"), NONE);
        let mut unlisted = mk_in(start);
        assert_eq!(apply(&mut unlisted, 5, Event::List(SECRETS, Vec::new())), NONE);
        assert_eq!((state(&deleted, "a"), state(&unlisted, "a")), (grace(5), grace(5)), "{start}");
    }
    let mut roster = mk_in("Restored");
    list_all(&mut roster, 5);
    assert_eq!(state(&roster, "a"), grace(5));
}

#[test]
fn claim_in_grace_joins_without_an_order_if_equal() {
    let mut roster = mk_in("Grace");
    assert_eq!(put(&mut roster, 20, "s", &["a=1"]), NONE);
    assert_eq!(state(&roster, "a"), State::Joined);
    assert_eq!(apply(&mut roster, 9_999, Event::Tick), NONE);
    let mut other = mk_in("Grace");
    assert_eq!(put(&mut other, 20, "t", &["a=2"]), ["rotate a by t"]);
    let mut from_journal = mk_in("Restored");
    list_all(&mut from_journal, 1);
    assert_eq!(put(&mut from_journal, 2, "s", &["a=1"]), ["join a by s"]);
}

#[test]
fn claim_in_grace_restores_the_state_before() {
    let mut refused = mk_in("Grace");
    assert_eq!(put(&mut refused, 1, "s", &["a=!1"]), NONE);
    assert_eq!(state(&refused, "a"), State::Joined, "the old connection continues");
    let mut was_paused = mk_in("Paused");
    delete(&mut was_paused, 1, "s");
    assert_eq!(put(&mut was_paused, 2, "s", &["a=1"]), ["rotate a by s"], "a paused one has no connection");
    let mut pauses = mk_in("Grace");
    assert_eq!(apply(&mut pauses, 2, Event::Put(SECRETS, mk_with("s", &["a=1"], paused()))), ["pause a"]);
    let mut from_journal = mk_in("Restored");
    list_all(&mut from_journal, 1);
    assert_eq!(put(&mut from_journal, 2, "s", &["a=!1"]), NONE);
    assert_eq!(state(&from_journal, "a"), State::Restored);
}

#[test]
fn grace_ends_in_a_leave_after_30_seconds() {
    let mut roster = mk_in("Grace");
    assert_eq!(roster.next_due(), Some(at(30)));
    assert_eq!(apply(&mut roster, 29, Event::Tick), NONE);
    assert_eq!(apply(&mut roster, 30, Event::Tick), ["leave a"]);
    assert_eq!((state(&roster, "a"), roster.next_due()), (LEAVING, None));
    assert_eq!(apply(&mut roster, 99, Event::Tick), NONE, "one Leave");
}

#[test]
fn removed_cluster_leaves_at_once() {
    for start in ["Joined", "Paused", "Grace", "Restored"] {
        let mut roster = mk_in(start);
        let event = Event::Put(SECRETS, mk_with("s", &["a=1"], remove()));
        assert_eq!(apply(&mut roster, 1, event), ["leave a"], "{start}");
        assert_eq!(state(&roster, "a"), LEAVING);
    }
    let mut absent = mk_in("Absent");
    assert_eq!(apply(&mut absent, 1, Event::Put(SECRETS, mk_with("s", &["a=1"], remove()))), NONE);
    assert_eq!(state(&absent, "a"), State::Absent);
    assert_eq!(put(&mut absent, 2, "s", &["a=1"]), ["join a by s"], "its end joins");
}

#[test]
fn drain_is_that_of_the_first_claim_while_there_is_one() {
    let mut roster = mk_in("Joined");
    let second = std::time::Duration::from_secs;
    assert_eq!(roster.drain(&id("a")), None, "as configured");
    let policy = Policy { drain: Some(second(5)), ..remove() };
    assert_eq!(apply(&mut roster, 1, Event::Put(SECRETS, mk_with("s", &["a=1"], policy))), ["leave a"]);
    assert_eq!(roster.drain(&id("a")), Some(second(5)));
    let later = Policy { drain: Some(second(9)), ..remove() };
    apply(&mut roster, 1, Event::Put(SECRETS, mk_with("t", &["a=1"], later)));
    assert_eq!(roster.drain(&id("a")), Some(second(5)), "another claim does not decide");
    delete(&mut roster, 2, "s");
    delete(&mut roster, 2, "t");
    assert_eq!(roster.drain(&id("a")), None);
}

#[test]
fn removed_cluster_stays_away_after_its_receipt() {
    let mut roster = mk_in("Joined");
    let number = order_leave(&mut roster);
    assert!(roster.withdraw(&id("a"), number));
    assert_eq!(apply(&mut roster, 9, Event::Receipt(id("a"), number)), NONE);
    assert_eq!(state(&roster, "a"), State::Absent);
    assert_eq!(put(&mut roster, 10, "s", &["a=1"]), ["join a by s"]);
}

#[test]
fn pause_stops_a_cluster_and_its_end_rotates() {
    let mut roster = mk_in("Joined");
    let pause = || Event::Put(SECRETS, mk_with("s", &["a=1"], paused()));
    assert_eq!(apply(&mut roster, 1, pause()), ["pause a"]);
    assert_eq!((state(&roster, "a"), apply(&mut roster, 2, pause())), (State::Paused, Vec::new()));
    assert_eq!(put(&mut roster, 3, "s", &["a=1"]), ["rotate a by s"]);
    assert_eq!(state(&roster, "a"), State::Joined);
}

#[test]
fn cluster_that_is_paused_before_it_joins_waits() {
    for start in ["Absent", "Refused", "Restored"] {
        let mut roster = mk_in(start);
        assert_eq!(apply(&mut roster, 1, Event::Put(SECRETS, mk_with("s", &["a=1"], paused()))), NONE);
        assert_eq!(state(&roster, "a"), State::Paused, "{start}");
        assert_eq!(put(&mut roster, 2, "s", &["a=1"]), ["join a by s"], "{start}");
    }
}

#[test]
fn claim_before_the_withdrawal_voids_a_leave() {
    let mut roster = mk_in("Joined");
    let number = order_leave(&mut roster);
    assert_eq!(put(&mut roster, 1, "s", &["a=1"]), NONE, "the connection still stands");
    assert_eq!(state(&roster, "a"), State::Joined);
    assert!(!roster.is_leaving(&id("a"), number) && !roster.withdraw(&id("a"), number), "the Leave is void");
    assert_eq!(apply(&mut roster, 2, Event::Receipt(id("a"), number)), NONE);
    assert_eq!(state(&roster, "a"), State::Joined, "a receipt without a withdrawal has no effect");
    let second = order_leave(&mut roster);
    assert!(!roster.withdraw(&id("a"), number), "the drain of the first Leave is not that of the second");
    assert!(second > number && roster.is_leaving(&id("a"), second) && roster.withdraw(&id("a"), second));
    let mut other = mk_in("Leaving");
    assert_eq!(put(&mut other, 1, "s", &["a=2"]), ["rotate a by s"]);
}

#[test]
fn claim_after_the_withdrawal_joins_after_the_receipt() {
    let mut roster = mk_in("Joined");
    let number = order_leave(&mut roster);
    assert!(roster.withdraw(&id("a"), number));
    assert_eq!(put(&mut roster, 1, "s", &["a=2"]), NONE);
    assert_eq!(state(&roster, "a"), State::Leaving { is_withdrawn: true });
    assert_eq!(
        apply(&mut roster, 2, Event::Receipt(id("a"), number + 1)),
        NONE,
        "the receipt of another Leave"
    );
    assert_eq!(apply(&mut roster, 3, Event::Receipt(id("a"), number)), ["join a by s"]);
}

#[test]
fn source_that_fails_changes_no_state() {
    let healths = [SourceHealth::Failed, SourceHealth::Forbidden, SourceHealth::Unsynced];
    for start in ["Absent", "Refused", "Restored", "Joined", "Paused", "Grace", "Leaving"] {
        for health in healths {
            let mut roster = mk_in(start);
            let before = (state(&roster, "a"), claims(&roster, "a"));
            for source in SOURCES {
                assert_eq!(apply(&mut roster, 1, Event::Health(source, health)), NONE, "{start} {health:?}");
            }
            assert_eq!(apply(&mut roster, 99_999, Event::Tick), NONE, "{start} {health:?}");
            assert_eq!((state(&roster, "a"), claims(&roster, "a")), before);
        }
    }
}
