//! Selection: which workloads each declaration's selector takes (core.md §4).
//!
//! Told by the store of declarations and workloads; read by merge. Two indexes: label pair to
//! selectors, label pair to workloads. A selector is filed under one of its pairs, the rarest when
//! it is filed, and a workload's change asks only the selectors under its pairs. The namespace is
//! part of a pair. No pairs select nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tributary_model::{
    Declaration, Namespace, ObjectId, ObjectRef, PortNumber, Selector, ServiceKey, Workload, WorkloadKey,
};

use crate::counters::Counters;
use crate::state::bucket::{Buckets, Maker, SelectedGroup};
use crate::state::shards::{ShardId, Shards};
use crate::state::workloads::{WorkloadId, WorkloadSlot, Workloads};

/// A selector's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SelectorId(u32);

type Pair = (Namespace, Arc<str>, Arc<str>);

/// A declaration that selects.
#[derive(Debug)]
struct Selecting {
    service: ServiceKey,
    shard: ShardId,
    declaration: Arc<Declaration>,
    filed: Option<Pair>,
    buckets: Buckets,
}

/// All selectors and what they select.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    slots: Vec<Option<Selecting>>,
    free: Vec<u32>,
    selectors: HashMap<Pair, BTreeSet<SelectorId>>,
    workloads: HashMap<Pair, BTreeSet<WorkloadId>>,
    dirty: BTreeSet<SelectorId>,
    checks: u64,
}

/// What building the buckets that changed came to.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Services whose selected endpoints are others.
    pub(crate) services: Vec<ServiceKey>,
    /// Whether an address went or changed its health.
    pub(crate) urgent: bool,
}

impl Selection {
    fn get(&self, id: SelectorId) -> Option<&Selecting> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
    fn get_mut(&mut self, id: SelectorId) -> Option<&mut Selecting> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }
    /// The groups that a selector made.
    pub(crate) fn groups(&self, id: SelectorId) -> impl Iterator<Item = &SelectedGroup> {
        self.get(id).into_iter().flat_map(|s| s.buckets.iter()).flat_map(|b| b.made.iter())
    }
    /// The ports that selected workloads do not have.
    pub(crate) fn misses(&self, id: SelectorId) -> Vec<(PortNumber, ObjectRef)> {
        let buckets = self.get(id).into_iter().flat_map(|s| s.buckets.iter());
        buckets.flat_map(|b| b.misses.iter().cloned()).collect()
    }
    /// Whether a selector would take a workload if this were reported of it.
    pub(crate) fn would_take(&self, id: SelectorId, key: &WorkloadKey, workload: &Workload) -> bool {
        self.get(id).is_some_and(|s| {
            let selector = s.declaration.selector.as_ref();
            selector.is_some_and(|selector| takes_as(selector, &s.service.namespace, key, workload))
        })
    }
    /// Every member of a selector.
    pub(crate) fn members(&self, id: SelectorId) -> impl Iterator<Item = WorkloadId> {
        self.get(id).into_iter().flat_map(|s| s.buckets.members())
    }
    /// The members among which the removal of some is held, without a walk over all others.
    pub(crate) fn members_beside_held(&self, id: SelectorId) -> impl Iterator<Item = WorkloadId> {
        self.get(id).into_iter().flat_map(|s| s.buckets.beside_held())
    }
    /// The service and the declaring object behind a selector.
    pub(crate) fn owner(&self, id: SelectorId) -> Option<(&ServiceKey, ShardId, &ObjectId)> {
        self.get(id).map(|s| (&s.service, s.shard, &s.declaration.source.object))
    }

    /// A declaration selects; returns the selector's number and the workloads that it took.
    pub(crate) fn declare(
        &mut self,
        service: &ServiceKey,
        shard: ShardId,
        declaration: &Arc<Declaration>,
        workloads: &mut Workloads,
    ) -> Option<(SelectorId, Vec<WorkloadId>)> {
        let selector = declaration.selector.as_ref()?;
        let filed = self.rarest(&service.namespace, selector);
        let slot = Selecting {
            service: service.clone(),
            shard,
            declaration: Arc::clone(declaration),
            filed: filed.clone(),
            buckets: Buckets::default(),
        };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        *self.slots.get_mut(at as usize)? = Some(slot);
        let id = SelectorId(at);
        let Some(pair) = filed else { return Some((id, Vec::new())) };
        self.selectors.entry(pair.clone()).or_default().insert(id);
        let candidates: Vec<WorkloadId> = self.workloads.get(&pair).into_iter().flatten().copied().collect();
        let mut taken = Vec::new();
        for workload in candidates {
            self.checks += 1;
            if workloads.get(workload).is_some_and(|slot| takes(selector, &service.namespace, slot)) {
                self.join(id, workload, workloads);
                taken.push(workload);
            }
        }
        Some((id, taken))
    }
    /// A declaration with the same selector says something else; its groups are built again.
    pub(crate) fn redeclare(&mut self, id: SelectorId, declaration: &Arc<Declaration>) {
        if let Some(slot) = self.get_mut(id) {
            slot.declaration = Arc::clone(declaration);
            slot.buckets.touch_all();
            self.dirty.insert(id);
        }
    }
    /// A declaration selects no more; returns the workloads that it had.
    pub(crate) fn undeclare(&mut self, id: SelectorId, workloads: &mut Workloads) -> Vec<WorkloadId> {
        let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else { return Vec::new() };
        if let Some(pair) = &slot.filed {
            remove(&mut self.selectors, pair, id);
        }
        self.dirty.remove(&id);
        self.free.push(id.0);
        let had: Vec<WorkloadId> = slot.buckets.members().collect();
        for &workload in &had {
            if let Some(slot) = workloads.get_mut(workload) {
                slot.selected_by.retain(|s| *s != id);
                slot.settle();
            }
        }
        had
    }
    /// The word that counts about a workload is another than `before`; whether what selects it is.
    pub(crate) fn follow(
        &mut self,
        id: WorkloadId,
        before: Option<&Workload>,
        workloads: &mut Workloads,
    ) -> bool {
        let Some(slot) = workloads.get(id) else { return false };
        let namespace = &slot.key.namespace;
        let old = before.map(|w| pairs(namespace, w)).unwrap_or_default();
        let new = slot.first().map(|f| pairs(namespace, &f.workload)).unwrap_or_default();
        for pair in old.difference(&new) {
            remove(&mut self.workloads, pair, id);
        }
        for pair in new.difference(&old) {
            self.workloads.entry(pair.clone()).or_default().insert(id);
        }
        let asked = new.iter().filter_map(|pair| self.selectors.get(pair)).flatten().copied();
        let asked: BTreeSet<SelectorId> = asked.collect();
        self.checks += asked.len() as u64;
        let taking = asked.into_iter().filter(|&s| {
            let selecting = self.get(s);
            selecting.is_some_and(|s| {
                let selector = s.declaration.selector.as_ref();
                selector.is_some_and(|sel| takes(sel, &s.service.namespace, slot))
            })
        });
        let taking: Vec<SelectorId> = taking.collect();
        self.reselect(id, &taking, workloads)
    }
    fn reselect(&mut self, id: WorkloadId, taking: &[SelectorId], workloads: &mut Workloads) -> bool {
        let Some(slot) = workloads.get(id) else { return false };
        let (had, hash) = (slot.selected_by.clone(), slot.hash);
        for &selector in had.iter().filter(|s| !taking.contains(s)) {
            self.part(selector, id, workloads);
        }
        for &selector in taking {
            if had.contains(&selector) {
                self.touch(selector, hash);
            } else {
                self.join(selector, id, workloads);
            }
        }
        had != taking
    }
    /// A workload is served otherwise (held, or of another standing) though it says the same.
    pub(crate) fn touch_workload(&mut self, slot: &WorkloadSlot) {
        for &selector in &slot.selected_by {
            self.touch(selector, slot.hash);
        }
    }
    /// Every group of a selector must be built again.
    pub(crate) fn touch_selector(&mut self, id: SelectorId) {
        if let Some(slot) = self.get_mut(id) {
            slot.buckets.touch_all();
            self.dirty.insert(id);
        }
    }
    fn touch(&mut self, id: SelectorId, hash: u64) {
        if let Some(slot) = self.get_mut(id) {
            slot.buckets.touch(hash);
            self.dirty.insert(id);
        }
    }
    fn join(&mut self, id: SelectorId, workload: WorkloadId, workloads: &mut Workloads) {
        let Some(slot) = workloads.get_mut(workload) else { return };
        let (at, hash) = (slot.selected_by.partition_point(|s| *s < id), slot.hash);
        slot.selected_by.insert(at, id);
        slot.settle();
        if let Some(selecting) = self.get_mut(id) {
            selecting.buckets.add(workload, hash, workloads);
            self.dirty.insert(id);
        }
    }
    fn part(&mut self, id: SelectorId, workload: WorkloadId, workloads: &mut Workloads) {
        let Some(slot) = workloads.get_mut(workload) else { return };
        slot.selected_by.retain(|s| *s != id);
        slot.settle();
        let hash = slot.hash;
        if let Some(selecting) = self.get_mut(id) {
            selecting.buckets.remove(workload, hash, workloads);
            self.dirty.insert(id);
        }
    }
    fn rarest(&self, namespace: &Namespace, selector: &Selector) -> Option<Pair> {
        let pairs = selector.labels.pairs();
        let pairs = pairs.map(|(k, v)| (namespace.clone(), Arc::clone(k), Arc::clone(v)));
        pairs.min_by_key(|pair| self.workloads.get(pair).map_or(0, BTreeSet::len))
    }
    /// Builds the buckets that changed.
    pub(crate) fn build(&mut self, workloads: &Workloads, shards: &Shards, counters: &mut Counters) -> Built {
        let mut out = Built::default();
        for id in std::mem::take(&mut self.dirty) {
            let Some(slot) = self.get_mut(id) else { continue };
            let declaration = Arc::clone(&slot.declaration);
            let maker = Maker { declaration: &declaration, shard: slot.shard, shards, workloads };
            let (changed, urgent) = slot.buckets.build(&maker, &mut counters.buckets);
            if changed {
                out.services.push(slot.service.clone());
            }
            out.urgent |= urgent;
        }
        counters.selector_checks += std::mem::take(&mut self.checks);
        out
    }
}

/// Whether a selector of a namespace takes a workload.
fn takes(selector: &Selector, namespace: &Namespace, slot: &WorkloadSlot) -> bool {
    slot.first().is_some_and(|fact| takes_as(selector, namespace, &slot.key, &fact.workload))
}

/// Whether it takes a workload of which this is reported.
fn takes_as(selector: &Selector, namespace: &Namespace, key: &WorkloadKey, workload: &Workload) -> bool {
    let labels = if selector.augmented { &workload.augmented } else { &workload.labels };
    !selector.labels.is_empty()
        && key.namespace == *namespace
        && selector.kinds.contains(&key.kind)
        && selector.cluster.as_ref().is_none_or(|c| *c == key.cluster)
        && (selector.names || !workload.is_named())
        && selector.labels.is_subset_of(labels)
}

/// Every pair by which a workload may be found: a selector reads either its own labels or the
/// augmented ones.
fn pairs(namespace: &Namespace, workload: &Workload) -> BTreeSet<Pair> {
    let all = workload.labels.pairs().chain(workload.augmented.pairs());
    all.map(|(k, v)| (namespace.clone(), Arc::clone(k), Arc::clone(v))).collect()
}

fn remove<T: Ord>(index: &mut HashMap<Pair, BTreeSet<T>>, pair: &Pair, id: T) {
    if let Some(ids) = index.get_mut(pair) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(pair);
        }
    }
}

#[cfg(test)]
impl Selection {
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.selectors.is_empty() && self.workloads.is_empty() && self.slots.iter().all(Option::is_none)
    }
}
