//! Selection: the workloads that each declaration's selector matches.
//!
//! Apply reports declarations and workloads; merge reads the groups. Two indexes: label pair to
//! selectors, label pair to workloads. A selector is indexed under one of its pairs, the rarest at
//! that time, and a changed workload is compared only with the selectors under its pairs. The
//! namespace is part of a pair. A selector without pairs selects nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tributary_model::{
    Declaration, Labels, Namespace, ObjectId, ObjectRef, PortNumber, Selector, ServiceKey, Workload,
    WorkloadKey,
};

use crate::counters::Counters;
use crate::state::bucket::{Buckets, GroupBuilder, SelectedGroup};
use crate::state::shards::{ShardId, Shards};
use crate::state::workloads::{WorkloadId, WorkloadSlot, Workloads};

/// Number of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SelectorId(u32);

type Pair = (Namespace, Arc<str>, Arc<str>);

/// Declaration with a selector.
#[derive(Debug)]
struct Selecting {
    service: ServiceKey,
    shard: ShardId,
    declaration: Arc<Declaration>,
    filed: Option<Pair>,
    buckets: Buckets,
}

/// All selectors and the workloads that they select.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    slots: Vec<Option<Selecting>>,
    free: Vec<u32>,
    selectors: HashMap<Pair, BTreeSet<SelectorId>>,
    workloads: HashMap<Pair, BTreeSet<WorkloadId>>,
    dirty: BTreeSet<SelectorId>,
    checks: u64,
}

/// Result of building changed buckets.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Services whose selected endpoints changed.
    pub(crate) services: Vec<ServiceKey>,
    /// Whether an address was removed or changed its health.
    pub(crate) urgent: bool,
}

impl Selection {
    fn get(&self, id: SelectorId) -> Option<&Selecting> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
    fn get_mut(&mut self, id: SelectorId) -> Option<&mut Selecting> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }
    /// Returns the groups of a selector.
    pub(crate) fn groups(&self, id: SelectorId) -> impl Iterator<Item = &SelectedGroup> {
        self.get(id).into_iter().flat_map(|s| s.buckets.iter()).flat_map(|b| b.made.iter())
    }
    /// Returns the declared ports that selected workloads lack, with the workloads.
    pub(crate) fn misses(&self, id: SelectorId) -> Vec<(PortNumber, ObjectRef)> {
        let buckets = self.get(id).into_iter().flat_map(|s| s.buckets.iter());
        buckets.flat_map(|b| b.misses.iter().cloned()).collect()
    }
    /// Returns whether a selector would match a workload with this value.
    pub(crate) fn would_match(&self, id: SelectorId, key: &WorkloadKey, workload: &Workload) -> bool {
        self.get(id).is_some_and(|s| {
            let selector = s.declaration.selector.as_ref();
            selector.is_some_and(|selector| matches_value(selector, &s.service.namespace, key, workload))
        })
    }
    /// Returns every member of a selector.
    pub(crate) fn members(&self, id: SelectorId) -> impl Iterator<Item = WorkloadId> {
        self.get(id).into_iter().flat_map(|s| s.buckets.members())
    }
    /// Returns the members of the buckets with held removals, without visiting the other buckets.
    pub(crate) fn members_beside_held(&self, id: SelectorId) -> impl Iterator<Item = WorkloadId> {
        self.get(id).into_iter().flat_map(|s| s.buckets.beside_held())
    }
    /// Returns the service, shard and declaring object of a selector.
    pub(crate) fn owner(&self, id: SelectorId) -> Option<(&ServiceKey, ShardId, &ObjectId)> {
        self.get(id).map(|s| (&s.service, s.shard, &s.declaration.source.object))
    }

    /// Adds a declaration with a selector. Returns the selector's number and the workloads that it matches.
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
    /// Replaces a declaration whose selector is unchanged; its groups are built again.
    pub(crate) fn redeclare(&mut self, id: SelectorId, declaration: &Arc<Declaration>) {
        if let Some(slot) = self.get_mut(id) {
            slot.declaration = Arc::clone(declaration);
            slot.buckets.touch_all();
            self.dirty.insert(id);
        }
    }
    /// Removes a selector. Returns the workloads that it matched.
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
    /// Updates the selection of a workload whose effective value was `before`. Returns whether its selectors changed.
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
        let candidates = new.iter().filter_map(|pair| self.selectors.get(pair)).flatten().copied();
        let candidates: BTreeSet<SelectorId> = candidates.collect();
        self.checks += candidates.len() as u64;
        let sliced = candidates.into_iter().filter(|&s| {
            let selecting = self.get(s);
            selecting.is_some_and(|s| {
                let selector = s.declaration.selector.as_ref();
                selector.is_some_and(|sel| takes(sel, &s.service.namespace, slot))
            })
        });
        let sliced: Vec<SelectorId> = sliced.collect();
        self.reselect(id, &sliced, workloads)
    }
    fn reselect(&mut self, id: WorkloadId, sliced: &[SelectorId], workloads: &mut Workloads) -> bool {
        let Some(slot) = workloads.get(id) else { return false };
        let (had, hash) = (slot.selected_by.clone(), slot.hash);
        for &selector in had.iter().filter(|s| !sliced.contains(s)) {
            self.part(selector, id, workloads);
        }
        for &selector in sliced {
            if had.contains(&selector) {
                self.touch(selector, hash);
            } else {
                self.join(selector, id, workloads);
            }
        }
        had != sliced
    }
    /// Marks the buckets of a workload whose value is unchanged but whose hold or priority changed.
    pub(crate) fn touch_workload(&mut self, slot: &WorkloadSlot) {
        for &selector in &slot.selected_by {
            self.touch(selector, slot.hash);
        }
    }
    /// Marks every bucket of a selector.
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
    /// Returns the workloads of a namespace that have every one of these labels, own or augmented.
    pub(crate) fn labelled(&self, namespace: &Namespace, labels: &Labels) -> Vec<WorkloadId> {
        let pairs = labels.pairs().map(|(k, v)| (namespace.clone(), Arc::clone(k), Arc::clone(v)));
        let sets = pairs.map(|pair| self.workloads.get(&pair));
        let Some(mut sets) = sets.collect::<Option<Vec<_>>>() else { return Vec::new() };
        sets.sort_by_key(|set| set.len());
        let Some((rarest, others)) = sets.split_first() else { return Vec::new() };
        rarest.iter().filter(|id| others.iter().all(|set| set.contains(id))).copied().collect()
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
            let maker = GroupBuilder { declaration: &declaration, shard: slot.shard, shards, workloads };
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

/// Returns whether a selector of a namespace matches a workload.
fn takes(selector: &Selector, namespace: &Namespace, slot: &WorkloadSlot) -> bool {
    slot.first().is_some_and(|fact| matches_value(selector, namespace, &slot.key, &fact.workload))
}

/// Returns whether a selector of a namespace matches a workload with this value.
fn matches_value(selector: &Selector, namespace: &Namespace, key: &WorkloadKey, workload: &Workload) -> bool {
    let labels = if selector.augmented { &workload.augmented } else { &workload.labels };
    !selector.labels.is_empty()
        && key.namespace == *namespace
        && selector.kinds.contains(&key.kind)
        && selector.cluster.as_ref().is_none_or(|c| *c == key.cluster)
        && (selector.names || !workload.is_named())
        && selector.labels.is_subset_of(labels)
}

/// Returns every pair under which a workload is indexed: a selector matches either the workload's own
/// labels or the augmented ones.
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
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.selectors.is_empty() && self.workloads.is_empty() && self.slots.iter().all(Option::is_none)
    }
}
