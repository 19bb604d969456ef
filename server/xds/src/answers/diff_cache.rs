//! Steps from one generation to another: who shares the difference between them.
//!
//! A step is what all sessions need that go from one base to the same generation. It knows the hosts
//! that differ, so that a namespace counts only where it matters to them, and keeps the difference per
//! class. When a step is forgotten, the bodies that it has superseded are dropped.

use std::sync::{Arc, OnceLock, Weak};

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::overlay;
use tributary_model::{Catalog, HostEntry, Hostname, PortView, ServiceView, Shared};

use super::generations::{Cells, KindDims, SetKey, changed_dims, set_key};
use super::{ChangedSet, ClientClassKey, ResourceType};

/// From one generation to another.
#[derive(Debug)]
pub(crate) struct GenerationDiff {
    from: Weak<Catalog>,
    to: Weak<Catalog>,
    facts: OnceLock<Facts>,
    pub(crate) results: Cells<SetKey, Arc<ChangedSet>>,
}

#[derive(Debug)]
struct Facts {
    hosts: Vec<Hostname>,
    dims: KindDims,
    superseded: Vec<Weak<ServiceView>>,
}

impl GenerationDiff {
    fn new(from: &Arc<Catalog>, to: &Arc<Catalog>) -> Self {
        Self {
            from: Arc::downgrade(from),
            to: Arc::downgrade(to),
            facts: OnceLock::new(),
            results: Cells::default(),
        }
    }
    fn is(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> bool {
        self.from.as_ptr() == Arc::as_ptr(from) && self.to.as_ptr() == Arc::as_ptr(to)
    }
    /// Under what the difference for a class is kept. `is_apart`: whether the class's namespace counts whatever host
    /// differs.
    pub(crate) fn key(
        &self,
        from: &Catalog,
        to: &Catalog,
        class: &ClientClassKey,
        kind: ResourceType,
        is_apart: bool,
    ) -> SetKey {
        let facts = self.facts.get_or_init(|| Facts::of(from, to));
        let namespace = class.namespace.as_ref().filter(|ns| {
            let scoped = |catalog| overlay(catalog, ns);
            let (before, after) = (scoped(from), scoped(to));
            let holds = |host| [before, after].into_iter().flatten().any(|hosts| hosts.contains(host));
            is_apart || facts.hosts.iter().any(holds)
        });
        set_key(to, class, kind, namespace, facts.dims[kind as usize])
    }
}

impl Drop for GenerationDiff {
    /// By now every session has long gone on; whoever has not encodes again.
    fn drop(&mut self) {
        let Some(facts) = self.facts.get() else { return };
        let alive = facts.superseded.iter().filter_map(Weak::upgrade);
        alive.for_each(|view| view.ports.iter().for_each(drop_bodies));
    }
}

impl Facts {
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
            superseded.extend(gone(before, after).map(Arc::downgrade));
        }
        Self { hosts, dims: changed_dims(from, to), superseded }
    }
}

/// The views of one entry that another has not.
fn gone<'a>(
    before: Option<&'a Shared<HostEntry>>,
    after: Option<&'a Shared<HostEntry>>,
) -> impl Iterator<Item = &'a Arc<ServiceView>> {
    let kept = move |view: &Arc<ServiceView>| {
        after.is_some_and(|entry| entry.claimants.iter().any(|now| Arc::ptr_eq(now, view)))
    };
    before.into_iter().flat_map(|entry| entry.claimants.iter()).filter(move |view| !kept(view))
}

/// Drops the bodies of facets that only this view still holds: no newer view has taken them over.
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

/// The steps that were asked for last.
#[derive(Debug, Default)]
pub(crate) struct DiffCache {
    ring: Mutex<Vec<Arc<GenerationDiff>>>,
}

impl DiffCache {
    /// Enough for sessions that lag behind each other; a step holds no catalog.
    const KEPT: usize = 32;

    /// The step between two generations.
    pub(crate) fn step(&self, from: &Arc<Catalog>, to: &Arc<Catalog>) -> Arc<GenerationDiff> {
        let mut ring = self.ring.lock();
        if let Some(at) = ring.iter().position(|step| step.is(from, to)) {
            return Arc::clone(&ring[at]);
        }
        let fresh = Arc::new(GenerationDiff::new(from, to));
        let forgotten = (ring.len() >= Self::KEPT).then(|| ring.remove(0));
        ring.push(Arc::clone(&fresh));
        drop(ring);
        drop(forgotten);
        fresh
    }
}
