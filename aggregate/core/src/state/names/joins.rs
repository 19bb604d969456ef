//! Joins (federated services) of several services under one host: declared by the configuration, or implied by
//! services with the same name; and the effective join of each host.
//!
//! Owned by the graph of names. The first declared join in precedence is effective, and any declared join takes
//! precedence over an implied one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{FederatedMember, FederatedService, Hostname, ObjectId, ServiceKey};

use super::edges::Read;
use crate::state::shards::{ShardId, Shards};

/// All joins.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    declared: BTreeMap<Hostname, BTreeMap<ShardId, Arc<FederatedService>>>,
    /// Joins that services with the same name imply.
    implied: BTreeMap<Hostname, Arc<FederatedService>>,
    effective: BTreeMap<Hostname, EffectiveJoin>,
    /// Hosts that a declared join began or stopped reading.
    renamed: BTreeSet<Hostname>,
}

/// Effective join of a host.
#[derive(Debug)]
struct EffectiveJoin {
    /// Shard that declares it; `None` if a name implies it.
    owner: Option<ShardId>,
    key: ServiceKey,
    federated: Arc<FederatedService>,
}

/// Change of a host's effective join.
#[derive(Debug, Default)]
pub(crate) struct JoinChange {
    /// Service that no longer has the join.
    pub(crate) from: Option<ServiceKey>,
    /// Service that has the join now.
    pub(crate) to: Option<(ServiceKey, Arc<FederatedService>)>,
}

/// Returns what a join reads: its members, and its own host, whose other claimants it hides.
pub(super) fn reads(host: &Hostname, federated: &FederatedService) -> Vec<Read> {
    let member =
        |member: &FederatedMember| Read { host: member.host.clone(), namespace: member.namespace.clone() };
    federated.members.iter().map(member).chain([Read { host: host.clone(), namespace: None }]).collect()
}

impl Joins {
    /// Returns the join that a shard declares for a host.
    pub(super) fn get(&self, shard: ShardId, host: &Hostname) -> Option<&Arc<FederatedService>> {
        self.declared.get(host)?.get(&shard)
    }
    /// Sets or removes (`None`) a shard's join.
    pub(super) fn declare(
        &mut self,
        shard: ShardId,
        host: &Hostname,
        federated: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> JoinChange {
        let of_host = self.declared.entry(host.clone()).or_default();
        match federated {
            Some(federated) => of_host.insert(shard, federated),
            None => of_host.remove(&shard),
        };
        if of_host.is_empty() {
            self.declared.remove(host);
        }
        self.settle(host, shards)
    }
    /// Sets or removes (`None`) the join that a name implies. Returns `None` if nothing changed.
    pub(super) fn imply(
        &mut self,
        host: &Hostname,
        federated: Option<Arc<FederatedService>>,
        shards: &Shards,
    ) -> Option<JoinChange> {
        if self.implied.get(host) == federated.as_ref() {
            return None;
        }
        match federated {
            Some(federated) => self.implied.insert(host.clone(), federated),
            None => self.implied.remove(host),
        };
        Some(self.settle(host, shards))
    }
    fn settle(&mut self, host: &Hostname, shards: &Shards) -> JoinChange {
        let from = self.effective.remove(host);
        from.iter().for_each(|join| self.note_renamed(join));
        let to = self.first(host, shards);
        to.iter().for_each(|join| self.note_renamed(join));
        let change = JoinChange {
            from: from.map(|join| join.key),
            to: to.as_ref().map(|join| (join.key.clone(), Arc::clone(&join.federated))),
        };
        if let Some(join) = to {
            self.effective.insert(host.clone(), join);
        }
        change
    }
    /// Returns the effective join of a host.
    fn first(&self, host: &Hostname, shards: &Shards) -> Option<EffectiveJoin> {
        let none = ObjectId::new("", "", "");
        let of_host = self.declared.get(host).into_iter().flatten();
        let known = of_host.filter_map(|(id, federated)| Some((*id, shards.get(*id)?, federated)));
        let first =
            known.min_by(|(_, a, _), (_, b, _)| a.precedence(None, &none).order(&b.precedence(None, &none)));
        let declared = first.map(|(id, _, federated)| (Some(id), federated));
        let (owner, federated) =
            declared.or_else(|| self.implied.get(host).map(|federated| (None, federated)))?;
        let key = ServiceKey { host: host.clone(), namespace: federated.namespace.clone() };
        Some(EffectiveJoin { owner, key, federated: Arc::clone(federated) })
    }
    fn note_renamed(&mut self, join: &EffectiveJoin) {
        if join.owner.is_some() {
            self.renamed.extend(reads(&join.key.host, &join.federated).into_iter().map(|read| read.host));
        }
    }
    /// Takes the hosts whose declared joins changed since the last call.
    pub(crate) fn take_renamed(&mut self) -> BTreeSet<Hostname> {
        std::mem::take(&mut self.renamed)
    }
    /// Returns the shard that declares a host's effective join.
    pub(super) fn owner(&self, host: &Hostname) -> Option<ShardId> {
        self.effective.get(host)?.owner
    }
    /// Returns the effective joins of a shard.
    pub(super) fn of_shard(&self, shard: ShardId) -> impl Iterator<Item = &ServiceKey> {
        self.effective.values().filter(move |join| join.owner == Some(shard)).map(|join| &join.key)
    }
    /// Returns whether every index is empty.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.implied.is_empty() && self.effective.is_empty()
    }
}
