//! What state-of-the-world clients held when their streams ended, for a stream that follows soon.
//!
//! A client of this variant does not name what it holds when it reconnects, and its first CDS response removes what it does
//! not list. If policies were added and removed meanwhile, routes of the client would lead to xDS clusters that are gone
//! until it has the new routes. [`Session::on_end`] remembers the generation that the client had; a stream of the same node
//! whose first CDS request has the version of that generation lists the removed xDS clusters once more, and removes them
//! after the routes, as a round within a stream does.
//!
//! A remembered generation stays in memory, so the table is bounded in entries and in time. Another server, or this one after a
//! restart, remembers nothing.

use std::sync::Arc;

use tributary_model::Mono;
use tributary_proto::Variant;

use super::Session;
use super::ack::SyncStatus;
use super::remembered_clients::Held;
use super::round::Round;
use crate::answers::ResourceType;

impl Session {
    /// Remembers what the client holds, at the end of its stream.
    pub fn on_end(&mut self, now: Mono) {
        let is_all = |kind| self.kinds[kind].watch.as_ref().is_some_and(|watch| watch.is_wildcard());
        if self.variant == Variant::Sotw && is_all(ResourceType::Cluster) {
            let held = self.held_at_end();
            if !held.is_empty() {
                self.env.remembered.keep(&self.client.id, held, now);
            }
        }
    }
    fn held_at_end(&self) -> Held {
        let acks = &self.kinds[ResourceType::Cluster].acks;
        let moved = self.round.as_ref().filter(|round| round.has_moved(ResourceType::Cluster));
        let last = moved.map(|round| &round.to).or(self.base.as_ref());
        let mut held = Held::new();
        held.extend(acks.last().zip(last).map(|(sent, at)| (Arc::clone(&sent.version), Arc::clone(at))));
        if acks.status() != SyncStatus::Synced && moved.is_some() {
            let acked = acks.acked().zip(self.base.as_ref());
            held.extend(acked.map(|((sent, _), base)| (Arc::clone(&sent.version), Arc::clone(base))));
        }
        held
    }
    /// Looks for what the client held, at its first CDS request.
    pub(super) fn remember(&mut self, version: &str, now: Mono) {
        self.earlier = self.env.remembered.take(&self.client.id, version, now);
    }
    /// Lists xDS clusters that the client holds from its earlier stream until its routes have moved. Returns whether the client
    /// holds others than those of the round.
    pub(super) fn carry_over(&mut self, round: &mut Round) -> bool {
        let kind = ResourceType::Cluster;
        // a class that changed may not see what the earlier one saw
        let Some(earlier) = self.earlier.take().filter(|earlier| earlier.class == round.to.class) else {
            return false;
        };
        let Some(watch) = self.kinds[kind].watch.as_ref().filter(|watch| watch.is_wildcard()) else {
            return false;
        };
        let old = earlier.all(&self.env, kind, &watch.names);
        let new = round.to.all(&self.env, kind, &watch.names);
        let gone = old.iter().filter(|held| new.get(&held.name).is_none());
        for gone in gone.filter_map(|held| self.filled(&earlier, &held.name)) {
            if round.removed[kind].insert(Arc::clone(&gone.name)) {
                round.kept.push(gone);
            }
        }
        if !round.kept.is_empty() {
            self.env.counters.carried_over.inc();
        }
        !round.kept.is_empty() || new.iter().any(|sent| old.get(&sent.name).is_none())
    }
}
