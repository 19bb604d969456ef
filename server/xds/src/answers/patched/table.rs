//! What patches make of resources, kept while a client has these patches.
//!
//! A resource that changes is patched again, and another one of its name is not. The limits bound memory only: what is not kept
//! is made again, with equal bytes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_answer::ClientPatches;
use tributary_model::{Catalog, EncodedResource, PolicyKey, Version};

use crate::answers::counters::Counter;
use crate::answers::{ResourceSet, ResourceType};
use crate::patch::{Added, HostSources, Outcome, Patches, RefusedPatch, Side};

/// Most sets of one type that are kept for the same patches.
const MAX_SETS: usize = 16;
/// Most outcomes that are kept beyond the members of the last set.
const SPARE_OUTCOMES: usize = 4096;
/// Number of tables of patches at which those that no client has are removed first.
const FIRST_CLEANUP: usize = 64;

/// What patches make of one resource.
#[derive(Debug, Clone)]
pub(super) enum Applied {
    /// It stays.
    Same,
    /// The client does not have it.
    Removed,
    /// Another one takes its place.
    Changed(Arc<EncodedResource>),
}

/// The patches of some clients, and what they make of resources.
#[derive(Debug)]
pub(super) struct Patching {
    of: ClientPatches,
    patches: Patches,
    clusters: Vec<Arc<EncodedResource>>,
    listeners: Vec<Arc<EncodedResource>>,
    /// Filters that added those, and the positions of the patches, in the same order.
    adders: [Vec<(PolicyKey, usize)>; 2],
    kept: Mutex<Kept>,
}

type Key = (ResourceType, Side, Arc<str>);

/// What was made of a version of a resource, the filters whose patches changed it, and the patches that were left out.
#[derive(Debug)]
struct Made {
    from: Version,
    applied: Applied,
    by: Box<[PolicyKey]>,
    left_out: Box<[RefusedPatch]>,
}

impl Made {
    /// Returns the version that clients have; `None` if it was removed.
    fn version(&self) -> Option<Version> {
        match &self.applied {
            Applied::Same => Some(self.from),
            Applied::Changed(now) => Some(now.version),
            Applied::Removed => None,
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    outcomes: HashMap<Key, Made>,
    members: usize,
    /// Sets over a base; `None` where patches change nothing, so that a base is not held.
    sets: VecDeque<(ResourceType, Weak<ResourceSet>, Option<Arc<ResourceSet>>)>,
}

impl Patching {
    fn new(of: &ClientPatches) -> Option<Self> {
        let patches = Patches::new(of)?;
        let split = |added: Vec<Added>| {
            let resource = |of: Added| {
                let by = (of.by, of.patch);
                (Arc::new(EncodedResource::new(of.name.into(), Bytes::from(of.body))), by)
            };
            added.into_iter().map(resource).unzip()
        };
        let (clusters, of_clusters) = split(patches.added_clusters());
        let (listeners, of_listeners) = split(patches.added_listeners());
        Some(Self {
            clusters,
            listeners,
            adders: [of_clusters, of_listeners],
            patches,
            of: of.clone(),
            kept: Mutex::default(),
        })
    }
    /// Returns the resources of a type that are added.
    pub(super) fn added(&self, kind: ResourceType) -> &[Arc<EncodedResource>] {
        match kind {
            ResourceType::Cluster => &self.clusters,
            ResourceType::Listener => &self.listeners,
            _ => &[],
        }
    }
    /// Returns the resource that a client has because it is added under a name.
    pub(super) fn added_as(&self, kind: ResourceType, name: &str) -> Option<Arc<EncodedResource>> {
        let at = self.added(kind).iter().position(|added| *added.name == *name)?;
        self.use_added(kind, at)
    }
    /// Returns the resource at a position among those that are added, because a client has it.
    pub(super) fn use_added(&self, kind: ResourceType, at: usize) -> Option<Arc<EncodedResource>> {
        let (_, patch) = self.adders[usize::from(kind == ResourceType::Listener)].get(at)?;
        self.patches.use_added(*patch);
        self.added(kind).get(at).cloned()
    }
    /// Applies the patches to a resource. Concurrent callers for any resource wait for one.
    pub(super) fn apply(
        &self,
        (kind, side): (ResourceType, Side),
        resource: &Arc<EncodedResource>,
        body: impl FnOnce() -> Option<Bytes>,
        changes: &Counter,
    ) -> Applied {
        if !self.may_change(kind, side, &resource.name) {
            return Applied::Same;
        }
        let mut kept = self.kept.lock();
        kept.bound();
        match kept.outcomes.entry((kind, side, Arc::clone(&resource.name))) {
            Entry::Occupied(known) if known.get().from == resource.version => known.get().applied.clone(),
            entry => {
                let Some(body) = body() else { return Applied::Same };
                let applied = self.make(kind, side, &resource.name, &body);
                if !matches!(applied, Applied::Same) {
                    changes.one();
                }
                let (by, left_out) =
                    (self.patches.take_sources().into(), self.patches.take_left_out().into());
                let made = Made { from: resource.version, applied, by, left_out };
                entry.insert_entry(made).get().applied.clone()
            }
        }
    }
    /// Returns the filters that changed or added a resource; none if this version of it is not kept.
    pub(super) fn sources(&self, kind: ResourceType, name: &str, version: Version) -> Vec<PolicyKey> {
        let kept = self.kept.lock();
        for side in [Side::Outbound, Side::Inbound] {
            let made = kept.outcomes.get(&(kind, side, Arc::from(name)));
            let is_it =
                |made: &&Made| matches!(&made.applied, Applied::Changed(now) if now.version == version);
            if let Some(made) = made.filter(is_it) {
                return made.by.to_vec();
            }
        }
        let at = self.added(kind).iter().position(|added| *added.name == *name && added.version == version);
        let adders = &self.adders[usize::from(kind == ResourceType::Listener)];
        at.and_then(|at| adders.get(at)).map(|(by, _)| by.clone()).into_iter().collect()
    }
    /// Returns the filters that changed the virtual host at a position of an outbound route table, which is made again from the
    /// one without patches; `None` if this is not how the table of this version was made.
    pub(super) fn host_sources(
        &self,
        (name, version): (&str, Version),
        (body, at): (&[u8], usize),
    ) -> Option<HostSources> {
        // the patches that are kept record what they change
        let patches = Patches::new(&self.of)?;
        let (made, sources) = patches.host_sources(name, Side::Outbound, (body, at))?;
        (EncodedResource::new(name.into(), made.into()).version == version).then_some(sources)
    }
    /// Returns the patches that were left out of a version of a resource; none if it is not kept.
    pub(super) fn left_out(&self, kind: ResourceType, name: &str, version: Version) -> Vec<RefusedPatch> {
        let kept = self.kept.lock();
        let of = |side| kept.outcomes.get(&(kind, side, Arc::from(name)));
        let made = [Side::Outbound, Side::Inbound].into_iter().filter_map(of);
        let made = made.filter(|made| made.version() == Some(version));
        made.flat_map(|made| made.left_out.iter().cloned()).collect()
    }
    /// Returns the patches that are left out of the virtual host with a domain of an outbound route table, which is patched again,
    /// and of the table beside its virtual hosts.
    pub(super) fn left_out_of_host(&self, name: &str, (body, domain): (&[u8], &str)) -> Vec<RefusedPatch> {
        // the patches that are kept record what they change
        let patches = Patches::new(&self.of);
        patches.map(|of| of.left_out_of_host(name, Side::Outbound, (body, domain))).unwrap_or_default()
    }
    /// Passes on each patch that was left out of a resource.
    fn each_refused(&self, mut seen: impl FnMut(ResourceType, &Arc<str>, &RefusedPatch)) {
        for ((kind, _, name), made) in &self.kept.lock().outcomes {
            made.left_out.iter().for_each(|one| seen(*kind, name, one));
        }
    }
    /// Returns the filter that removed a resource.
    pub(super) fn remover(&self, kind: ResourceType, name: &str) -> Option<PolicyKey> {
        let kept = self.kept.lock();
        let made = [Side::Outbound, Side::Inbound]
            .into_iter()
            .filter_map(|side| kept.outcomes.get(&(kind, side, Arc::from(name))));
        // nothing is patched behind a removal
        let mut removed = made.filter(|made| matches!(made.applied, Applied::Removed));
        removed.find_map(|made| made.by.last().cloned())
    }
    /// Returns the outbound resources of a type that were removed, and the filter of each, sorted by name.
    pub(super) fn removed(&self, kind: ResourceType) -> Vec<(Arc<str>, PolicyKey)> {
        let kept = self.kept.lock();
        let gone = kept.outcomes.iter().filter(|((of, side, name), made)| {
            let is_added = || self.added(kind).iter().any(|added| added.name == *name);
            *of == kind && *side == Side::Outbound && matches!(made.applied, Applied::Removed) && !is_added()
        });
        let named = gone.filter_map(|((_, _, name), made)| Some((Arc::clone(name), made.by.last()?.clone())));
        let mut out: Vec<_> = named.collect();
        out.sort();
        out
    }
    /// Whether a patch may match a resource of this name or a part of it. What none matches is not kept.
    fn may_change(&self, kind: ResourceType, side: Side, name: &str) -> bool {
        match kind {
            ResourceType::Cluster => self.patches.may_change_cluster(name),
            ResourceType::Listener => self.patches.may_change_listener(name, side),
            ResourceType::Route => self.patches.may_change_table(name, side),
            ResourceType::Endpoints | ResourceType::Secret => false,
        }
    }
    fn make(&self, kind: ResourceType, side: Side, name: &Arc<str>, body: &[u8]) -> Applied {
        let outcome = match kind {
            ResourceType::Cluster => self.patches.cluster(name, body),
            ResourceType::Listener => self.patches.listener(name, side, body),
            ResourceType::Route => self.patches.table(name, side, body),
            ResourceType::Endpoints | ResourceType::Secret => Outcome::Same,
        };
        match outcome {
            Outcome::Same => Applied::Same,
            Outcome::Removed => Applied::Removed,
            Outcome::Changed(body) => {
                Applied::Changed(Arc::new(EncodedResource::new(Arc::clone(name), body.into())))
            }
        }
    }
    /// Returns the set over a base if it is kept.
    pub(super) fn known_set(&self, kind: ResourceType, base: &Arc<ResourceSet>) -> Option<Arc<ResourceSet>> {
        let kept = self.kept.lock();
        let is_over =
            |of: &ResourceType, known: &Weak<ResourceSet>| *of == kind && known.as_ptr() == Arc::as_ptr(base);
        let found = kept.sets.iter().find(|(of, known, _)| is_over(of, known));
        found.map(|(.., set)| Arc::clone(set.as_ref().unwrap_or(base)))
    }
    /// Returns the set over a base, made by the first caller.
    pub(super) fn set_over(
        &self,
        kind: ResourceType,
        base: &Arc<ResourceSet>,
        make: impl FnOnce() -> Arc<ResourceSet>,
    ) -> Arc<ResourceSet> {
        if let Some(known) = self.known_set(kind, base) {
            return known;
        }
        let made = make();
        let mut kept = self.kept.lock();
        kept.members = kept.members.max(base.len());
        if kept.sets.iter().filter(|(of, ..)| *of == kind).count() >= MAX_SETS
            && let Some(oldest) = kept.sets.iter().position(|(of, ..)| *of == kind)
        {
            kept.sets.remove(oldest);
        }
        let own = (!Arc::ptr_eq(&made, base)).then(|| Arc::clone(&made));
        kept.sets.push_back((kind, Arc::downgrade(base), own));
        made
    }
}

impl Kept {
    /// Forgets all outcomes once most of them are of resources that are gone.
    fn bound(&mut self) {
        if self.outcomes.len() > 3 * self.members + SPARE_OUTCOMES {
            self.outcomes.clear();
        }
    }
}

/// The patches that clients have, by content.
#[derive(Debug, Default)]
pub(super) struct PatchingTable {
    live: Mutex<Live>,
}

/// Positions of patches, by filter.
pub type UsedPatches = BTreeMap<PolicyKey, BTreeSet<usize>>;

/// Patches that were left out of resources, by filter and position: the first such resource, and the rule that it would break.
pub type RefusedPatches = BTreeMap<PolicyKey, BTreeMap<usize, (ResourceType, Arc<str>, Arc<str>)>>;

/// Patches with a client that has them.
type Used = (Weak<ClientPatches>, Arc<Patching>);

#[derive(Debug, Default)]
struct Live {
    hasher: RandomState,
    by_hash: HashMap<u64, Vec<Used>>,
    len: usize,
    cleanup_at: usize,
}

impl PatchingTable {
    /// Returns what is kept for these patches; `None` if the types of Envoy's API cannot be read.
    pub(super) fn get(&self, patches: &Arc<ClientPatches>) -> Option<Arc<Patching>> {
        let mut live = self.live.lock();
        let hash = live.hasher.hash_one(&**patches);
        let known = live.by_hash.get_mut(&hash).into_iter().flatten();
        if let Some((user, found)) = known.into_iter().find(|(_, known)| known.of == **patches) {
            if user.strong_count() == 0 {
                *user = Arc::downgrade(patches);
            }
            return Some(Arc::clone(found));
        }
        live.remove_unused();
        let made = Arc::new(Patching::new(patches)?);
        live.by_hash.entry(hash).or_default().push((Arc::downgrade(patches), Arc::clone(&made)));
        live.len += 1;
        Some(made)
    }
    /// Returns the positions of the patches of a catalog that changed something for a client, by filter.
    pub(super) fn used(&self, catalog: &Catalog) -> UsedPatches {
        let mut out = UsedPatches::new();
        for patching in self.all() {
            // a client may still have patches of an earlier version
            let current: BTreeSet<&PolicyKey> = patching.of.current(catalog).collect();
            for (key, at) in patching.patches.used().filter(|(key, _)| current.contains(key)) {
                out.entry(key.clone()).or_default().insert(at);
            }
        }
        out
    }
    /// Returns the patches of a catalog that were left out of resources of clients. Those of a resource that is gone may be among
    /// them until the filter changes.
    pub(super) fn refused_patches(&self, catalog: &Catalog) -> RefusedPatches {
        let mut out = RefusedPatches::new();
        for patching in self.all() {
            let current: BTreeSet<&PolicyKey> = patching.of.current(catalog).collect();
            patching.each_refused(|kind, name, RefusedPatch { by, at, rule }| {
                if current.contains(by) {
                    let found = (kind, Arc::clone(name), Arc::clone(rule));
                    let first = out.entry(by.clone()).or_default().entry(*at);
                    first.and_modify(|first| *first = found.clone().min(first.clone())).or_insert(found);
                }
            });
        }
        out
    }
    /// Returns the patches that clients have.
    fn all(&self) -> Vec<Arc<Patching>> {
        let live = self.live.lock();
        let known = live.by_hash.values().flatten().filter(|(user, _)| user.strong_count() > 0);
        known.map(|(_, patching)| Arc::clone(patching)).collect()
    }
    /// Returns the number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live.lock().len
    }
}

impl Live {
    fn remove_unused(&mut self) {
        if self.len < self.cleanup_at.max(FIRST_CLEANUP) {
            return;
        }
        self.by_hash.retain(|_, all| {
            all.retain(|(user, _)| user.strong_count() > 0);
            !all.is_empty()
        });
        self.len = self.by_hash.values().map(Vec::len).sum();
        self.cleanup_at = self.len * 2;
    }
}
