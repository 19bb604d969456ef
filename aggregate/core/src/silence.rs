//! For how long each shard's source has been silent, and which aliases that makes no longer wait for it.
//!
//! Told by publication what registries have become, and by the store what aliases give; answers which aliases are
//! served otherwise, and when time alone makes it so. Both ways take the time that the alias gives: a source that
//! comes and goes within it changes nothing, and neither does one that has only just come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::{CollectionKind, Freshness, Mono, Scope, ServiceKey};

use crate::core::Core;
use crate::registry::Run;
use crate::shards::ShardId;

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
fn heard(run: &Run, now: Mono) -> BTreeMap<&Scope, Heard> {
    use CollectionKind::{Groups, Services, Workloads};
    let mut out: BTreeMap<&Scope, Heard> = BTreeMap::new();
    for (collection, state) in &run.collections {
        if !matches!(collection.kind, Services | Groups | Workloads) {
            continue;
        }
        let all = out.entry(&collection.scope).or_insert(Heard { live: true, since: now });
        let since = match &state.freshness {
            Freshness::Live => continue,
            Freshness::Stale { since, .. } => since.0,
            Freshness::Unknown | Freshness::Syncing => now,
        };
        let since = if all.live { since } else { since.min(all.since) };
        *all = Heard { live: false, since };
    }
    out
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

impl Core {
    /// Follows which sources are silent; aliases that wait no longer, or wait again, are built.
    pub(crate) fn build_silence(&mut self) {
        for name in &self.dirty.registries {
            let run = self.registries.get(name).map(|registry| &registry.run);
            let heard = run.map(|run| heard(run, self.now)).unwrap_or_default();
            for (scope, shard) in self.world.shards.of(name) {
                self.world.silence.hear(shard, heard.get(&scope).copied());
            }
        }
        let again = self.world.silence.turn(self.now);
        self.dirty.services.extend(again);
    }
}
