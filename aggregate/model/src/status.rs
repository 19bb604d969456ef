//! How a source is doing, and which of its objects are bad.

use std::sync::Arc;
use std::time::Duration;

use crate::code::Code;
use crate::time::Mono;

/// Whether a collection's facts can be trusted to be all and to be now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum Freshness {
    /// Nothing has been heard: unknown is not empty (law 1).
    #[default]
    Unknown,
    /// A first list is under way.
    Syncing,
    /// Complete and followed.
    Live,
    /// Was complete once; followed no more since then.
    Stale {
        /// Since when.
        since: SinceMono,
        /// Why.
        why: Arc<str>,
    },
}

/// Why a collection cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Withheld {
    /// Kind of failure.
    pub cause: WithheldCause,
    /// The source's answer, for people; never a secret.
    pub why: Arc<str>,
}

/// Kind of failure that withholds a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum WithheldCause {
    /// The credential may not read it.
    Forbidden,
    /// It keeps failing while other collections of the source can be read.
    Failing,
}

impl Withheld {
    /// A collection that the credential may not read.
    pub fn forbidden(why: impl Into<Arc<str>>) -> Self {
        Self { cause: WithheldCause::Forbidden, why: why.into() }
    }
    /// A collection that keeps failing while others can be read.
    pub fn failing(why: impl Into<Arc<str>>) -> Self {
        Self { cause: WithheldCause::Failing, why: why.into() }
    }
}

/// A time that serialises as milliseconds since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SinceMono(pub Mono);

impl serde::Serialize for SinceMono {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0.0)
    }
}

/// What a source is doing, as its adapter sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum SourceState {
    /// Connecting or listing.
    #[default]
    Syncing,
    /// Followed.
    Live,
    /// Cannot be reached.
    Unreachable,
    /// Refuses our credential.
    AuthFailed,
    /// Refuses what we ask for.
    Forbidden,
    /// Answers what cannot be understood.
    Broken,
}

/// A source's own word about itself, per scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct SourceStatus {
    /// The state.
    pub state: SourceState,
    /// The reason for it, for people; never a secret.
    pub reason: Arc<str>,
    /// How long until the next try, where one is planned.
    pub retry_in: Option<Duration>,
    /// What fares apart within it: the watched kinds of a cluster. At most 64 are kept.
    pub parts: Arc<[SourcePart]>,
    /// More for people, as name and value in this order: `network`, `mode`, `index`, … At most 64
    /// are kept; never a secret.
    pub details: Arc<[(Arc<str>, Arc<str>)]>,
}

/// How one part of a source is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct SourcePart {
    /// Which: `pods`, `services`, …
    pub name: Arc<str>,
    /// Its state.
    pub state: SourceState,
    /// The reason for it, for people; never a secret.
    pub reason: Arc<str>,
    /// How long it had been in that state when this was said.
    pub lasted: Duration,
    /// How long until the next try, where one is planned.
    pub retry_in: Option<Duration>,
}

impl SourceStatus {
    /// How many parts and how many details are kept of one status.
    pub const MAX_PARTS: usize = 64;

    /// A state and the reason for it.
    pub fn new(state: SourceState, reason: impl Into<Arc<str>>) -> Self {
        Self { state, reason: reason.into(), ..Self::default() }
    }
    /// With no more parts and details than are kept.
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

/// How a shard is served: as it is, or as an operator's staleness policy asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum ShardPriority {
    /// As it is.
    #[default]
    Normal,
    /// One priority lower.
    Demoted,
    /// Not at all.
    Withdrawn,
}

/// What is wrong with one object. The object is quarantined alone; its last good version stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Problem {
    /// The code.
    pub code: Code,
    /// What is wrong and what to do, in one line.
    pub message: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_no_more_than_its_bound() {
        let pair = |n: usize| (n.to_string().into(), "".into());
        let part = |n: usize| SourcePart { name: n.to_string().into(), ..SourcePart::default() };
        let status = SourceStatus {
            parts: (0..100).map(part).collect(),
            details: (0..100).map(pair).collect(),
            ..SourceStatus::new(SourceState::Live, "")
        };
        let kept = status.bounded();
        assert_eq!(
            (kept.parts.len(), kept.details.len()),
            (SourceStatus::MAX_PARTS, SourceStatus::MAX_PARTS)
        );
        assert_eq!(&*kept.parts[63].name, "63", "the first are kept, in their order");
    }
}
