//! State of a session as `get clients` and `explain` read it.

use std::sync::Arc;
use std::time::Duration;

use tributary_answer::{grpc_server, listens_at};
use tributary_model::{Catalog, ClientKind, Mono, Version};
use tributary_proto::Variant;

use super::ack::{Acks, SyncStatus};
use super::client_snapshot::ClientSnapshot;
use super::env::Env;
use super::held_versions::{HeldVersions, Holding};
use super::rejected_listeners::RejectedListeners;
use super::rejection::{Verdict, sorted};
use super::subscription::{Requested, TypeSubscription};
use super::{Session, TypeState};
use crate::answers::{ClientClassKey, ResourceType, TypeMap};
use crate::client::{ClientNode, ListenersWanted};

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
    /// The last rejection of resources that the client has not accepted in a later version since.
    pub nack: Option<NackStatus>,
}

/// A rejection of resources that the client has not accepted in a later version since.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NackStatus {
    /// Error text of the client.
    pub text: Arc<str>,
    /// Nonce of the rejected response.
    pub nonce: Arc<str>,
    /// Generation of the rejected response, if it is still recorded.
    pub generation: Option<u64>,
    /// Names of the resources that are still rejected, if there are few.
    pub names: Vec<Arc<str>>,
    /// Age, in milliseconds.
    pub age_ms: u64,
}

impl NackStatus {
    /// Most names that are shown.
    const FEW: usize = 64;
}

/// What a client was sent of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Whether the client subscribes to the name.
    pub subscribed: bool,
    /// Version that was last sent; `None` if it was not sent or reported as absent.
    pub version: Option<Version>,
    /// State of the resource's type, or of the resource if the client rejected some of the type.
    pub status: SyncStatus,
    /// Error text of the client, if it rejected the resource.
    pub refused: Option<Arc<str>>,
    /// Whether it may have been another resource of the response that the client rejected.
    pub is_suspected: bool,
    /// Whether the client may use an earlier version: it acknowledged a response of the type, or held versions when the
    /// stream began.
    pub may_have_earlier: bool,
}

fn ms(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

/// State of a session at one time, for readers. It shares everything that has a length with the session.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// The client.
    pub client: Arc<ClientNode>,
    /// Whether the session looks at every generation: wildcard or many names.
    pub is_bulk: bool,
    /// Number of subscribed names.
    pub names: usize,
    /// The last requested type that is not served.
    pub unknown_type: Option<Arc<str>>,
    pub(super) env: Arc<Env>,
    pub(super) class: ClientClassKey,
    pub(super) base: Option<Arc<ClientSnapshot>>,
    rejected: RejectedListeners,
    pub(super) kinds: TypeMap<OfType>,
    variant: Variant,
}

/// State of one type.
#[derive(Debug, Clone)]
pub(super) struct OfType {
    pub(super) watch: Option<TypeSubscription>,
    /// Number of names held back.
    held: usize,
    pub(super) known: Option<HeldVersions>,
    /// Generation of the responses that `known` does not record.
    pub(super) at: Option<Arc<ClientSnapshot>>,
    pub(super) pending: Pending,
    pub(super) acks: Acks,
}

/// Names whose response is due later. Each list is cut at [`Pending::MAX`], so that storing a status costs little.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Removed names that the client still holds.
    pub(super) unsent: Vec<Arc<str>>,
    /// Removed names that the client keeps while it rejects its routes, in order.
    pub(super) withheld: Vec<Arc<str>>,
    pub(super) requested: Requested,
    pub(super) held_back: Vec<Box<str>>,
}

impl Pending {
    const MAX: usize = 256;
}

impl Session {
    /// Returns the worst state of its types.
    #[must_use]
    pub fn worst(&self) -> SyncStatus {
        let shown = self.kinds.values().filter(|state| state.is_shown());
        shown.map(|state| state.acks.status()).max().unwrap_or(SyncStatus::NotSent)
    }
    /// Returns the session's state for readers.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        SessionStatus {
            client: Arc::clone(&self.client),
            is_bulk: self.is_bulk(),
            names: self.names(),
            unknown_type: self.unknown_type.clone(),
            env: Arc::clone(&self.env),
            class: self.class.clone(),
            variant: self.variant,
            base: self.base.clone(),
            rejected: self.rejected.clone(),
            kinds: TypeMap::from_fn(|kind| self.of_type(kind)),
        }
    }
    fn of_type(&self, kind: ResourceType) -> OfType {
        let state = &self.kinds[kind];
        let TypeState { watch, held, known, acks, .. } = state;
        let round = self.round.as_ref().filter(|round| round.has_moved(kind));
        let at = round.map(|round| &round.to).or(self.base.as_ref());
        let is_withheld = matches!(kind, ResourceType::Cluster | ResourceType::Endpoints);
        let withheld = is_withheld.then_some(&self.withheld).into_iter().flatten();
        let unsent = round.into_iter().flat_map(|round| round.unsent(kind));
        OfType {
            watch: watch.clone(),
            held: held.len(),
            known: known.clone(),
            at: at.filter(|_| !state.just_subscribed).cloned(),
            pending: Pending {
                unsent: unsent.take(Pending::MAX).cloned().collect(),
                withheld: withheld.take(Pending::MAX).cloned().collect(),
                requested: match &state.requested {
                    Requested::Names(names) => {
                        Requested::Names(names.iter().take(Pending::MAX).cloned().collect())
                    }
                    other => other.clone(),
                },
                held_back: held.keys().take(Pending::MAX).cloned().collect(),
            },
            acks: acks.clone(),
        }
    }
    /// Returns the names of the resources that the client was sent of a type, in order.
    pub(super) fn sent_names(&self, kind: ResourceType) -> Arc<[Arc<str>]> {
        let of = self.of_type(kind);
        match (&of.known, &of.at, &of.watch) {
            (Some(known), ..) => {
                let held = known.iter().filter(|(_, holding)| matches!(holding, Holding::Version(_)));
                held.map(|(name, _)| Arc::from(name)).collect()
            }
            (None, Some(at), Some(watch)) => {
                let whole = if watch.is_wildcard() {
                    at.all(&self.env, kind, &watch.names)
                } else {
                    at.many(&self.env, kind, &watch.names)
                };
                sorted(whole.iter().map(|e| Arc::clone(&e.name)))
            }
            (None, ..) => Arc::default(),
        }
    }
}

impl SessionStatus {
    /// Returns the worst state of its types.
    #[must_use]
    pub fn worst(&self) -> SyncStatus {
        let shown = self.kinds.values().filter(|of| of.watch.is_some() || of.acks.last().is_some());
        shown.map(|of| of.acks.status()).max().unwrap_or(SyncStatus::NotSent)
    }
    /// Returns the state of every subscribed type.
    #[must_use]
    pub fn statuses(&self, now: Mono) -> Vec<TypeStatus> {
        let shown = self.kinds.iter().filter(|(_, of)| of.watch.is_some() || of.acks.last().is_some());
        shown.map(|(kind, of)| status(kind, of, now)).collect()
    }
    /// Returns what the client was sent of one resource.
    #[must_use]
    pub fn delivery(&self, kind: ResourceType, name: &str) -> Delivery {
        let of = &self.kinds[kind];
        let subscribed = of.watch.as_ref().is_some_and(|watch| watch.wants(name));
        let version = match (&of.known, &of.at) {
            _ if !subscribed => None,
            (Some(known), _) => match known.get(name) {
                Holding::Version(version) => Some(version),
                Holding::NotSent | Holding::Absent => None,
            },
            (None, Some(at)) => at.one(&self.env, kind, name).map(|e| e.version),
            (None, None) => None,
        };
        let (status, refused) = match (of.acks.status(), of.acks.verdict(name)) {
            (SyncStatus::Error, _) if of.acks.is_unanswered(name) => (SyncStatus::Stale, None),
            (SyncStatus::Error, Verdict::Unacknowledged) => (SyncStatus::Stale, None),
            (SyncStatus::Error, Verdict::Unaffected) => (SyncStatus::Synced, None),
            (SyncStatus::Error, verdict @ (Verdict::Rejected(_) | Verdict::Suspected(..))) => {
                (SyncStatus::Error, verdict.rejection(kind))
            }
            // a version that no response carried is one that the client returned with
            (_, Verdict::Unaffected) if version.is_some() && !of.acks.is_unanswered(name) => {
                (SyncStatus::Synced, None)
            }
            (status, _) => (status, None),
        };
        let is_suspected = refused.as_ref().is_some_and(|(_, is_suspected)| *is_suspected);
        let refused = refused.map(|(text, _)| text);
        let may_have_earlier = of.acks.has_earlier();
        Delivery { subscribed, version, status, refused, is_suspected, may_have_earlier }
    }
    /// Returns the generation that the client has received in full; `None` if the session has no base.
    #[must_use]
    pub fn base_generation(&self) -> Option<u64> {
        self.base.as_ref().map(|base| base.catalog.generation)
    }
    /// Iterates over the listeners that a gRPC server rejected and that refuse every request instead, with the text of the rejection.
    pub fn refusing_listeners(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.rejected.iter().filter(|(name, _)| {
            let refusing = self.env.answers.refusing_listener(name).map(|listener| listener.version);
            self.delivery(ResourceType::Listener, name).version == refusing
        })
    }
    /// Iterates over the listeners of a gRPC server that refuse every request, because its policies make them too large.
    pub fn too_large(&self, catalog: &Catalog) -> impl Iterator<Item = &Arc<str>> {
        let class = self.client.at(catalog).0;
        let has_policies = class.kind == ClientKind::Grpc && class.authorization.is_some();
        let watch = self.kinds[ResourceType::Listener].watch.as_ref().filter(|_| has_policies);
        watch.into_iter().flat_map(|watch| watch.names.iter()).filter(move |name| {
            grpc_server(&class, name).is_some_and(|server| crate::encode::listener::is_too_large(&server))
        })
    }
    /// Returns which listeners or routes the client subscribes to.
    #[must_use]
    pub fn listeners_wanted(&self) -> ListenersWanted {
        let watch = |kind: ResourceType| self.kinds[kind].watch.as_ref();
        let Some(listeners) = watch(ResourceType::Listener) else {
            let has_routes = watch(ResourceType::Route).is_some();
            return if has_routes { ListenersWanted::Outbound } else { ListenersWanted::Nothing };
        };
        let receives = listeners.names.iter().any(|name| listens_at(name).is_some());
        if receives { ListenersWanted::Inbound } else { ListenersWanted::Outbound }
    }
    /// Returns the number of names with a recorded version, for tests of memory use.
    #[must_use]
    pub fn recorded_names(&self) -> usize {
        self.kinds.values().filter_map(|of| Some(of.known.as_ref()?.iter().count())).sum()
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

fn status(kind: ResourceType, of: &OfType, now: Mono) -> TypeStatus {
    let (last, acked) = (of.acks.last(), of.acks.acked());
    TypeStatus {
        kind: kind.as_str(),
        status: of.acks.status(),
        wildcard: of.watch.as_ref().is_some_and(TypeSubscription::is_wildcard),
        names: of.watch.as_ref().map_or(0, |watch| watch.names.len()),
        held: of.held,
        sent_version: last.map(|sent| Arc::clone(&sent.version)),
        sent_generation: last.map(|sent| sent.generation),
        sent_age_ms: last.map(|sent| ms(now.since(sent.at))),
        acked_version: acked.map(|(sent, _)| Arc::clone(&sent.version)),
        acked_generation: acked.map(|(sent, _)| sent.generation),
        acked_age_ms: acked.map(|(_, at)| ms(now.since(*at))),
        nack: of.acks.nack().map(|nack| NackStatus {
            text: Arc::clone(&nack.text),
            nonce: Arc::clone(&nack.nonce),
            generation: nack.sent.as_ref().map(|sent| sent.generation),
            names: Some(of.acks.nacked_names())
                .filter(|n| n.len() <= NackStatus::FEW)
                .unwrap_or_default()
                .to_vec(),
            age_ms: ms(now.since(nack.at)),
        }),
    }
}
