//! Since when the source of each shard has been lost, and which aliases no longer wait for it.
//!
//! The build reports the freshness of registries, and apply the time that each alias allows. Returns which aliases
//! must be built again, and when time alone makes that so. Both directions take the allowed time: a source that is
//! lost and back within it changes nothing, and neither does one that has only just come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{CollectionKind, Freshness, Mono, Scope, ServiceKey};

use super::State;
use crate::ledger::{Ledger, Registries, Scoped};
use crate::state::shards::ShardId;

/// All shards whose outage may count.
#[derive(Debug, Default)]
pub(crate) struct OutageTimers {
    reach: BTreeMap<ShardId, Reach>,
    /// The aliases that allow each time.
    allowed: BTreeMap<Duration, BTreeSet<ServiceKey>>,
    /// Shards that have been lost for longer, until they have been followed for as long.
    over: BTreeSet<(Duration, ShardId)>,
    /// When time alone changes something.
    due: Option<Mono>,
    touched: bool,
}

/// Whether a shard's source is followed, and since when that is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    followed: bool,
    since: Mono,
}

/// The reach of each scope of a run that has endpoints.
fn reach_of_scopes(run: &Ledger, now: Mono) -> BTreeMap<&Scope, Reach> {
    run.scopes.iter().filter_map(|(scope, scoped)| Some((scope, reach(scoped, now)?))).collect()
}

/// Since when the collections that endpoints come from are followed, or the first of them is not; `None` where none
/// of them is known.
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
    /// Whether a shard's source has been lost for longer than an alias allows.
    pub(crate) fn is_over(&self, allowed: Duration, shard: ShardId) -> bool {
        self.over.contains(&(allowed, shard))
    }
    /// When time alone changes something.
    pub(crate) const fn due(&self) -> Option<Mono> {
        self.due
    }
    /// Sets the time that an alias allows; `None` where the service allows none.
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
    /// Returns the aliases for which a source became lost or followed since the last call.
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
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.reach.is_empty() && self.allowed.is_empty() && self.over.is_empty()
    }
}

impl State {
    /// Follows which sources are lost; aliases that no longer wait for one, or wait again, are built.
    pub(crate) fn build_outages(&mut self, registries: &Registries) {
        for name in &self.dirty.registries {
            let run = registries.get(name).map(|registry| &registry.ledger);
            let reach = run.map(|run| reach_of_scopes(run, self.now)).unwrap_or_default();
            for (scope, shard) in self.world.shards.of(name) {
                self.world.outages.set(shard, reach.get(&scope).copied());
            }
        }
        let again = self.world.outages.advance(self.now);
        self.dirty.services.extend(again);
    }
}
