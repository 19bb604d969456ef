//! A round: one ordered push over all subscribed types from one generation
//! (docs/reference/xds.md#order-of-a-push).
//!
//! It sends CDS, EDS, LDS and RDS in this order, then removals of LDS, RDS and CDS (state of the world: of CDS only),
//! then empty assignments for names whose xDS cluster was removed. A request that arrives during a round is answered from the
//! round's generation. When nothing is left, the round's generation becomes the base.
//!
//! An xDS cluster that is new to the client has no endpoints until the client has requested them, which it does before it
//! acknowledges the xDS cluster. Until then the round waits with listeners, routes and removals, for [`WARMS`] at most.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Catalog, ClientKind, EncodedResource, Hostname, Mono, WorkloadKey};
use tributary_proto::Variant;

use super::changes::{self, Changes, known_at};
use super::client_snapshot::{ClientSnapshot, Whole};
use super::env::Env;
use super::held_versions::{HeldVersions, Holding};
use super::message::{Outgoing, Payload};
use super::subscription::{Forced, Requested, TypeSubscription};
use super::{ChangedHosts, Session, TypeState};
use crate::answers::{ClientClass, ResourceType, TypeMap, absent_cluster, empty_assignment};

/// Longest wait for the acknowledgement of new xDS clusters: a client that never sends one receives everything then. It is as long as
/// Envoy's own wait for the endpoints of an xDS cluster: one without CPU takes more than 5 s for some hundred.
pub(super) const WARMS: Duration = Duration::from_secs(15);

/// What a generation has of a client: its class, and the keys of its workloads.
pub(super) type ClassAndWorkloads = (ClientClass, Vec<WorkloadKey>);

/// A push in progress.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) to: Arc<ClientSnapshot>,
    pub(super) moved: TypeMap<bool>,
    pub(super) removed: TypeMap<BTreeSet<Arc<str>>>,
    pub(super) emptied: BTreeSet<Arc<str>>,
    /// Removed xDS clusters that state-of-the-world responses list until the routes have moved.
    pub(super) kept: Vec<Arc<EncodedResource>>,
    /// Hosts whose change started the round; other names of a session with few names are unchanged.
    touched: ChangedHosts,
    sent: bool,
    /// Time until which the round waits for the client to take new xDS clusters.
    warms_until: Option<Mono>,
}

impl Round {
    /// Forgets the type, because its subscription started again or ended.
    pub(crate) fn forget(&mut self, kind: ResourceType) {
        self.moved[kind] = false;
        self.removed[kind].clear();
        match kind {
            ResourceType::Endpoints => self.emptied.clear(),
            ResourceType::Cluster => self.kept.clear(),
            _ => {}
        }
    }
    /// Time until which the round waits for the client to take new xDS clusters.
    pub(crate) const fn warms_until(&self) -> Option<Mono> {
        self.warms_until
    }
    /// Records that the round has a response.
    pub(super) const fn note_sent(&mut self) {
        self.sent = true;
    }
    pub(crate) fn has_moved(&self, kind: ResourceType) -> bool {
        self.moved[kind]
    }
    /// Returns names that the client still holds although the round's generation lacks them.
    pub(crate) fn unsent(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<str>> {
        let emptied = (kind == ResourceType::Endpoints).then_some(&self.emptied);
        self.removed[kind].iter().chain(emptied.into_iter().flatten())
    }
}

impl Session {
    pub(super) fn next_message(
        &mut self,
        now: Mono,
        mut current: impl FnMut() -> Arc<Catalog>,
    ) -> Option<Outgoing> {
        while self.has_work() {
            let mut round = match self.round.take() {
                Some(round) => round,
                None => self.begin(current()),
            };
            match self.step(&mut round, now) {
                Next::Send(out) => {
                    round.note_sent();
                    self.round = Some(round);
                    return Some(out);
                }
                Next::Wait => {
                    self.round = Some(round);
                    return None;
                }
                Next::End => self.end(&round),
            }
        }
        None
    }
    pub(super) fn begin(&mut self, catalog: Arc<Catalog>) -> Round {
        let seen = self.client.at(&catalog);
        self.begin_as(seen, catalog)
    }
    /// As [`Session::begin`], with what the generation has of the client.
    pub(super) fn begin_as(&mut self, (class, own): ClassAndWorkloads, catalog: Arc<Catalog>) -> Round {
        let mut touched = std::mem::take(&mut self.stale);
        self.round_observed = std::mem::take(&mut self.observed);
        self.env.counters.rounds.inc();
        if touched != ChangedHosts::Nothing {
            self.env.counters.wakeups.inc();
        }
        if *self.class != class {
            self.class = self.env.class(class);
            self.interest_moved = true;
            touched = ChangedHosts::Everything;
        }
        let own_hosts = own_hosts(&catalog, &own);
        if own_hosts != self.own_hosts {
            self.own_hosts = own_hosts;
            self.interest_moved = true;
        }
        let (base, class, ips) = (self.base.as_deref(), self.class.clone(), &self.client.ips);
        let to = ClientSnapshot::after(base, &self.env, catalog, class, own, ips);
        let to = Arc::new(to.with_rejected(&self.rejected));
        self.recorder = self.recorder_of(&to);
        let withheld = self.take_withheld(&to);
        let mut removed: TypeMap<BTreeSet<Arc<str>>> = TypeMap::default();
        removed[ResourceType::Cluster].clone_from(&withheld);
        Round {
            to,
            moved: TypeMap::default(),
            removed,
            emptied: withheld,
            kept: Vec::new(),
            touched,
            sent: false,
            warms_until: None,
        }
    }
    fn step(&mut self, round: &mut Round, now: Mono) -> Next {
        for kind in ResourceType::ALL {
            // secrets are a part of what new xDS clusters wait for
            let leads = matches!(kind, ResourceType::Listener | ResourceType::Route);
            if leads && self.warms(round, now) {
                continue;
            }
            if kind == ResourceType::Endpoints {
                self.force(round);
            }
            let due = self.kinds[kind].is_due() || !round.has_moved(kind);
            if due
                && self.watches(kind)
                && let Some(out) = self.respond(round, kind, now)
            {
                return Next::Send(out);
            }
        }
        if round.warms_until.is_some() {
            return Next::Wait;
        }
        let last = ResourceType::removals()
            .find_map(|kind| self.remove(round, kind, now))
            .or_else(|| self.empty(round, now));
        last.map_or(Next::End, Next::Send)
    }
    /// Whether the client has yet to take the new xDS clusters of the round.
    fn warms(&self, round: &mut Round, now: Mono) -> bool {
        let is_open = self.kinds[ResourceType::Cluster].acks.is_open();
        let is_over = round.warms_until.is_some_and(|until| now >= until);
        if is_over && is_open {
            self.env.counters.warms_expired.inc();
        }
        if is_over || !is_open {
            round.warms_until = None;
        }
        round.warms_until.is_some()
    }
    /// Whether xDS clusters that are sent need endpoints that the client has not requested. The first response of a stream
    /// counts only if the client returns with clusters that are known, and traffic for them.
    fn warm_first(&self, changes: &Changes) -> bool {
        if !self.clusters_answered {
            return self.extends_claims(changes);
        }
        let endpoints = &self.kinds[ResourceType::Endpoints].watch;
        let Some(watch) = endpoints.as_ref() else { return false };
        let is_followed = self.watches(ResourceType::Route) || self.watches(ResourceType::Listener);
        let mut sent = changes.upserted.keys();
        is_followed && sent.any(|name| !watch.names.contains(name) && self.is_new_cluster(name))
    }
    /// Whether a client that names the xDS clusters it holds is sent others. In state of the world it names none, and its
    /// first response removes those that are gone, so that waiting with the routes would fail more requests.
    fn extends_claims(&self, changes: &Changes) -> bool {
        let known = self.kinds[ResourceType::Cluster].known.as_ref();
        let is_new = |known: &HeldVersions, name: &str| !matches!(known.get(name), Holding::Version(_));
        known.is_some_and(|known| known.claimed && changes.upserted.keys().any(|name| is_new(known, name)))
    }
    fn is_new_cluster(&self, name: &str) -> bool {
        match (&self.kinds[ResourceType::Cluster].known, &self.base) {
            (Some(known), _) => !matches!(known.get(name), Holding::Version(_)),
            (None, Some(base)) => base.one(&self.env, ResourceType::Cluster, name).is_none(),
            (None, None) => true,
        }
    }
    /// Requests assignments for the xDS clusters that were sent, also after the EDS step.
    fn force(&mut self, round: &Round) {
        if self.forced.is_nothing() || !self.watches(ResourceType::Endpoints) {
            return;
        }
        let not_yet_handled = !round.has_moved(ResourceType::Endpoints);
        let forced = self.forced.take();
        let counters = Arc::clone(&self.env.counters);
        let state = &mut self.kinds[ResourceType::Endpoints];
        match forced {
            Forced::Nothing => {}
            Forced::Everything => {
                counters.endpoints_forced.add(if not_yet_handled { 0 } else { state.names() });
                state.requested = Requested::Everything;
            }
            Forced::Names(names) => {
                let wanted = state.watch.as_ref().map(|watch| Arc::clone(&watch.names));
                for name in names.iter().filter(|name| wanted.as_ref().is_some_and(|w| w.contains(name))) {
                    counters.endpoints_forced.inc();
                    state.requested.add(name);
                    self.recorder.iter_mut().for_each(|recorder| recorder.forced += 1);
                }
            }
        }
    }
    /// Builds the response of one type: what changed, what was requested, and any reply that is due.
    fn respond(&mut self, round: &mut Round, kind: ResourceType, now: Mono) -> Option<Outgoing> {
        let to = Arc::clone(&round.to);
        let (began, first) = (self.traced_now(), !std::mem::replace(&mut round.moved[kind], true));
        self.align(kind);
        let mut changes = if first { self.changes(round, kind) } else { Changes::default() };
        let env = Arc::clone(&self.env);
        let state = self.state(kind);
        let (requested, must_reply) = (state.requested.take(), std::mem::take(&mut state.must_reply));
        changes::hold(&env, state, &to, kind, &mut changes);
        state.just_subscribed = false;
        let whole = self.resolve(kind, &to, &requested, &mut changes);
        let due = must_reply || !requested.is_nothing();
        self.defer_removals(round, kind, due, &mut changes);
        if kind == ResourceType::Endpoints {
            Self::defer_assignments(round, whole, &mut changes);
        }
        if kind == ResourceType::Cluster {
            if self.carry_over(round) || self.warm_first(&changes) {
                round.warms_until = Some(now.plus(WARMS));
                self.recorder = None;
            }
            self.note_forced(&requested, &changes);
        }
        let payload = self.payload(round, kind, whole, due, must_reply, changes)?;
        Some(self.emit(kind, &to, payload, (now, began)))
    }
    /// Maps held versions to the names that are subscribed now.
    fn align(&mut self, kind: ResourceType) {
        let is_named = self.base.is_none() && !self.is_bulk();
        let state = self.state(kind);
        let Some(watch) = state.watch.as_ref().filter(|watch| !watch.is_wildcard()) else { return };
        match &state.known {
            Some(known) if Arc::ptr_eq(known.names(), &watch.names) => {}
            Some(known) => state.known = Some(known.over(&watch.names)),
            None if is_named => state.known = Some(HeldVersions::none_sent(Arc::clone(&watch.names))),
            None => {}
        }
    }
    pub(super) fn changes(&self, round: &Round, kind: ResourceType) -> Changes {
        let to = &*round.to;
        let state = &self.kinds[kind];
        let Some(watch) = &state.watch else { return Changes::default() };
        let unclaimed = !state.known.as_ref().is_some_and(|known| known.claimed);
        if state.just_subscribed && unclaimed {
            return Changes::default();
        }
        match (&state.known, &self.base) {
            (Some(known), _) => match self.touched_names(round, kind, known, watch) {
                Some(names) => changes::of(&self.env, known, to, kind, names.into_iter()),
                None => changes::against(&self.env, known, to, kind, watch),
            },
            (None, Some(base)) if base.class == to.class => {
                changes::between(&self.env, base, to, kind, watch)
            }
            (None, Some(base)) => {
                let known = known_at(&self.env, base, kind, watch);
                changes::against(&self.env, &known, to, kind, watch)
            }
            (None, None) => Changes::default(),
        }
    }
    /// Returns the names of a session with few names to compare; `None` for all of them.
    pub(super) fn touched_names<'w>(
        &self,
        round: &Round,
        kind: ResourceType,
        known: &HeldVersions,
        watch: &'w TypeSubscription,
    ) -> Option<Vec<&'w str>> {
        if self.interest_moved || known.claimed || self.base.is_some() || watch.is_wildcard() {
            return None;
        }
        match &round.touched {
            ChangedHosts::Nothing => Some(Vec::new()),
            ChangedHosts::Everything => None,
            ChangedHosts::Hosts(hosts) => {
                let found = self.by_host.find(hosts, kind);
                Some(found.into_iter().filter_map(|at| Some(&**watch.names.nth(at)?)).collect())
            }
        }
    }
    /// Adds what was requested. Returns true if all subscribed resources must be sent.
    fn resolve(
        &mut self,
        kind: ResourceType,
        to: &ClientSnapshot,
        requested: &Requested,
        changes: &mut Changes,
    ) -> bool {
        let env = Arc::clone(&self.env);
        let waits = !to.catalog.complete && self.waits_for_missing(to, kind);
        let state = self.state(kind);
        let Some(watch) = state.watch.clone() else { return false };
        let all = || watch.names.iter().map(|name| &**name);
        let holds = state.may_hold(&to.catalog);
        match requested {
            Requested::Nothing => {}
            Requested::Names(names) => {
                names.iter().for_each(|name| resolve_one(&env, state, (kind, waits), to, name, changes));
            }
            Requested::Everything if kind != ResourceType::Endpoints => {
                let missing = all().filter(|name| to.one(&env, kind, name).is_none());
                for name in missing {
                    if waits {
                        state.held.entry(name.into()).or_insert(Holding::NotSent);
                    } else {
                        changes.removed.push(name.into());
                    }
                }
                return true;
            }
            Requested::Everything if holds => {
                state.hold_unread(&env, to, &watch.names);
                all().for_each(|name| resolve_one(&env, state, (kind, waits), to, name, changes));
            }
            Requested::Everything => return true,
        }
        false
    }
    /// Requires an assignment for each new or changed xDS cluster (docs/reference/xds.md#warming).
    fn note_forced(&mut self, requested: &Requested, changes: &Changes) {
        let first = !std::mem::replace(&mut self.clusters_answered, true);
        let all = match self.variant {
            Variant::Sotw => first,
            Variant::Delta => *requested == Requested::Everything,
        };
        if all {
            self.forced = Forced::Everything;
        } else {
            self.forced.add(changes.upserted.keys().cloned());
        }
    }
    fn payload(
        &self,
        round: &Round,
        kind: ResourceType,
        whole: bool,
        due: bool,
        must_reply: bool,
        changes: Changes,
    ) -> Option<Payload> {
        let watch = self.kinds[kind].watch.as_ref()?;
        let full_state = self.variant == Variant::Sotw && kind.has_wildcard();
        if full_state && !due && changes.is_empty() {
            return None;
        }
        if full_state || whole {
            let mut all = self.whole(&round.to, kind, watch);
            if kind == ResourceType::Cluster {
                all.absent.retain(|gone| round.kept.iter().all(|kept| kept.name != gone.name));
                all.over.extend(round.kept.iter().cloned());
            } else if kind == ResourceType::Endpoints && !round.kept.is_empty() {
                let is_kept = |name: &str| round.kept.iter().any(|kept| *kept.name == *name);
                return Some(Payload::Some(all.iter().filter(|e| !is_kept(&e.name)).cloned().collect()));
            }
            return (must_reply || full_state || all.len() > 0).then_some(Payload::Whole(all));
        }
        let resources: Vec<_> = changes.upserted.into_values().collect();
        (must_reply || !resources.is_empty()).then_some(Payload::Some(resources))
    }
    pub(super) fn whole(&self, to: &ClientSnapshot, kind: ResourceType, watch: &TypeSubscription) -> Whole {
        let mut whole = if watch.is_wildcard() {
            to.all(&self.env, kind, &watch.names)
        } else {
            to.many(&self.env, kind, &watch.names)
        };
        if self.answers_absent(to, kind) && to.catalog.complete {
            let missing = watch.names.iter().filter(|name| whole.get(name).is_none());
            whole.absent = missing.filter_map(|name| absent_cluster(name)).collect();
        }
        whole
    }
    /// Whether names that do not exist are answered as xDS clusters without endpoints; delta has removals for this.
    fn answers_absent(&self, to: &ClientSnapshot, kind: ResourceType) -> bool {
        let is_cluster = kind == ResourceType::Cluster && to.class.kind == ClientKind::Grpc;
        is_cluster && self.variant == Variant::Sotw
    }
    /// Whether a requested name that is missing has to wait until everything has been read.
    fn waits_for_missing(&self, to: &ClientSnapshot, kind: ResourceType) -> bool {
        let carried_over = kind == ResourceType::Endpoints && self.kinds[kind].reconnected;
        carried_over || self.answers_absent(to, kind)
    }
    /// Makes the round's generation the base: the client has received all of it.
    pub(super) fn end(&mut self, round: &Round) {
        self.keep_record(&round.to);
        if round.touched != ChangedHosts::Nothing && !round.sent {
            self.env.counters.wakeups_for_nothing.inc();
        }
        if self.is_bulk() {
            self.keep_sums(&round.to);
            self.base = Some(Arc::clone(&round.to));
            self.kinds.values_mut().for_each(|state| state.known = None);
            return;
        }
        self.base = None;
        for kind in ResourceType::ALL {
            let state = &mut self.kinds[kind];
            let Some(watch) = &state.watch else { continue };
            match &mut state.known {
                Some(known) => known.claimed = false,
                None => state.known = Some(known_at(&self.env, &round.to, kind, watch)),
            }
        }
    }
}

/// What a round does next.
enum Next {
    /// It sends this message.
    Send(Outgoing),
    /// It goes on when the client has answered, or its wait is over.
    Wait,
    /// The client has all of it.
    End,
}

/// Returns the hosts of the services that select these workloads, sorted.
fn own_hosts(catalog: &Catalog, own: &[WorkloadKey]) -> Vec<Hostname> {
    let views = own.iter().filter_map(|key| catalog.workloads.get(key));
    let mut hosts: Vec<Hostname> =
        views.flat_map(|view| view.services.iter().map(|service| service.host.clone())).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Adds one requested name: the resource, its removal, or nothing while the name is held. A missing name `waits` if the client
/// must not get it as absent before everything has been read.
fn resolve_one(
    env: &Env,
    state: &mut TypeState,
    (kind, waits): (ResourceType, bool),
    to: &ClientSnapshot,
    name: &str,
    changes: &mut Changes,
) {
    match to.one(env, kind, name) {
        _ if state.held.contains_key(name) => {}
        Some(resource) => changes.upsert(resource),
        None if waits => {
            state.held.insert(name.into(), Holding::NotSent);
        }
        None if changes.removed.iter().any(|removed| **removed == *name) => {}
        None if kind == ResourceType::Endpoints => changes.upsert(empty_assignment(name)),
        None => changes.removed.push(name.into()),
    }
}
