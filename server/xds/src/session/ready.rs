//! Decides whether the next message of a session needs only what is already built.
//!
//! The transport calls [`Session::next_step`] on a runtime worker. A step that would encode, fold or compare many names is
//! [`Step::Work`] instead, which the transport performs with [`Session::on_writable`] on a blocking thread. The decision
//! may be [`Step::Work`] where there is little to do, but not the reverse.

use std::sync::Arc;

use tributary_model::{Catalog, ClientKind, Mono};
use tributary_proto::{Request, Variant};

use super::ack::SyncStatus;
use super::client_snapshot::ClientSnapshot;
use super::round::{ClassAndWorkloads, Round};
use super::sotw::list_hash;
use super::subscription::{Forced, Requested, TypeSubscription};
use super::{MAX_NAMED, Outgoing, Session, TypeState};
use crate::answers::{ResourceType, Subscription};
use crate::work::WorkKey;

/// Most names and resources that a runtime worker looks at for one type.
pub const FEW: usize = 64;

/// What a session does next.
#[derive(Debug)]
pub enum Step {
    /// It sends this message.
    Send(Outgoing),
    /// The client has all of the current generation.
    Idle,
    /// It needs [`Session::on_writable`] on a thread for heavy work.
    Work,
}

/// What a response of one type reads.
#[derive(Default)]
struct Needs<'a> {
    names: Vec<&'a str>,
    /// Generation to compare with.
    from: Option<&'a Arc<Catalog>>,
    /// Whether all subscribed resources are read.
    whole: bool,
}

impl Session {
    /// Returns what the next message is built from. Sessions with equal keys mostly need the same.
    pub(crate) fn work_key(&self, catalog: &Catalog) -> WorkKey {
        let to = self.round.as_ref().map_or(catalog.generation, |round| round.to.catalog.generation);
        let from = self.base.as_ref().map(|base| base.catalog.generation);
        WorkKey { class: self.class.address(), from, to }
    }
    /// Returns the next message for the transport, if it costs little.
    pub fn next_step(&mut self, now: Mono, catalog: &Arc<Catalog>) -> Step {
        if !self.has_work() {
            self.in_flight = None;
            return Step::Idle;
        }
        if !self.is_ready(catalog) {
            return Step::Work;
        }
        self.on_writable(now, || Arc::clone(catalog)).map_or(Step::Idle, Step::Send)
    }
    /// Returns the next message of the round in progress if it costs little. It may leave together with the message before it,
    /// which the transport has not taken yet.
    pub fn following_at_once(&mut self, now: Mono, catalog: &Arc<Catalog>) -> Option<Outgoing> {
        let is_ready = self.round.is_some() && self.is_ready(catalog);
        if is_ready { self.following(now, catalog) } else { None }
    }
    /// As [`Session::following_at_once`], at any cost.
    pub fn following(&mut self, now: Mono, catalog: &Arc<Catalog>) -> Option<Outgoing> {
        if self.round.is_none() || self.interest_moved {
            return None;
        }
        let since = self.in_flight;
        let out = self.on_writable(now, || Arc::clone(catalog));
        self.in_flight = since;
        out
    }
    /// Whether handling a small request costs little: it is an acknowledgement, or the session has few names.
    pub fn takes_at_once(&self, request: &Request) -> bool {
        let Some(kind) = ResourceType::parse(request.type_url()) else { return true };
        let state = &self.kinds[kind];
        self.names() <= MAX_NAMED
            || (state.acks.status() != SyncStatus::Error && is_plain_ack(state, request))
    }
    /// Begins a round if none is in progress and its beginning costs little.
    fn is_ready(&mut self, catalog: &Arc<Catalog>) -> bool {
        if self.round.is_none() {
            let seen = self.client.at(catalog);
            if !self.begins_at_once(&seen, catalog) {
                return false;
            }
            self.round = Some(self.begin_as(seen, Arc::clone(catalog)));
        }
        let Some(round) = &self.round else { return false };
        let keeps_base = self.base.is_none() || self.is_bulk();
        keeps_base && ResourceType::ALL.into_iter().all(|kind| self.has_all(round, kind))
    }
    /// Whether the private resources need not be built.
    fn begins_at_once(&self, (class, own): &ClassAndWorkloads, catalog: &Arc<Catalog>) -> bool {
        let has_same = |base: &Arc<ClientSnapshot>| base.has_same_private(class, own, catalog);
        self.class.kind != ClientKind::Sidecar || self.base.as_ref().is_some_and(has_same)
    }
    /// Whether everything for the response of a type is built.
    fn has_all(&self, round: &Round, kind: ResourceType) -> bool {
        let state = &self.kinds[kind];
        let Some(watch) = &state.watch else { return true };
        if kind == ResourceType::Cluster && self.earlier.is_some() {
            return false;
        }
        let is_forced = kind == ResourceType::Endpoints && !self.forced.is_nothing();
        if round.has_moved(kind) && !state.is_due() && !is_forced {
            return true;
        }
        let needs = self.needs(round, kind, state, watch);
        needs.is_some_and(|needs| self.are_built(&needs, &round.to, kind, watch))
    }
    /// Returns `None` if the response reads many names.
    fn needs<'a>(
        &'a self,
        round: &'a Round,
        kind: ResourceType,
        state: &'a TypeState,
        watch: &'a TypeSubscription,
    ) -> Option<Needs<'a>> {
        let mut needs = Needs::default();
        needs.add(state.held.keys().map(|name| &**name))?;
        if !round.has_moved(kind) {
            self.compared(round, kind, state, watch, &mut needs)?;
        }
        needs.requested(&state.requested, kind, state, watch, &round.to)?;
        if kind == ResourceType::Endpoints {
            match &self.forced {
                Forced::Nothing => {}
                Forced::Everything => {
                    needs.requested(&Requested::Everything, kind, state, watch, &round.to)?
                }
                Forced::Names(names) => needs.add(names.iter().map(|name| &**name))?,
            }
        }
        if self.variant == Variant::Sotw {
            needs.whole |= if kind.has_wildcard() {
                state.is_due()
            } else {
                state.known.is_none() && !self.has_sum(kind, &round.to)
            };
        }
        if watch.is_wildcard() {
            needs.add(watch.names.iter().map(|name| &**name))?;
        }
        Some(needs)
    }
    /// Adds what the difference between the client and the generation reads.
    fn compared<'a>(
        &'a self,
        round: &'a Round,
        kind: ResourceType,
        state: &'a TypeState,
        watch: &'a TypeSubscription,
        needs: &mut Needs<'a>,
    ) -> Option<()> {
        let listed = || watch.names.iter().map(|name| &**name);
        match (&state.known, &self.base) {
            (Some(known), _) => {
                let is_aligned = Arc::ptr_eq(known.names(), &watch.names) || watch.names.len() <= FEW;
                if watch.is_wildcard() || !is_aligned {
                    return None;
                }
                match self.touched_names(round, kind, known, watch) {
                    Some(names) => needs.add(names.into_iter()),
                    None => needs.add(listed()),
                }
            }
            _ if state.just_subscribed => Some(()),
            (None, Some(base)) if base.class == round.to.class => {
                needs.from = Some(&base.catalog);
                needs.add(base.private(kind).iter().map(|e| &*e.name))
            }
            (None, Some(_)) => None,
            (None, None) => needs.add(listed()),
        }
    }
    fn are_built(
        &self,
        needs: &Needs<'_>,
        to: &ClientSnapshot,
        kind: ResourceType,
        watch: &TypeSubscription,
    ) -> bool {
        let answers = &self.env.answers;
        let is_private = |name: &str| to.private(kind).iter().any(|e| *e.name == *name);
        let has = |name: &&str| is_private(name) || answers.has_one(&to.catalog, &to.class, kind, name);
        let mut whole = needs.whole;
        if let Some(from) = needs.from.filter(|from| !Arc::ptr_eq(from, &to.catalog)) {
            let Some(changed) = answers.built_changes(from, &to.catalog, &to.class, kind) else {
                return false;
            };
            if changed.upserted.len() > FEW || changed.upserted.iter().any(|e| e.body().is_none()) {
                return false;
            }
            whole |= self.variant == Variant::Sotw && kind.has_wildcard() && !changed.is_empty();
        }
        let listed = (!watch.is_wildcard()).then_some(&watch.names);
        needs.names.iter().all(has) && (!whole || self.has_whole(to, kind, listed))
    }
    /// Whether a response with all subscribed resources is built, and sent without copying.
    fn has_whole(&self, to: &ClientSnapshot, kind: ResourceType, listed: Option<&Arc<Subscription>>) -> bool {
        let set = self.env.answers.built_set(&to.catalog, &to.class, kind, listed, self.variant);
        set.is_some_and(|set| to.private(kind).iter().all(|e| set.get(&e.name).is_none()))
    }
}

/// Whether a request only acknowledges: it rejects nothing and keeps the subscription.
fn is_plain_ack(state: &TypeState, request: &Request) -> bool {
    let keeps = match request {
        Request::Sotw(request) => request.error.is_none() && state.listed == list_hash(request),
        Request::Delta(request) => {
            request.error.is_none() && request.subscribe.is_empty() && request.unsubscribe.is_empty()
        }
    };
    keeps && state.watch.is_some()
}

impl<'a> Needs<'a> {
    /// Adds names. Returns `None` if there are too many.
    fn add(&mut self, names: impl Iterator<Item = &'a str>) -> Option<()> {
        let left = FEW - self.names.len();
        self.names.extend(names.take(left + 1));
        (self.names.len() <= FEW).then_some(())
    }
    fn requested(
        &mut self,
        requested: &'a Requested,
        kind: ResourceType,
        state: &TypeState,
        watch: &'a TypeSubscription,
        to: &ClientSnapshot,
    ) -> Option<()> {
        match requested {
            Requested::Nothing => Some(()),
            Requested::Names(names) => self.add(names.iter().map(|name| &**name)),
            Requested::Everything => {
                let holds = state.may_hold(&to.catalog);
                let is_looked_up = kind != ResourceType::Endpoints || holds;
                self.whole |= kind != ResourceType::Endpoints || !holds;
                let names = watch.names.iter().map(|name| &**name);
                if is_looked_up { self.add(names) } else { Some(()) }
            }
        }
    }
}
