//! State of one cluster: the first rule that holds, from what the roster decided to what its registries confirmed.
//!
//! [`super::ClusterReport`] calls it for each cluster. It is a function of its arguments: the time is passed in. A rule never makes a
//! state better than the facts: without a confirmation within the bound, no cluster is live.

use std::sync::Arc;
use std::time::Duration;

use tributary_core::{RegistryStatus, SourceView};
use tributary_model::{Code, Freshness, Mono, OverallState, OverallStatus, SourceState};
use tributary_remote::roster::{ClusterStatus, Outcome, SourceKind, State};
use tributary_runtime::{RunReport, RunState};

use super::board::JoinFailure;
use super::conditions::setting;
use crate::document::clusters::text;
use crate::ops::report::{counted, state_of_required};

/// Start of the text with which the core describes a run of another cluster.
pub(super) const REPLACED: &str = "the source's identity changed";

/// State of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterState {
    /// Its facts are being withdrawn, or its Secret asks for that.
    Removing,
    /// Its connection is closed on request; its facts stay.
    Paused,
    /// Another cluster answers in its place; its facts stay.
    Conflict,
    /// Every declaration is refused, and nothing is served.
    Refused,
    /// It refuses the credential, or does not let it read a required kind.
    AuthFailed,
    /// It does not answer, or its answers cannot be read.
    Unreachable,
    /// It was never read as a whole.
    Syncing,
    /// A required kind was not confirmed for too long.
    Stale,
    /// All that is required was confirmed a short time ago.
    Live,
}

impl ClusterState {
    /// Every state; in lists the first come first.
    pub const ALL: [Self; 9] = [
        Self::Conflict,
        Self::Refused,
        Self::AuthFailed,
        Self::Unreachable,
        Self::Stale,
        Self::Syncing,
        Self::Paused,
        Self::Removing,
        Self::Live,
    ];
    /// Display name, also used in JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Removing => "Removing",
            Self::Paused => "Paused",
            Self::Conflict => "Conflict",
            Self::Refused => "Refused",
            Self::AuthFailed => "AuthFailed",
            Self::Unreachable => "Unreachable",
            Self::Syncing => "Syncing",
            Self::Stale => "Stale",
            Self::Live => "Live",
        }
    }
    /// Returns its place in lists.
    #[must_use]
    pub fn place(self) -> usize {
        Self::ALL.iter().position(|state| *state == self).unwrap_or(Self::ALL.len())
    }
}

/// Registry of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    /// Status in the core.
    pub status: &'a RegistryStatus,
    /// Runs in the supervisor.
    pub run: Option<&'a RunReport>,
}

/// What the state of a cluster depends on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Status in the roster; `None` for a configured cluster.
    pub roster: Option<&'a ClusterStatus>,
    /// Why it could not be added.
    pub failure: Option<&'a JoinFailure>,
    /// Why the object that declared a restored cluster was not read.
    pub unread: Option<&'a (Code, String)>,
    /// Its registries.
    pub lanes: &'a [Lane<'a>],
    /// Age from which a confirmation is too old.
    pub bound: Duration,
    /// Time of the report.
    pub now: Mono,
}

/// State with its reason and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// State.
    pub state: ClusterState,
    /// Code of the reason, if it has one.
    pub code: Option<Code>,
    /// Reason, or a remark on a live cluster; may be empty.
    pub reason: String,
    /// Start of the state, if known.
    pub since: Option<Mono>,
    /// Time of the next try, if one is planned.
    pub next: Option<Mono>,
}

impl Judged {
    fn new(state: ClusterState, reason: impl Into<String>) -> Self {
        Self { state, code: None, reason: reason.into(), since: None, next: None }
    }
}

/// Returns the state of a cluster: that of the first rule that holds.
#[must_use]
pub fn judge(facts: &Facts<'_>) -> Judged {
    const RULES: [fn(&Facts<'_>) -> Option<Judged>; 9] =
        [removing, paused, conflict, refused, refused_credential, unreachable, unread, syncing, stale];
    RULES.iter().find_map(|rule| rule(facts)).unwrap_or_else(|| live(facts))
}

/// Returns the time of the oldest confirmation that counts; `None` if there was none.
#[must_use]
pub fn confirmed(lanes: &[Lane<'_>]) -> Option<Mono> {
    let all = lanes.iter().flat_map(|lane| counted(lane.status)).filter_map(|one| one.confirmed);
    all.min().map(Mono)
}

fn removing(facts: &Facts<'_>) -> Option<Judged> {
    let roster = facts.roster?;
    let is_leaving = matches!(roster.state, State::Leaving { .. });
    let asks = roster.policy.as_ref().is_some_and(|policy| policy.remove);
    let reason = match () {
        () if asks => {
            let object = if roster.source == Some(SourceKind::Directory) { "file" } else { "Secret" };
            let setting = setting(roster, "remove", "remove");
            format!(
                "{setting} is set; when its registries are gone, delete the {object}, as `tributary cluster remove` does"
            )
        }
        () if is_leaving => "it is no longer declared".to_owned(),
        () => return None,
    };
    Some(Judged { since: roster.since, ..Judged::new(ClusterState::Removing, reason) })
}

fn paused(facts: &Facts<'_>) -> Option<Judged> {
    let roster = facts.roster.filter(|roster| roster.state == State::Paused)?;
    let unread = if facts.lanes.is_empty() { "; it was never read, and nothing of it is served" } else { "" };
    let reason = format!("{} is set{unread}", setting(roster, "paused", "paused"));
    Some(Judged { since: roster.since, ..Judged::new(ClusterState::Paused, reason) })
}

fn conflict(facts: &Facts<'_>) -> Option<Judged> {
    let why = facts.lanes.iter().filter_map(|lane| lane.status.waits_for.as_deref());
    let why = why.into_iter().find(|why| why.starts_with(REPLACED))?;
    let code = Some(Code::CLUSTER_REPLACED);
    let accept = accept(facts.roster, facts.lanes, "");
    let reason = format!("{why}; correct the kubeconfig, or if that is intended, {accept}");
    // what is served was confirmed last before the other cluster answered
    let since =
        confirmed(facts.lanes).or_else(|| began(facts)).or_else(|| facts.roster.and_then(|one| one.since));
    Some(Judged { code, since, ..Judged::new(ClusterState::Conflict, reason) })
}

/// Names the command that accepts what answers in place of what is known, with these flags.
pub(super) fn accept(roster: Option<&ClusterStatus>, lanes: &[Lane<'_>], flags: &str) -> String {
    if let Some(roster) = roster {
        return format!("`tributary cluster accept {}{flags}` accepts it", roster.cluster);
    }
    let names = lanes.iter().map(|lane| format!("`tributary state accept {}`", lane.status.id.name));
    format!("{} accept it", names.collect::<Vec<_>>().join(" and "))
}

fn refused(facts: &Facts<'_>) -> Option<Judged> {
    let roster = facts.roster.filter(|roster| matches!(roster.state, State::Refused | State::Absent))?;
    let first = roster.claims.iter().find_map(|claim| match &claim.outcome {
        Outcome::Refused(faults) => Some((claim, faults.first()?)),
        _ => None,
    });
    let (claim, fault) = first?;
    let reason = format!("{}: {}", super::conditions::object(claim.source, &claim.object), text(fault));
    let code = Some(super::sources::fault_code(claim.source, fault));
    Some(Judged { code, since: roster.since, ..Judged::new(ClusterState::Refused, reason) })
}

fn refused_credential(facts: &Facts<'_>) -> Option<Judged> {
    let is_auth = |state| matches!(state, OverallState::AuthFailed | OverallState::Forbidden);
    let judged = failed(facts, ClusterState::AuthFailed, is_auth)?;
    let is_refused = |lane: &Lane<'_>| overall(lane).state == OverallState::AuthFailed;
    let code = if facts.lanes.iter().any(is_refused) {
        Code::CLUSTER_CREDENTIAL_REFUSED
    } else {
        Code::CLUSTER_RIGHT_MISSING
    };
    Some(Judged { code: Some(code), ..judged })
}

fn unreachable(facts: &Facts<'_>) -> Option<Judged> {
    let is_away =
        |state| matches!(state, OverallState::Unreachable | OverallState::Broken | OverallState::Failed);
    let judged = failed(facts, ClusterState::Unreachable, is_away)?;
    // a failed run names its own code
    let code = judged.code.or(Some(Code::CLUSTER_UNREACHABLE));
    Some(Judged { code, ..judged })
}

fn unread(facts: &Facts<'_>) -> Option<Judged> {
    let (code, why) = facts.unread.filter(|_| !facts.lanes.is_empty())?;
    let since = confirmed(facts.lanes).or_else(|| began(facts));
    Some(Judged { code: Some(*code), since, ..Judged::new(ClusterState::Stale, why) })
}

fn syncing(facts: &Facts<'_>) -> Option<Judged> {
    let states = facts.lanes.iter().map(|lane| overall(lane));
    let first = states.into_iter().find(|one| one.state == OverallState::Syncing);
    let since = facts.roster.and_then(|roster| roster.since);
    let judged = |reason: &str| Judged { since, ..Judged::new(ClusterState::Syncing, reason) };
    match (first, facts.failure) {
        (_, Some(failure)) if facts.lanes.is_empty() => Some(Judged {
            code: Some(Code::CLUSTER_NOT_ADDED),
            since: Some(failure.since),
            next: Some(failure.next),
            ..judged(&failure.reason)
        }),
        (Some(OverallStatus { reason, .. }), _) => Some(judged(&reason)),
        (None, _) if facts.lanes.is_empty() => Some(judged("it was not read yet")),
        (None, _) => None,
    }
}

fn stale(facts: &Facts<'_>) -> Option<Judged> {
    let states = facts.lanes.iter().map(|lane| overall(lane));
    let reported = states.into_iter().find(|one| one.state == OverallState::Stale);
    let oldest = confirmed(facts.lanes);
    let is_old = oldest.is_none_or(|at| facts.now.since(at) > facts.bound);
    let reason = match reported {
        Some(one) => one.reason.to_string(),
        None if is_old => format!("nothing confirmed it for {} s", facts.bound.as_secs()),
        None => return None,
    };
    Some(Judged { since: oldest.or_else(|| began(facts)), ..Judged::new(ClusterState::Stale, reason) })
}

/// Returns the earliest start of stale facts.
fn began(facts: &Facts<'_>) -> Option<Mono> {
    let all = facts.lanes.iter().flat_map(|lane| &lane.status.collections);
    let since = |freshness: &Freshness| match freshness {
        Freshness::Stale { since, .. } => Some(since.0),
        _ => None,
    };
    all.filter_map(|one| since(&one.freshness)).min()
}

/// Returns the state of a registry, without the kinds that it does not need and may not read: those are conditions.
fn overall(lane: &Lane<'_>) -> OverallStatus {
    state_of_required(lane.status, lane.run)
}

fn live(facts: &Facts<'_>) -> Judged {
    let remarks = facts.lanes.iter().map(|lane| overall(lane).reason);
    let spared = facts.lanes.iter().flat_map(|lane| lane.status.spared()).map(|one| Arc::clone(&one.reason));
    let remark = remarks.chain(spared).find(|reason| !reason.is_empty()).unwrap_or_default();
    let since = facts.lanes.iter().flat_map(|lane| lane.status.sources.values()).filter_map(|one| one.since);
    Judged { since: since.max().map(Mono), ..Judged::new(ClusterState::Live, &*remark) }
}

/// Returns the state of the worst registry whose state is one of these, with the times of the sources that failed.
fn failed(facts: &Facts<'_>, state: ClusterState, is: impl Fn(OverallState) -> bool) -> Option<Judged> {
    let states = facts.lanes.iter().map(|lane| (lane, overall(lane)));
    let (lane, worst) = states.filter(|(_, one)| is(one.state)).max_by_key(|(_, one)| one.state)?;
    let (since, next, code) = if worst.state == OverallState::Failed {
        let error = lane.run.and_then(|run| run.last_error.as_ref());
        (error.map(|(_, _, at)| *at), lane.run.and_then(retry), error.map(|(code, _, _)| *code))
    } else {
        let all = || facts.lanes.iter().flat_map(|lane| lane.status.sources.values());
        let failing = || all().filter(|one| is_failing(one.status.state, &is));
        (failing().filter_map(|one| one.since).min().map(Mono), failing().filter_map(next_try).min(), None)
    };
    Some(Judged { code, since, next, ..Judged::new(state, &*worst.reason) })
}

fn is_failing(state: SourceState, is: impl Fn(OverallState) -> bool) -> bool {
    is(state.into())
}

fn retry(run: &RunReport) -> Option<Mono> {
    match run.state {
        RunState::Waiting { until } => Some(until),
        _ => None,
    }
}

/// Returns the time of the next try of a source, or of the first of its parts.
fn next_try(view: &SourceView) -> Option<Mono> {
    let parts = view.status.parts.iter().filter(|part| part.state.is_failure());
    let spans = view.status.retry_in.into_iter().chain(parts.filter_map(|part| part.retry_in));
    spans.min().map(|span| Mono(view.at).plus(span))
}

#[cfg(test)]
mod history;
#[cfg(test)]
pub(crate) mod tests;
