//! Time limits of a session. A client that stops reading: after 30 s the session releases its base, so as not to pin a
//! generation; after [`Env::stuck`](super::Env::stuck) the stream ends. A client that does not acknowledge new xDS
//! clusters: the round goes on at [`Round::warms_until`](super::round::Round::warms_until).

use std::sync::Arc;
use std::time::Duration;

use tonic::Code as GrpcCode;
use tributary_model::{Code, Mono};

use super::changes::known_at;
use super::client_snapshot::ClientSnapshot;
use super::held_versions::{HeldVersions, Holding};
use super::round::Round;
use super::{ChangedHosts, Refusal, Session};
use crate::answers::ResourceType;

/// A write that takes longer makes the session release its base.
pub(crate) const SLOW: Duration = Duration::from_secs(30);
/// Default of [`Env::stuck`](super::Env::stuck).
pub(crate) const STUCK: Duration = Duration::from_secs(300);

impl Session {
    /// When [`Session::on_tick`] must be called next; [`Session::on_writable`] follows it.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        let Some(since) = self.in_flight else {
            let warms_until = self.round.as_ref().and_then(Round::warms_until);
            return warms_until.or_else(|| self.claims_until.filter(|_| !self.withheld.is_empty()));
        };
        let slow = self.base.is_some() || self.round.is_some();
        Some(since.plus(if slow { SLOW.min(self.env.stuck) } else { self.env.stuck }))
    }
    /// Applies the time limits of a write. Returns the status that ends the stream, if any.
    pub fn on_tick(&mut self, now: Mono) -> Result<(), Refusal> {
        if self.claims_until.is_some_and(|until| now >= until) {
            self.claims_until = None;
        }
        let Some(since) = self.in_flight else { return Ok(()) };
        if now.since(since) >= self.env.stuck {
            self.env.counters.streams_stuck.inc();
            let message = format!("the client has not read for {:?}; reconnect", self.env.stuck);
            return Err(Refusal::new(GrpcCode::Unavailable, Code::CLIENT_SLOW, message));
        }
        if now.since(since) >= SLOW {
            self.release_base();
        }
        Ok(())
    }
    /// Replaces base and round by hashes of what the client holds. A later round sends what is still
    /// due, from the generation of that time.
    fn release_base(&mut self) {
        if self.base.is_none() && self.round.is_none() {
            return;
        }
        self.env.counters.bases_dropped.inc();
        for kind in ResourceType::ALL {
            if let Some(known) = self.holdings(kind) {
                self.state(kind).known = Some(known);
            }
        }
        self.base = None;
        if self.round.take().is_some() {
            self.stale = ChangedHosts::Everything;
        }
    }
    fn holdings(&self, kind: ResourceType) -> Option<HeldVersions> {
        let state = &self.kinds[kind];
        let watch = state.watch.as_ref()?;
        let moved = self.round.as_ref().filter(|round| round.has_moved(kind));
        if let Some(round) = moved {
            let known = match &state.known {
                Some(known) if !known.claimed && !watch.is_wildcard() => known.clone(),
                _ => known_at(&self.env, &round.to, kind, watch),
            };
            return Some(known.with_foreign(&self.env, round.unsent(kind)));
        }
        match (&state.known, &self.base) {
            (None, Some(base)) if !state.just_subscribed => Some(self.known_of(base, kind)?),
            _ => None,
        }
    }
    fn known_of(&self, base: &Arc<ClientSnapshot>, kind: ResourceType) -> Option<HeldVersions> {
        let watch = self.kinds[kind].watch.as_ref()?;
        Some(known_at(&self.env, base, kind, watch))
    }
}

impl HeldVersions {
    /// Marks these names as held in a version that no generation has.
    fn with_foreign<'a>(mut self, env: &super::Env, foreign: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let foreign: Vec<&Arc<str>> = foreign.collect();
        if foreign.iter().any(|name| !self.names().contains(name)) {
            let held = self.iter().map(|(name, _)| name);
            let names = env.intern(held.chain(foreign.iter().map(|name| &***name)));
            self = self.over(&names);
        }
        foreign.iter().for_each(|name| self.set(name, Holding::FOREIGN));
        self
    }
}
