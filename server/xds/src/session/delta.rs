//! Handles requests of the delta variant (docs/reference/xds.md#delta). Every request may change the
//! subscription, whichever nonce it carries.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::Mono;
use tributary_proto::DeltaRequest;

use super::held_versions::HeldVersions;
use super::subscription::{Requested, TypeSubscription, Wildcard};
use super::{Refusal, Session};
use crate::answers::ResourceType;

const STAR: &str = "*";

impl Session {
    /// Handles a request. Returns how long the next one must wait.
    pub fn on_delta(&mut self, request: &DeltaRequest, now: Mono) -> Result<Duration, Refusal> {
        let wait = self.paced(now);
        let Some(kind) = ResourceType::parse(request.type_url.as_str()) else {
            self.unknown(request.type_url.as_str());
            return Ok(wait);
        };
        let nonce = request.nonce.as_str();
        if !nonce.is_empty() && !self.kinds[kind].acks.is_last(nonce) {
            self.env.counters.stale_nonces.inc();
        }
        self.take_ack(kind, nonce, request.error.as_ref(), now);
        if self.watches(kind) {
            self.change_delta(kind, request)?;
        } else {
            self.start_delta(kind, request)?;
        }
        Ok(wait)
    }
    /// Handles the first request for a type. It may list what the client holds from an earlier stream;
    /// then only the difference is sent.
    fn start_delta(&mut self, kind: ResourceType, request: &DeltaRequest) -> Result<(), Refusal> {
        let watch = self.first_watch(kind, request);
        let claims: Vec<(&str, &str)> =
            request.initial.iter().filter(|(name, _)| watch.wants(name)).collect();
        let mut known = None;
        let mut requested = if watch.is_empty() { Requested::Nothing } else { Requested::Everything };
        if !claims.is_empty() {
            let names = self.env.intern(claims.iter().map(|&(name, _)| name));
            requested = Requested::Nothing;
            watch.names.iter().filter(|name| !names.contains(name)).for_each(|name| requested.add(name));
            known = Some(HeldVersions::claims(names, claims.into_iter()));
        }
        let must_reply = kind.has_wildcard() && !watch.is_empty();
        let state = self.state(kind);
        state.start(watch, requested);
        if known.is_some() {
            state.acks.resume();
        }
        state.known = known;
        state.must_reply = must_reply;
        self.subscribed(kind, true)
    }
    fn first_watch(&self, kind: ResourceType, request: &DeltaRequest) -> TypeSubscription {
        let (subscribe, unsubscribe) = (&request.subscribe, &request.unsubscribe);
        let mut all = Wildcard::No;
        if kind.has_wildcard() {
            let star = subscribe.iter().any(|name| name == STAR);
            if star && !unsubscribe.iter().any(|name| name == STAR) {
                all = Wildcard::Star;
            } else if subscribe.is_empty() {
                all = Wildcard::Legacy;
            }
        }
        let claimed = request.initial.iter().map(|(name, _)| name).filter(|_| all == Wildcard::No);
        let excluded: BTreeSet<&str> =
            unsubscribe.iter().chain(kind.has_wildcard().then_some(STAR)).collect();
        let names =
            subscribe.iter().chain(claimed).filter(|name| excluded.is_empty() || !excluded.contains(name));
        TypeSubscription { all, names: self.env.intern(names) }
    }
    fn change_delta(&mut self, kind: ResourceType, request: &DeltaRequest) -> Result<(), Refusal> {
        if request.subscribe.is_empty() && request.unsubscribe.is_empty() {
            return Ok(());
        }
        let Some(mut watch) = self.state(kind).watch.clone() else { return Ok(()) };
        for name in request.subscribe.iter() {
            self.subscribe(kind, &mut watch.all, name);
        }
        let added: BTreeSet<&str> = request.subscribe.iter().collect();
        for name in request.unsubscribe.iter() {
            let is_listed = watch.names.contains(name) || added.contains(name);
            self.unsubscribe(kind, &mut watch.all, is_listed, name);
        }
        let is_name = |name: &&str| *name != STAR || !kind.has_wildcard();
        let (add, remove) = (request.subscribe.iter(), request.unsubscribe.iter());
        let names = &self.env.subscriptions;
        watch.names = names.changed(&watch.names, add.filter(is_name), remove.filter(is_name));
        self.state(kind).watch = Some(watch);
        self.subscribed(kind, false)
    }
    /// Subscribing again means that the client dropped the resource, so it always gets a response.
    fn subscribe(&mut self, kind: ResourceType, all: &mut Wildcard, name: &str) {
        let state = self.state(kind);
        if name == STAR && kind.has_wildcard() {
            *all = Wildcard::Star;
            state.requested = Requested::Everything;
            state.must_reply = true;
            return;
        }
        if *all == Wildcard::Legacy {
            *all = Wildcard::No;
        }
        if kind == ResourceType::Secret {
            // its files are read again
            state.acks.keep(|own| own != name);
        }
        state.requested.add(name);
    }
    /// A wildcard client that unsubscribes from a name still gets the name's wildcard resource.
    fn unsubscribe(&mut self, kind: ResourceType, all: &mut Wildcard, is_listed: bool, name: &str) {
        let state = self.state(kind);
        if name == STAR && kind.has_wildcard() {
            *all = Wildcard::No;
            return;
        }
        if !is_listed {
            return;
        }
        if *all == Wildcard::No {
            state.requested.forget(name);
            state.held.remove(name);
        } else {
            state.requested.add(name);
        }
    }
}
