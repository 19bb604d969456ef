//! Workloads that several policies of one kind select.
//!
//! The build calls it for changed policies and workloads. A policy is indexed under one label pair of its
//! selector, so a changed workload is compared only with the policies under its own pairs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tributary_model::{Labels, PolicyKey, PolicyKind, Workload};

use crate::state::selectors::Selection;
use crate::state::workloads::{WorkloadId, Workloads};

type Pair = (PolicyKind, tributary_model::Namespace, Arc<str>, Arc<str>);

/// Selectors of policies, and the workloads with several.
#[derive(Debug, Default)]
pub(crate) struct Overlaps {
    selectors: BTreeMap<PolicyKey, Labels>,
    filed: HashMap<Pair, BTreeSet<PolicyKey>>,
    /// Policies that select a workload, at least two.
    several: BTreeMap<(PolicyKind, WorkloadId), Vec<PolicyKey>>,
    /// Workloads of `several` by policy.
    members: BTreeMap<PolicyKey, BTreeSet<WorkloadId>>,
    /// Number of workloads that two policies select.
    shared: BTreeMap<PolicyKey, BTreeMap<PolicyKey, usize>>,
}

impl Overlaps {
    /// Most policies that are compared for one workload, the first by name.
    const MOST: usize = 16;

    /// Returns whether no policy has a selector.
    pub(crate) fn is_idle(&self) -> bool {
        self.selectors.is_empty()
    }
    /// Returns the policies that select a workload that this one selects.
    pub(crate) fn rivals(&self, key: &PolicyKey) -> impl Iterator<Item = &PolicyKey> {
        self.shared.get(key).into_iter().flat_map(BTreeMap::keys)
    }
    /// Sets the selector of a policy; `None` or an empty one removes it. Returns the policies whose rivals changed.
    pub(crate) fn set(
        &mut self,
        key: &PolicyKey,
        selector: Option<&Labels>,
        selection: &Selection,
        workloads: &Workloads,
    ) -> BTreeSet<PolicyKey> {
        let selector = selector.filter(|labels| !labels.is_empty());
        if self.selectors.get(key) == selector {
            return BTreeSet::new();
        }
        self.unfile(key);
        let mut concerned: Vec<WorkloadId> = self.members.get(key).into_iter().flatten().copied().collect();
        if let Some(labels) = selector {
            self.file(key, labels);
            concerned.extend(selection.labelled(&key.namespace, labels));
        }
        concerned.into_iter().flat_map(|id| self.follow(key.kind, id, workloads)).collect()
    }
    fn file(&mut self, key: &PolicyKey, labels: &Labels) {
        if let Some(pair) = pairs(key.kind, key, labels).next() {
            self.filed.entry(pair).or_default().insert(key.clone());
            self.selectors.insert(key.clone(), labels.clone());
        }
    }
    fn unfile(&mut self, key: &PolicyKey) {
        let Some(labels) = self.selectors.remove(key) else { return };
        let Some(pair) = pairs(key.kind, key, &labels).next() else { return };
        if let Some(keys) = self.filed.get_mut(&pair) {
            keys.remove(key);
            if keys.is_empty() {
                self.filed.remove(&pair);
            }
        }
    }
    /// Updates the policies of a workload. Returns those whose rivals changed.
    pub(crate) fn follow(
        &mut self,
        kind: PolicyKind,
        id: WorkloadId,
        workloads: &Workloads,
    ) -> BTreeSet<PolicyKey> {
        let now = self.selecting(kind, id, workloads);
        let before = self.several.get(&(kind, id)).map(Vec::as_slice).unwrap_or_default();
        if before == now {
            return BTreeSet::new();
        }
        let before = self.several.remove(&(kind, id)).unwrap_or_default();
        self.count(id, &before, false);
        self.count(id, &now, true);
        let changed = before.into_iter().chain(now.iter().cloned()).collect();
        if !now.is_empty() {
            self.several.insert((kind, id), now);
        }
        changed
    }
    /// Returns the policies of a kind that select a workload; none if only one does.
    fn selecting(&self, kind: PolicyKind, id: WorkloadId, workloads: &Workloads) -> Vec<PolicyKey> {
        let slot = workloads.get(id);
        let Some((slot, fact)) = slot.and_then(|slot| Some((slot, slot.first()?))) else { return Vec::new() };
        let labels = labels(&fact.workload);
        let namespace = &slot.key.namespace;
        let own = labels.pairs().map(|(k, v)| (kind, namespace.clone(), Arc::clone(k), Arc::clone(v)));
        let filed = own.filter_map(|pair| self.filed.get(&pair)).flatten();
        let matching =
            filed.filter(|key| self.selectors.get(*key).is_some_and(|own| own.is_subset_of(labels)));
        let mut keys: Vec<PolicyKey> = matching.cloned().collect();
        keys.sort();
        keys.truncate(Self::MOST);
        if keys.len() > 1 { keys } else { Vec::new() }
    }
    fn count(&mut self, id: WorkloadId, keys: &[PolicyKey], more: bool) {
        for key in keys {
            let members = self.members.entry(key.clone()).or_default();
            if more {
                members.insert(id)
            } else {
                members.remove(&id)
            };
            if members.is_empty() {
                self.members.remove(key);
            }
            for other in keys.iter().filter(|other| *other != key) {
                self.count_pair(key, other, more);
            }
        }
    }
    fn count_pair(&mut self, key: &PolicyKey, other: &PolicyKey, more: bool) {
        let others = self.shared.entry(key.clone()).or_default();
        let count = others.entry(other.clone()).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            others.remove(other);
        }
        if others.is_empty() {
            self.shared.remove(key);
        }
    }
}

/// Returns the labels that selectors of policies are compared with.
fn labels(workload: &Workload) -> &Labels {
    &workload.augmented
}

fn pairs(kind: PolicyKind, key: &PolicyKey, labels: &Labels) -> impl Iterator<Item = Pair> {
    labels.pairs().map(move |(k, v)| (kind, key.namespace.clone(), Arc::clone(k), Arc::clone(v)))
}

#[cfg(test)]
impl Overlaps {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.selectors.is_empty()
            && self.filed.is_empty()
            && self.several.is_empty()
            && self.members.is_empty()
            && self.shared.is_empty()
    }
}
