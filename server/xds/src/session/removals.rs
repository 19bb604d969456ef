//! Removals within a round: what is removed after everything else was sent.
//!
//! Rounds call it. Delta removes names. A state-of-the-world response removes what it does not list, so xDS clusters that
//! routes of the client may still lead to stay listed until the routes have moved, and one more response removes them.
//! An assignment is emptied after its xDS cluster was removed.
//!
//! A client that rejects its routes keeps those that it accepted before. What these may lead to is not removed (delta) until
//! the client accepts routes again, or has [`MAX_WITHHELD`] such xDS clusters. Whether a client that returned with xDS clusters
//! rejects its routes is known when it has answered them or claims all of their current versions, or is taken as no after [`WARMS`].

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{ClientKind, EncodedResource, Mono};
use tributary_proto::Variant;

use super::Session;
use super::changes::Changes;
use super::client_snapshot::ClientSnapshot;
use super::held_versions::Holding;
use super::message::{Outgoing, Payload};
use super::round::{Round, WARMS};
use crate::answers::{ResourceType, empty_assignment};

/// Most removed xDS clusters that a client keeps because it rejects its routes.
const MAX_WITHHELD: usize = 1_024;

impl Session {
    /// Whether the client uses routes that are older than those it was sent, because it rejects them.
    pub(super) fn rejects_routes(&self) -> bool {
        let kinds = [ResourceType::Listener, ResourceType::Route];
        kinds.into_iter().any(|kind| self.watches(kind) && self.kinds[kind].acks.nack().is_some())
    }
    /// Whether a client that returned with xDS clusters has yet to answer the listeners and routes of this stream: it may reject
    /// them, as it did on its earlier stream. A client requests them after its xDS clusters, and has nothing to answer if it claimed
    /// their current versions.
    pub(super) fn awaits_routes(&self) -> bool {
        let is_answered = |kind| {
            let state = &self.kinds[kind];
            !state.acks.is_open() && (state.acks.last().is_some() || !state.is_due())
        };
        let (listener, route) = (ResourceType::Listener, ResourceType::Route);
        let are_answered =
            self.watches(route) && is_answered(route) && (!self.watches(listener) || is_answered(listener));
        self.claims_until.is_some() && !are_answered
    }
    /// Starts to wait for routes, if the client returned with xDS clusters in this round and uses routes.
    fn await_routes(&mut self, now: Mono) {
        let claimed = self.kinds[ResourceType::Cluster].known.as_ref().is_some_and(|known| known.claimed);
        let kinds = [ResourceType::Listener, ResourceType::Route];
        let uses = self.class.kind == ClientKind::Sidecar || kinds.into_iter().any(|kind| self.watches(kind));
        if claimed && uses && self.claims_until.is_none() {
            self.claims_until = Some(now.plus(WARMS));
        }
    }
    /// Whether xDS clusters that were withheld from removal are to be removed now.
    pub(super) fn has_overdue_removals(&self) -> bool {
        !self.withheld.is_empty() && !self.rejects_routes() && !self.awaits_routes()
    }
    /// Returns the xDS clusters that were withheld from removal and that this generation still lacks. A client that has answered its
    /// routes is not waited for again, whatever it is sent later.
    pub(super) fn take_withheld(&mut self, to: &ClientSnapshot) -> BTreeSet<Arc<str>> {
        self.claims_until = self.claims_until.filter(|_| self.awaits_routes());
        let mut withheld = std::mem::take(&mut self.withheld);
        withheld.retain(|name| to.one(&self.env, ResourceType::Cluster, name).is_none());
        withheld
    }
    /// Withholds the removal of xDS clusters, and the end of their assignments, from a client that uses older routes.
    fn withhold(&mut self, round: &mut Round, names: &[Arc<str>], now: Mono) -> bool {
        if self.variant != Variant::Delta || names.len() > MAX_WITHHELD {
            return false;
        }
        self.await_routes(now);
        let is_withheld = self.rejects_routes() || self.awaits_routes();
        if is_withheld {
            self.withheld.extend(names.iter().cloned());
            round.emptied.retain(|name| !self.withheld.contains(name));
        }
        is_withheld
    }
    /// Defers removals to the end of the round: an assignment is emptied only after its xDS cluster.
    pub(super) fn defer_removals(
        &mut self,
        round: &mut Round,
        kind: ResourceType,
        due: bool,
        changes: &mut Changes,
    ) {
        if kind != ResourceType::Endpoints {
            match self.variant {
                Variant::Delta => round.removed[kind].extend(changes.removed.drain(..)),
                Variant::Sotw if !kind.has_wildcard() => {
                    self.lose(kind, std::mem::take(&mut changes.removed))
                }
                Variant::Sotw if kind == ResourceType::Cluster => self.keep_removed(round, due, changes),
                Variant::Sotw => {}
            }
            return;
        }
        let removed = std::mem::take(&mut changes.removed);
        if self.watches(ResourceType::Cluster) {
            round.emptied.extend(removed);
        } else {
            removed.iter().for_each(|name| changes.upsert(empty_assignment(name)));
        }
    }
    /// Defers the end of assignments whose xDS clusters the round has yet to remove, also if the client requests them meanwhile.
    /// `is_whole` is for a response with all assignments.
    pub(super) fn defer_assignments(round: &mut Round, is_whole: bool, changes: &mut Changes) {
        let removed = round.removed[ResourceType::Cluster].iter();
        let requested = removed.filter(|name| changes.upserted.remove(*name).is_some());
        let listed = round.kept.iter().filter(|_| is_whole).map(|kept| &kept.name);
        round.emptied.extend(requested.chain(listed).cloned());
    }
    /// Defers the removal of xDS clusters that routes of the client may still lead to. A response that is due anyway lists
    /// them once more, if the client has routes or listeners to receive.
    fn keep_removed(&self, round: &mut Round, due: bool, changes: &mut Changes) {
        if changes.upserted.is_empty() && !due {
            round.removed[ResourceType::Cluster].extend(changes.removed.drain(..));
        } else if !changes.removed.is_empty() && self.routes_move(round) {
            for gone in changes.removed.iter().filter_map(|name| self.held_cluster(name)) {
                if round.removed[ResourceType::Cluster].insert(Arc::clone(&gone.name)) {
                    round.kept.push(gone);
                }
            }
        }
    }
    /// Returns an xDS cluster that the client holds and the round's generation lacks.
    fn held_cluster(&self, name: &str) -> Option<Arc<EncodedResource>> {
        match &self.base {
            Some(base) => self.filled(base, name),
            None => self.listed.iter().find(|held| *held.name == *name && held.body().is_some()).cloned(),
        }
    }
    /// Keeps the xDS clusters of a response to a client that names them (SotW).
    pub(super) fn keep_listed(&mut self, kind: ResourceType, payload: &Payload) {
        if let (ResourceType::Cluster, Payload::Whole(whole)) = (kind, payload)
            && self.variant == Variant::Sotw
            && !self.is_bulk()
        {
            self.listed = whole.iter().cloned().collect();
        }
    }
    fn routes_move(&self, round: &Round) -> bool {
        let kinds = [ResourceType::Listener, ResourceType::Route];
        kinds.into_iter().any(|kind| !round.has_moved(kind) && !self.changes(round, kind).is_empty())
    }
    /// Returns an xDS cluster of an earlier generation with its bytes, which later generations cannot encode.
    pub(super) fn filled(&self, at: &ClientSnapshot, name: &str) -> Option<Arc<EncodedResource>> {
        let kind = ResourceType::Cluster;
        let found = at.one(&self.env, kind, name)?;
        if found.body().is_some() {
            return Some(found);
        }
        let body = at.body(&self.env, kind, &found)?.concat();
        Some(Arc::new(EncodedResource::joined(Arc::clone(&found.name), found.version, body.into())))
    }
    /// Records that resources are gone which no response can remove.
    fn lose(&mut self, kind: ResourceType, gone: Vec<Arc<str>>) {
        if gone.is_empty() {
            return;
        }
        let state = self.state(kind);
        if let Some(known) = &mut state.known {
            gone.iter().for_each(|name| known.set(name, Holding::Absent));
        }
        let gone: BTreeSet<Arc<str>> = gone.into_iter().collect();
        state.acks.keep(|name| !gone.contains(name));
        self.update_gauges(kind);
    }
    /// Removes names: by name, or in state of the world by a response with all others.
    pub(super) fn remove(&mut self, round: &mut Round, kind: ResourceType, now: Mono) -> Option<Outgoing> {
        let removed = std::mem::take(&mut round.removed[kind]);
        let watch = self.kinds[kind].watch.clone()?;
        let names: Vec<Arc<str>> = removed.into_iter().filter(|name| watch.wants(name)).collect();
        if names.is_empty() || (kind == ResourceType::Cluster && self.withhold(round, &names, now)) {
            return None;
        }
        round.kept.clear();
        let to = Arc::clone(&round.to);
        let payload = match self.variant {
            Variant::Delta => Payload::Removed(names),
            Variant::Sotw => Payload::Whole(self.whole(&to, kind, &watch)),
        };
        Some(self.emit(kind, &to, payload, (now, None)))
    }
    pub(super) fn empty(&mut self, round: &mut Round, now: Mono) -> Option<Outgoing> {
        let kind = ResourceType::Endpoints;
        let emptied = std::mem::take(&mut round.emptied);
        let watch = self.kinds[kind].watch.clone()?;
        let to = Arc::clone(&round.to);
        let names = emptied.iter().filter(|name| watch.wants(name));
        // a port may have endpoints and no xDS cluster
        let current =
            |name: &Arc<str>| to.one(&self.env, kind, name).unwrap_or_else(|| empty_assignment(name));
        let resources: Vec<_> = names.map(current).collect();
        (!resources.is_empty()).then(|| self.emit(kind, &to, Payload::Some(resources), (now, None)))
    }
}
