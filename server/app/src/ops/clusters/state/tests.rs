//! Table of the rules: which facts give which state, reason, code and times.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_core::CollectionStatus;
use tributary_model::{
    ClusterId, Collection, CollectionKind, Generation, ProviderId, RegistryId, RegistryName, Scope,
    ShardPriority, SinceMono, SourceStatus, StalePolicy,
};
use tributary_remote::roster::{ClaimStatus, Fault, Policy, SecretLabel, Source};

use super::*;

const NOW: Mono = Mono(1_000_000);
const BOUND: Duration = Duration::from_secs(150);

fn mk_scope() -> Scope {
    Scope::new("cluster").unwrap()
}

fn mk_collection(freshness: Freshness, confirmed: Option<u64>) -> CollectionStatus {
    CollectionStatus {
        collection: Collection { scope: mk_scope(), kind: CollectionKind::Services },
        required: true,
        freshness,
        synced: true,
        complete: true,
        withheld: false,
        facts: 1,
        confirmed,
        known: true,
    }
}

/// Registry with one required collection, confirmed a second ago, and a source in this state.
fn mk_status(state: SourceState, freshness: Freshness) -> RegistryStatus {
    let name = RegistryName::new("east").unwrap();
    let cluster = ClusterId::new("east").unwrap();
    let status = SourceStatus { retry_in: Some(Duration::from_secs(9)), ..SourceStatus::new(state, "why") };
    let reason = if state == SourceState::Live { "" } else { "why" };
    let status = SourceStatus { reason: reason.into(), ..status };
    RegistryStatus {
        id: Arc::new(RegistryId { name, provider: ProviderId::KUBERNETES, cluster }),
        generation: Generation(3),
        shadow: None,
        waits_for: None,
        shadow_failure: None,
        needs_accept: false,
        identity: None,
        found_identity: None,
        ended: Vec::new(),
        unknown: false,
        synced: true,
        failing: false,
        decided: true,
        priority: ShardPriority::default(),
        stale: StalePolicy::Hold,
        by_policy: BTreeMap::new(),
        collections: vec![mk_collection(freshness, Some(NOW.0 - 1_000))],
        sources: [(mk_scope(), SourceView { status, at: NOW.0 - 2_000, since: Some(NOW.0 - 60_000) })].into(),
        problems: 0,
        held: 0,
        waiting: 0,
        weight: 0,
    }
}

pub(crate) fn mk_live() -> RegistryStatus {
    mk_status(SourceState::Live, Freshness::Live)
}

pub(crate) fn mk_roster(state: State, outcomes: Vec<Outcome>) -> ClusterStatus {
    let claim = |outcome| ClaimStatus {
        source: Source::Secrets(SecretLabel::Istio),
        object: "system/east".to_owned(),
        outcome,
    };
    ClusterStatus {
        cluster: ClusterId::new("east").unwrap(),
        registry: Some(RegistryName::new("east").unwrap()),
        state,
        since: Some(Mono(500)),
        leaves: None,
        source: None,
        policy: Some(Policy::default()),
        claims: outcomes.into_iter().map(claim).collect(),
    }
}

fn mk_fault() -> Outcome {
    let fault = Fault {
        code: Some(Code::KUBECONFIG_FIELD_REFUSED),
        field: "users[0].user.exec".to_owned(),
        ..Fault::text("users[0].user.exec is a program; use a token".to_owned())
    };
    Outcome::Refused(vec![fault])
}

fn judged(roster: Option<&ClusterStatus>, registries: &[RegistryStatus]) -> Judged {
    let lanes: Vec<Lane<'_>> = registries.iter().map(|status| Lane { status, run: None }).collect();
    judge(&Facts { roster, failure: None, unread: None, lanes: &lanes, bound: BOUND, now: NOW })
}

fn state(roster: Option<&ClusterStatus>, registries: &[RegistryStatus]) -> &'static str {
    judged(roster, registries).state.as_str()
}

#[test]
fn first_rule_that_holds_decides() {
    let live = || vec![mk_live(), mk_live()];
    let dead = || vec![mk_live(), mk_status(SourceState::Unreachable, Freshness::Live)];
    let auth = || {
        vec![
            mk_status(SourceState::AuthFailed, Freshness::Live),
            mk_status(SourceState::Unreachable, Freshness::Live),
        ]
    };
    let roster = |state| mk_roster(state, vec![Outcome::Wins]);
    let leaving = State::Leaving { is_withdrawn: false };
    let grace = State::Grace { since: Mono(1), is_long: false };
    for (state_of, registries, want) in [
        (leaving, auth(), "Removing"),
        (State::Paused, auth(), "Paused"),
        (State::Joined, auth(), "AuthFailed"),
        (State::Joined, dead(), "Unreachable"),
        (State::Joined, live(), "Live"),
        (State::Joined, Vec::new(), "Syncing"),
        (State::Restored, Vec::new(), "Syncing"),
        (grace, live(), "Live"),
    ] {
        assert_eq!(state(Some(&roster(state_of)), &registries), want, "{state_of:?}");
    }
    for (source, want) in [
        (SourceState::Forbidden, "AuthFailed"),
        (SourceState::Broken, "Unreachable"),
        (SourceState::Syncing, "Live"),
    ] {
        assert_eq!(state(None, &[mk_live(), mk_status(source, Freshness::Live)]), want, "{source:?}");
    }
    assert_eq!(state(None, &[mk_live(), mk_status(SourceState::Syncing, Freshness::Syncing)]), "Syncing");
}

#[test]
fn cluster_without_an_accepted_declaration_is_refused_only_if_nothing_is_served() {
    for state_of in [State::Refused, State::Absent] {
        let judged = judged(Some(&mk_roster(state_of, vec![mk_fault()])), &[]);
        assert_eq!(
            (judged.state, judged.code),
            (ClusterState::Refused, Some(Code::KUBECONFIG_FIELD_REFUSED))
        );
        assert_eq!(judged.reason, "Secret system/east: users[0].user.exec is a program; use a token");
        assert_eq!(judged.since, Some(Mono(500)));
    }
    let served = mk_roster(State::Joined, vec![mk_fault()]);
    assert_eq!(state(Some(&served), &[mk_live()]), "Live", "the old connection goes on");
}

#[test]
fn removal_that_a_secret_asks_for_is_shown_after_it_too() {
    let mut roster = mk_roster(State::Absent, vec![Outcome::Wins]);
    roster.policy = Some(Policy { remove: true, ..Policy::default() });
    let judged = judged(Some(&roster), &[]);
    assert_eq!(judged.state, ClusterState::Removing);
    assert!(judged.reason.contains("tributary.dev/remove"), "{}", judged.reason);
}

#[test]
fn another_cluster_in_place_of_a_known_one_is_a_conflict() {
    let mut registry = mk_status(SourceState::AuthFailed, Freshness::Live);
    registry.waits_for = Some("the source's identity changed".into());
    let registries = [mk_live(), registry];
    let configured = judged(None, &registries);
    assert_eq!((configured.state, configured.code), (ClusterState::Conflict, Some(Code::CLUSTER_REPLACED)));
    assert!(configured.reason.contains("`tributary state accept east`"), "{}", configured.reason);
    assert_eq!(configured.since, Some(Mono(NOW.0 - 1_000)), "its last confirmation");
    let roster = mk_roster(State::Joined, Vec::new());
    let declared = judged(Some(&roster), &registries).reason;
    assert!(declared.ends_with("`tributary cluster accept east` accepts it"), "{declared}");
}

#[test]
fn failed_cluster_has_the_start_and_the_next_try_of_its_sources() {
    let found = judged(None, &[mk_live(), mk_status(SourceState::AuthFailed, Freshness::Live)]);
    assert_eq!((found.since, found.next), (Some(Mono(940_000)), Some(Mono(1_007_000))));
    assert_eq!((found.reason.as_str(), found.code), ("why", Some(Code::CLUSTER_CREDENTIAL_REFUSED)));
    let right = judged(None, &[mk_status(SourceState::Forbidden, Freshness::Live)]);
    assert_eq!(right.code, Some(Code::CLUSTER_RIGHT_MISSING));
    let away = judged(None, &[mk_status(SourceState::Unreachable, Freshness::Live)]);
    assert_eq!((away.next, away.code), (Some(Mono(1_007_000)), Some(Code::CLUSTER_UNREACHABLE)));
}

#[test]
fn failed_run_is_unreachable_with_its_own_code_and_retry() {
    let status = mk_live();
    let run = RunReport {
        state: RunState::Waiting { until: Mono(1_003_000) },
        failures: 2,
        last_error: Some((Code::FILE_UNREADABLE, tributary_registry_api::Reason::new("no file"), Mono(7))),
        ..RunReport::default()
    };
    let lanes = [Lane { status: &status, run: Some(&run) }];
    let judged =
        judge(&Facts { roster: None, failure: None, unread: None, lanes: &lanes, bound: BOUND, now: NOW });
    assert_eq!((judged.state, judged.code), (ClusterState::Unreachable, Some(Code::FILE_UNREADABLE)));
    assert_eq!((judged.since, judged.next), (Some(Mono(7)), Some(Mono(1_003_000))));
}

#[test]
fn cluster_is_live_only_within_the_bound_of_its_oldest_confirmation() {
    let confirmed = |at: Option<u64>| {
        let mut old = mk_live();
        old.collections.push(mk_collection(Freshness::Live, at));
        old
    };
    let bound = u64::try_from(BOUND.as_millis()).unwrap();
    assert_eq!(state(None, &[mk_live(), confirmed(Some(NOW.0 - bound))]), "Live");
    let judged = judged(None, &[mk_live(), confirmed(Some(NOW.0 - bound - 1))]);
    assert_eq!((judged.state, judged.since), (ClusterState::Stale, Some(Mono(NOW.0 - bound - 1))));
    assert_eq!(judged.reason, "nothing confirmed it for 150 s");
    let mut never = mk_live();
    never.collections[0].confirmed = None;
    assert_eq!(state(None, &[never]), "Stale", "live without any confirmation is not shown as live");
}

#[test]
fn restored_facts_are_stale_with_their_reason() {
    let stale = Freshness::Stale { since: SinceMono(Mono(77)), why: "restored".into() };
    let mut restored = mk_status(SourceState::Syncing, stale);
    restored.collections[0].confirmed = None;
    let judged = judged(None, &[restored]);
    assert_eq!((judged.state, judged.reason.as_str()), (ClusterState::Stale, "restored"));
    assert_eq!(judged.since, Some(Mono(77)));
}

#[test]
fn restored_cluster_names_why_its_declaration_is_not_read() {
    let stale = Freshness::Stale { since: SinceMono(Mono(77)), why: "restored".into() };
    let restored = [mk_status(SourceState::Syncing, stale)];
    let lanes: Vec<Lane<'_>> = restored.iter().map(|status| Lane { status, run: None }).collect();
    let roster = mk_roster(State::Restored, Vec::new());
    let unread = (Code::SECRETS_UNREAD, "Secret s/east is not read: connection refused".to_owned());
    let facts = Facts {
        roster: Some(&roster),
        failure: None,
        unread: Some(&unread),
        lanes: &lanes,
        bound: BOUND,
        now: NOW,
    };
    let judged = judge(&facts);
    assert_eq!((judged.state, judged.code), (ClusterState::Stale, Some(Code::SECRETS_UNREAD)));
    assert_eq!(judged.reason, unread.1);
}

#[test]
fn failed_join_is_shown_with_its_next_try() {
    let roster = mk_roster(State::Joined, vec![Outcome::Wins]);
    let failure =
        JoinFailure { reason: "no registry was added".to_owned(), since: Mono(9), next: Mono(1_005_000) };
    let judge = |lanes: &[Lane<'_>]| {
        judge(&Facts {
            roster: Some(&roster),
            failure: Some(&failure),
            unread: None,
            lanes,
            bound: BOUND,
            now: NOW,
        })
    };
    let judged = judge(&[]);
    assert_eq!((judged.state, judged.code), (ClusterState::Syncing, Some(Code::CLUSTER_NOT_ADDED)));
    assert_eq!((judged.since, judged.next), (Some(Mono(9)), Some(Mono(1_005_000))));
    assert_eq!(judged.reason, "no registry was added");
    let status = mk_live();
    assert_eq!(
        judge(&[Lane { status: &status, run: None }]).state,
        ClusterState::Live,
        "the served run goes on"
    );
}

#[test]
fn every_state_has_a_place_and_a_name() {
    let mut names: Vec<&str> = ClusterState::ALL.map(ClusterState::as_str).into();
    assert_eq!(ClusterState::ALL.map(ClusterState::place), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 9);
}

#[test]
fn kind_that_is_not_required_and_may_not_be_read_is_a_remark() {
    let with = |required: bool, facts: u64| {
        let mut entries = mk_status(SourceState::Forbidden, Freshness::Unknown);
        entries.collections =
            vec![CollectionStatus { required, facts, ..mk_collection(Freshness::Unknown, None) }];
        judged(None, &[mk_live(), entries])
    };
    let optional = with(false, 0);
    assert_eq!((optional.state, optional.reason.as_str()), (ClusterState::Live, "why"));
    assert_eq!(with(true, 0).state, ClusterState::AuthFailed);
}
