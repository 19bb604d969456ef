//! Conditions of one cluster: what an operator should know beside its state.
//!
//! They are declarations that are refused or not used, a new credential that does not take over, an accepted UID that is not the
//! cluster's, and a credential that expires. The
//! state does not depend on them. A function of its arguments; no text holds a part of a credential.

use jiff::Timestamp;
use tributary_model::{Code, Mono, SourcePart, SourceState};
use tributary_remote::Validity;
use tributary_remote::roster::{ClusterStatus, Outcome, PREFIX, Source, SourceKind, State};

use super::board::{ConfiguredCredential, ConnectionFacts};
use super::kinds;
use super::sources::fault_code;
use super::state::{Lane, REPLACED, accept};
use crate::cli::table::age;
use crate::document::clusters::{ClaimItem, ClusterConditionItem, FaultItem, text};
use crate::document::timestamp;

/// Share of a credential's life, in percent, from which its end is reported.
pub const SOON: u64 = 25;
/// Share of a credential's life, in percent, from which its end is reported again.
pub const VERY_SOON: u64 = 10;

/// Names an object of a source: `Secret NAMESPACE/NAME`.
#[must_use]
pub fn object(source: Source, name: &str) -> String {
    match source {
        Source::Secrets(_) => format!("Secret {name}"),
        Source::Directory => format!("file {name}"),
        Source::ConfigFile => format!("clusters.{name}"),
    }
}

/// Returns the declarations of a cluster, the first in order first.
#[must_use]
pub fn claims(roster: &ClusterStatus) -> Vec<ClaimItem> {
    let item = |claim: &tributary_remote::roster::ClaimStatus| {
        let (outcome, faults) = match &claim.outcome {
            Outcome::Wins => ("Used", Vec::new()),
            Outcome::Conflicts => ("Duplicate", Vec::new()),
            Outcome::Ignored => ("NotUsed", Vec::new()),
            Outcome::Refused(faults) => ("Refused", faults.iter().map(FaultItem::from).collect()),
        };
        ClaimItem { object: object(claim.source, &claim.object), outcome: outcome.to_owned(), faults }
    };
    roster.claims.iter().map(item).collect()
}

/// Returns the conditions of a cluster.
#[must_use]
pub fn conditions(
    roster: Option<&ClusterStatus>,
    connection: Option<&ConnectionFacts>,
    lanes: &[Lane<'_>],
    (mono, now): (Mono, Timestamp),
) -> Vec<ClusterConditionItem> {
    let of_claims = roster.map(of_claims).unwrap_or_default();
    let failure = connection.and_then(|connection| connection.failure.as_ref());
    let failure = failure.filter(|_| !lanes.is_empty()).map(|failure| {
        condition(
            "NotChanged",
            Code::CLUSTER_NOT_ADDED,
            format!("{}; the server tries again", failure.reason),
        )
    });
    let expiry = connection.and_then(|connection| validity(connection, lanes));
    let expiry = expiry.and_then(|validity| of_expiry(validity, SOON, now));
    let grace = roster.and_then(|roster| not_declared(roster, mono));
    let all = of_claims.into_iter().chain(grace).chain(failure).chain(rotation(roster, lanes));
    all.chain(not_accepted(roster, lanes)).chain(unread(lanes)).chain(expiry).collect()
}

/// Returns a condition for each kind that is not required and may not be read.
fn unread(lanes: &[Lane<'_>]) -> impl Iterator<Item = ClusterConditionItem> {
    let refused = lanes.iter().flat_map(|lane| &lane.status.sources);
    let parts = refused.flat_map(|(_, source)| source.status.parts.iter());
    let mut parts: Vec<&SourcePart> = parts.filter(|part| part.state == SourceState::Forbidden).collect();
    parts.retain(|part| !kinds::is_required(&part.name));
    parts.into_iter().map(|part| {
        let next = Code::CLUSTER_RIGHT_MISSING.info().next;
        let message = format!("{} are not read: {}; {next}", part.name, part.reason);
        condition("KindNotRead", Code::CLUSTER_RIGHT_MISSING, message)
    })
}

/// Names what sets a part of a cluster's policy: an annotation of its Secret, or a field of the configuration for a file.
#[must_use]
pub fn setting(one: &ClusterStatus, annotation: &str, field: &str) -> String {
    match one.source {
        Some(SourceKind::Directory) => format!("`remotes.clusters.{}.{field}`", one.cluster),
        _ => format!("annotation {PREFIX}{annotation}"),
    }
}

/// Kind of the condition of an accepted UID that is not the cluster's.
pub const UID_NOT_ACCEPTED: &str = "UidNotAccepted";

/// Returns the condition of a cluster whose UID is not the accepted one: that of the cluster that answers in its place, or its own.
fn not_accepted(roster: Option<&ClusterStatus>, lanes: &[Lane<'_>]) -> Option<ClusterConditionItem> {
    let roster = roster?;
    let accepted = roster.policy.as_ref()?.accept_uid.as_ref()?;
    let other = lanes.iter().find_map(|lane| lane.status.found_identity.as_ref());
    let found = other.or_else(|| lanes.iter().find_map(|lane| lane.status.identity.as_ref()));
    let found = found.filter(|found| *found != accepted)?;
    let message = format!(
        "{} names the UID {accepted}, and the cluster that answers has the UID {found}",
        setting(roster, "accept-uid", "acceptUid")
    );
    Some(condition(UID_NOT_ACCEPTED, Code::UID_NOT_ACCEPTED, message))
}

/// Returns the condition of a cluster that nothing declares, with the time that is left to it.
fn not_declared(roster: &ClusterStatus, now: Mono) -> Option<ClusterConditionItem> {
    let State::Grace { is_long, .. } = roster.state else { return None };
    let left = roster.leaves.map_or(0, |leaves| leaves.since(now).as_millis());
    let left = age(u64::try_from(left).unwrap_or(u64::MAX));
    let why = if is_long { ", as most clusters went at once" } else { "" };
    let message = format!("nothing declares it any longer; it is removed in {left}{why}");
    Some(ClusterConditionItem { kind: "NotDeclared".to_owned(), code: String::new(), message })
}

/// Returns the validity of the credential that serves.
#[must_use]
pub fn validity(connection: &ConnectionFacts, lanes: &[Lane<'_>]) -> Option<Validity> {
    let is_filling = lanes.iter().any(|lane| lane.status.shadow.is_some());
    connection.before.filter(|_| is_filling).unwrap_or(connection.validity)
}

/// Returns the part of a credential's life that is left, in percent; `None` without a known start.
#[must_use]
pub fn left(validity: Validity, now: Timestamp) -> Option<u64> {
    let from = validity.from?.as_second();
    let (until, now) = (validity.until.as_second(), now.as_second());
    let life = u64::try_from(until.saturating_sub(from)).ok().filter(|life| *life > 0)?;
    let rest = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
    Some(rest.saturating_mul(100) / life)
}

/// Time before the end of a credential without a known start from which its end is reported.
const SPAN: i64 = 7 * 86_400;

/// Returns the condition of a credential of the configuration. One that another program replaces ends late in its life: only a program
/// that does not is reported.
pub(crate) fn of_configured(one: &ConfiguredCredential, now: Timestamp) -> Option<ClusterConditionItem> {
    let soon = if one.is_refreshed { VERY_SOON } else { SOON };
    of_expiry(one.validity, soon, now)
}

/// Returns the condition of a credential that ends, from this share of its life on.
fn of_expiry(validity: Validity, soon: u64, now: Timestamp) -> Option<ClusterConditionItem> {
    let at = timestamp(validity.until);
    if validity.until <= now {
        let message = format!("the credential expired at {at}");
        let message = format!("{message}; {}", Code::CREDENTIAL_EXPIRED.info().next);
        return Some(condition("CredentialExpired", Code::CREDENTIAL_EXPIRED, message));
    }
    let rest = validity.until.as_second().saturating_sub(now.as_second());
    let (is_soon, share) = match left(validity, now) {
        Some(left) if left < VERY_SOON => (true, format!(", less than {VERY_SOON} % of its life is left")),
        Some(left) => (left < soon, format!(", less than {soon} % of its life is left")),
        None => (rest < SPAN, String::new()),
    };
    let next = Code::CREDENTIAL_EXPIRES.info().next;
    let message = format!("the credential expires at {at}{share}; {next}");
    is_soon.then(|| condition("CredentialExpires", Code::CREDENTIAL_EXPIRES, message))
}

fn of_claims(roster: &ClusterStatus) -> Vec<ClusterConditionItem> {
    let winner = roster.claims.iter().find(|claim| claim.outcome == Outcome::Wins);
    let winner = winner.map_or_else(|| "another".to_owned(), |claim| object(claim.source, &claim.object));
    let mut all = Vec::new();
    for claim in &roster.claims {
        let of = object(claim.source, &claim.object);
        match &claim.outcome {
            Outcome::Wins => {}
            Outcome::Conflicts => all.push(condition(
                "Duplicate",
                Code::CLUSTER_CLAIM_UNUSED,
                format!("{of} declares the cluster, too, and is not used: {winner} precedes it"),
            )),
            Outcome::Ignored => all.push(condition(
                "NotUsed",
                Code::CLUSTER_CLAIM_UNUSED,
                format!("{of} is not used: the configuration has the cluster"),
            )),
            Outcome::Refused(faults) => all.extend(faults.iter().map(|fault| {
                let code = fault_code(claim.source, fault);
                condition("Refused", code, format!("{of}: {}", text(fault)))
            })),
        }
    }
    all
}

/// Returns why a new run does not take over, if one fails or waits to be accepted, and what to do.
fn rotation(roster: Option<&ClusterStatus>, lanes: &[Lane<'_>]) -> Option<ClusterConditionItem> {
    let why = |lane: &Lane<'_>| {
        let failure = lane.status.shadow_failure.as_deref().map(|why| (why, false));
        let waits = lane.status.waits_for.as_deref().filter(|_| lane.status.needs_accept);
        failure.or_else(|| waits.map(|why| (why, true))).map(|(why, waits)| (why.to_owned(), waits))
    };
    let is_undeclared = |one: &ClusterStatus| {
        !one.claims.is_empty() && one.claims.iter().all(|claim| claim.outcome != Outcome::Wins)
    };
    // the run of a credential that is no longer declared
    if roster.is_some_and(is_undeclared) {
        return None;
    }
    let (why, waits) = lanes.iter().find_map(why)?;
    let next = match roster {
        // the state of the cluster
        _ if waits && why.starts_with(REPLACED) => return None,
        _ if waits => format!("grant the rights, or {}", accept(roster, lanes, " --rights")),
        Some(one) if one.source == Some(SourceKind::Directory) => {
            "correct the kubeconfig in its file".to_owned()
        }
        Some(one) => format!(
            "correct the kubeconfig in its Secret, or replace it with `tributary cluster rotate {}`, with --remote-server if the address or the certificate authority is wrong",
            one.cluster
        ),
        None => "correct the credential that its entry of `registries` names".to_owned(),
    };
    let message =
        format!("the new credential does not take over, the earlier one stays in use: {why}; {next}");
    Some(condition("NewCredential", Code::CLUSTER_ROTATION_FAILS, message))
}

fn condition(kind: &str, code: Code, message: String) -> ClusterConditionItem {
    ClusterConditionItem { kind: kind.to_owned(), code: code.to_string(), message }
}

#[cfg(test)]
mod tests {
    use tributary_core::RegistryStatus;
    use tributary_model::Fingerprint;
    use tributary_remote::roster::Policy;

    use super::super::state::tests::{mk_live, mk_roster};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn cluster_that_is_no_longer_declared_shows_the_time_that_is_left() {
        let began = Mono(1_000);
        let shown = |is_long: bool, grace: u64, passed: u64| {
            let seconds = std::time::Duration::from_secs;
            let roster = ClusterStatus {
                state: State::Grace { since: began, is_long },
                since: Some(began),
                leaves: Some(began.plus(seconds(grace))),
                ..mk_roster(State::Joined, Vec::new())
            };
            not_declared(&roster, began.plus(seconds(passed))).unwrap().message
        };
        let text = "nothing declares it any longer; it is removed in";
        assert_eq!(shown(false, 30, 10), format!("{text} 20s"));
        assert_eq!(shown(true, 600, 20), format!("{text} 9m, as most clusters went at once"));
        assert_eq!(shown(false, 30, 40), format!("{text} 0ms"), "its source is not complete");
    }

    #[test]
    fn accepted_uid_that_is_not_the_clusters_is_shown_with_both() {
        let uid = |text: &str| Fingerprint::new(text).ok();
        let shown = |accepted: &str, known: &str, found: &str| {
            let policy = Policy { accept_uid: uid(accepted), ..Policy::default() };
            let roster = ClusterStatus { policy: Some(policy), ..mk_roster(State::Joined, Vec::new()) };
            let status = RegistryStatus { identity: uid(known), found_identity: uid(found), ..mk_live() };
            let lanes = [Lane { status: &status, run: None }];
            not_accepted(Some(&roster), &lanes).map(|one| one.message)
        };
        let text = |accepted: &str, found: &str| {
            let (names, has) = (
                "annotation tributary.dev/accept-uid names the UID",
                "and the cluster that answers has the UID",
            );
            Some(format!("{names} {accepted}, {has} {found}"))
        };
        assert_eq!(shown("c", "a", "b"), text("c", "b"), "another cluster answers");
        assert_eq!(shown("c", "a", ""), text("c", "a"));
        assert_eq!((shown("b", "a", "b"), shown("a", "a", ""), shown("", "a", "b")), (None, None, None));
        assert_eq!(shown("c", "", ""), None, "no UID is known");
    }

    #[test]
    fn kind_that_may_not_be_read_is_shown_unless_it_is_required() {
        let shown = |name: &str, state: SourceState| {
            let mut status = mk_live();
            let part = SourcePart { name: name.into(), state, reason: "403".into(), ..SourcePart::default() };
            status.sources.values_mut().for_each(|source| source.status.parts = [part.clone()].into());
            unread(&[Lane { status: &status, run: None }]).map(|one| one.message).collect::<Vec<_>>()
        };
        let entries = shown("workloadentries", SourceState::Forbidden);
        assert!(
            matches!(&entries[..], [one] if one.starts_with("workloadentries are not read: 403; ")),
            "{entries:?}"
        );
        assert!(shown("pods", SourceState::Forbidden).is_empty(), "that is the state of the cluster");
        assert!(shown("workloadentries", SourceState::Live).is_empty());
    }

    #[test]
    fn credential_that_does_not_take_over_names_the_next_step() {
        let shown = |roster: Option<&ClusterStatus>, waits: Option<&str>, fails: Option<&str>| {
            let status = RegistryStatus {
                waits_for: waits.map(Into::into),
                needs_accept: waits.is_some(),
                shadow_failure: fails.map(Into::into),
                ..mk_live()
            };
            rotation(roster, &[Lane { status: &status, run: None }])
                .map(|one| one.message)
                .unwrap_or_default()
        };
        let secret = mk_roster(State::Joined, Vec::new());
        let file = ClusterStatus { source: Some(SourceKind::Directory), ..secret.clone() };
        let less = Some("the new run can read less");
        for (roster, waits, fails, text) in [
            (
                Some(&secret),
                less,
                None,
                "read less; grant the rights, or `tributary cluster accept east --rights` accepts it",
            ),
            (
                Some(&secret),
                None,
                Some("401"),
                "401; correct the kubeconfig in its Secret, or replace it with `tributary cluster rotate east`, with --remote-server if the address or the certificate authority is wrong",
            ),
            (Some(&file), None, Some("401"), "401; correct the kubeconfig in its file"),
            (None, less, None, "read less; grant the rights, or `tributary state accept east` accept it"),
        ] {
            let message = shown(roster, waits, fails);
            assert!(message.ends_with(text), "{message}");
        }
        assert_eq!(shown(Some(&secret), None, None), "");
        assert_eq!(shown(Some(&secret), Some("the source's identity changed"), None), "", "it is a Conflict");
    }

    #[test]
    fn end_of_a_credential_is_reported_by_the_share_of_its_life() {
        let kind = |from: Option<i64>, until: i64, now: i64| {
            let validity = Validity { from: from.map(at), until: at(until) };
            of_expiry(validity, SOON, at(now)).map(|one| (one.kind, one.message.contains("10 %")))
        };
        let expires = |very: bool| Some(("CredentialExpires".to_owned(), very));
        assert_eq!(kind(Some(0), 1000, 749), None);
        assert_eq!(kind(Some(0), 1000, 751), expires(false));
        assert_eq!(kind(Some(0), 1000, 901), expires(true));
        assert_eq!(kind(Some(0), 1000, 1000), Some(("CredentialExpired".to_owned(), false)));
        assert_eq!(kind(None, 10 * 86_400, 2 * 86_400), None, "more than a week is left");
        assert_eq!(kind(None, 10 * 86_400, 4 * 86_400), expires(false));
        assert_eq!(kind(Some(2000), 1000, 0), expires(false), "a credential that ends before its start");
    }

    #[test]
    fn token_that_another_program_replaces_is_reported_late() {
        let validity = Validity { from: Some(at(0)), until: at(1000) };
        let is_reported = |is_refreshed, now| {
            of_configured(&ConfiguredCredential { validity, is_refreshed }, at(now)).is_some()
        };
        assert!(is_reported(false, 800) && !is_reported(true, 800), "a pod's token is replaced at 80 %");
        assert!(is_reported(true, 901));
    }
}
