//! Builds responses: an own head for each stream, then bytes that streams with equal sets share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tributary_model::{EncodedResource, Mono};
use tributary_proto::{Body, Record, ResponseHead, Rope, RopeBuilder, Variant};

use super::ack::Sent;
use super::client_snapshot::{ClientSnapshot, Whole};
use super::held_versions::Holding;
use super::rejection::{Carried, sorted};
use super::{Nonce, Session, TypeState};
use crate::answers::ResourceType;
use crate::answers::chunks::record;

/// A response for the transport.
#[derive(Debug)]
pub struct Outgoing {
    /// Resource type.
    pub kind: ResourceType,
    /// Nonce that the client's answer repeats.
    pub nonce: Nonce,
    /// gRPC frame.
    pub rope: Rope,
}

/// Content of a response.
#[derive(Debug)]
pub(crate) enum Payload {
    /// All subscribed resources.
    Whole(Whole),
    /// These resources.
    Some(Vec<Arc<EncodedResource>>),
    /// Removed names.
    Removed(Vec<Arc<str>>),
}

impl Payload {
    /// Most names of a whole set that are recorded before the client rejects it.
    const FEW: usize = 64;

    /// Returns what the response carries, by name.
    fn carried(&self) -> Carried {
        match self {
            Self::Whole(whole) => {
                let is_small = whole.len() <= Self::FEW;
                Carried::Whole(is_small.then(|| sorted(whole.iter().map(|e| Arc::clone(&e.name)))))
            }
            Self::Some(resources) => {
                Carried::Resources(sorted(resources.iter().map(|e| Arc::clone(&e.name))))
            }
            Self::Removed(names) => Carried::Removals(sorted(names.iter().cloned())),
        }
    }
    fn removed(&self) -> &[Arc<str>] {
        if let Self::Removed(names) = self { names } else { &[] }
    }
}

impl Session {
    pub(super) fn emit(
        &mut self,
        kind: ResourceType,
        to: &ClientSnapshot,
        payload: Payload,
        (now, began): (Mono, Option<Duration>),
    ) -> Outgoing {
        let nonce = self.env.nonce();
        self.record_sent(kind, &payload);
        self.keep_listed(kind, &payload);
        let version: Arc<str> = self.version(kind, to, &payload).into();
        let rope = self.frame(kind, to, &payload, &version, nonce);
        let carried = payload.carried();
        self.count(kind, &carried, rope.len());
        self.env.counters.pushes.converged(kind, self.round_observed, now);
        let sent = Sent { nonce, version, generation: to.catalog.generation, at: now };
        self.record(kind, to, &payload, (&sent, &rope), &carried);
        self.trace_sent(kind, (&sent, &carried), rope.len(), began);
        self.state(kind).acks.sent(sent, carried);
        self.update_gauges(kind);
        Outgoing { kind, nonce, rope }
    }
    /// State of the world: a hash over all subscribed resources, equal on every replica. Delta versions
    /// each resource; the version of the response is informational.
    fn version(&mut self, kind: ResourceType, to: &ClientSnapshot, payload: &Payload) -> String {
        match (self.variant, payload) {
            (Variant::Delta, _) => to.catalog.generation.to_string(),
            (Variant::Sotw, Payload::Whole(whole)) if kind.has_wildcard() => whole.version().to_string(),
            (Variant::Sotw, _) => match &self.kinds[kind] {
                TypeState { known: Some(known), .. } => known.version().to_string(),
                _ => self.version_of_all(kind, to).map(|version| version.to_string()).unwrap_or_default(),
            },
        }
    }
    fn frame(
        &self,
        kind: ResourceType,
        to: &ClientSnapshot,
        payload: &Payload,
        version: &str,
        nonce: Nonce,
    ) -> Rope {
        let (type_url, nonce) = (kind.type_url(), nonce.to_string());
        let nonce = nonce.as_str();
        let removed = payload.removed().iter().map(|name| &**name);
        let head = ResponseHead { version, type_url, nonce }.encode(removed);
        let (shared, own) = self.bodies(kind, to, payload);
        Rope::framed(&head, &[shared.chunks(), own.chunks()])
    }
    /// Returns the chunks shared with other streams, and the chunks of this session.
    fn bodies(&self, kind: ResourceType, to: &ClientSnapshot, payload: &Payload) -> (Body, Body) {
        match payload {
            Payload::Removed(_) => (Body::default(), Body::default()),
            Payload::Some(resources) => (Body::default(), self.records(kind, to, resources.iter())),
            Payload::Whole(whole) if whole.is_disjoint() => {
                let answers = &self.env.answers;
                let rope = answers.rope(&to.catalog, &to.class, kind, &whole.set, self.variant);
                (rope, self.records(kind, to, whole.over.iter().chain(&whole.absent)))
            }
            Payload::Whole(whole) => {
                (Body::default(), self.records(kind, to, whole.iter().chain(&whole.absent)))
            }
        }
    }
    fn records<'a>(
        &self,
        kind: ResourceType,
        to: &ClientSnapshot,
        all: impl Iterator<Item = &'a Arc<EncodedResource>>,
    ) -> Body {
        let mut out = RopeBuilder::default();
        for resource in all {
            let Some(body) = to.body(&self.env, kind, resource) else {
                tracing::error!(name = %resource.name, "resource omitted: its body cannot be encoded again");
                continue;
            };
            let version = resource.version.to_string();
            let len = body.iter().map(Bytes::len).sum();
            let record = Record { len, ..record(kind, resource, &version) };
            record.push(self.variant, &body, &mut out);
        }
        out.finish()
    }
    /// Records what a response carries, by name, if the session tracks held versions.
    fn record_sent(&mut self, kind: ResourceType, payload: &Payload) {
        let full_state = self.variant == Variant::Sotw && kind != ResourceType::Endpoints;
        let Some(known) = &mut self.state(kind).known else { return };
        match payload {
            Payload::Whole(whole) => {
                if full_state {
                    known.all_absent();
                }
                whole.iter().for_each(|e| known.set(&e.name, Holding::Version(e.version)));
            }
            Payload::Some(resources) => {
                resources.iter().for_each(|e| known.set(&e.name, Holding::Version(e.version)));
            }
            Payload::Removed(names) => names.iter().for_each(|name| known.set(name, Holding::Absent)),
        }
    }
    pub(super) fn count(&self, kind: ResourceType, carried: &Carried, bytes: usize) {
        let counters = &self.env.counters;
        counters.pushes.built(kind, bytes);
        counters.sends.inc();
        counters.events.note();
        counters.bytes_sent.add(bytes);
        match carried {
            Carried::Whole(_) => counters.sets_sent.inc(),
            Carried::Resources(names) => counters.resources_sent.add(names.len()),
            Carried::Removals(names) => counters.removals_sent.add(names.len()),
        }
    }
}
