//! Addresses that adapters withhold until they see a different object, by host, shard and group.
//!
//! Written by apply; read only by the pending phase of build. These facts make no endpoint, are not
//! counted and leave no record. Order does not matter. The ledgers share the values: an entry costs
//! a key and a handle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{EndpointGroupKey, Hostname, WaitingAddress};

use crate::state::shards::ShardId;

type ByGroup = BTreeMap<(ShardId, EndpointGroupKey), Arc<[WaitingAddress]>>;

/// Waiting addresses, and the hosts whose waiting addresses changed.
#[derive(Debug, Default)]
pub(crate) struct WaitingTable {
    hosts: BTreeMap<Hostname, ByGroup>,
    dirty: BTreeSet<Hostname>,
}

impl WaitingTable {
    /// Sets the waiting addresses of a group; an empty list removes the group. Returns whether it changed.
    pub(crate) fn put(
        &mut self,
        shard: ShardId,
        key: &EndpointGroupKey,
        addresses: Arc<[WaitingAddress]>,
    ) -> bool {
        if addresses.is_empty() {
            return self.remove(shard, key);
        }
        let groups = self.hosts.entry(key.service.host.clone()).or_default();
        let id = (shard, key.clone());
        if groups.get(&id).is_some_and(|known| *known == addresses) {
            return false;
        }
        groups.insert(id, addresses);
        self.dirty.insert(key.service.host.clone());
        true
    }
    /// Removes the waiting addresses of a group. Returns whether there were any.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &EndpointGroupKey) -> bool {
        let host = &key.service.host;
        let Some(groups) = self.hosts.get_mut(host) else { return false };
        let removed = groups.remove(&(shard, key.clone())).is_some();
        if groups.is_empty() {
            self.hosts.remove(host);
        }
        if removed {
            self.dirty.insert(host.clone());
        }
        removed
    }
    /// Returns the waiting addresses of a host.
    pub(crate) fn of(
        &self,
        host: &Hostname,
    ) -> impl Iterator<Item = (ShardId, &EndpointGroupKey, &Arc<[WaitingAddress]>)> {
        let groups = self.hosts.get(host).into_iter().flatten();
        groups.map(|((shard, key), addresses)| (*shard, key, addresses))
    }
    /// Takes the hosts that changed since the last call.
    pub(crate) fn take_dirty(&mut self) -> BTreeSet<Hostname> {
        std::mem::take(&mut self.dirty)
    }
}

#[cfg(test)]
impl WaitingTable {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.dirty.is_empty()
    }
}
