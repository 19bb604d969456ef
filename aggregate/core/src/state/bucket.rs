//! Members of one selector, in buckets by hash of their keys, and the groups built from them.
//!
//! Owned by selection. A changed workload rebuilds one bucket. The number of buckets depends only on
//! the number of members and grows by splitting one bucket at a time: adding or removing a member
//! rebuilds at most two buckets, and the state does not depend on history.

use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Declaration, EndpointGroup, GroupPort, ObjectRef, PortNumber, PortSet,
    ShardPriority, WorkloadAddress,
};

use crate::merge::target::{ResolvedPort, resolve_target_port};
use crate::state::shards::{ShardId, Shards};
use crate::state::workloads::{WorkloadFact, WorkloadId, WorkloadSlot, Workloads};

/// Group built by selection.
#[derive(Debug, PartialEq)]
pub(crate) struct SelectedGroup {
    /// Addresses.
    pub(crate) group: Arc<EndpointGroup>,
    /// Indexes of the addresses whose workload's removal is held.
    pub(crate) held: Option<Arc<[u32]>>,
    /// Lower of the priorities of the selecting declaration's shard and the workloads' shards.
    pub(crate) priority: ShardPriority,
}

/// Bucket of members.
#[derive(Debug, Default)]
pub(crate) struct SelectionBucket {
    members: Vec<WorkloadId>,
    dirty: bool,
    /// Groups built from its members: normal, then demoted ones.
    pub(crate) made: Vec<SelectedGroup>,
    /// Members without a port for one of the declaration's.
    pub(crate) misses: Vec<(PortNumber, ObjectRef)>,
}

/// All buckets of a selector.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    list: Vec<SelectionBucket>,
    len: usize,
}

/// Mean number of members per bucket: half of the bound, halved again because buckets that are not
/// split yet hold twice the mean.
const PER_BUCKET: usize = EndpointGroup::BUCKET / 4;

/// Returns the bucket of a hash among `count` buckets; those beyond a power of two were split off.
fn bucket_of(hash: u64, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let at = usize::try_from(hash).unwrap_or(usize::MAX) & mask;
    if at < count { at } else { at & (mask >> 1) }
}

impl Buckets {
    /// Returns the buckets, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SelectionBucket> {
        self.list.iter()
    }
    /// Returns every member.
    pub(crate) fn members(&self) -> impl Iterator<Item = WorkloadId> {
        self.list.iter().flat_map(|b| b.members.iter().copied())
    }
    /// Returns the members of buckets with held removals.
    pub(crate) fn beside_held(&self) -> impl Iterator<Item = WorkloadId> {
        let held = |bucket: &&SelectionBucket| bucket.made.iter().any(|made| made.held.is_some());
        self.list.iter().filter(held).flat_map(|b| b.members.iter().copied())
    }
    /// Adds a member.
    pub(crate) fn add(&mut self, id: WorkloadId, hash: u64, workloads: &Workloads) {
        self.len += 1;
        self.resize(workloads);
        self.change(hash, |members| members.push(id));
    }
    /// Removes a member.
    pub(crate) fn remove(&mut self, id: WorkloadId, hash: u64, workloads: &Workloads) {
        self.change(hash, |members| members.retain(|m| *m != id));
        self.len = self.len.saturating_sub(1);
        self.resize(workloads);
    }
    /// Marks a changed member's bucket.
    pub(crate) fn touch(&mut self, hash: u64) {
        self.change(hash, |_| ());
    }
    /// Marks every bucket.
    pub(crate) fn touch_all(&mut self) {
        self.list.iter_mut().for_each(|b| b.dirty = true);
    }
    fn change(&mut self, hash: u64, edit: impl FnOnce(&mut Vec<WorkloadId>)) {
        let at = bucket_of(hash, self.list.len().max(1));
        if let Some(bucket) = self.list.get_mut(at) {
            edit(&mut bucket.members);
            bucket.dirty = true;
        }
    }
    fn resize(&mut self, workloads: &Workloads) {
        let want = self.len.div_ceil(PER_BUCKET).max(1);
        while self.list.len() < want {
            let at = self.list.len();
            self.list.push(SelectionBucket { dirty: true, ..SelectionBucket::default() });
            self.scatter(at, workloads);
        }
        while self.list.len() > want {
            let gone = self.list.pop().unwrap_or_default();
            self.spread(gone.members, workloads);
        }
    }
    /// Splits the bucket whose members may belong to the new one at `at`.
    fn scatter(&mut self, at: usize, workloads: &Workloads) {
        let from = at - (at + 1).next_power_of_two() / 2;
        if from == at {
            return;
        }
        let members = self.list.get_mut(from).map(|b| std::mem::take(&mut b.members)).unwrap_or_default();
        if let Some(bucket) = self.list.get_mut(from) {
            bucket.dirty = true;
        }
        self.spread(members, workloads);
    }
    fn spread(&mut self, members: Vec<WorkloadId>, workloads: &Workloads) {
        for id in members {
            let hash = workloads.get(id).map_or(0, |slot| slot.hash);
            self.change(hash, |members| members.push(id));
        }
    }
    /// Builds marked buckets. Returns whether a group changed, and whether an address was removed or
    /// changed its health.
    pub(crate) fn build(&mut self, with: &GroupBuilder<'_>, built: &mut u64) -> (bool, bool) {
        let (mut changed, mut urgent) = (false, false);
        for bucket in self.list.iter_mut().filter(|b| b.dirty) {
            bucket.dirty = false;
            *built += 1;
            let (made, misses) = with.make(&bucket.members);
            if made != bucket.made || misses != bucket.misses {
                changed = true;
                urgent = urgent || loses_any(&bucket.made, &made);
                bucket.made = made;
                bucket.misses = misses;
            }
        }
        (changed, urgent)
    }
}

fn loses_any(before: &[SelectedGroup], now: &[SelectedGroup]) -> bool {
    before.iter().any(|b| {
        let same = now.iter().find(|n| n.priority == b.priority);
        same.is_none_or(|n| crate::removal::difference::loses(&b.group, &n.group))
    })
}

/// Builds groups of workloads for one declaration.
pub(crate) struct GroupBuilder<'a> {
    /// Selecting declaration.
    pub(crate) declaration: &'a Declaration,
    /// Shard that reports the declaration.
    pub(crate) shard: ShardId,
    /// All shards.
    pub(crate) shards: &'a Shards,
    /// All workloads.
    pub(crate) workloads: &'a Workloads,
}

/// Group under construction.
#[derive(Default)]
struct Draft {
    port_sets: Vec<PortSet>,
    names: Vec<Arc<str>>,
    addresses: Vec<Address>,
    held: Vec<u32>,
}

impl GroupBuilder<'_> {
    fn make(&self, members: &[WorkloadId]) -> (Vec<SelectedGroup>, Vec<(PortNumber, ObjectRef)>) {
        let mut slots: Vec<&WorkloadSlot> = members.iter().filter_map(|&id| self.workloads.get(id)).collect();
        slots.sort_by(|a, b| a.key.cmp(&b.key));
        let mut misses = Vec::new();
        let mut drafts = [Draft::default(), Draft::default()];
        for slot in slots {
            let Some(fact) = slot.first() else { continue };
            let draft = match self.priority(fact) {
                ShardPriority::Normal => &mut drafts[0],
                ShardPriority::Demoted => &mut drafts[1],
                ShardPriority::Withdrawn => continue,
            };
            self.add(slot, fact, draft, &mut misses);
        }
        let [normal, demoted] = drafts;
        let made = [(normal, ShardPriority::Normal), (demoted, ShardPriority::Demoted)];
        let made = made.into_iter().filter(|(draft, _)| !draft.addresses.is_empty());
        (made.map(|(draft, priority)| draft.finish(self.declaration, priority)).collect(), misses)
    }
    fn priority(&self, fact: &WorkloadFact) -> ShardPriority {
        let of = |id| self.shards.get(id).map(|info| info.priority).unwrap_or_default();
        of(self.shard).max(of(fact.shard))
    }
    fn add(
        &self,
        slot: &WorkloadSlot,
        fact: &WorkloadFact,
        draft: &mut Draft,
        misses: &mut Vec<(PortNumber, ObjectRef)>,
    ) {
        let workload = &fact.workload;
        let mut ports: Vec<GroupPort> = Vec::with_capacity(self.declaration.ports.len());
        for port in self.declaration.ports.iter() {
            let number = match resolve_target_port(port, slot.key.kind, workload) {
                ResolvedPort::Number(number) => Some(number),
                ResolvedPort::Unix => None,
                ResolvedPort::Miss => {
                    misses.push((port.number, workload.source.reference()));
                    continue;
                }
            };
            ports.push(GroupPort { name: port.name.clone(), number });
        }
        let at = workload.addresses.first().and_then(|address| draft.at(address));
        let (Some(at), false) = (at, ports.is_empty()) else { return };
        let Some(port_set) = draft.port_set(ports) else { return };
        if fact.held {
            draft.held.extend(u32::try_from(draft.addresses.len()));
        }
        draft.addresses.push(Address {
            at,
            port_set,
            health: workload.health,
            mtls: workload.mtls,
            weight: workload.weight,
            topology: Arc::clone(&workload.topology),
            labels: workload.augmented.clone(),
            identity: workload.identity.clone(),
            origin: slot.origin.clone(),
        });
    }
}

impl Draft {
    fn at(&mut self, address: &WorkloadAddress) -> Option<AddressRef> {
        let mut name = |name: &Arc<str>| {
            self.names.push(Arc::clone(name));
            u16::try_from(self.names.len() - 1).ok()
        };
        match address {
            WorkloadAddress::Ip(ip) => Some(AddressRef::Ip(*ip)),
            WorkloadAddress::Name(text) => name(text).map(AddressRef::Name),
            WorkloadAddress::Unix(path) => name(path).map(AddressRef::Unix),
        }
    }
    fn port_set(&mut self, ports: Vec<GroupPort>) -> Option<u16> {
        let known = self.port_sets.iter().position(|set| **set == *ports);
        let at = known.unwrap_or_else(|| {
            self.port_sets.push(ports.into());
            self.port_sets.len() - 1
        });
        u16::try_from(at).ok()
    }
    fn finish(self, declaration: &Declaration, priority: ShardPriority) -> SelectedGroup {
        let group =
            EndpointGroup::new(declaration.source.clone(), self.port_sets, self.names, self.addresses);
        let held = (!self.held.is_empty()).then(|| Arc::from(self.held));
        SelectedGroup { group: Arc::new(group), held, priority }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_bucket_takes_members_of_one_bucket_only() {
        let hashes: Vec<u64> = (0..4000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        for count in 1..40 {
            let moved: std::collections::BTreeSet<usize> = hashes
                .iter()
                .filter(|&&h| bucket_of(h, count) != bucket_of(h, count + 1))
                .map(|&h| bucket_of(h, count))
                .collect();
            assert!(moved.len() <= 1, "from {count} buckets: members of {moved:?} moved");
            assert!(hashes.iter().all(|&h| bucket_of(h, count) < count));
        }
    }
}
