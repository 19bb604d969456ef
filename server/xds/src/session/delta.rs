//! Requests of the delta variant (`xds.md` 2): subscriptions are differences, honoured whatever
//! response they ride on.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::Mono;
use tributary_proto::DeltaRequest;

use super::held_versions::HeldVersions;
use super::subscription::{Asked, TypeSubscription, Wildcard};
use super::{Refusal, Session};
use crate::answers::ResourceType;

const STAR: &str = "*";

impl Session {
    /// Takes a request; tells how long the next one must wait.
    pub fn on_delta(&mut self, request: &DeltaRequest, now: Mono) -> Result<Duration, Refusal> {
        let wait = self.paced(now);
        let Some(kind) = ResourceType::parse(request.type_url.as_str()) else {
            self.unknown(request.type_url.as_str());
            return Ok(wait);
        };
        let nonce = request.nonce.as_str();
        if !nonce.is_empty() && !self.kinds[kind as usize].acks.is_last(nonce) {
            self.env.counters.stale_nonces.inc();
        }
        self.answered(kind, nonce, request.error.as_ref(), now);
        if self.watches(kind) {
            self.change_delta(kind, request)?;
        } else {
            self.start_delta(kind, request)?;
        }
        Ok(wait)
    }
    /// The first request for a type: it may tell what the client holds from an earlier stream, and
    /// then only what differs is sent.
    fn start_delta(&mut self, kind: ResourceType, request: &DeltaRequest) -> Result<(), Refusal> {
        let watch = self.first_watch(kind, request);
        let claims: Vec<(&str, &str)> =
            request.initial.iter().filter(|(name, _)| watch.wants(name)).collect();
        let mut known = None;
        let mut asked = if watch.is_empty() { Asked::Nothing } else { Asked::Everything };
        if !claims.is_empty() {
            let names = self.env.intern(claims.iter().map(|&(name, _)| name));
            asked = Asked::Nothing;
            watch.names.names().iter().filter(|name| !names.contains(name)).for_each(|name| asked.add(name));
            known = Some(HeldVersions::claims(names, claims.into_iter()));
        }
        let owed = kind.has_wildcard() && !watch.is_empty();
        let state = self.state(kind);
        state.start(watch, asked);
        state.known = known;
        state.owed = owed;
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
        let gone: BTreeSet<&str> = unsubscribe.iter().chain(kind.has_wildcard().then_some(STAR)).collect();
        let names = subscribe.iter().chain(claimed).filter(|name| gone.is_empty() || !gone.contains(name));
        TypeSubscription { all, names: self.env.intern(names) }
    }
    fn change_delta(&mut self, kind: ResourceType, request: &DeltaRequest) -> Result<(), Refusal> {
        if request.subscribe.is_empty() && request.unsubscribe.is_empty() {
            return Ok(());
        }
        let Some(mut watch) = self.state(kind).watch.clone() else { return Ok(()) };
        let mut names: BTreeSet<Box<str>> = watch.names.names().iter().cloned().collect();
        for name in request.subscribe.iter() {
            self.subscribe(kind, &mut watch.all, &mut names, name);
        }
        for name in request.unsubscribe.iter() {
            self.unsubscribe(kind, &mut watch.all, &mut names, name);
        }
        watch.names = self.env.intern(names.iter().map(|name| &**name));
        self.state(kind).watch = Some(watch);
        self.subscribed(kind, false)
    }
    /// Subscribing again says "I have lost it", so it is always answered.
    fn subscribe(
        &mut self,
        kind: ResourceType,
        all: &mut Wildcard,
        names: &mut BTreeSet<Box<str>>,
        name: &str,
    ) {
        let state = self.state(kind);
        if name == STAR && kind.has_wildcard() {
            *all = Wildcard::Star;
            state.asked = Asked::Everything;
            state.owed = true;
            return;
        }
        if *all == Wildcard::Legacy {
            *all = Wildcard::No;
        }
        names.insert(name.into());
        state.asked.add(name);
    }
    /// A wildcard client that gives up a name must be told what the wildcard says of it.
    fn unsubscribe(
        &mut self,
        kind: ResourceType,
        all: &mut Wildcard,
        names: &mut BTreeSet<Box<str>>,
        name: &str,
    ) {
        let state = self.state(kind);
        if name == STAR && kind.has_wildcard() {
            *all = Wildcard::No;
            return;
        }
        if !names.remove(name) {
            return;
        }
        if *all == Wildcard::No {
            state.asked.forget(name);
            state.held.remove(name);
        } else {
            state.asked.add(name);
        }
    }
}
