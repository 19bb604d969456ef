//! The order of claims to one cluster, and what happens when the first goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use proptest::prelude::*;
use rosters::*;
use tributary_model::{RegistryName, Timestamp};
use tributary_remote::roster::{
    Action, ClaimObject, Event, Outcome, Policy, Roster, RosterSettings, Source, State,
};

#[path = "support/rosters.rs"]
mod rosters;

const NONE: [&str; 0] = [];

fn mk_priority(name: &str, priority: i32, created: Option<i64>, credential: &str) -> ClaimObject {
    let created = created.and_then(|second| Timestamp::from_second(second).ok());
    let policy = Policy { priority, ..Policy::default() };
    ClaimObject { created, ..mk_with(name, &[&format!("a={credential}")], policy) }
}

/// Claims to one cluster, the first in order first, each decided by another key than the one before it.
fn ordered() -> Vec<(Source, ClaimObject)> {
    vec![
        (FILE, mk_object("z-file", &["a=1"])),
        (DIRECTORY, mk_object("z-directory", &["a=2"])),
        (SECRETS, mk_priority("n/z-priority", 5, Some(900), "3")),
        (OWN_SECRETS, mk_priority("n/z-created", 0, Some(100), "4")),
        (SECRETS, mk_priority("n/x-name", 0, Some(200), "5")),
        (OWN_SECRETS, mk_priority("n/y-name", 0, Some(200), "6")),
        (SECRETS, mk_priority("n/a-no-time", 0, None, "7")),
        (SECRETS, mk_priority("n/a-low", -1, Some(1), "8")),
        (FILE, mk_object("refused-file", &["a=!9"])),
        (SECRETS, mk_priority("n/refused", 99, Some(1), "!9")),
    ]
}

proptest! {
    #[test]
    fn claims_are_ordered_by_verdict_source_priority_creation_and_name(
        shuffled in Just(ordered()).prop_shuffle(),
    ) {
        let mut roster = mk_roster();
        for (source, object) in shuffled {
            roster.apply(at(0), Event::Put(source, object));
        }
        let expected: Vec<String> = ordered().iter().enumerate().map(|(at, (_, object))| {
            let outcome = match at { 0 => "wins", 1..8 => "conflicts", _ => "refused" };
            format!("{outcome} {}", object.name)
        }).collect();
        prop_assert_eq!(claims(&roster, "a"), expected);
    }
}

#[test]
fn next_claim_steps_in_when_the_first_goes() {
    let mut roster = mk_roster();
    for (source, object) in ordered() {
        roster.apply(at(0), Event::Put(source, object));
    }
    let all = ordered();
    for pair in all[..8].windows(2) {
        let [(source, first), (_, second)] = pair else { panic!("a pair") };
        let orders = apply(&mut roster, 1, Event::Delete(*source, first.name.clone()));
        assert_eq!(orders, [format!("rotate a by {}", second.name)]);
    }
    assert_eq!(apply(&mut roster, 2, Event::Delete(SECRETS, "n/a-low".to_owned())), NONE);
    assert_eq!(state(&roster, "a"), State::Joined, "refused claims alone keep it");
}

#[test]
fn first_claim_that_becomes_refused_makes_way() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/a", &["a=1"]);
    assert_eq!(put(&mut roster, 0, "n/b", &["a=2"]), NONE);
    assert_eq!(put(&mut roster, 1, "n/a", &["a=!1"]), ["rotate a by n/b"]);
    assert_eq!(claims(&roster, "a"), ["wins n/b", "refused n/a"]);
    assert_eq!(put(&mut roster, 2, "n/a", &["a=1"]), ["rotate a by n/a"]);
}

#[test]
fn policy_of_the_first_claim_alone_counts() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/a", &["a=1"]);
    assert_eq!(apply(&mut roster, 1, Event::Put(SECRETS, mk_with("n/b", &["a=2"], remove()))), NONE);
    assert_eq!(apply(&mut roster, 2, Event::Put(SECRETS, mk_with("n/b", &["a=2"], paused()))), NONE);
    assert_eq!(delete(&mut roster, 3, "n/a"), ["pause a"], "it is the first now");
    let status = roster.status().clusters;
    assert_eq!(status[0].policy, Some(paused()));
}

#[test]
fn claim_with_remove_makes_way_and_the_last_one_leaves() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/a", &["a=1"]);
    assert_eq!(put(&mut roster, 0, "n/b", &["a=2"]), NONE);
    let removed = |name: &str, claim: &str| Event::Put(SECRETS, mk_with(name, &[claim], remove()));
    assert_eq!(apply(&mut roster, 1, removed("n/a", "a=1")), ["rotate a by n/b"]);
    assert_eq!(apply(&mut roster, 2, removed("n/b", "a=2")), ["leave a"]);
}

#[test]
fn secret_with_both_labels_is_one_claim_until_both_are_gone() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    assert_eq!(apply(&mut roster, 0, Event::Put(OWN_SECRETS, mk_object("n/s", &["a=1"]))), NONE);
    assert_eq!(claims(&roster, "a"), ["wins n/s"], "it does not conflict with itself");
    delete(&mut roster, 1, "n/s");
    assert_eq!(state(&roster, "a"), State::Joined, "one label is left");
    apply(&mut roster, 2, Event::Delete(OWN_SECRETS, "n/s".to_owned()));
    assert!(matches!(state(&roster, "a"), State::Grace { .. }));
}

#[test]
fn healthy_watch_counts_for_a_secret_with_both_labels() {
    let mut roster = mk_roster();
    put(&mut roster, 0, "n/s", &["a=1"]);
    apply(&mut roster, 0, Event::Put(OWN_SECRETS, mk_object("n/s", &["a=1"])));
    let failed = Event::Health(SECRETS, tributary_remote::roster::SourceHealth::Failed);
    assert_eq!(apply(&mut roster, 1, failed), NONE);
    let put = Event::Put(OWN_SECRETS, mk_object("n/s", &["a=2"]));
    assert_eq!(apply(&mut roster, 2, put), ["rotate a by n/s"], "the failed watch has the old credential");
}

#[test]
fn claims_to_the_configured_cluster_are_ignored() {
    let mut roster = mk_roster();
    assert_eq!(put(&mut roster, 0, "n/s", &["home=1", "a=1"]), ["join a by n/s"]);
    assert_eq!(
        (state(&roster, "home"), claims(&roster, "home")),
        (State::Absent, vec!["ignored n/s".to_owned()])
    );
    let restored = tributary_remote::roster::RestoredCluster { cluster: id("home"), source: None };
    assert_eq!(apply(&mut roster, 0, Event::Restored(vec![restored])), NONE);
    assert_eq!(apply(&mut roster, 9_999, Event::Tick), NONE);
}

#[test]
fn orders_carry_registry_source_digest_and_growing_numbers() {
    let registries = [RegistryName::new("b").unwrap()].into();
    let mut roster = Roster::new(RosterSettings { registries, ..mk_settings() });
    let orders = roster.apply(at(0), Event::Put(DIRECTORY, mk_object("f", &["a=1", "b=2"])));
    let names: Vec<&str> = orders.iter().map(|order| order.registry.as_str()).collect();
    assert!(names[0] == "a" && names[1].starts_with("b-") && names[1].len() == 10, "{names:?}");
    assert!(orders[0].number < orders[1].number);
    let Action::Join(access) = &orders[1].action else { panic!("{orders:?}") };
    assert_eq!((access.source, access.object.as_str()), (DIRECTORY, "f"));
    assert_eq!(mk_verdict("2"), tributary_remote::roster::Verdict::Vetted(access.digest));
}

#[test]
fn second_cluster_with_the_same_registry_name_is_refused() {
    // the key of the second is the derived name of the first
    let long = "a".repeat(56);
    let mut roster = mk_roster();
    let orders = roster.apply(at(0), Event::Put(SECRETS, mk_object("n/s", &[&format!("{long}=1")])));
    let name = orders[0].registry.to_string();
    assert_eq!(put(&mut roster, 1, "n/t", &[&format!("{name}=2")]), NONE);
    assert_eq!(
        (state(&roster, &name), claims(&roster, &name)),
        (State::Refused, vec!["refused n/t".to_owned()])
    );
    let refused = roster.status().clusters.into_iter().find(|one| one.cluster == id(&name)).unwrap();
    let Outcome::Refused(faults) = &refused.claims[0].outcome else { panic!("{refused:?}") };
    assert!(faults[0].text.contains(&long), "{faults:?}");
    let orders = roster.apply(at(2), Event::Put(SECRETS, mk_with("n/s", &[&format!("{long}=1")], remove())));
    assert!(roster.withdraw(&id(&long), orders[0].number));
    let receipt = Event::Receipt(id(&long), orders[0].number);
    assert_eq!(apply(&mut roster, 3, receipt), [format!("join {name} by n/t")], "the name is free");
}
