//! One stream's session: a state machine without I/O and without a clock.
//!
//! The transport tells it what arrived ([`Session::on_sotw`], [`Session::on_delta`]), that a
//! generation was published ([`Session::on_generation`]) and that a message can be taken
//! ([`Session::on_writable`], the only call that returns one). Nothing is queued: a session holds
//! what the client was last told and pulls the difference when the transport can take it.
//!
//! Promises: answers come in rounds, each from one generation, in the order CDS, EDS, LDS, RDS,
//! then removals of LDS, RDS, CDS, then empty assignments; an xDS cluster that was sent is
//! followed by its assignment; no resource goes back to an older generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Catalog, Code, Mono, ObservedSince, Version};
use tributary_proto::{ErrorDetail, GrpcCode};

use crate::answers::{ClientClassKey, ResourceType};
use crate::client::ClientNode;

pub mod ack;
mod changed_hosts;
mod changes;
mod client_snapshot;
mod delta;
pub mod env;
mod held_versions;
mod message;
mod pace;
mod round;
mod sotw;
mod status;
mod stuck;
mod subscription;

pub use ack::{Acks, Nack, Sent, SyncStatus};
pub use changed_hosts::{ChangedHosts, Interest};
pub use env::{Env, Nonce};
pub use message::Outgoing;
pub use status::{Delivery, KindStatus};

use changed_hosts::HostIndex;
use client_snapshot::ClientSnapshot;
use held_versions::{HeldVersions, Holding};
use pace::Pace;
use round::Round;
use subscription::{Asked, Forced, TypeSubscription};

/// Which variant of the protocol a stream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// State of the world.
    Sotw,
    /// Incremental.
    Delta,
}

/// Why a stream is ended from this side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// What the client's gRPC library sees.
    pub status: GrpcCode,
    /// What people look up.
    pub code: Code,
    /// What happened and what to do next.
    pub message: String,
}

impl Refusal {
    /// From its parts.
    pub fn new(status: GrpcCode, code: Code, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

/// A session with more names than this follows generations; with fewer it is woken by host.
pub const PICKER_NAMES: usize = 1024;

/// What a session knows of one type.
#[derive(Debug, Default)]
pub(crate) struct KindState {
    /// The subscription, once there is one.
    watch: Option<TypeSubscription>,
    /// Names that must be answered.
    asked: Asked,
    /// An answer is owed even if it is empty.
    owed: bool,
    /// Subscribed since the last answer: the client holds nothing that it has not claimed.
    fresh: bool,
    /// What the client holds, where no base says it.
    known: Option<HeldVersions>,
    /// Names that only the client has known, while the catalog is incomplete (law 1).
    held: BTreeMap<Box<str>, Holding>,
    /// A hash over the names as the client last listed them (SotW).
    listed: Version,
    /// The client said on subscribing that it holds a version (SotW).
    reconnected: bool,
    acks: Acks,
}

impl KindState {
    fn names(&self) -> usize {
        self.watch.as_ref().map_or(0, |watch| watch.names.names().len())
    }
    fn is_due(&self) -> bool {
        self.watch.is_some() && (self.owed || self.fresh || !self.asked.is_nothing())
    }
    /// Ends the subscription; what was sent stays on record.
    fn forget(&mut self) {
        *self = Self { acks: std::mem::take(&mut self.acks), ..Self::default() };
    }
    fn start(&mut self, watch: TypeSubscription, asked: Asked) {
        self.forget();
        self.watch = Some(watch);
        self.asked = asked;
        self.fresh = true;
    }
}

/// One stream's session.
#[derive(Debug)]
pub struct Session {
    env: Arc<Env>,
    variant: Variant,
    client: ClientNode,
    class: ClientClassKey,
    kinds: [KindState; 4],
    /// What a follower was last told all of.
    base: Option<Arc<ClientSnapshot>>,
    round: Option<Round>,
    forced: Forced,
    /// What was published that no round has looked at.
    stale: ChangedHosts,
    /// Since when that is known.
    observed: ObservedSince,
    /// Since when what the round tells is known.
    telling: ObservedSince,
    /// Which names are about which hosts.
    by_host: HostIndex,
    /// An answer to CDS has been sent on this stream.
    clusters_answered: bool,
    interest_moved: bool,
    in_flight: Option<Mono>,
    pace: Pace,
    unknown_type: Option<Arc<str>>,
}

impl Session {
    /// For a client that has said who it is.
    pub fn new(env: Arc<Env>, variant: Variant, client: ClientNode, now: Mono) -> Self {
        let class = env.class(client.class.clone());
        Self {
            env,
            variant,
            client,
            class,
            kinds: Default::default(),
            base: None,
            round: None,
            forced: Forced::Nothing,
            stale: ChangedHosts::Nothing,
            observed: ObservedSince::default(),
            telling: ObservedSince::default(),
            by_host: HostIndex::default(),
            clusters_answered: false,
            interest_moved: true,
            in_flight: None,
            pace: Pace::new(now),
            unknown_type: None,
        }
    }
    /// A generation was published that may concern this session, in these hosts.
    pub fn on_generation(&mut self, touched: ChangedHosts) {
        self.stale.merge(touched);
    }
    /// The same, of a generation that tells what has been known since then.
    pub fn on_generation_of(&mut self, touched: ChangedHosts, observed: ObservedSince) {
        self.on_generation(touched);
        self.observed.merge(observed);
    }
    /// The transport can take a message: the next one, or `None` when the client has all of the
    /// current generation. `current` is called at the start of a round.
    pub fn on_writable(&mut self, now: Mono, current: impl FnMut() -> Arc<Catalog>) -> Option<Outgoing> {
        self.in_flight = None;
        let out = self.next_message(now, current);
        self.in_flight = out.as_ref().map(|_| now);
        out
    }
    /// Whether [`Session::on_writable`] may have something to say.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.round.is_some()
            || self.stale != ChangedHosts::Nothing
            || self.kinds.iter().any(KindState::is_due)
    }
    /// Which hosts wake this session; said once after each change of its subscriptions.
    pub fn take_interest(&mut self) -> Option<Interest> {
        std::mem::take(&mut self.interest_moved).then(|| self.interest())
    }
    /// Whether [`Session::take_interest`] has something to say.
    #[must_use]
    pub const fn interest_is_due(&self) -> bool {
        self.interest_moved
    }
    /// Which variant the stream speaks.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        self.variant
    }
    /// Who the client is.
    #[must_use]
    pub const fn client(&self) -> &ClientNode {
        &self.client
    }
    /// Whether the session holds a base and looks at every generation.
    #[must_use]
    pub fn follows(&self) -> bool {
        let wildcard = |state: &KindState| state.watch.as_ref().is_some_and(TypeSubscription::is_wildcard);
        self.kinds.iter().any(wildcard) || self.names() > PICKER_NAMES
    }
    /// How many names are subscribed.
    #[must_use]
    pub fn names(&self) -> usize {
        self.kinds.iter().map(KindState::names).sum()
    }

    fn state(&mut self, kind: ResourceType) -> &mut KindState {
        &mut self.kinds[kind as usize]
    }
    fn watches(&self, kind: ResourceType) -> bool {
        self.kinds[kind as usize].watch.is_some()
    }
    /// A subscription is another: the round must look at the type again, the index too.
    fn subscribed(&mut self, kind: ResourceType, anew: bool) -> Result<(), Refusal> {
        self.interest_moved = true;
        if anew && let Some(round) = &mut self.round {
            round.forget(kind);
        }
        let limit = tributary_proto::limits::MAX_NAMES;
        if self.names() <= limit {
            return Ok(());
        }
        let message =
            format!("the stream subscribes to more than {limit} names; use a wildcard or more streams");
        Err(Refusal::new(GrpcCode::ResourceExhausted, Code::CLIENT_LIMIT, message))
    }
    /// Takes the client's answer to a response.
    fn answered(&mut self, kind: ResourceType, nonce: &str, error: Option<&ErrorDetail>, now: Mono) {
        let counters = Arc::clone(&self.env.counters);
        match error {
            Some(error) => {
                counters.nacks.inc();
                counters.pushes.refused(kind);
                self.pace.refused();
                self.state(kind).acks.refuse(nonce, &error.message, now);
                // Escaped: the words are the client's. How often it may say them is bounded by its pace.
                tracing::warn!(
                    code = %Code::CLIENT_NACK,
                    client = %self.client.id.escape_debug(),
                    kind = kind.as_str(),
                    error = %error.message.escape_debug(),
                    "a client refuses what it was sent"
                );
            }
            None if !nonce.is_empty() && self.state(kind).acks.ack(nonce, now) => {
                counters.acks.inc();
                self.pace.taken();
            }
            None => {}
        }
    }
    /// Counts a request in; tells how long the next one must wait.
    fn paced(&mut self, now: Mono) -> Duration {
        self.env.counters.requests.inc();
        let wait = self.pace.request(now);
        if !wait.is_zero() {
            self.env.counters.requests_delayed.inc();
        }
        wait
    }
    /// Types that are not served are not answered: an agent may ask for its own.
    fn unknown(&mut self, type_url: &str) {
        self.env.counters.unknown_types.inc();
        self.unknown_type = Some(type_url.into());
    }
    fn interest(&mut self) -> Interest {
        self.by_host = HostIndex::default();
        if self.follows() {
            return Interest::Every;
        }
        let mut hosts = BTreeSet::new();
        for (kind, state) in ResourceType::ALL.into_iter().zip(&self.kinds) {
            let names = state.watch.iter().flat_map(|watch| watch.names.names());
            for (at, name) in names.enumerate() {
                let Some(host) = self.env.answers.host_of(&self.class, kind, name) else {
                    self.by_host = HostIndex::default();
                    return Interest::Every;
                };
                self.by_host.add(&host, kind, at);
                hosts.insert(host);
            }
        }
        self.by_host.sort();
        Interest::Hosts(hosts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
