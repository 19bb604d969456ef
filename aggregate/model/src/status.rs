//! Status of sources, freshness of collections, and problems of objects.
//!
//! Adapters report status and problems; the core derives freshness; the server reports all three.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::code::Code;
use crate::time::Mono;

/// Whether the facts of a collection are complete and current.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum Freshness {
    /// No facts received yet: unknown is not empty (law 1).
    #[default]
    Unknown,
    /// The first list is in progress.
    Syncing,
    /// Complete and followed.
    Live,
    /// Complete in the past, no longer followed.
    Stale {
        /// Start time.
        since: SinceMono,
        /// Reason.
        why: Arc<str>,
    },
}

/// Reason why a collection cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Withheld {
    /// Kind of failure.
    pub cause: WithheldCause,
    /// Answer of the source, for operators; never a secret.
    pub why: Arc<str>,
}

/// Kind of failure that makes a collection unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum WithheldCause {
    /// The credential may not read it.
    Forbidden,
    /// Reads keep failing while other collections of the source can be read.
    Failing,
}

impl Withheld {
    /// Creates the value for a collection that the credential may not read.
    pub fn forbidden(why: impl Into<Arc<str>>) -> Self {
        Self { cause: WithheldCause::Forbidden, why: why.into() }
    }
    /// Creates the value for a collection that keeps failing while others can be read.
    pub fn failing(why: impl Into<Arc<str>>) -> Self {
        Self { cause: WithheldCause::Failing, why: why.into() }
    }
}

/// Time that serialises as its number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SinceMono(pub Mono);

impl serde::Serialize for SinceMono {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0.0)
    }
}

/// State of a source, as its adapter reports it, ordered by severity: the worst of several states is
/// their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum SourceState {
    /// Followed.
    Live,
    /// Connecting or listing.
    #[default]
    Syncing,
    /// The source cannot be reached.
    Unreachable,
    /// The source's answers cannot be read.
    Broken,
    /// The source denies access to the requested objects.
    Forbidden,
    /// The source rejects the credential.
    AuthFailed,
}

impl SourceState {
    /// Display name, also used in JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "Live",
            Self::Syncing => "Syncing",
            Self::Unreachable => "Unreachable",
            Self::Broken => "Broken",
            Self::Forbidden => "Forbidden",
            Self::AuthFailed => "AuthFailed",
        }
    }
    /// Whether the source has failed: neither followed nor about to be.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Live | Self::Syncing)
    }
}

/// State of a registry, or of one of its scopes, as operators see it: that of its source and of its facts
/// together. Ordered by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum OverallState {
    /// The facts are followed.
    Live,
    /// The last known facts are served.
    Stale,
    /// Not everything has been listed yet.
    Syncing,
    /// See [`SourceState::Unreachable`].
    Unreachable,
    /// See [`SourceState::Broken`].
    Broken,
    /// See [`SourceState::Forbidden`].
    Forbidden,
    /// See [`SourceState::AuthFailed`].
    AuthFailed,
    /// The run itself has failed.
    Failed,
}

impl OverallState {
    /// Every state, from best to worst.
    pub const ALL: [Self; 8] = [
        Self::Live,
        Self::Stale,
        Self::Syncing,
        Self::Unreachable,
        Self::Broken,
        Self::Forbidden,
        Self::AuthFailed,
        Self::Failed,
    ];

    /// Display name, also used in JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => SourceState::Live.as_str(),
            Self::Stale => "Stale",
            Self::Syncing => SourceState::Syncing.as_str(),
            Self::Unreachable => SourceState::Unreachable.as_str(),
            Self::Broken => SourceState::Broken.as_str(),
            Self::Forbidden => SourceState::Forbidden.as_str(),
            Self::AuthFailed => SourceState::AuthFailed.as_str(),
            Self::Failed => "Failed",
        }
    }
}

impl From<SourceState> for OverallState {
    fn from(state: SourceState) -> Self {
        match state {
            SourceState::Live => Self::Live,
            SourceState::Syncing => Self::Syncing,
            SourceState::Unreachable => Self::Unreachable,
            SourceState::Broken => Self::Broken,
            SourceState::Forbidden => Self::Forbidden,
            SourceState::AuthFailed => Self::AuthFailed,
        }
    }
}

impl From<&Freshness> for OverallState {
    fn from(freshness: &Freshness) -> Self {
        match freshness {
            Freshness::Unknown | Freshness::Syncing => Self::Syncing,
            Freshness::Live => Self::Live,
            Freshness::Stale { .. } => Self::Stale,
        }
    }
}

/// Overall state with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverallStatus {
    /// State.
    pub state: OverallState,
    /// Reason, for operators; may be empty.
    pub reason: Arc<str>,
}

impl OverallStatus {
    /// Returns the worst state of some sources and of the facts that they report. A failed source decides. One that
    /// connects or lists decides only if it has no facts to judge: a list that is repeated leaves its facts current.
    pub fn of<'a>(
        sources: impl Iterator<Item = &'a SourceStatus> + Clone,
        facts: impl Iterator<Item = &'a Freshness>,
    ) -> Self {
        let worst = sources.clone().max_by_key(|source| source.state);
        let (source, reason) = worst.map_or((SourceState::Live, ""), |one| (one.state, &*one.reason));
        // the first of the worst
        let facts = facts.min_by_key(|freshness| Reverse(OverallState::from(*freshness)));
        let (state, reason) = match facts {
            _ if source.is_failure() => (source.into(), reason),
            None => (source.into(), reason),
            Some(Freshness::Unknown | Freshness::Syncing) => (OverallState::Syncing, reason),
            Some(Freshness::Stale { why, .. }) => (OverallState::Stale, &**why),
            Some(Freshness::Live) => (OverallState::Live, ""),
        };
        // a live source may report a partial or empty view, which precedes remarks
        let partial = sources.clone().find(|source| source.is_partial()).map(|source| &*source.reason);
        let note = || partial.or_else(|| sources.map(|s| &*s.reason).find(|reason| !reason.is_empty()));
        let reason = if state == OverallState::Live { note().unwrap_or_default() } else { reason };
        Self { state, reason: reason.into() }
    }
}

/// Status of a source, reported per scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct SourceStatus {
    /// State.
    pub state: SourceState,
    /// Reason for the state, for operators; never a secret.
    pub reason: Arc<str>,
    /// Time until the next attempt, if one is planned.
    pub retry_in: Option<Duration>,
    /// Whether the scope only lists other scopes and has no facts: a directory of datacenters.
    pub is_directory: bool,
    /// How the adapter follows the source, if it has several ways.
    pub mode: Option<SourceMode>,
    /// Status of its parts, such as the watched kinds of a cluster. At most 64 are kept.
    pub parts: Arc<[SourcePart]>,
    /// Further information for operators, in display order: `network`, `index`, … At most 64 are kept; never a secret.
    pub details: Arc<[SourceDetail]>,
}

/// Way in which an adapter follows a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SourceMode {
    /// Name, one of a few: it is the label of a metric.
    pub name: Arc<str>,
    /// Why the adapter chose it; may be empty.
    pub reason: Arc<str>,
}

impl fmt::Display for SourceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// One piece of information for operators.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SourceDetail {
    /// Name, for display.
    pub name: Arc<str>,
    /// Value.
    pub value: DetailValue,
    /// Whether operators should act on it; the status log writes its changes.
    pub is_warning: bool,
}

/// Value of a detail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum DetailValue {
    /// Text.
    Text(Arc<str>),
    /// Number, which is also a metric.
    Number(u64),
    /// Time since something, at the time of the report.
    Age(Duration),
}

impl fmt::Display for DetailValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Age(age) => write!(f, "{} s ago", age.as_secs()),
        }
    }
}

impl SourceDetail {
    /// Creates a detail with a text.
    pub fn text(name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), value: DetailValue::Text(value.into()), is_warning: false }
    }
    /// Creates a detail with a number.
    pub fn number(name: impl Into<Arc<str>>, value: u64) -> Self {
        Self { name: name.into(), value: DetailValue::Number(value), is_warning: false }
    }
    /// Creates a detail with the time since something.
    pub fn age(name: impl Into<Arc<str>>, age: Duration) -> Self {
        Self { name: name.into(), value: DetailValue::Age(age), is_warning: false }
    }
    /// Marks it as a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.is_warning = true;
        self
    }
}

/// Status of one part of a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct SourcePart {
    /// Name: `pods`, `services`, …
    pub name: Arc<str>,
    /// State.
    pub state: SourceState,
    /// Reason for the state, for operators; never a secret.
    pub reason: Arc<str>,
    /// Time in that state, at the time of the report.
    pub lasted: Duration,
    /// Time until the next attempt, if one is planned.
    pub retry_in: Option<Duration>,
}

impl SourceStatus {
    /// Maximum number of parts, and of details, kept of one status.
    pub const MAX_PARTS: usize = 64;

    /// Creates a status from a state and its reason.
    pub fn new(state: SourceState, reason: impl Into<Arc<str>>) -> Self {
        Self { state, reason: reason.into(), ..Self::default() }
    }
    /// Whether a live source has a reason: it sees only a part, or misses a file. The note of a live part, such as a kind that
    /// its cluster does not serve, does not count.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let is_note = |part: &SourcePart| part.state == SourceState::Live && part.reason == self.reason;
        self.state == SourceState::Live && !self.reason.is_empty() && !self.parts.iter().any(is_note)
    }
    /// Removes parts and details beyond the bound.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        if self.parts.len() > Self::MAX_PARTS {
            self.parts = self.parts.iter().take(Self::MAX_PARTS).cloned().collect();
        }
        if self.details.len() > Self::MAX_PARTS {
            self.details = self.details.iter().take(Self::MAX_PARTS).cloned().collect();
        }
        self
    }
}

/// Priority of a shard: normal, or as the staleness policy sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum ShardPriority {
    /// Normal priority.
    #[default]
    Normal,
    /// One priority lower.
    Demoted,
    /// Not served.
    Withdrawn,
}

/// Fault of one object. Only this object is quarantined; its last valid version stays served.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Problem {
    /// Code.
    pub code: Code,
    /// The fault and what to do, in one line.
    pub message: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_ordered_by_severity() {
        use SourceState::{AuthFailed, Broken, Forbidden, Live, Syncing, Unreachable};
        let rising = [Live, Syncing, Unreachable, Broken, Forbidden, AuthFailed];
        assert!(rising.is_sorted_by(|a, b| a < b));
        assert_eq!(rising.map(SourceState::is_failure), [false, false, true, true, true, true]);
        assert!(rising.iter().all(|state| format!("{state:?}") == state.as_str()));
    }

    #[test]
    fn overall_state_is_the_worst_of_source_and_facts() {
        use SourceState::{Forbidden, Live, Syncing};
        assert!(OverallState::ALL.is_sorted_by(|a, b| a < b));
        let stale = Freshness::Stale { since: SinceMono::default(), why: "lost".into() };
        let of = |sources: &[(SourceState, &str)], facts: &[&Freshness]| {
            let sources: Vec<_> =
                sources.iter().map(|(state, why)| SourceStatus::new(*state, *why)).collect();
            let status = OverallStatus::of(sources.iter(), facts.iter().copied());
            (status.state.as_str(), status.reason.to_string())
        };
        let is = |state, reason: &str| (state, reason.to_owned());
        let live = &Freshness::Live;
        assert_eq!(of(&[], &[]), is("Live", ""));
        assert_eq!(of(&[(Live, ""), (Live, "sees less")], &[live]), is("Live", "sees less"));
        assert_eq!(of(&[(Live, "sees less")], &[live, &stale]), is("Stale", "lost"));
        assert_eq!(of(&[(Live, "")], &[&stale, &Freshness::Unknown]), is("Syncing", ""));
        assert_eq!(of(&[(Forbidden, "403"), (Live, "")], &[&stale]), is("Forbidden", "403"));
        assert_eq!(of(&[(Syncing, "connects")], &[]), is("Syncing", "connects"));
        assert_eq!(of(&[(Syncing, "lists")], &[&stale]), is("Stale", "lost"));
        assert_eq!(of(&[(Syncing, "lists")], &[live]), is("Live", "lists"));
    }

    #[test]
    fn remark_of_a_live_part_is_no_partial_view() {
        let source = |reason: &str, part: &str| {
            let part = SourcePart { state: SourceState::Live, reason: part.into(), ..SourcePart::default() };
            SourceStatus { parts: [part].into(), ..SourceStatus::new(SourceState::Live, reason) }
        };
        let (remark, partial) = (source("not served", "not served"), source("list of pods: 403", ""));
        assert_eq!((remark.is_partial(), partial.is_partial()), (false, true));
        assert!(
            !SourceStatus::new(SourceState::Syncing, "lists").is_partial(),
            "a repeated list is no partial view"
        );
        let reason = |sources: &[SourceStatus]| OverallStatus::of(sources.iter(), [].into_iter()).reason;
        assert_eq!(&*reason(std::slice::from_ref(&remark)), "not served");
        assert_eq!(&*reason(&[remark, partial]), "list of pods: 403", "it comes first");
    }

    #[test]
    fn mode_and_details_are_shown_as_text() {
        let mode = |reason: &str| SourceMode { name: "bulk".into(), reason: reason.into() }.to_string();
        assert_eq!([mode(""), mode("too many")], ["bulk", "bulk: too many"]);
        let values = [SourceDetail::text("index", "none"), SourceDetail::number("index", 7)];
        assert_eq!(values.map(|detail| detail.value.to_string()), ["none", "7"]);
    }

    #[test]
    fn status_is_limited_to_its_bound() {
        let detail = |n: u64| SourceDetail::number(n.to_string(), n);
        let part = |n: usize| SourcePart { name: n.to_string().into(), ..SourcePart::default() };
        let status = SourceStatus {
            parts: (0..100).map(part).collect(),
            details: (0..100).map(detail).collect(),
            ..SourceStatus::new(SourceState::Live, "")
        };
        let kept = status.bounded();
        assert_eq!(
            (kept.parts.len(), kept.details.len()),
            (SourceStatus::MAX_PARTS, SourceStatus::MAX_PARTS)
        );
        assert_eq!(&*kept.parts[63].name, "63", "the first entries are kept in order");
    }
}
