//! The one graph of names: which hosts lead to others, which join others, and which services have one name.
//!
//! Nodes are hosts. An edge belongs to the service that reads a host by its name ([`Reader`]) and leads with that
//! service's own visibility. Filled by apply (declared joins) and by the build's pass over names, which reads declarations
//! and never views; read by merge. What the graph comes to is a function of the declarations, but for
//! merges by name ([`same`]), which begin only when every registry is known.

mod edges;
mod joins;
mod leads;
mod same;

use std::sync::Arc;

use tributary_model::{AliasHost, FederatedService, Hostname, Namespace, SameName, ServiceKey};

use crate::state::shards::{ShardId, Shards};
use edges::Edges;
pub(crate) use edges::Reader;
use joins::Joins;
pub(crate) use joins::Moved;
use leads::Leads;
pub(crate) use leads::{Declared, End, Lead, Settling};
use same::SameNames;
pub(crate) use same::Sides;

/// All names and what reads them.
#[derive(Debug, Default)]
pub(crate) struct NameGraph {
    /// Who reads which host.
    pub(crate) edges: Edges,
    /// Hosts that lead to others.
    pub(crate) leads: Leads,
    /// Hosts that join others.
    pub(crate) joins: Joins,
    /// Services that have one name.
    pub(crate) same: SameNames,
}

impl NameGraph {
    /// Who reads the service of a namespace under a host.
    pub(crate) fn readers(&self, namespace: &Namespace, host: &Hostname) -> impl Iterator<Item = &Reader> {
        self.edges.readers(namespace, host)
    }
    /// The services that join any service of a host, or hide who else declares it.
    pub(crate) fn joining(&self, host: &Hostname) -> impl Iterator<Item = &ServiceKey> {
        self.edges.readers_of_any(host).filter_map(Reader::join)
    }
    /// Where an alias ends.
    pub(crate) fn end_of(&self, alias: &ServiceKey) -> Option<&End> {
        self.leads.end_of(alias)
    }
    /// Services of other hosts that lead to a host, sorted.
    pub(crate) fn leading_to(&self, host: &Hostname) -> Vec<AliasHost> {
        self.leads.leading_to(host)
    }
    /// What has become of a service's name, where another service has it too.
    pub(crate) fn same_name(&self, key: &ServiceKey) -> Option<&SameName> {
        self.same.of(key)
    }
    /// The join of a host that a shard declares.
    pub(crate) fn join_of(&self, shard: ShardId, host: &Hostname) -> Option<&Arc<FederatedService>> {
        self.joins.get(shard, host)
    }
    /// The shard whose join of a host is in force; none where a name implies it.
    pub(crate) fn join_owner(&self, host: &Hostname) -> Option<ShardId> {
        self.joins.owner(host)
    }
    /// The joins of a shard that are in force.
    pub(crate) fn joins_of(&self, shard: ShardId) -> impl Iterator<Item = &ServiceKey> {
        self.joins.of_shard(shard)
    }
    /// A service that reads a host by a declared join, not by one that a name implies.
    pub(crate) fn declared_join(&self, host: &Hostname) -> Option<&ServiceKey> {
        self.joining(host).find(|key| self.joins.owner(&key.host).is_some())
    }
    /// A shard declares this join of a host, or none any more.
    pub(crate) fn declare_join(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        alias: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> Moved {
        let moved = self.joins.declare(shard, host, alias, shards);
        self.connect(&moved);
        moved
    }
    /// A name comes to this join of a host, or to none any more; `None` where that is so already.
    pub(crate) fn imply(
        &mut self,
        host: &Hostname,
        alias: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> Option<Moved> {
        let moved = self.joins.imply(host, alias, shards)?;
        self.connect(&moved);
        Some(moved)
    }
    fn connect(&mut self, moved: &Moved) {
        if let Some(key) = &moved.from {
            self.edges.set(&Reader::Join(key.clone()), Vec::new());
        }
        if let Some((key, alias)) = &moved.to {
            self.edges.set(&Reader::Join(key.clone()), joins::reads(&key.host, alias));
        }
    }
}

impl Reader {
    /// The service, where it joins others.
    pub(crate) fn join(&self) -> Option<&ServiceKey> {
        match self {
            Self::Join(key) => Some(key),
            Self::Alias(_) => None,
        }
    }
}

#[cfg(test)]
impl NameGraph {
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.edges.is_empty() && self.leads.is_empty() && self.joins.is_empty() && self.same.is_empty()
    }
}
