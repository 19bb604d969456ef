//! Outages of each shard's source, and the federated services that use standby members because of them.
//!
//! The build reports the freshness of registries, apply the time that each federated service allows. Returns which
//! of those services must be built again, and when time alone requires it. A loss and a recovery both count only after
//! the allowed time: a short outage changes nothing, and neither does a short recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{CollectionKind, Freshness, Mono, Scope, ServiceKey};

use super::State;
use crate::ledger::{Ledger, Registries, Scoped};
use crate::state::shards::ShardId;

/// Shards with a known reachability, and the times that federated services allow.
#[derive(Debug, Default)]
pub(crate) struct OutageTimers {
    reach: BTreeMap<ShardId, Reach>,
    /// Federated services by allowed time.
    allowed: BTreeMap<Duration, BTreeSet<ServiceKey>>,
    /// Shards whose outage lasted longer than the time, until they have been followed for as long.
    over: BTreeSet<(Duration, ShardId)>,
    /// Time at which time alone changes something.
    due: Option<Mono>,
    touched: bool,
}

/// Whether a shard's source is followed, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    followed: bool,
    since: Mono,
}

/// Returns the reachability of each scope of a run that has endpoints.
fn reach_of_scopes(run: &Ledger, now: Mono) -> BTreeMap<&Scope, Reach> {
    run.scopes.iter().filter_map(|(scope, scoped)| Some((scope, reach(scoped, now)?))).collect()
}

/// Returns whether all collections with endpoints are followed, and since when the first of them is not; `None` if all
/// of them are unknown.
fn reach(scoped: &Scoped, now: Mono) -> Option<Reach> {
    use CollectionKind::{Groups, Services, Workloads};
    let lists = [Services, Groups, Workloads].map(|kind| &scoped.list(kind).freshness);
    let mut known = lists.into_iter().filter(|freshness| **freshness != Freshness::Unknown).peekable();
    known.peek()?;
    let since = known.filter_map(|freshness| match freshness {
        Freshness::Live => None,
        Freshness::Stale { since, .. } => Some(since.0),
        Freshness::Unknown | Freshness::Syncing => Some(now),
    });
    let first = since.min();
    Some(Reach { followed: first.is_none(), since: first.unwrap_or(now) })
}

impl OutageTimers {
    /// Returns whether a shard's outage has lasted longer than the allowed time.
    pub(crate) fn is_over(&self, allowed: Duration, shard: ShardId) -> bool {
        self.over.contains(&(allowed, shard))
    }
    /// Returns when time alone changes something.
    pub(crate) const fn due(&self) -> Option<Mono> {
        self.due
    }
    /// Sets the outage that a federated service allows; `None` removes it.
    pub(crate) fn allow(&mut self, key: &ServiceKey, allowed: Option<Duration>) {
        for keys in self.allowed.values_mut() {
            self.touched |= keys.remove(key);
        }
        self.allowed.retain(|_, keys| !keys.is_empty());
        if let Some(allowed) = allowed {
            self.allowed.entry(allowed).or_default().insert(key.clone());
            self.touched = true;
        }
    }
    fn set(&mut self, shard: ShardId, reach: Option<Reach>) {
        let known = self.reach.get(&shard).copied();
        if known.map(|known| known.followed) == reach.map(|reach| reach.followed) {
            return;
        }
        self.touched = true;
        match reach {
            Some(reach) => drop(self.reach.insert(shard, reach)),
            None => drop(self.reach.remove(&shard)),
        }
    }
    /// Removes a shard.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        self.set(shard, None);
        self.over.retain(|(_, over)| *over != shard);
    }
    /// Returns the federated services for which an outage began or ended to count since the last call.
    fn advance(&mut self, now: Mono) -> BTreeSet<ServiceKey> {
        let mut out = BTreeSet::new();
        if !std::mem::take(&mut self.touched) && self.due.is_none_or(|due| due > now) {
            return out;
        }
        self.due = None;
        let Self { reach, allowed, over, .. } = self;
        over.retain(|(time, shard)| allowed.contains_key(time) && reach.contains_key(shard));
        for (time, keys) in allowed.iter() {
            for (shard, reach) in reach.iter() {
                let (at, pair) = (reach.since.plus(*time), (*time, *shard));
                if reach.followed != over.contains(&pair) {
                    continue;
                }
                if at > now {
                    self.due = Some(self.due.map_or(at, |due| due.min(at)));
                    continue;
                }
                let _ = if reach.followed { over.remove(&pair) } else { over.insert(pair) };
                out.extend(keys.iter().cloned());
            }
        }
        out
    }
}

#[cfg(test)]
impl OutageTimers {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.reach.is_empty() && self.allowed.is_empty() && self.over.is_empty()
    }
}

impl State {
    /// Updates the outages of sources, and marks the federated services that use other members now.
    pub(crate) fn build_outages(&mut self, registries: &Registries) {
        for name in &self.dirty.registries {
            let run = registries.get(name).map(|registry| &registry.ledger);
            let reach = run.map(|run| reach_of_scopes(run, self.now)).unwrap_or_default();
            for (scope, shard) in self.context.shards.of(name) {
                self.context.outages.set(shard, reach.get(&scope).copied());
            }
        }
        let again = self.context.outages.advance(self.now);
        self.dirty.services.extend(again);
    }
}
