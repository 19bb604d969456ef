//! A round: one pass over all subscribed types from one generation, never moved to another.
//!
//! CDS, EDS, LDS and RDS in this order; then what is gone of LDS, RDS and CDS; then empty
//! assignments for names whose xDS cluster is gone. A request that arrives during a round is
//! answered from the round's generation. When nothing is left the round is the new base.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Catalog, Mono};

use super::changes::{self, Changes, known_at};
use super::client_snapshot::ClientSnapshot;
use super::env::Env;
use super::held_versions::{HeldVersions, Holding};
use super::message::{Outgoing, Payload};
use super::subscription::{Asked, Forced, TypeSubscription};
use super::{ChangedHosts, KindState, Session, Variant};
use crate::answers::{ResourceType, empty_assignment};

/// What is under way.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) to: Arc<ClientSnapshot>,
    moved: [bool; 4],
    gone: [BTreeSet<Arc<str>>; 4],
    emptied: BTreeSet<Arc<str>>,
    /// What woke it; other names of a picker are as they were.
    touched: ChangedHosts,
    sent: bool,
}

impl Round {
    /// The type was subscribed anew, or not at all any more.
    pub(crate) fn forget(&mut self, kind: ResourceType) {
        self.moved[kind as usize] = false;
        self.gone[kind as usize].clear();
        if kind == ResourceType::Endpoints {
            self.emptied.clear();
        }
    }
    pub(crate) const fn has_moved(&self, kind: ResourceType) -> bool {
        self.moved[kind as usize]
    }
    /// Names that the client still holds although the round's generation lacks them.
    pub(crate) fn untold(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<str>> {
        let emptied = (kind == ResourceType::Endpoints).then_some(&self.emptied);
        self.gone[kind as usize].iter().chain(emptied.into_iter().flatten())
    }
}

/// In which order types lose what is gone: whoever refers goes before what is referred to.
const REMOVALS: [ResourceType; 3] = [ResourceType::Listener, ResourceType::Route, ResourceType::Cluster];

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
            let out = self.step(&mut round, now);
            if out.is_some() {
                round.sent = true;
                self.round = Some(round);
                return out;
            }
            self.end(&round);
        }
        None
    }
    fn begin(&mut self, catalog: Arc<Catalog>) -> Round {
        let mut touched = std::mem::take(&mut self.stale);
        self.telling = std::mem::take(&mut self.observed);
        self.env.counters.rounds.inc();
        if touched != ChangedHosts::Nothing {
            self.env.counters.wakeups.inc();
        }
        let (class, own) = self.client.at(&catalog);
        if *self.class != class {
            self.class = self.env.class(class);
            self.interest_moved = true;
            touched = ChangedHosts::Everything;
        }
        let to = ClientSnapshot::after(self.base.as_deref(), &self.env, catalog, self.class.clone(), own);
        let to = Arc::new(to);
        Round {
            to,
            moved: [false; 4],
            gone: Default::default(),
            emptied: BTreeSet::new(),
            touched,
            sent: false,
        }
    }
    fn step(&mut self, round: &mut Round, now: Mono) -> Option<Outgoing> {
        for kind in ResourceType::ALL {
            if kind == ResourceType::Endpoints {
                self.force(round);
            }
            let due = self.kinds[kind as usize].is_due() || !round.has_moved(kind);
            if due
                && self.watches(kind)
                && let Some(out) = self.tell(round, kind, now)
            {
                return Some(out);
            }
        }
        REMOVALS.into_iter().find_map(|kind| self.remove(round, kind, now)).or_else(|| self.empty(round, now))
    }
    /// Assignments follow their xDS clusters, also when their own turn is over.
    fn force(&mut self, round: &Round) {
        if self.forced.is_nothing() || !self.watches(ResourceType::Endpoints) {
            return;
        }
        let fresh = !round.has_moved(ResourceType::Endpoints);
        let forced = self.forced.take();
        let counters = Arc::clone(&self.env.counters);
        let state = self.state(ResourceType::Endpoints);
        match forced {
            Forced::Nothing => {}
            Forced::Everything => {
                counters.endpoints_forced.add(if fresh { 0 } else { state.names() });
                state.asked = Asked::Everything;
            }
            Forced::Names(names) => {
                let wanted = state.watch.as_ref().map(|watch| Arc::clone(&watch.names));
                for name in names.iter().filter(|name| wanted.as_ref().is_some_and(|w| w.contains(name))) {
                    counters.endpoints_forced.inc();
                    state.asked.add(name);
                }
            }
        }
    }
    /// One type's turn: what differs, what was asked for, what is owed.
    fn tell(&mut self, round: &mut Round, kind: ResourceType, now: Mono) -> Option<Outgoing> {
        let to = Arc::clone(&round.to);
        let first = !std::mem::replace(&mut round.moved[kind as usize], true);
        self.align(kind);
        let mut changes = if first { self.changes(round, kind) } else { Changes::default() };
        let env = Arc::clone(&self.env);
        let state = self.state(kind);
        let (asked, owed) = (state.asked.take(), std::mem::take(&mut state.owed));
        changes::hold(&env, state, &to, kind, &mut changes);
        state.fresh = false;
        let whole = self.resolve(kind, &to, &asked, &mut changes);
        self.settle_gone(round, kind, &mut changes);
        if kind == ResourceType::Cluster {
            self.note_forced(&asked, &changes);
        }
        let payload = self.payload(kind, &to, whole, owed || !asked.is_nothing(), owed, changes)?;
        Some(self.emit(kind, &to, payload, now))
    }
    /// Knowledge by name is kept over the names that are subscribed now.
    fn align(&mut self, kind: ResourceType) {
        let picks = self.base.is_none() && !self.follows();
        let state = self.state(kind);
        let Some(watch) = state.watch.as_ref().filter(|watch| !watch.is_wildcard()) else { return };
        match &state.known {
            Some(known) if Arc::ptr_eq(known.names(), &watch.names) => {}
            Some(known) => state.known = Some(known.over(&watch.names)),
            None if picks => state.known = Some(HeldVersions::untold(Arc::clone(&watch.names))),
            None => {}
        }
    }
    fn changes(&self, round: &Round, kind: ResourceType) -> Changes {
        let to = &*round.to;
        let state = &self.kinds[kind as usize];
        let Some(watch) = &state.watch else { return Changes::default() };
        let untold = !state.known.as_ref().is_some_and(|known| known.claimed);
        if state.fresh && untold {
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
    /// The names that a picker has to look at; `None`: all of them.
    fn touched_names<'w>(
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
                Some(found.into_iter().filter_map(|at| Some(&**watch.names.names().get(at)?)).collect())
            }
        }
    }
    /// Adds what was asked for. True: all that is subscribed is to be sent.
    fn resolve(
        &mut self,
        kind: ResourceType,
        to: &ClientSnapshot,
        asked: &Asked,
        changes: &mut Changes,
    ) -> bool {
        let env = Arc::clone(&self.env);
        let state = self.state(kind);
        let Some(watch) = state.watch.clone() else { return false };
        let all = || watch.names.names().iter().map(|name| &**name);
        let holds = !to.catalog.complete && (state.reconnected || !state.held.is_empty());
        match asked {
            Asked::Nothing => {}
            Asked::Names(names) => {
                names.iter().for_each(|name| resolve_one(&env, state, kind, to, name, changes));
            }
            Asked::Everything if kind != ResourceType::Endpoints => {
                let missing = all().filter(|name| to.one(&env, kind, name).is_none());
                changes.gone.extend(missing.map(Arc::from));
                return true;
            }
            Asked::Everything if holds => {
                all().for_each(|name| resolve_one(&env, state, kind, to, name, changes));
            }
            Asked::Everything => return true,
        }
        false
    }
    /// What is gone is told last, and an assignment only after its xDS cluster.
    fn settle_gone(&mut self, round: &mut Round, kind: ResourceType, changes: &mut Changes) {
        if kind != ResourceType::Endpoints {
            if self.variant == Variant::Delta {
                round.gone[kind as usize].extend(changes.gone.drain(..));
            }
            return;
        }
        let gone = std::mem::take(&mut changes.gone);
        if self.watches(ResourceType::Cluster) {
            round.emptied.extend(gone);
        } else {
            gone.iter().for_each(|name| changes.upsert(empty_assignment(name)));
        }
    }
    /// An xDS cluster that is sent as changed or new waits for its assignment.
    fn note_forced(&mut self, asked: &Asked, changes: &Changes) {
        let first = !std::mem::replace(&mut self.clusters_answered, true);
        let all = match self.variant {
            Variant::Sotw => first,
            Variant::Delta => *asked == Asked::Everything,
        };
        if all {
            self.forced = Forced::Everything;
        } else {
            self.forced.add(changes.upserted.keys().cloned());
        }
    }
    fn payload(
        &self,
        kind: ResourceType,
        to: &ClientSnapshot,
        whole: bool,
        due: bool,
        owed: bool,
        changes: Changes,
    ) -> Option<Payload> {
        let watch = self.kinds[kind as usize].watch.as_ref()?;
        let full_state = self.variant == Variant::Sotw && kind.has_wildcard();
        if full_state && !due && changes.is_empty() {
            return None;
        }
        if full_state || whole {
            let all = if watch.is_wildcard() {
                to.all(&self.env, kind, &watch.names)
            } else {
                to.many(&self.env, kind, &watch.names)
            };
            return (owed || full_state || all.len() > 0).then_some(Payload::Whole(all));
        }
        let resources: Vec<_> = changes.upserted.into_values().collect();
        (owed || !resources.is_empty()).then_some(Payload::Some(resources))
    }
    fn remove(&mut self, round: &mut Round, kind: ResourceType, now: Mono) -> Option<Outgoing> {
        let gone = std::mem::take(&mut round.gone[kind as usize]);
        let watch = self.kinds[kind as usize].watch.clone()?;
        let names: Vec<Arc<str>> = gone.into_iter().filter(|name| watch.wants(name)).collect();
        let to = Arc::clone(&round.to);
        (!names.is_empty()).then(|| self.emit(kind, &to, Payload::Gone(names), now))
    }
    fn empty(&mut self, round: &mut Round, now: Mono) -> Option<Outgoing> {
        let kind = ResourceType::Endpoints;
        let emptied = std::mem::take(&mut round.emptied);
        let watch = self.kinds[kind as usize].watch.clone()?;
        let names = emptied.iter().filter(|name| watch.wants(name));
        let resources: Vec<_> = names.map(|name| empty_assignment(name)).collect();
        let to = Arc::clone(&round.to);
        (!resources.is_empty()).then(|| self.emit(kind, &to, Payload::Some(resources), now))
    }
    /// The round's generation is what the client has been told all of.
    fn end(&mut self, round: &Round) {
        if round.touched != ChangedHosts::Nothing && !round.sent {
            self.env.counters.wakeups_for_nothing.inc();
        }
        if self.follows() {
            self.base = Some(Arc::clone(&round.to));
            self.kinds.iter_mut().for_each(|state| state.known = None);
            return;
        }
        self.base = None;
        for kind in ResourceType::ALL {
            let state = &mut self.kinds[kind as usize];
            let Some(watch) = &state.watch else { continue };
            match &mut state.known {
                Some(known) => known.claimed = false,
                None => state.known = Some(known_at(&self.env, &round.to, kind, watch)),
            }
        }
    }
}

/// Adds one name that was asked for: as it is, as gone, or not at all while it is held.
fn resolve_one(
    env: &Env,
    state: &mut KindState,
    kind: ResourceType,
    to: &ClientSnapshot,
    name: &str,
    changes: &mut Changes,
) {
    let endpoints = kind == ResourceType::Endpoints;
    match to.one(env, kind, name) {
        Some(resource) => changes.upsert(resource),
        None if state.held.contains_key(name) => {}
        None if endpoints && state.reconnected && !to.catalog.complete => {
            state.held.insert(name.into(), Holding::Untold);
        }
        None if changes.gone.iter().any(|gone| **gone == *name) => {}
        None if endpoints => changes.upsert(empty_assignment(name)),
        None => changes.gone.push(name.into()),
    }
}
