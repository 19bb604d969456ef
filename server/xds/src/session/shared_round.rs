//! Rounds that sessions of a class send alike: the first records its responses, the others repeat them.
//!
//! What a small change costs a server with thousands of streams is the work per stream: comparing, looking names up,
//! assembling responses. Sessions of one class with the same subscriptions, the same base and nothing that is due to
//! them alone need the same responses but for the nonce. [`Session::repeat_round`] sends them from a copy; whenever it
//! returns `None`, the session goes through its round itself, with the same result.
//!
//! [`SharedRounds`](super::SharedRounds) keeps those of the last few pairs of generations.

use std::sync::Arc;

use bytes::BytesMut;
use smallvec::SmallVec;
use tributary_model::{Catalog, Mono};
use tributary_proto::rope::BY_REFERENCE;
use tributary_proto::{ResponseHead, Rope, Template, Variant};

use super::ack::Sent;
use super::client_snapshot::ClientSnapshot;
use super::message::Payload;
use super::recorded_rounds::{Kept, Recorded, Recorder, RoundKey};
use super::rejection::Carried;
use super::{ChangedHosts, Nonce, Session, TypeState};
use crate::answers::{ResourceType, TypeMap};

/// Responses of a repeated round, which leave in one write.
#[derive(Debug)]
pub struct RepeatedRound {
    /// Their types, in order.
    pub kinds: SmallVec<[ResourceType; 4]>,
    /// Their gRPC frames.
    pub rope: Rope,
}

impl Session {
    /// Returns the responses of the next round, if another session has sent the same ones.
    pub fn repeat_round(&mut self, now: Mono, catalog: &Arc<Catalog>) -> Option<RepeatedRound> {
        let is_due = self.round.is_none() && self.stale != ChangedHosts::Nothing;
        let base = self.base.as_ref().filter(|_| is_due && self.is_plain())?;
        let found = self.env.rounds.find(&base.catalog, catalog, &self.round_key())?;
        let seen = self.client.at(catalog);
        if !base.has_same_private(&seen.0, &seen.1, catalog) || !is_shared(&found, base) {
            return None;
        }
        let mut round = self.begin_as(seen, Arc::clone(catalog));
        self.recorder = None;
        if self.interest_moved {
            self.round = Some(round);
            return None;
        }
        let out = self.repeat(&found, round.to.catalog.generation, now);
        round.note_sent();
        self.end(&round);
        self.in_flight = Some(now);
        Some(out)
    }
    fn repeat(&mut self, recorded: &Recorder, generation: u64, now: Mono) -> RepeatedRound {
        let env = Arc::clone(&self.env);
        env.counters.rounds_repeated.inc();
        env.counters.endpoints_forced.add(recorded.forced);
        let nonces: SmallVec<[Nonce; 4]> = recorded.responses.iter().map(|_| env.nonce()).collect();
        let mut out = BytesMut::with_capacity(recorded.bytes);
        for (response, nonce) in recorded.responses.iter().zip(nonces) {
            let (kind, before) = (response.kind, out.len());
            response.template.write(&nonce.to_string(), &mut out);
            self.count(kind, &response.carried, out.len() - before);
            env.counters.pushes.converged(kind, self.round_observed, now);
            let sent = Sent { nonce, version: Arc::clone(&response.version), generation, at: now };
            self.trace_sent(kind, (&sent, &response.carried), out.len() - before, None);
            self.state(kind).acks.sent(sent, response.carried.clone());
            self.update_gauges(kind);
        }
        let kinds = recorded.responses.iter().map(|response| response.kind).collect();
        RepeatedRound { kinds, rope: Rope::of_chunk(out.freeze()) }
    }
    /// Whether nothing is due to this session alone, so that its next round follows from its base and its subscriptions.
    fn is_plain(&self) -> bool {
        let is_plain = |state: &TypeState| {
            state.known.is_none()
                && state.held.is_empty()
                && state.sum.is_none()
                && !state.reconnected
                && !state.is_due()
        };
        self.variant == Variant::Delta
            && self.clusters_answered
            && self.forced.is_nothing()
            && !self.interest_moved
            && self.withheld.is_empty()
            && self.rejected.is_empty()
            && !self.rejects_routes()
            && !self.awaits_routes()
            && self.kinds.values().all(is_plain)
            && self.is_bulk()
    }
    fn round_key(&self) -> RoundKey {
        let watch = |kind| {
            let watch = self.kinds[kind].watch.as_ref()?;
            Some((watch.is_wildcard(), Arc::as_ptr(&watch.names) as usize))
        };
        RoundKey { class: self.class.address(), watches: TypeMap::from_fn(watch) }
    }
    /// Returns the recorder of a round that begins, if others may repeat it.
    pub(super) fn recorder_of(&self, to: &ClientSnapshot) -> Option<Recorder> {
        let base = self.base.as_ref().filter(|_| self.is_plain())?;
        let is_change = !Arc::ptr_eq(&base.catalog, &to.catalog) && base.has_private_of(to);
        is_change.then(Recorder::default)
    }
    /// Records a response of the round in progress; what others cannot repeat ends the recording.
    pub(super) fn record(
        &mut self,
        kind: ResourceType,
        to: &ClientSnapshot,
        payload: &Payload,
        (sent, rope): (&Sent, &Rope),
        carried: &Carried,
    ) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let nonce = sent.nonce.to_string();
        let head = ResponseHead { version: &sent.version, type_url: kind.type_url(), nonce: &nonce };
        let is_whole = matches!(payload, Payload::Whole(_));
        let is_own = carried.names().iter().any(|name| to.is_private(kind, name));
        let Some(template) = Template::of(rope, &head).filter(|_| !is_whole && !is_own) else { return };
        recorder.bytes += rope.len();
        let (version, carried) = (Arc::clone(&sent.version), carried.clone());
        recorder.responses.push(Recorded { kind, version, carried, template });
        self.recorder = Some(recorder).filter(|recorder| recorder.bytes < BY_REFERENCE);
    }
    /// Keeps the responses of the round that ends, for the other sessions of the class.
    pub(super) fn keep_record(&mut self, to: &ClientSnapshot) {
        let Some(recorder) = self.recorder.take().filter(|recorder| !recorder.responses.is_empty()) else {
            return;
        };
        let Some(base) = self.base.as_ref().filter(|_| self.is_plain()) else { return };
        let names =
            self.kinds.values().filter_map(|state| Some(Arc::downgrade(&state.watch.as_ref()?.names)));
        let kept = Kept { _class: self.class.user().1, _names: names.collect(), round: Arc::new(recorder) };
        self.env.rounds.keep(&base.catalog, &to.catalog, self.round_key(), kept);
    }
}

/// Whether none of the resources is one of the client's own.
fn is_shared(recorder: &Recorder, client: &ClientSnapshot) -> bool {
    let is_own = |response: &Recorded| {
        response.carried.names().iter().any(|name| client.is_private(response.kind, name))
    };
    !recorder.responses.iter().any(is_own)
}
