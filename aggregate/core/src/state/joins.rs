//! Aliases as they are said, and what they make of hosts: which service each one serves, and which aliases
//! must be built again when something is said of a host.
//!
//! Filled by the store and by names that come to aliases, read by publication. Of several words about one host the
//! first in precedence holds, and any word before what is only implied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Alias, Hostname, ObjectId, ServiceKey};

use crate::state::shards::{ShardId, Shards};

/// All aliases.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    said: BTreeMap<(Hostname, ShardId), Arc<Alias>>,
    /// What services of one name come to; it holds of hosts of which nothing is said.
    implied: BTreeMap<Hostname, Arc<Alias>>,
    /// What holds of each host, and whose word it is; nobody's where it is implied.
    held: BTreeMap<Hostname, (Option<ShardId>, ServiceKey, Arc<Alias>)>,
    /// Which aliases read a host.
    read_by: BTreeMap<Hostname, BTreeSet<ServiceKey>>,
    /// Hosts that what is said began or ceased to read.
    renamed: BTreeSet<Hostname>,
}

/// What became of a host's alias.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The service that is an alias no more.
    pub(crate) from: Option<ServiceKey>,
    /// The service that is one now.
    pub(crate) to: Option<(ServiceKey, Arc<Alias>)>,
}

/// The hosts that an alias reads: its members', and its own, whose other claimants it hides.
fn read<'a>(host: &'a Hostname, alias: &'a Alias) -> impl Iterator<Item = &'a Hostname> {
    alias.members.iter().map(|member| &member.host).chain([host])
}

impl Joins {
    /// What a shard says.
    pub(crate) fn get(&self, shard: ShardId, host: &Hostname) -> Option<&Arc<Alias>> {
        self.said.get(&(host.clone(), shard))
    }
    /// A shard says this, or nothing any more.
    pub(crate) fn say(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        alias: Option<Arc<Alias>>,
        shards: &Shards,
    ) -> Moved {
        match alias {
            Some(alias) => self.said.insert((host.clone(), shard), alias),
            None => self.said.remove(&(host.clone(), shard)),
        };
        self.settle(host, shards)
    }
    /// Names come to this, or to nothing any more; `None` where that is so already.
    pub(crate) fn imply(
        &mut self,
        host: &Hostname,
        alias: Option<Arc<Alias>>,
        shards: &Shards,
    ) -> Option<Moved> {
        if self.implied.get(host) == alias.as_ref() {
            return None;
        }
        match alias {
            Some(alias) => self.implied.insert(host.clone(), alias),
            None => self.implied.remove(host),
        };
        Some(self.settle(host, shards))
    }
    fn settle(&mut self, host: &Hostname, shards: &Shards) -> Moved {
        let none = ObjectId::new("", "", "");
        let of_host = self.said.iter().filter(|((h, _), _)| h == host);
        let claims = of_host.filter_map(|((_, id), alias)| Some((*id, shards.get(*id)?, alias)));
        let first = claims.min_by(|(_, a, _), (_, b, _)| a.claim(None, &none).order(&b.claim(None, &none)));
        let first = first.map(|(id, _, alias)| (Some(id), alias));
        let to = first.or_else(|| self.implied.get(host).map(|alias| (None, alias))).map(|(id, alias)| {
            let key = ServiceKey { host: host.clone(), namespace: alias.namespace.clone() };
            (id, key, Arc::clone(alias))
        });
        let from = self.held.remove(host).map(|(id, key, alias)| {
            self.note_renamed(id, host, &alias);
            read(host, &alias).for_each(|read| self.unfile(read, &key));
            key
        });
        if let Some((id, key, alias)) = &to {
            self.note_renamed(*id, host, alias);
            for read in read(host, alias) {
                self.read_by.entry(read.clone()).or_default().insert(key.clone());
            }
            self.held.insert(host.clone(), (*id, key.clone(), Arc::clone(alias)));
        }
        Moved { from, to: to.map(|(_, key, alias)| (key, alias)) }
    }
    fn note_renamed(&mut self, by: Option<ShardId>, host: &Hostname, alias: &Alias) {
        if by.is_some() {
            self.renamed.extend(read(host, alias).cloned());
        }
    }
    /// Hosts of which, since this was last asked, what is said reads another set.
    pub(crate) fn take_renamed(&mut self) -> BTreeSet<Hostname> {
        std::mem::take(&mut self.renamed)
    }
    /// An alias that is said, not implied, and that reads a host.
    pub(crate) fn named_by(&self, host: &Hostname) -> Option<&ServiceKey> {
        let said = |key: &&ServiceKey| self.held.get(&key.host).is_some_and(|(by, ..)| by.is_some());
        self.reading(host).find(said)
    }
    fn unfile(&mut self, host: &Hostname, key: &ServiceKey) {
        if let Some(keys) = self.read_by.get_mut(host) {
            keys.remove(key);
            if keys.is_empty() {
                self.read_by.remove(host);
            }
        }
    }
    /// The aliases that read a host: they join it, or hide who else claims it.
    pub(crate) fn reading(&self, host: &Hostname) -> impl Iterator<Item = &ServiceKey> {
        self.read_by.get(host).into_iter().flatten()
    }
    /// Whose word the alias of a host is.
    pub(crate) fn owner(&self, host: &Hostname) -> Option<ShardId> {
        self.held.get(host).and_then(|(id, ..)| *id)
    }
    /// The aliases that hold by a shard's word.
    pub(crate) fn held_by(&self, shard: ShardId) -> impl Iterator<Item = &ServiceKey> {
        self.held.values().filter(move |(id, ..)| *id == Some(shard)).map(|(_, key, _)| key)
    }
    /// Whether nothing is said, and no index holds anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty() && self.implied.is_empty() && self.held.is_empty() && self.read_by.is_empty()
    }
}
