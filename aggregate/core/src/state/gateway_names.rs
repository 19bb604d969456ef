//! Addresses of the host names of gateways, and the gateways that have each name.
//!
//! Owned by the gateways, which keep the index of users. A changed name is joined with exactly the networks of its gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{GatewayKey, NetworkId, ObjectId, ResolvedName, Shared};

use crate::state::shards::{ShardId, Shards};

/// One shard's addresses of a name.
#[derive(Debug)]
pub(crate) struct NameFact {
    /// Shard that reports it.
    pub(crate) shard: ShardId,
    /// Addresses.
    pub(crate) resolved: Arc<ResolvedName>,
}

/// All host names of gateways.
#[derive(Debug, Default)]
pub(crate) struct GatewayNames {
    reported: BTreeMap<Arc<str>, Vec<NameFact>>,
    users: BTreeMap<Arc<str>, BTreeSet<GatewayKey>>,
}

impl GatewayNames {
    /// Returns a shard's value.
    pub(crate) fn get(&self, shard: ShardId, name: &str) -> Option<&Arc<ResolvedName>> {
        let fact = self.reported.get(name)?.iter().find(|fact| fact.shard == shard)?;
        Some(&fact.resolved)
    }
    /// Sets a shard's value.
    pub(crate) fn put(&mut self, shard: ShardId, name: &Arc<str>, resolved: Arc<ResolvedName>) {
        let facts = self.reported.entry(Arc::clone(name)).or_default();
        match facts.iter_mut().find(|fact| fact.shard == shard) {
            Some(known) => known.resolved = resolved,
            None => facts.push(NameFact { shard, resolved }),
        }
    }
    /// Removes a shard's value. Returns whether there was one.
    pub(crate) fn remove(&mut self, shard: ShardId, name: &str) -> bool {
        let Some(facts) = self.reported.get_mut(name) else { return false };
        let Some(at) = facts.iter().position(|fact| fact.shard == shard) else { return false };
        facts.remove(at);
        if facts.is_empty() {
            self.reported.remove(name);
        }
        true
    }
    /// Returns the value that is served: the first in precedence.
    pub(crate) fn first(&self, name: &str, shards: &Shards) -> Option<Shared<ResolvedName>> {
        let object = ObjectId::new("Name", "", name);
        let served = |fact: &NameFact| shards.get(fact.shard).filter(|info| info.is_served());
        let rank = |fact: &NameFact| served(fact).map(|info| info.precedence(None, &object));
        let ranked = self.reported.get(name)?.iter().filter_map(|fact| Some((rank(fact)?, fact)));
        let first = ranked.min_by(|(a, _), (b, _)| a.order(b))?;
        Some(Shared::from(Arc::clone(&first.1.resolved)))
    }
    /// Updates the index of gateways by name.
    pub(crate) fn index(&mut self, key: &GatewayKey, before: &BTreeSet<Arc<str>>, now: &BTreeSet<Arc<str>>) {
        for name in before.difference(now) {
            if let Some(users) = self.users.get_mut(name) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(name);
                }
            }
        }
        for name in now.difference(before) {
            self.users.entry(Arc::clone(name)).or_default().insert(key.clone());
        }
    }
    /// Returns the networks of the gateways that have a name.
    pub(crate) fn networks_of(&self, name: &str) -> impl Iterator<Item = &NetworkId> {
        self.users.get(name).into_iter().flatten().map(|key| &key.network)
    }
}

#[cfg(test)]
impl GatewayNames {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.users.is_empty()
    }
}
