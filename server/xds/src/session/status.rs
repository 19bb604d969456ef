//! State of a session as `get clients` and `explain` read it.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Mono, Version};
use tributary_proto::Variant;

use super::Session;
use super::ack::{Acks, SyncStatus};
use super::held_versions::Holding;
use super::subscription::TypeSubscription;
use crate::answers::ResourceType;

/// State of one type at a client.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TypeStatus {
    /// `cds`, `eds`, `lds`, `rds`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Summary of acknowledgements.
    pub status: SyncStatus,
    /// Whether the client subscribes to all names.
    pub wildcard: bool,
    /// Number of names subscribed beside a wildcard.
    pub names: usize,
    /// Number of names held back until the catalog is complete.
    pub held: usize,
    /// Version of the last response.
    pub sent_version: Option<Arc<str>>,
    /// Generation of the last response.
    pub sent_generation: Option<u64>,
    /// Age of the last response, in milliseconds.
    pub sent_age_ms: Option<u64>,
    /// Version of the last acknowledged response.
    pub acked_version: Option<Arc<str>>,
    /// Generation of the last acknowledged response.
    pub acked_generation: Option<u64>,
    /// Age of the last acknowledgement, in milliseconds.
    pub acked_age_ms: Option<u64>,
    /// The rejection that no acknowledgement has followed.
    pub nack: Option<NackStatus>,
}

/// A rejection that no acknowledgement has followed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NackStatus {
    /// Error text of the client.
    pub text: Arc<str>,
    /// Nonce of the rejected response.
    pub nonce: Arc<str>,
    /// Generation of the rejected response, if it is still recorded.
    pub generation: Option<u64>,
    /// Names in the rejected response, if there were few.
    pub names: Vec<Arc<str>>,
    /// Age, in milliseconds.
    pub age_ms: u64,
}

/// What a client was sent of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Whether the client subscribes to the name.
    pub subscribed: bool,
    /// Version that was last sent; `None` if it was not sent or reported as absent.
    pub version: Option<Version>,
    /// State of the resource's type.
    pub status: SyncStatus,
    /// Error text of the client, if it rejected a response with this name.
    pub refused: Option<Arc<str>>,
}

fn ms(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

impl Session {
    /// Returns the state of every subscribed type.
    #[must_use]
    pub fn statuses(&self, now: Mono) -> Vec<TypeStatus> {
        let shown = self.kinds.iter().filter(|(_, state)| state.is_shown());
        shown.map(|(kind, state)| status(kind, state, now)).collect()
    }
    /// Returns what the client was sent of one resource.
    #[must_use]
    pub fn delivery(&self, kind: ResourceType, name: &str) -> Delivery {
        let state = &self.kinds[kind];
        let subscribed = state.watch.as_ref().is_some_and(|watch| watch.wants(name));
        let moved = self.round.as_ref().filter(|round| round.has_moved(kind)).map(|round| &round.to);
        let version = match (&state.known, moved.or(self.base.as_ref())) {
            _ if !subscribed => None,
            (Some(known), _) => match known.get(name) {
                Holding::Version(version) => Some(version),
                Holding::NotSent | Holding::Absent => None,
            },
            (None, Some(at)) => at.one(&self.env, kind, name).map(|e| e.version),
            (None, None) => None,
        };
        Delivery { subscribed, version, status: state.acks.status(), refused: refused(&state.acks, name) }
    }
    /// Returns the generation that the client has received in full; `None` if the session has no base.
    #[must_use]
    pub fn base_generation(&self) -> Option<u64> {
        self.base.as_ref().map(|base| base.catalog.generation)
    }
    /// Returns the last requested type that is not served.
    #[must_use]
    pub fn unknown_type(&self) -> Option<&Arc<str>> {
        self.unknown_type.as_ref()
    }
    /// Whether the client subscribes to listeners or routes.
    #[must_use]
    pub fn wants_listeners(&self) -> bool {
        self.watches(ResourceType::Listener) || self.watches(ResourceType::Route)
    }
    /// Returns the number of names with a recorded version, for tests of memory use.
    #[must_use]
    pub fn recorded_names(&self) -> usize {
        self.kinds.values().filter_map(|state| Some(state.known.as_ref()?.iter().count())).sum()
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

fn status(kind: ResourceType, state: &super::TypeState, now: Mono) -> TypeStatus {
    let (acks, last) = (&state.acks, state.acks.last());
    let acked = acks.acked();
    TypeStatus {
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
