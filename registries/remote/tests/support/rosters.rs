//! Rosters of the tests: short forms of objects, events and orders.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part; helpers of tests fail the test"
)]

use std::time::Duration;

use tributary_model::{ClusterId, Mono, Timestamp};
use tributary_remote::roster::{
    Action, ClaimObject, DigestKey, Event, Fault, GRACE, Order, Outcome, Policy, Roster, RosterSettings,
    SecretLabel, Source, State, Verdict,
};

pub(crate) const FILE: Source = Source::ConfigFile;
pub(crate) const DIRECTORY: Source = Source::Directory;
pub(crate) const SECRETS: Source = Source::Secrets(SecretLabel::Istio);
pub(crate) const OWN_SECRETS: Source = Source::Secrets(SecretLabel::Tributary);
pub(crate) const SOURCES: [Source; 4] = [FILE, DIRECTORY, SECRETS, OWN_SECRETS];

pub(crate) fn at(seconds: u64) -> Mono {
    Mono::START.plus(Duration::from_secs(seconds))
}

pub(crate) fn id(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

/// Verdict of a credential; `!` at its start makes it refused.
pub(crate) fn mk_verdict(credential: &str) -> Verdict {
    match credential.strip_prefix('!') {
        Some(_) => Verdict::Refused(vec![Fault::text("it is not allowed".to_owned())]),
        None => Verdict::Vetted(DigestKey::new(&[7; 32]).of_bytes(credential.as_bytes())),
    }
}

/// Object with claims written as `CLUSTER=CREDENTIAL`.
pub(crate) fn mk_object(name: &str, claims: &[&str]) -> ClaimObject {
    let claim = |text: &&str| {
        let (cluster, credential) = text.split_once('=').unwrap();
        (id(cluster), mk_verdict(credential))
    };
    ClaimObject {
        name: name.to_owned(),
        created: Timestamp::from_second(1_000).ok(),
        claims: claims.iter().map(claim).collect(),
        ..ClaimObject::default()
    }
}

pub(crate) fn mk_with(name: &str, claims: &[&str], policy: Policy) -> ClaimObject {
    ClaimObject { policy, ..mk_object(name, claims) }
}

pub(crate) fn paused() -> Policy {
    Policy { paused: true, ..Policy::default() }
}

pub(crate) fn remove() -> Policy {
    Policy { remove: true, ..Policy::default() }
}

pub(crate) fn mk_settings() -> RosterSettings {
    RosterSettings {
        sources: SOURCES.into(),
        configured: [id("home")].into(),
        registries: Default::default(),
        grace: GRACE,
    }
}

/// Roster whose sources are synced and empty.
pub(crate) fn mk_roster() -> Roster {
    let mut roster = Roster::new(mk_settings());
    for source in SOURCES {
        assert_eq!(roster.apply(at(0), Event::List(source, Vec::new())), []);
    }
    roster
}

/// Applies an event and returns the orders as `KIND CLUSTER`.
pub(crate) fn apply(roster: &mut Roster, seconds: u64, event: Event) -> Vec<String> {
    shown(&roster.apply(at(seconds), event))
}

pub(crate) fn put(roster: &mut Roster, seconds: u64, name: &str, claims: &[&str]) -> Vec<String> {
    apply(roster, seconds, Event::Put(SECRETS, mk_object(name, claims)))
}

pub(crate) fn delete(roster: &mut Roster, seconds: u64, name: &str) -> Vec<String> {
    apply(roster, seconds, Event::Delete(SECRETS, name.to_owned()))
}

pub(crate) fn shown(orders: &[Order]) -> Vec<String> {
    let kind = |order: &Order| match &order.action {
        Action::Join(access) => format!("join {} by {}", order.cluster, access.object),
        Action::Rotate(access) => format!("rotate {} by {}", order.cluster, access.object),
        Action::Pause => format!("pause {}", order.cluster),
        Action::Leave => format!("leave {}", order.cluster),
    };
    orders.iter().map(kind).collect()
}

/// State of a cluster; Absent if the status lacks it.
pub(crate) fn state(roster: &Roster, cluster: &str) -> State {
    let clusters = roster.status().clusters;
    clusters.iter().find(|one| one.cluster == id(cluster)).map_or(State::Absent, |one| one.state)
}

/// Claims of a cluster as `OUTCOME OBJECT`.
pub(crate) fn claims(roster: &Roster, cluster: &str) -> Vec<String> {
    let clusters = roster.status().clusters;
    let claims = clusters.into_iter().find(|one| one.cluster == id(cluster)).map(|one| one.claims);
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::Wins => "wins",
        Outcome::Conflicts => "conflicts",
        Outcome::Refused(_) => "refused",
        Outcome::Ignored => "ignored",
    };
    let claims = claims.unwrap_or_default();
    claims.iter().map(|claim| format!("{} {}", outcome(&claim.outcome), claim.object)).collect()
}
