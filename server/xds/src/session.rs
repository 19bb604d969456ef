//! One stream's session: a state machine without I/O and without a clock.
//!
//! The transport reports requests ([`Session::on_sotw`], [`Session::on_delta`]), published generations
//! ([`Session::on_generation`]) and that it can take a message ([`Session::on_writable`], the only
//! call that returns one). Nothing is queued: a session holds what the client last received and
//! computes the difference when the transport can take it.
//!
//! Guarantees: responses come in rounds, each from one generation, in the order CDS, EDS, LDS, RDS,
//! then removals of LDS, RDS, CDS, then empty assignments; an xDS cluster that was sent is
//! followed by its assignment; what leads to an xDS cluster that is new to the client follows both; no resource returns to an older generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tonic::Code as GrpcCode;
use tributary_answer::listens_at;
use tributary_model::{Catalog, Code, EncodedResource, Hostname, Mono, ObservedSince, Version};
use tributary_proto::{ErrorDetail, Variant};

use crate::answers::{ClientClassKey, ResourceType, Subscription, TypeMap};
use crate::client::ClientNode;
use crate::client_gauges::SessionCount;

pub mod ack;
mod changed_hosts;
mod changes;
mod client_snapshot;
mod delta;
pub mod env;
mod held_versions;
mod message;
mod nonce;
mod pace;
mod ready;
mod recorded_rounds;
mod rejected_listeners;
mod rejection;
mod remembered;
mod remembered_clients;
mod removals;
mod round;
mod sent;
mod shared_round;
mod sotw;
mod status;
mod stuck;
mod subscription;
mod sum;
mod traced;

pub use ack::{Acks, Nack, Sent, SyncStatus};
pub use changed_hosts::{ChangedHosts, Interest};
pub use env::Env;
pub use message::Outgoing;
pub use nonce::Nonce;
pub use ready::{FEW, Step};
pub use recorded_rounds::SharedRounds;
pub use remembered_clients::Remembered;
pub use sent::{ResourceState, SentResource, SentView};
pub use shared_round::RepeatedRound;
pub use status::{Delivery, SessionStatus, TypeStatus};
pub(crate) use stuck::STUCK;

use changed_hosts::HostIndex;
use client_snapshot::ClientSnapshot;
use held_versions::{HeldVersions, Holding};
use pace::Pace;
use recorded_rounds::Recorder;
use rejected_listeners::RejectedListeners;
use rejection::Rejections;
use round::Round;
use subscription::{Forced, Requested, TypeSubscription};
use sum::SubscribedSum;

/// Reason why the server ends a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// gRPC status of the stream.
    pub status: GrpcCode,
    /// Tributary code of the reason.
    pub code: Code,
    /// What happened and what to do next.
    pub message: String,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(status: GrpcCode, code: Code, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

/// Most names of a session that is woken by host; one with more looks at every generation.
pub const MAX_NAMED: usize = 1024;

/// State of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeState {
    /// The subscription, if any.
    watch: Option<TypeSubscription>,
    /// Names that must be sent even if unchanged.
    requested: Requested,
    /// Whether a response must be sent even if it is empty.
    must_reply: bool,
    /// Subscribed since the last response: the client holds only what it has claimed.
    just_subscribed: bool,
    /// Versions that the client holds, unless the base records them.
    known: Option<HeldVersions>,
    /// Names that only the client knows, or whose endpoints only it knows, while the catalog is partial (law 1).
    held: BTreeMap<Box<str>, Holding>,
    /// Hash over the names that the client listed last (SotW).
    listed: Version,
    /// Whether the client sent a version when it subscribed (SotW).
    reconnected: bool,
    /// Version of all subscribed resources, if it was needed.
    sum: Option<SubscribedSum>,
    acks: Acks,
}

impl TypeState {
    /// Whether the client subscribes to the type, or did and was sent a response.
    fn is_shown(&self) -> bool {
        self.watch.is_some() || self.acks.last().is_some()
    }
    fn names(&self) -> usize {
        self.watch.as_ref().map_or(0, |watch| watch.names.len())
    }
    fn is_due(&self) -> bool {
        self.watch.is_some() && (self.must_reply || self.just_subscribed || !self.requested.is_nothing())
    }
    /// Whether names of this client may be held back in this generation.
    fn may_hold(&self, catalog: &Catalog) -> bool {
        (self.reconnected || !self.held.is_empty()) && catalog.is_partial()
    }
    /// Holds back assignments that a reconnecting client carries over and whose endpoints this server cannot read (SotW).
    fn hold_unread(&mut self, env: &Env, to: &ClientSnapshot, names: &Subscription) {
        let carried = names.iter().filter(|_| self.reconnected);
        let unread = carried.filter(|name| changes::is_unread(env, to, ResourceType::Endpoints, name));
        for name in unread {
            self.held.entry((&**name).into()).or_insert(Holding::NotSent);
        }
    }
    /// Ends the subscription; keeps the record of responses.
    fn forget(&mut self) {
        *self = Self { acks: std::mem::take(&mut self.acks), ..Self::default() };
    }
    fn start(&mut self, watch: TypeSubscription, requested: Requested) {
        self.forget();
        self.watch = Some(watch);
        self.requested = requested;
        self.just_subscribed = true;
    }
}

/// One stream's session.
#[derive(Debug)]
pub struct Session {
    env: Arc<Env>,
    variant: Variant,
    client: Arc<ClientNode>,
    class: ClientClassKey,
    /// Hosts of the services that select its workload, sorted.
    own_hosts: Vec<Hostname>,
    kinds: TypeMap<TypeState>,
    /// What a bulk client last received in full.
    base: Option<Arc<ClientSnapshot>>,
    round: Option<Round>,
    forced: Forced,
    /// Responses of the round so far, if other sessions may repeat them.
    recorder: Option<Recorder>,
    /// Published changes that no round has handled.
    stale: ChangedHosts,
    /// When those changes were first known.
    observed: ObservedSince,
    /// When the changes of the current round were first known.
    round_observed: ObservedSince,
    /// Subscribed names by host.
    by_host: HostIndex,
    /// What the client held when its earlier stream ended (SotW), until its xDS clusters are sent.
    earlier: Option<Arc<ClientSnapshot>>,
    /// xDS clusters of the last response to a client that names them (SotW), which no base has.
    listed: Vec<Arc<EncodedResource>>,
    /// Removed xDS clusters that the client keeps, because routes that it accepted may lead to them (delta).
    withheld: BTreeSet<Arc<str>>,
    /// Time until which a client that returned with xDS clusters keeps removed ones, if it has not answered its routes before.
    claims_until: Option<Mono>,
    /// Whether this stream has sent a CDS response.
    clusters_answered: bool,
    interest_moved: bool,
    in_flight: Option<Mono>,
    pace: Pace,
    unknown_type: Option<Arc<str>>,
    /// Listeners that it rejected, of a gRPC server.
    rejected: RejectedListeners,
    gauges: SessionCount,
}

impl Session {
    /// Creates the session of an admitted client.
    pub fn new(env: Arc<Env>, variant: Variant, client: impl Into<Arc<ClientNode>>, now: Mono) -> Self {
        let client: Arc<ClientNode> = client.into();
        let class = env.class(client.class.clone());
        let gauges = SessionCount::new(Arc::clone(&env.counters), client.class.kind);
        Self {
            gauges,
            env,
            variant,
            client,
            class,
            own_hosts: Vec::new(),
            kinds: TypeMap::default(),
            base: None,
            round: None,
            forced: Forced::Nothing,
            recorder: None,
            stale: ChangedHosts::Nothing,
            observed: ObservedSince::default(),
            round_observed: ObservedSince::default(),
            by_host: HostIndex::default(),
            earlier: None,
            listed: Vec::new(),
            withheld: BTreeSet::new(),
            claims_until: None,
            clusters_answered: false,
            interest_moved: true,
            in_flight: None,
            pace: Pace::new(now),
            unknown_type: None,
            rejected: RejectedListeners::default(),
        }
    }
    /// Records that a generation was published that may concern this session, in these hosts.
    pub fn on_generation(&mut self, touched: ChangedHosts) {
        self.stale.merge(touched);
    }
    /// Like [`Session::on_generation`], with the time when its changes were first known.
    pub fn on_generation_of(&mut self, touched: ChangedHosts, observed: ObservedSince) {
        self.on_generation(touched);
        self.observed.merge(observed);
    }
    /// Returns the next message for the transport, or `None` when the client has all of the current
    /// generation. Calls `current` at the start of a round.
    pub fn on_writable(&mut self, now: Mono, current: impl FnMut() -> Arc<Catalog>) -> Option<Outgoing> {
        self.in_flight = None;
        let out = self.next_message(now, current);
        self.in_flight = out.as_ref().map(|_| now);
        out
    }
    /// Records that the transport has taken the last message.
    pub const fn on_taken(&mut self) {
        self.in_flight = None;
    }
    /// Records that the transport takes a message that this session did not build.
    pub const fn on_sending(&mut self, now: Mono) {
        self.in_flight = Some(now);
    }
    /// Whether [`Session::on_writable`] may return a message.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.round.is_some()
            || self.stale != ChangedHosts::Nothing
            || self.kinds.values().any(TypeState::is_due)
            || self.has_overdue_removals()
    }
    /// Whether names or listeners wait until everything has been read, which must then wake this session.
    #[must_use]
    pub fn holds_names(&self) -> bool {
        self.class.withholds_inbound || self.kinds.values().any(|state| !state.held.is_empty())
    }
    /// Returns the changes that wake this session, once after each change of its subscriptions.
    pub fn take_interest(&mut self) -> Option<Interest> {
        std::mem::take(&mut self.interest_moved).then(|| self.interest())
    }
    /// Whether [`Session::take_interest`] returns a value.
    #[must_use]
    pub const fn interest_is_due(&self) -> bool {
        self.interest_moved
    }
    /// Returns the client's class, as of the last round.
    #[must_use]
    pub const fn class(&self) -> &ClientClassKey {
        &self.class
    }
    /// Returns the hosts of the services that select the client's workload, sorted, as of the last round.
    #[must_use]
    pub fn own_hosts(&self) -> &[Hostname] {
        &self.own_hosts
    }
    /// Returns the stream's variant.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        self.variant
    }
    /// Returns the client.
    #[must_use]
    pub const fn client(&self) -> &Arc<ClientNode> {
        &self.client
    }
    /// Whether the session holds a base and looks at every generation: wildcard or many names.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        let wildcard = |state: &TypeState| state.watch.as_ref().is_some_and(TypeSubscription::is_wildcard);
        self.kinds.values().any(wildcard) || self.names() > MAX_NAMED
    }
    /// Returns the number of subscribed names.
    #[must_use]
    pub fn names(&self) -> usize {
        self.kinds.values().map(TypeState::names).sum()
    }

    fn state(&mut self, kind: ResourceType) -> &mut TypeState {
        &mut self.kinds[kind]
    }
    fn watches(&self, kind: ResourceType) -> bool {
        self.kinds[kind].watch.is_some()
    }
    /// Records a changed subscription for the round and the interest index.
    fn subscribed(&mut self, kind: ResourceType, restarted: bool) -> Result<(), Refusal> {
        self.interest_moved = true;
        let TypeState { watch, acks, .. } = self.state(kind);
        if let Some(watch) = watch {
            acks.keep(|name| watch.wants(name));
        }
        self.update_gauges(kind);
        if restarted && let Some(round) = &mut self.round {
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
    /// Handles the client's acknowledgement or rejection of a response.
    fn take_ack(&mut self, kind: ResourceType, nonce: &str, error: Option<&ErrorDetail>, now: Mono) {
        let counters = Arc::clone(&self.env.counters);
        let before = self.kinds[kind].acks.rejections().clone();
        match error {
            Some(error) => {
                counters.nacks.inc();
                counters.pushes.refused(kind);
                counters.events.rejected(&self.client.id, kind, error.message.trim_end());
                self.pace.refused();
                let many = self.kinds[kind].acks.needs_names(nonce).then(|| self.sent_names(kind));
                self.state(kind).acks.refuse(nonce, error.message.trim_end(), many, now);
                self.trace_answer(kind, Some(&error.message));
                self.forget_gone(kind);
                // Escaped, because the client controls the text; its request pace bounds how often it is logged.
                tracing::warn!(
                    code = %Code::CLIENT_NACK,
                    client = %self.client.id.escape_debug(),
                    kind = kind.as_str(),
                    error = %error.message.escape_debug(),
                    "client rejected a response"
                );
            }
            None if !nonce.is_empty() && self.state(kind).acks.ack(nonce, now) => {
                counters.acks.inc();
                counters.events.note();
                self.trace_answer(kind, None);
                self.pace.taken();
            }
            None => {}
        }
        match kind {
            // Envoy reads the files of a secret once: it accepts a repeated one, though it could not read them
            ResourceType::Secret => self.state(kind).acks.restore(&before),
            ResourceType::Route | ResourceType::Endpoints => self.retry_suspects(kind, &before),
            ResourceType::Listener if error.is_some() => self.replace_rejected(),
            ResourceType::Cluster | ResourceType::Listener => {}
        }
        self.update_gauges(kind);
    }
    /// Sends again what a client rejected only because of another resource of the response. Clients take these types one by one,
    /// and Envoy does not name the culprit.
    fn retry_suspects(&mut self, kind: ResourceType, before: &Rejections) {
        let TypeState { watch, requested, acks, .. } = self.state(kind);
        let Some(watch) = watch else { return };
        let again = acks.rejections().suspects(before).filter(|name| watch.wants(name));
        again.for_each(|name| requested.add(name));
    }
    /// Forgets the rejections of routes that disappeared before the client answered: no response removes them.
    fn forget_gone(&mut self, kind: ResourceType) {
        if self.variant == Variant::Delta || kind != ResourceType::Route {
            return;
        }
        let moved = self.round.as_ref().filter(|round| round.has_moved(kind)).map(|round| &round.to);
        let at = moved.or(self.base.as_ref()).cloned();
        let env = Arc::clone(&self.env);
        let TypeState { known, acks, .. } = self.state(kind);
        acks.keep(|name| match (&*known, &at) {
            (Some(known), _) => known.get(name) != Holding::Absent,
            (None, Some(at)) => at.one(&env, kind, name).is_some(),
            (None, None) => true,
        });
    }
    /// Updates the gauges of a type after a change.
    fn update_gauges(&mut self, kind: ResourceType) {
        let state = &self.kinds[kind];
        let is_nacked = state.is_shown().then(|| state.acks.status() == SyncStatus::Error);
        self.gauges.set(kind, is_nacked);
    }
    /// Counts a request. Returns how long the next one must wait.
    fn paced(&mut self, now: Mono) -> Duration {
        self.env.counters.requests.inc();
        self.env.remembered.expire(now);
        // a request may change what the round in progress still sends
        self.recorder = None;
        let wait = self.pace.request(now);
        if !wait.is_zero() {
            self.env.counters.requests_delayed.inc();
        }
        wait
    }
    /// Records a type that is not served. It gets no response: an agent may request its own types.
    fn unknown(&mut self, type_url: &str) {
        self.env.counters.unknown_types.inc();
        self.unknown_type = Some(type_url.into());
    }
    fn interest(&mut self) -> Interest {
        self.by_host = HostIndex::default();
        if self.is_bulk() {
            return Interest::Every;
        }
        let mut hosts = BTreeSet::new();
        for (kind, state) in self.kinds.iter() {
            let names = state.watch.iter().flat_map(|watch| watch.names.iter());
            for (at, name) in names.enumerate() {
                // nothing but the client's class decides the listener of a gRPC server
                if kind == ResourceType::Listener && listens_at(name).is_some() {
                    continue;
                }
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
