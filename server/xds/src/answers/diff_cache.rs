//! Caches differences between generations, which sessions with the same base share.
//!
//! A difference records the changed hosts, so a namespace is part of its key only if it affects them, and keeps
//! the changes per class. When a difference leaves the cache, the bodies that it superseded are
//! evicted.

use std::sync::{Arc, OnceLock, Weak};

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::overlay;
use tributary_model::{Catalog, HostEntry, Hostname, PortView, ServiceView, Shared};

use super::generations::{Cells, KindDims, SetKey, changed_dims, set_key};
use super::{ChangedSet, ClientClassKey, ResourceType};

/// The difference between two generations, by class.
#[derive(Debug)]
pub(crate) struct GenerationDiff {
    from: Weak<Catalog>,
    to: Weak<Catalog>,
    changes: OnceLock<HostChanges>,
    pub(crate) results: Cells<SetKey, Arc<ChangedSet>>,
}

#[derive(Debug)]
struct HostChanges {
    hosts: Vec<Hostname>,
    dims: KindDims,
    superseded: Vec<Weak<ServiceView>>,
}

impl GenerationDiff {
    fn new(from: &Arc<Catalog>, to: &Arc<Catalog>) -> Self {
        Self {
            from: Arc::downgrade(from),
            to: Arc::downgrade(to),
            changes: OnceLock::new(),
            results: Cells::default(),
        }
    }
    fn is(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> bool {
        self.from.as_ptr() == Arc::as_ptr(from) && self.to.as_ptr() == Arc::as_ptr(to)
    }
    /// Returns the cache key of a class. `has_own_composites`: whether the class's namespace is part of the key whichever
    /// host differs.
    pub(crate) fn key(
        &self,
        from: &Catalog,
        to: &Catalog,
        class: &ClientClassKey,
        kind: ResourceType,
        has_own_composites: bool,
    ) -> SetKey {
        let changes = self.changes.get_or_init(|| HostChanges::of(from, to));
        let namespace = class.namespace.as_ref().filter(|ns| {
            let scoped = |catalog| overlay(catalog, ns);
            let (before, after) = (scoped(from), scoped(to));
            let holds = |host| [before, after].into_iter().flatten().any(|hosts| hosts.contains(host));
            has_own_composites || class.scope().egress().is_some() || changes.hosts.iter().any(holds)
        });
        set_key(to, class, kind, namespace, changes.dims[kind])
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
        let mut hosts = Vec::new();
        let mut superseded = Vec::new();
        for item in from.hosts.diff(&to.hosts) {
            let (host, before, after) = match item {
                DiffItem::Add(host, after) => (host, None, Some(after)),
                DiffItem::Remove(host, before) => (host, Some(before), None),
                DiffItem::Update { old: (host, before), new: (_, after) } => {
                    (host, Some(before), Some(after))
                }
            };
            hosts.push(host.clone());
            superseded.extend(superseded_views(before, after).map(Arc::downgrade));
        }
        Self { hosts, dims: changed_dims(from, to), superseded }
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
