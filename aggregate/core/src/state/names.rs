//! Graph of names: aliases of hosts, federated services (joins), and services with the same name.
//!
//! Nodes are hosts. An edge belongs to the service that reads a host by its name ([`Reader`]). Written by apply
//! (declared joins) and by the build's name phase, which reads declarations and never views; read by merge. The graph
//! is a function of the declarations, except for merges by name ([`same`]), which begin only when every registry is
//! known.

mod aliases;
mod edges;
mod joins;
mod same;

use std::sync::Arc;

use tributary_model::{FederatedService, Hostname, Namespace, SameName, ServiceKey};

use crate::state::shards::{ShardId, Shards};
use aliases::Aliases;
pub(crate) use aliases::{Declared, End, Settling};
use edges::Edges;
pub(crate) use edges::Reader;
pub(crate) use joins::JoinChange;
use joins::Joins;
use same::SameNames;
pub(crate) use same::Sides;

/// All names and their readers.
#[derive(Debug, Default)]
pub(crate) struct NameGraph {
    /// Readers of each host.
    pub(crate) edges: Edges,
    /// Aliases of hosts.
    pub(crate) aliases: Aliases,
    /// Federated services.
    pub(crate) joins: Joins,
    /// Services with the same name.
    pub(crate) same: SameNames,
}

impl NameGraph {
    /// Returns the readers of a host's service in a namespace.
    pub(crate) fn readers(&self, namespace: &Namespace, host: &Hostname) -> impl Iterator<Item = &Reader> {
        self.edges.readers(namespace, host)
    }
    /// Returns the federated services that join a service of a host, or that have the host themselves.
    pub(crate) fn joining(&self, host: &Hostname) -> impl Iterator<Item = &ServiceKey> {
        self.edges.readers_of_any(host).filter_map(Reader::join)
    }
    /// Returns where an alias ends.
    pub(crate) fn end_of(&self, alias: &ServiceKey) -> Option<&End> {
        self.aliases.end_of(alias)
    }
    /// Returns the aliases of a host from other hosts, sorted.
    pub(crate) fn aliases_of(&self, host: &Hostname) -> Vec<ServiceKey> {
        self.aliases.aliases_of(host)
    }
    /// Returns the outcome for a service's name if a different service has the same name.
    pub(crate) fn same_name(&self, key: &ServiceKey) -> Option<&SameName> {
        self.same.of(key)
    }
    /// Returns the federated service that a shard declares for a host.
    pub(crate) fn join_of(&self, shard: ShardId, host: &Hostname) -> Option<&Arc<FederatedService>> {
        self.joins.get(shard, host)
    }
    /// Returns the shard that declares a host's effective join; `None` if a name implies it.
    pub(crate) fn join_owner(&self, host: &Hostname) -> Option<ShardId> {
        self.joins.owner(host)
    }
    /// Returns the effective joins of a shard.
    pub(crate) fn joins_of(&self, shard: ShardId) -> impl Iterator<Item = &ServiceKey> {
        self.joins.of_shard(shard)
    }
    /// Returns a service that reads a host by a declared join, not by one that a name implies.
    pub(crate) fn declared_join(&self, host: &Hostname) -> Option<&ServiceKey> {
        self.joining(host).find(|key| self.joins.owner(&key.host).is_some())
    }
    /// Sets or removes (`None`) the join that a shard declares for a host.
    pub(crate) fn declare_join(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        federated: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> JoinChange {
        let change = self.joins.declare(shard, host, federated, shards);
        self.connect(&change);
        change
    }
    /// Sets or removes (`None`) the join that a name implies for a host. Returns `None` if nothing changed.
    pub(crate) fn imply(
        &mut self,
        host: &Hostname,
        federated: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> Option<JoinChange> {
        let change = self.joins.imply(host, federated, shards)?;
        self.connect(&change);
        Some(change)
    }
    fn connect(&mut self, change: &JoinChange) {
        if let Some(key) = &change.from {
            self.edges.set(&Reader::Join(key.clone()), Vec::new());
        }
        if let Some((key, federated)) = &change.to {
            self.edges.set(&Reader::Join(key.clone()), joins::reads(&key.host, federated));
        }
    }
}

impl Reader {
    /// Returns the service if it is a join.
    pub(crate) fn join(&self) -> Option<&ServiceKey> {
        match self {
            Self::Join(key) => Some(key),
            Self::Alias(_) => None,
        }
    }
}

#[cfg(test)]
impl NameGraph {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.edges.is_empty() && self.aliases.is_empty() && self.joins.is_empty() && self.same.is_empty()
    }
}
