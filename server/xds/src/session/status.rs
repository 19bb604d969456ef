//! What people and `explain` may ask of a session.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Mono, Version};

use super::ack::{Acks, SyncStatus};
use super::held_versions::Holding;
use super::subscription::TypeSubscription;
use super::{Session, Variant};
use crate::answers::ResourceType;

/// How one type stands with a client.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct KindStatus {
    /// `cds`, `eds`, `lds`, `rds`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// In one word.
    pub status: SyncStatus,
    /// Whether all names are subscribed.
    pub wildcard: bool,
    /// How many names are subscribed beside.
    pub names: usize,
    /// Names that are held until the catalog is complete.
    pub held: usize,
    /// The last response's version.
    pub sent_version: Option<Arc<str>>,
    /// The generation that it was made from.
    pub sent_generation: Option<u64>,
    /// How long ago, in milliseconds.
    pub sent_age_ms: Option<u64>,
    /// The version that was last taken.
    pub acked_version: Option<Arc<str>>,
    /// The generation that it was made from.
    pub acked_generation: Option<u64>,
    /// How long ago, in milliseconds.
    pub acked_age_ms: Option<u64>,
    /// The refusal that stands.
    pub nack: Option<NackStatus>,
}

/// A refusal that stands.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NackStatus {
    /// The client's words.
    pub text: Arc<str>,
    /// The nonce that it refused.
    pub nonce: Arc<str>,
    /// The generation of that response, where it is remembered.
    pub generation: Option<u64>,
    /// The names in that response, where they were few.
    pub names: Vec<Arc<str>>,
    /// How long ago, in milliseconds.
    pub age_ms: u64,
}

/// What a client has been told of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Whether it subscribes to the name.
    pub subscribed: bool,
    /// The version that it was last sent; `None` where it was told of none.
    pub version: Option<Version>,
    /// Whether the last response of the type was taken.
    pub status: SyncStatus,
    /// Its words, where a response with this name was refused.
    pub refused: Option<Arc<str>>,
}

fn ms(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

impl Session {
    /// How the subscribed types stand.
    #[must_use]
    pub fn statuses(&self, now: Mono) -> Vec<KindStatus> {
        let known = ResourceType::ALL.into_iter().zip(&self.kinds);
        known
            .filter(|(_, state)| state.watch.is_some() || state.acks.last().is_some())
            .map(|(kind, state)| status(kind, state, now))
            .collect()
    }
    /// What the client has been told of one resource.
    #[must_use]
    pub fn delivery(&self, kind: ResourceType, name: &str) -> Delivery {
        let state = &self.kinds[kind as usize];
        let subscribed = state.watch.as_ref().is_some_and(|watch| watch.wants(name));
        let moved = self.round.as_ref().filter(|round| round.has_moved(kind)).map(|round| &round.to);
        let version = match (&state.known, moved.or(self.base.as_ref())) {
            _ if !subscribed => None,
            (Some(known), _) => match known.get(name) {
                Holding::Version(version) => Some(version),
                Holding::Untold | Holding::Absent => None,
            },
            (None, Some(at)) => at.one(&self.env, kind, name).map(|e| e.version),
            (None, None) => None,
        };
        Delivery { subscribed, version, status: state.acks.status(), refused: refused(&state.acks, name) }
    }
    /// The generation that the client has been told all of; `None` where it is not kept as one.
    #[must_use]
    pub fn base_generation(&self) -> Option<u64> {
        self.base.as_ref().map(|base| base.catalog.generation)
    }
    /// A type that was asked for and is not served.
    #[must_use]
    pub fn unknown_type(&self) -> Option<&Arc<str>> {
        self.unknown_type.as_ref()
    }
    /// Whether it asks for listeners or routes.
    #[must_use]
    pub fn wants_listeners(&self) -> bool {
        self.watches(ResourceType::Listener) || self.watches(ResourceType::Route)
    }
    /// How many bytes of knowledge by name the session keeps, for tests of its footprint.
    #[must_use]
    pub fn known_names(&self) -> usize {
        self.kinds.iter().filter_map(|state| Some(state.known.as_ref()?.iter().count())).sum()
    }
    /// `sotw` or `delta`.
    #[must_use]
    pub const fn variant_name(&self) -> &'static str {
        match self.variant {
            Variant::Sotw => "sotw",
            Variant::Delta => "delta",
        }
    }
}

fn refused(acks: &Acks, name: &str) -> Option<Arc<str>> {
    let nack = acks.nack()?;
    let named = nack.sent.as_ref().and_then(|sent| sent.names.as_ref());
    named.is_none_or(|names| names.iter().any(|n| **n == *name)).then(|| Arc::clone(&nack.text))
}

fn status(kind: ResourceType, state: &super::KindState, now: Mono) -> KindStatus {
    let (acks, last) = (&state.acks, state.acks.last());
    let acked = acks.acked();
    KindStatus {
        kind: kind.as_str(),
        status: acks.status(),
        wildcard: state.watch.as_ref().is_some_and(TypeSubscription::is_wildcard),
        names: state.names(),
        held: state.held.len(),
        sent_version: last.map(|sent| Arc::clone(&sent.version)),
        sent_generation: last.map(|sent| sent.generation),
        sent_age_ms: last.map(|sent| ms(now.since(sent.at))),
        acked_version: acked.map(|(sent, _)| Arc::clone(&sent.version)),
        acked_generation: acked.map(|(sent, _)| sent.generation),
        acked_age_ms: acked.map(|(_, at)| ms(now.since(*at))),
        nack: acks.nack().map(|nack| NackStatus {
            text: Arc::clone(&nack.text),
            nonce: Arc::clone(&nack.nonce),
            generation: nack.sent.as_ref().map(|sent| sent.generation),
            names: nack.sent.as_ref().and_then(|s| s.names.as_deref()).unwrap_or_default().to_vec(),
            age_ms: ms(now.since(nack.at)),
        }),
    }
}
