//! Joins of several services under one host: those that the configuration declares and those that services of one
//! name come to, and which of them is in force for each host.
//!
//! Owned by the graph of names. Of several declared for one host the first in precedence is in force, and any
//! declared one before what a name implies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{FederatedMember, FederatedService, Hostname, ObjectId, ServiceKey};

use super::edges::Read;
use crate::state::shards::{ShardId, Shards};

/// All joins.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    declared: BTreeMap<Hostname, BTreeMap<ShardId, Arc<FederatedService>>>,
    /// What services of one name come to.
    implied: BTreeMap<Hostname, Arc<FederatedService>>,
    in_force: BTreeMap<Hostname, InForce>,
    /// Hosts that a declared join began or ceased to read.
    renamed: BTreeSet<Hostname>,
}

/// The join of a host that is in force.
#[derive(Debug)]
struct InForce {
    /// The shard that declares it; none where a name implies it.
    owner: Option<ShardId>,
    key: ServiceKey,
    alias: Arc<FederatedService>,
}

/// What became of a host's join.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The service that joins nothing any more.
    pub(crate) from: Option<ServiceKey>,
    /// The service that joins these now.
    pub(crate) to: Option<(ServiceKey, Arc<FederatedService>)>,
}

/// What a join reads: its members, and its own host, whose other claimants it hides.
pub(super) fn reads(host: &Hostname, alias: &FederatedService) -> Vec<Read> {
    let member =
        |member: &FederatedMember| Read { host: member.host.clone(), namespace: member.namespace.clone() };
    alias.members.iter().map(member).chain([Read { host: host.clone(), namespace: None }]).collect()
}

impl Joins {
    /// The join of a host that a shard declares.
    pub(super) fn get(&self, shard: ShardId, host: &Hostname) -> Option<&Arc<FederatedService>> {
        self.declared.get(host)?.get(&shard)
    }
    /// A shard declares this, or nothing any more.
    pub(super) fn declare(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        alias: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> Moved {
        let of_host = self.declared.entry(host.clone()).or_default();
        match alias {
            Some(alias) => of_host.insert(shard, alias),
            None => of_host.remove(&shard),
        };
        if of_host.is_empty() {
            self.declared.remove(host);
        }
        self.settle(host, shards)
    }
    /// A name comes to this, or to nothing any more; `None` where that is so already.
    pub(super) fn imply(
        &mut self,
        host: &Hostname,
        alias: Option<Arc<FederatedService>>,
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
        let from = self.in_force.remove(host);
        from.iter().for_each(|join| self.note_renamed(join));
        let to = self.first(host, shards);
        to.iter().for_each(|join| self.note_renamed(join));
        let moved = Moved {
            from: from.map(|join| join.key),
            to: to.as_ref().map(|join| (join.key.clone(), Arc::clone(&join.alias))),
        };
        if let Some(join) = to {
            self.in_force.insert(host.clone(), join);
        }
        moved
    }
    /// The join that comes first.
    fn first(&self, host: &Hostname, shards: &Shards) -> Option<InForce> {
        let none = ObjectId::new("", "", "");
        let of_host = self.declared.get(host).into_iter().flatten();
        let claims = of_host.filter_map(|(id, alias)| Some((*id, shards.get(*id)?, alias)));
        let first = claims.min_by(|(_, a, _), (_, b, _)| a.claim(None, &none).order(&b.claim(None, &none)));
        let declared = first.map(|(id, _, alias)| (Some(id), alias));
        let (owner, alias) = declared.or_else(|| self.implied.get(host).map(|alias| (None, alias)))?;
        let key = ServiceKey { host: host.clone(), namespace: alias.namespace.clone() };
        Some(InForce { owner, key, alias: Arc::clone(alias) })
    }
    fn note_renamed(&mut self, join: &InForce) {
        if join.owner.is_some() {
            self.renamed.extend(reads(&join.key.host, &join.alias).into_iter().map(|read| read.host));
        }
    }
    /// Takes the hosts that other declared joins read than when this was last asked.
    pub(crate) fn take_renamed(&mut self) -> BTreeSet<Hostname> {
        std::mem::take(&mut self.renamed)
    }
    /// The shard whose join of a host is in force.
    pub(super) fn owner(&self, host: &Hostname) -> Option<ShardId> {
        self.in_force.get(host)?.owner
    }
    /// The joins of a shard that are in force.
    pub(super) fn of_shard(&self, shard: ShardId) -> impl Iterator<Item = &ServiceKey> {
        self.in_force.values().filter(move |join| join.owner == Some(shard)).map(|join| &join.key)
    }
    /// Whether nothing is declared, and no index holds anything.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.implied.is_empty() && self.in_force.is_empty()
    }
}
