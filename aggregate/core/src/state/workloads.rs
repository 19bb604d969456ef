//! What can be selected: the workloads of all shards, each under a small number.
//!
//! Filled by the store, read by selection and publication. Two registries may speak of one
//! workload; the first in precedence is the one that is selected and shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{CollectionKind, Mono, Origin, Version, Workload, WorkloadKey};

use crate::state::selectors::SelectorId;
use crate::state::shards::{ShardId, Shards};

/// A workload's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WorkloadId(pub(crate) u32);

/// One shard's word about a workload.
#[derive(Debug, Clone)]
pub(crate) struct WorkloadFact {
    /// Whose word.
    pub(crate) shard: ShardId,
    /// The workload.
    pub(crate) workload: Arc<Workload>,
    /// When it last said something new.
    pub(crate) changed: Mono,
    /// Whether its removal is held.
    pub(crate) held: bool,
}

/// A workload with all that is said of it.
#[derive(Debug)]
pub(crate) struct WorkloadSlot {
    /// Which.
    pub(crate) key: WorkloadKey,
    /// Decides its bucket; equal on every replica.
    pub(crate) hash: u64,
    /// Who says what, the first in precedence first.
    pub(crate) facts: Vec<WorkloadFact>,
    /// Provenance for addresses that are made from it, while it is selected; shared by all of them.
    pub(crate) origin: Option<Arc<Origin>>,
    /// What selects it, sorted.
    pub(crate) selected_by: Vec<SelectorId>,
}

impl WorkloadSlot {
    /// The word that counts.
    pub(crate) fn first(&self) -> Option<&WorkloadFact> {
        self.facts.first()
    }
    /// When it was last confirmed.
    pub(crate) fn confirmed(&self, shards: &Shards) -> Option<Mono> {
        let fact = self.first()?;
        Some(shards.get(fact.shard)?.confirmed(CollectionKind::Workloads, fact.changed))
    }
}

/// All workloads.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    /// Boxed, because a table of thousands that grows would hold room for as many again.
    slots: Vec<Option<Box<WorkloadSlot>>>,
    free: Vec<u32>,
    ids: BTreeMap<WorkloadKey, WorkloadId>,
}

impl Workloads {
    /// The number of a workload.
    pub(crate) fn id(&self, key: &WorkloadKey) -> Option<WorkloadId> {
        self.ids.get(key).copied()
    }
    /// A workload by its number.
    pub(crate) fn get(&self, id: WorkloadId) -> Option<&WorkloadSlot> {
        self.slots.get(id.0 as usize)?.as_deref()
    }
    /// A workload by its number, to change.
    pub(crate) fn get_mut(&mut self, id: WorkloadId) -> Option<&mut WorkloadSlot> {
        self.slots.get_mut(id.0 as usize)?.as_deref_mut()
    }
    /// Every workload, by key.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkloadId, &WorkloadSlot)> {
        self.ids.values().filter_map(|&id| Some((id, self.get(id)?)))
    }
    /// A shard's word about a workload.
    pub(crate) fn fact(&self, shard: ShardId, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.get(self.id(key)?)?.facts.iter().find(|f| f.shard == shard)
    }
    /// A shard's word about a workload, to change.
    pub(crate) fn fact_mut(&mut self, shard: ShardId, key: &WorkloadKey) -> Option<&mut WorkloadFact> {
        let id = self.id(key)?;
        self.get_mut(id)?.facts.iter_mut().find(|f| f.shard == shard)
    }
    /// A shard says this; replaces what it said before.
    pub(crate) fn put(
        &mut self,
        key: &WorkloadKey,
        fact: WorkloadFact,
        shards: &Shards,
    ) -> Option<WorkloadId> {
        let id = self.intern(key)?;
        let slot = self.get_mut(id)?;
        slot.facts.retain(|f| f.shard != fact.shard);
        // of nearly every workload one shard speaks
        slot.facts.reserve_exact(1);
        slot.facts.push(fact);
        slot.facts.sort_by(|a, b| match (shards.get(a.shard), shards.get(b.shard)) {
            (Some(x), Some(y)) => {
                let (a, b) = (&a.workload.source.object, &b.workload.source.object);
                x.claim(None, a).order(&y.claim(None, b))
            }
            _ => a.shard.cmp(&b.shard),
        });
        slot.settle();
        Some(id)
    }
    /// A shard says nothing of it any more.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &WorkloadKey) -> Option<WorkloadFact> {
        let id = self.id(key)?;
        let slot = self.get_mut(id)?;
        let at = slot.facts.iter().position(|f| f.shard == shard)?;
        let gone = slot.facts.remove(at);
        slot.settle();
        Some(gone)
    }
    /// Forgets a workload of which nobody says anything and that nothing selects.
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
    /// After what is said of it or what selects it changed.
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
