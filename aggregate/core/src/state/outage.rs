//! For how long each shard's source has been silent, and which aliases that makes no longer wait for it.
//!
//! Told by publication what registries have become, and by the store what aliases give; answers which aliases are
//! served otherwise, and when time alone makes it so. Both ways take the time that the alias gives: a source that
//! comes and goes within it changes nothing, and neither does one that has only just come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{CollectionKind, Freshness, Mono, Scope, ServiceKey};

use super::State;
use crate::ledger::{Ledger, Registries, Scoped};
use crate::state::shards::ShardId;

/// All shards whose silence may count.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    heard: BTreeMap<ShardId, Heard>,
    /// The aliases that give each time.
    given: BTreeMap<Duration, BTreeSet<ServiceKey>>,
    /// Shards that have been silent for longer, until they have been heard for as long.
    over: BTreeSet<(Duration, ShardId)>,
    /// When time alone changes something.
    due: Option<Mono>,
    touched: bool,
}

/// Whether a shard's source is followed, and since when that is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    live: bool,
    since: Mono,
}

/// How each scope of a run fares that endpoints come from: silent since the first of the collections that they come
/// from is, heard while all are.
fn heard(run: &Ledger, now: Mono) -> BTreeMap<&Scope, Heard> {
    run.scopes.iter().filter_map(|(scope, scoped)| Some((scope, fares(scoped, now)?))).collect()
}

/// Since when the collections that endpoints come from are followed, or the first of them is not; `None` where none
/// of them is known.
fn fares(scoped: &Scoped, now: Mono) -> Option<Heard> {
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
    Some(Heard { live: first.is_none(), since: first.unwrap_or(now) })
}

impl Silence {
    /// Whether a shard's source has been silent for longer than an alias gives.
    pub(crate) fn is_over(&self, given: Duration, shard: ShardId) -> bool {
        self.over.contains(&(given, shard))
    }
    /// When time alone changes something.
    pub(crate) const fn due(&self) -> Option<Mono> {
        self.due
    }
    /// A service is an alias that gives this time, or none.
    pub(crate) fn give(&mut self, key: &ServiceKey, given: Option<Duration>) {
        for keys in self.given.values_mut() {
            self.touched |= keys.remove(key);
        }
        self.given.retain(|_, keys| !keys.is_empty());
        if let Some(given) = given {
            self.given.entry(given).or_default().insert(key.clone());
            self.touched = true;
        }
    }
    fn hear(&mut self, shard: ShardId, heard: Option<Heard>) {
        let known = self.heard.get(&shard).copied();
        if known.map(|known| known.live) == heard.map(|heard| heard.live) {
            return;
        }
        self.touched = true;
        match heard {
            Some(heard) => drop(self.heard.insert(shard, heard)),
            None => drop(self.heard.remove(&shard)),
        }
    }
    /// A shard is no more.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        self.hear(shard, None);
        self.over.retain(|(_, over)| *over != shard);
    }
    /// The aliases for which it is another matter now.
    fn turn(&mut self, now: Mono) -> BTreeSet<ServiceKey> {
        let mut out = BTreeSet::new();
        if !std::mem::take(&mut self.touched) && self.due.is_none_or(|due| due > now) {
            return out;
        }
        self.due = None;
        let Self { heard, given, over, .. } = self;
        over.retain(|(time, shard)| given.contains_key(time) && heard.contains_key(shard));
        for (time, keys) in given.iter() {
            for (shard, heard) in heard.iter() {
                let (at, pair) = (heard.since.plus(*time), (*time, *shard));
                if heard.live != over.contains(&pair) {
                    continue;
                }
                if at > now {
                    self.due = Some(self.due.map_or(at, |due| due.min(at)));
                    continue;
                }
                let _ = if heard.live { over.remove(&pair) } else { over.insert(pair) };
                out.extend(keys.iter().cloned());
            }
        }
        out
    }
}

#[cfg(test)]
impl Silence {
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.given.is_empty() && self.over.is_empty()
    }
}

impl State {
    /// Follows which sources are not followed; aliases that wait no longer, or wait again, are built.
    pub(crate) fn build_silence(&mut self, registries: &Registries) {
        for name in &self.dirty.registries {
            let run = registries.get(name).map(|registry| &registry.ledger);
            let heard = run.map(|run| heard(run, self.now)).unwrap_or_default();
            for (scope, shard) in self.world.shards.of(name) {
                self.world.silence.hear(shard, heard.get(&scope).copied());
            }
        }
        let again = self.world.silence.turn(self.now);
        self.dirty.services.extend(again);
    }
}
