//! Caches differences between generations, which sessions with the same base share.
//!
//! A difference records what the changed hosts mention, so a client value is part of its key only if it affects
//! them, and keeps the changes per key. The first classes that ask find their result by their address, without a key: many
//! streams of a class ask several times in a round. When a difference leaves the cache, the bodies that it superseded are
//! evicted.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, Weak};

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::key::{Attr, base};
use tributary_model::{Catalog, HostEntry, PortView, ServiceView, Shared};

use super::generations::{KindDims, SetKey, changed_dims, set_key};
use super::held::Held;
use super::layer::LayerKey;
use super::mentions::of_host;
use super::{ChangedSet, ClientClass, ClientClassKey, ResourceType};

/// Everything that a difference depends on beside the two generations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum DiffKey {
    /// Client values that the changed hosts mention: for types with a resource per service port.
    Outcome(Box<SetKey>),
    /// The layers of both sets: for composites, which hold parts of other hosts beside those that changed.
    Layers(Box<[LayerKey; 2]>),
    /// A class whose earlier layers are forgotten.
    Class(ClientClassKey, ResourceType),
}

/// The difference between two generations, by class.
#[derive(Debug)]
pub(crate) struct GenerationDiff {
    from: Weak<Catalog>,
    to: Weak<Catalog>,
    changes: OnceLock<HostChanges>,
    pub(crate) results: Held<DiffKey, Arc<ChangedSet>>,
    of_class: Mutex<HashMap<(usize, ResourceType), OfClass>>,
}

/// The result of a class. The weak reference keeps the address of the class from being reused.
#[derive(Debug)]
struct OfClass {
    _class: Weak<ClientClass>,
    result: Arc<ChangedSet>,
}

#[derive(Debug)]
struct HostChanges {
    mentions: BTreeSet<(ResourceType, Attr)>,
    dims: KindDims,
    superseded: Vec<Weak<ServiceView>>,
}

impl GenerationDiff {
    fn new(from: &Arc<Catalog>, to: &Arc<Catalog>) -> Self {
        Self {
            from: Arc::downgrade(from),
            to: Arc::downgrade(to),
            changes: OnceLock::new(),
            results: Held::default(),
            of_class: Mutex::default(),
        }
    }
    /// Most results that are found by class: those of classes with few streams would only take memory.
    const BY_CLASS: usize = 256;

    /// Returns the result of a class, if it was noted.
    pub(crate) fn of_class(&self, class: &ClientClassKey, kind: ResourceType) -> Option<Arc<ChangedSet>> {
        let found = self.of_class.lock();
        found.get(&(class.address(), kind)).map(|of| Arc::clone(&of.result))
    }
    /// Notes the result of a class, so that the next stream of it needs no key.
    pub(crate) fn note(&self, class: &ClientClassKey, kind: ResourceType, result: &Arc<ChangedSet>) {
        let mut noted = self.of_class.lock();
        if noted.len() < Self::BY_CLASS {
            let (address, user) = class.user();
            noted.insert((address, kind), OfClass { _class: user, result: Arc::clone(result) });
        }
    }
    fn is(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> bool {
        self.from.as_ptr() == Arc::as_ptr(from) && self.to.as_ptr() == Arc::as_ptr(to)
    }
    /// Returns the cache key of a class for a type with a resource per service port.
    pub(crate) fn key(
        &self,
        from: &Catalog,
        to: &Catalog,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> DiffKey {
        let changes = self.changes.get_or_init(|| HostChanges::of(from, to));
        changes.key(to, class, kind)
    }
    /// Like [`GenerationDiff::key`], if the changed hosts are known.
    pub(crate) fn known_key(
        &self,
        to: &Catalog,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<DiffKey> {
        Some(self.changes.get()?.key(to, class, kind))
    }
}

impl HostChanges {
    fn key(&self, to: &Catalog, class: &ClientClassKey, kind: ResourceType) -> DiffKey {
        let mentioned = |attr: &Attr| self.mentions.contains(&(kind, attr.clone()));
        let class = ClientClassKey::alone(base(class, mentioned));
        DiffKey::Outcome(Box::new(set_key(to, &class, kind, class.namespace.as_ref(), self.dims[kind])))
    }
}

impl Drop for GenerationDiff {
    /// By now every session has usually moved on; a slower session encodes again.
    fn drop(&mut self) {
        let Some(changes) = self.changes.get() else { return };
        let alive = changes.superseded.iter().filter_map(Weak::upgrade);
        alive.for_each(|view| view.ports.iter().for_each(drop_bodies));
    }
}

impl HostChanges {
    fn of(from: &Catalog, to: &Catalog) -> Self {
        let mut mentions = BTreeSet::new();
        let mut superseded = Vec::new();
        for item in from.hosts.diff(&to.hosts) {
            let (before, after) = match item {
                DiffItem::Add(_, after) => (None, Some(after)),
                DiffItem::Remove(_, before) => (Some(before), None),
                DiffItem::Update { old: (_, before), new: (_, after) } => (Some(before), Some(after)),
            };
            mentions.extend(before.into_iter().chain(after).flat_map(|entry| of_host(entry)));
            superseded.extend(superseded_views(before, after).map(Arc::downgrade));
        }
        Self { mentions, dims: changed_dims(from, to), superseded }
    }
}

/// Returns the views of the earlier entry that the later one lacks.
fn superseded_views<'a>(
    before: Option<&'a Shared<HostEntry>>,
    after: Option<&'a Shared<HostEntry>>,
) -> impl Iterator<Item = &'a Arc<ServiceView>> {
    let kept = move |view: &Arc<ServiceView>| {
        after.is_some_and(|entry| entry.claimants.iter().any(|now| Arc::ptr_eq(now, view)))
    };
    before.into_iter().flat_map(|entry| entry.claimants.iter()).filter(move |view| !kept(view))
}

/// Evicts the bodies of inputs that only this view still holds: a newer view has not taken them over.
fn drop_bodies(port: &PortView) {
    let only = |count: usize| count == 1;
    let slots = [
        (only(Arc::strong_count(&port.cluster.0)), &port.cluster.encoded),
        (only(Arc::strong_count(&port.endpoints.0)), &port.endpoints.encoded),
        (only(Arc::strong_count(&port.listener.0)), &port.listener.encoded),
        (only(Arc::strong_count(&port.route.0)), &port.route.encoded),
    ];
    let superseded = slots.into_iter().filter(|(alone, _)| *alone);
    superseded.flat_map(|(_, slots)| slots.made()).for_each(|slot| {
        slot.iter().for_each(|resource| drop(resource.evict()));
    });
}

/// The differences that were requested last.
#[derive(Debug, Default)]
pub(crate) struct DiffCache {
    ring: Mutex<Vec<Arc<GenerationDiff>>>,
}

impl DiffCache {
    /// Enough for sessions that lag behind each other; a difference does not pin a catalog.
    const KEPT: usize = 32;

    /// Returns the difference between two generations if it is kept.
    pub(crate) fn find(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> Option<Arc<GenerationDiff>> {
        self.ring.lock().iter().find(|diff| diff.is(from, to)).cloned()
    }
    /// Returns the difference between two generations.
    pub(crate) fn diff(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> Arc<GenerationDiff> {
        let mut ring = self.ring.lock();
        if let Some(at) = ring.iter().position(|diff| diff.is(from, to)) {
            return Arc::clone(&ring[at]);
        }
        let added = Arc::new(GenerationDiff::new(from, to));
        let forgotten = (ring.len() >= Self::KEPT).then(|| ring.remove(0));
        ring.push(Arc::clone(&added));
        drop(ring);
        drop(forgotten);
        added
    }
}
