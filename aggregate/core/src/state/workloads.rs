//! Workloads of all shards, each under a small number.
//!
//! Written by apply, read by selection and the build. Two registries may report the same workload; the
//! value of the first in precedence is selected and shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{CollectionKind, Mono, Origin, Version, Workload, WorkloadKey};

use crate::state::selectors::SelectorId;
use crate::state::shards::{ShardId, Shards};

/// Number of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WorkloadId(pub(crate) u32);

/// One shard's value of a workload.
#[derive(Debug, Clone)]
pub(crate) struct WorkloadFact {
    /// Shard that reports it.
    pub(crate) shard: ShardId,
    /// Value.
    pub(crate) workload: Arc<Workload>,
    /// Time of the last change.
    pub(crate) changed: Mono,
    /// Whether its removal is held.
    pub(crate) held: bool,
}

/// Workload with the values of all shards.
#[derive(Debug)]
pub(crate) struct WorkloadSlot {
    /// Key.
    pub(crate) key: WorkloadKey,
    /// Hash that decides its bucket; equal on every replica.
    pub(crate) hash: u64,
    /// Values of shards, the first in precedence first.
    pub(crate) facts: Vec<WorkloadFact>,
    /// Origin of the addresses that are built from it, while it is selected; shared by all of them.
    pub(crate) origin: Option<Arc<Origin>>,
    /// Selectors that match it, sorted.
    pub(crate) selected_by: Vec<SelectorId>,
}

impl WorkloadSlot {
    /// Returns the effective value: the first in precedence.
    pub(crate) fn first(&self) -> Option<&WorkloadFact> {
        self.facts.first()
    }
    /// Returns when it was last confirmed.
    pub(crate) fn confirmed(&self, shards: &Shards) -> Option<Mono> {
        let fact = self.first()?;
        Some(shards.get(fact.shard)?.confirmed(CollectionKind::Workloads, fact.changed))
    }
}

/// All workloads.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    /// Boxed: a growing vector of large slots would reserve twice their memory.
    slots: Vec<Option<Box<WorkloadSlot>>>,
    free: Vec<u32>,
    ids: BTreeMap<WorkloadKey, WorkloadId>,
}

impl Workloads {
    /// Returns the number of a workload.
    pub(crate) fn id(&self, key: &WorkloadKey) -> Option<WorkloadId> {
        self.ids.get(key).copied()
    }
    /// Returns a workload by its number.
    pub(crate) fn get(&self, id: WorkloadId) -> Option<&WorkloadSlot> {
        self.slots.get(id.0 as usize)?.as_deref()
    }
    /// Returns a workload by its number, mutable.
    pub(crate) fn get_mut(&mut self, id: WorkloadId) -> Option<&mut WorkloadSlot> {
        self.slots.get_mut(id.0 as usize)?.as_deref_mut()
    }
    /// Returns every workload, by key.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkloadId, &WorkloadSlot)> {
        self.ids.values().filter_map(|&id| Some((id, self.get(id)?)))
    }
    /// Returns a shard's value of a workload.
    pub(crate) fn fact(&self, shard: ShardId, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.get(self.id(key)?)?.facts.iter().find(|f| f.shard == shard)
    }
    /// Returns a shard's value of a workload, mutable.
    pub(crate) fn fact_mut(&mut self, shard: ShardId, key: &WorkloadKey) -> Option<&mut WorkloadFact> {
        let id = self.id(key)?;
        self.get_mut(id)?.facts.iter_mut().find(|f| f.shard == shard)
    }
    /// Sets a shard's value. Returns the workload's number; `None` if there are too many workloads.
    pub(crate) fn put(
        &mut self,
        key: &WorkloadKey,
        fact: WorkloadFact,
        shards: &Shards,
    ) -> Option<WorkloadId> {
        let id = self.intern(key)?;
        let slot = self.get_mut(id)?;
        slot.facts.retain(|f| f.shard != fact.shard);
        // nearly every workload has one shard
        slot.facts.reserve_exact(1);
        slot.facts.push(fact);
        slot.facts.sort_by(|a, b| match (shards.get(a.shard), shards.get(b.shard)) {
            (Some(x), Some(y)) => {
                let (a, b) = (&a.workload.source.object, &b.workload.source.object);
                x.precedence(None, a).order(&y.precedence(None, b))
            }
            _ => a.shard.cmp(&b.shard),
        });
        slot.settle();
        Some(id)
    }
    /// Removes a shard's value.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &WorkloadKey) -> Option<WorkloadFact> {
        let id = self.id(key)?;
        let slot = self.get_mut(id)?;
        let at = slot.facts.iter().position(|f| f.shard == shard)?;
        let gone = slot.facts.remove(at);
        slot.settle();
        Some(gone)
    }
    /// Removes a workload without values that no selector matches.
    pub(crate) fn prune(&mut self, id: WorkloadId) {
        let idle = self.get(id).is_some_and(|s| s.facts.is_empty() && s.selected_by.is_empty());
        if idle && let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::take) {
            self.ids.remove(&slot.key);
            self.free.push(id.0);
        }
    }
    fn intern(&mut self, key: &WorkloadKey) -> Option<WorkloadId> {
        if let Some(id) = self.id(key) {
            return Some(id);
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        let slot = WorkloadSlot {
            key: key.clone(),
            hash: hash(key),
            facts: Vec::new(),
            origin: None,
            selected_by: Vec::new(),
        };
        *self.slots.get_mut(at as usize)? = Some(Box::new(slot));
        self.ids.insert(key.clone(), WorkloadId(at));
        Some(WorkloadId(at))
    }
}

impl WorkloadSlot {
    /// Updates the origin after a change of the values or of the selectors.
    pub(crate) fn settle(&mut self) {
        let origin = self.first().filter(|_| !self.selected_by.is_empty()).map(|f| Origin {
            object: f.workload.source.object.clone(),
            workload: Arc::clone(&f.workload.name),
        });
        if self.origin.as_deref() != origin.as_ref() {
            self.origin = origin.map(Arc::new);
        }
    }
}

fn hash(key: &WorkloadKey) -> u64 {
    let parts = [key.namespace.as_str(), &key.name, key.cluster.as_str()];
    let kind = key.kind as u8;
    let text = parts.join("\n");
    Version::of(&[text.as_bytes(), &[kind]].concat()).0
}
