//! Caches the newest generations: their sets, and the dimensions that their resources read.
//!
//! A class's set is cached under the projection of the class onto the dimensions that the type's
//! resource inputs read, and under its namespace and the imports of its Sidecar only if they make a difference. So two clients share
//! a set exactly when no resource could differ between them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::{Egress, Scope, overlay, resolve};
use tributary_model::{
    Catalog, ClientDimensions, ClientKind, Hostname, Namespace, PortView, Projection, ServiceView,
};

use super::fold::unclaimed;
use super::{ClientClassKey, ResourceSet, ResourceType, Subscription, TypeMap};
use crate::encode::route::Unclaimed;

/// Dimensions per kind.
pub(crate) type KindDims = TypeMap<ClientDimensions>;

/// Everything that a set depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub(crate) kind: ResourceType,
    pub(crate) client: Option<ClientKind>,
    pub(crate) namespace: Option<Namespace>,
    /// Imports of its Sidecar, if they restrict what the namespace sees.
    pub(crate) egress: Option<Egress>,
    pub(crate) projection: Projection,
    pub(crate) unclaimed: Unclaimed,
}

/// Values built once per key. Bounded by the number of distinct classes; see [`Cells::MAX`].
#[derive(Debug)]
pub(crate) struct Cells<K, T>(Mutex<HashMap<K, Arc<OnceLock<T>>>>);

impl<K, T> Default for Cells<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + std::hash::Hash, T: Clone> Cells<K, T> {
    /// Most cached keys; values of further keys are built for each call.
    const MAX: usize = 1_024;

    /// Returns the value of a key; the first caller builds it. No lock is held meanwhile.
    pub(crate) fn get_or_make(&self, key: &K, make: impl FnOnce() -> T) -> T {
        self.cell(key).get_or_init(make).clone()
    }
    /// Returns the value of a key, if it was built.
    pub(crate) fn get(&self, key: &K) -> Option<T> {
        self.0.lock().get(key)?.get().cloned()
    }
    fn cell(&self, key: &K) -> Arc<OnceLock<T>> {
        let mut cells = self.0.lock();
        if let Some(cell) = cells.get(key) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(OnceLock::new());
        if cells.len() < Self::MAX {
            cells.insert(key.clone(), Arc::clone(&cell));
        }
        cell
    }
}

/// One generation, and the sets built from it.
#[derive(Debug)]
pub(crate) struct CachedGeneration<T> {
    pub(crate) catalog: Arc<Catalog>,
    dims: OnceLock<KindDims>,
    overlays: Cells<Namespace, bool>,
    pub(crate) sets: Cells<SetKey, T>,
    /// Sets by subscription. The key holds the subscription's address; the value holds the subscription,
    /// so the address is not reused.
    pub(crate) subscribed: Cells<(usize, SetKey), (Arc<Subscription>, Arc<ResourceSet>)>,
}

impl<T: Clone> CachedGeneration<T> {
    fn new(catalog: &Arc<Catalog>) -> Self {
        Self {
            catalog: Arc::clone(catalog),
            dims: OnceLock::new(),
            overlays: Cells::default(),
            sets: Cells::default(),
            subscribed: Cells::default(),
        }
    }
    /// Whether clients of this namespace get different resources from clients without one.
    fn is_overlaid(&self, namespace: &Namespace) -> bool {
        let hosts = overlay(&self.catalog, namespace);
        hosts.into_iter().flatten().any(|host| {
            let seen = |ns| resolve(&self.catalog, host.as_str(), Scope::of(ns), &mut ()).map(Arc::as_ptr);
            seen(Some(namespace)) != seen(None)
        })
    }
    /// Returns the same as computed for another generation, if nothing of the namespace changed since.
    fn as_in(&self, other: &Self, namespace: &Namespace) -> Option<bool> {
        let before = other.overlays.get(namespace)?;
        let (old, new) = (&other.catalog, &self.catalog);
        if old.scoped.get(namespace) != new.scoped.get(namespace) {
            return None;
        }
        let hosts = overlay(new, namespace)?;
        let touched = |item| hosts.contains(host_of(&item));
        (!old.hosts.diff(&new.hosts).any(touched)).then_some(before)
    }
}

fn host_of<'a, V>(item: &DiffItem<'a, 'a, Hostname, V>) -> &'a Hostname {
    match item {
        DiffItem::Add(host, _) | DiffItem::Remove(host, _) => host,
        DiffItem::Update { old: (host, _), .. } => host,
    }
}

/// The newest generations that were requested, and the newest set of each key, which may be older:
/// a class with few requests continues from its own last set.
#[derive(Debug)]
pub(crate) struct Generations<T> {
    ring: Mutex<Vec<Arc<CachedGeneration<T>>>>,
    latest: Mutex<HashMap<SetKey, (Arc<Catalog>, T)>>,
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self { ring: Mutex::default(), latest: Mutex::default() }
    }
}

impl<T: Clone> Generations<T> {
    /// Most cached generations. Each pins a catalog.
    const KEPT: usize = 3;
    /// A set that lags further behind is dropped, because it pins the catalog that it was built from.
    const LAG: u64 = 512;
    /// Most keys with a newest set.
    const LATEST: usize = 256;

    /// Returns the cache of a generation; it is kept while it is among the newest.
    pub(crate) fn cached(&self, catalog: &Arc<Catalog>) -> Arc<CachedGeneration<T>> {
        let mut ring = self.ring.lock();
        if let Some(found) = ring.iter().find(|cached| Arc::ptr_eq(&cached.catalog, catalog)) {
            return Arc::clone(found);
        }
        let added = Arc::new(CachedGeneration::new(catalog));
        ring.push(Arc::clone(&added));
        ring.sort_by_key(|cached| std::cmp::Reverse(cached.catalog.generation));
        ring.truncate(Self::KEPT);
        drop(ring);
        self.forget_older_than(catalog.generation.saturating_sub(Self::LAG));
        added
    }
    fn forget_older_than(&self, generation: u64) {
        self.latest.lock().retain(|_, (catalog, _)| catalog.generation >= generation);
    }
    /// Returns the set of this key in a generation; the first caller builds it.
    pub(crate) fn set(&self, cached: &CachedGeneration<T>, key: &SetKey, make: impl FnOnce() -> T) -> T {
        let mut built = false;
        let set = cached.sets.get_or_make(key, || {
            built = true;
            make()
        });
        if built {
            self.remember(cached, key, &set);
        }
        set
    }
    fn remember(&self, cached: &CachedGeneration<T>, key: &SetKey, set: &T) {
        let mut latest = self.latest.lock();
        let newer = latest.get(key).is_none_or(|(at, _)| at.generation < cached.catalog.generation);
        if newer && (latest.len() < Self::LATEST || latest.contains_key(key)) {
            latest.insert(key.clone(), (Arc::clone(&cached.catalog), set.clone()));
        }
    }
    /// Returns the cache of a generation, if it is kept.
    pub(crate) fn find(&self, catalog: &Arc<Catalog>) -> Option<Arc<CachedGeneration<T>>> {
        self.ring.lock().iter().find(|cached| Arc::ptr_eq(&cached.catalog, catalog)).cloned()
    }
    /// Returns the other generations kept, the newest first.
    pub(crate) fn others(&self, than: &CachedGeneration<T>) -> Vec<Arc<CachedGeneration<T>>> {
        let ring = self.ring.lock();
        ring.iter().filter(|cached| !Arc::ptr_eq(&cached.catalog, &than.catalog)).cloned().collect()
    }
    /// Returns the dimensions that the resources of a generation read: those of the last generation and of
    /// all changes since. They may exceed the minimum, which only reduces sharing.
    pub(crate) fn dims(&self, cached: &CachedGeneration<T>) -> KindDims {
        *cached.dims.get_or_init(|| {
            let base = self.others(cached).into_iter().find_map(|o| Some((o.dims.get().copied()?, o)));
            match base {
                Some((dims, base)) => union(dims, changed_dims(&base.catalog, &cached.catalog)),
                None => all_dims(&cached.catalog),
            }
        })
    }
    fn is_overlaid(&self, cached: &CachedGeneration<T>, namespace: &Namespace) -> bool {
        cached.overlays.get_or_make(namespace, || {
            let inherited = self.others(cached).iter().find_map(|other| cached.as_in(other, namespace));
            inherited.unwrap_or_else(|| cached.is_overlaid(namespace))
        })
    }
    /// Returns the cache key of a class's set of this type.
    pub(crate) fn key(
        &self,
        cached: &CachedGeneration<T>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> SetKey {
        let narrow = class.scope().egress().is_some();
        let namespace = class.namespace.as_ref().filter(|ns| narrow || self.is_overlaid(cached, ns));
        let dims = self.dims(cached)[kind];
        set_key(&cached.catalog, class, kind, namespace, dims)
    }
    /// Returns the nearest generation in which this set was built, and the set.
    pub(crate) fn nearest(&self, cached: &CachedGeneration<T>, key: &SetKey) -> Option<(Arc<Catalog>, T)> {
        let built =
            |other: Arc<CachedGeneration<T>>| Some((Arc::clone(&other.catalog), other.sets.get(key)?));
        let near = self.others(cached).into_iter().find_map(built);
        near.or_else(|| self.latest.lock().get(key).cloned())
    }
}

/// Returns everything that a set of this class depends on.
pub(crate) fn set_key(
    catalog: &Catalog,
    class: &ClientClassKey,
    kind: ResourceType,
    namespace: Option<&Namespace>,
    dims: ClientDimensions,
) -> SetKey {
    // Fixed listeners and clusters of sidecars read these dimensions for any services.
    let fixed = match kind {
        ResourceType::Listener => ClientDimensions::BINDS | ClientDimensions::FAMILIES,
        ResourceType::Cluster if class.kind == ClientKind::Sidecar => ClientDimensions::FAMILIES,
        ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Route => ClientDimensions::NONE,
    };
    SetKey {
        kind,
        // For assignments, the dimensions of their resource inputs already separate clients.
        client: (kind != ResourceType::Endpoints).then_some(class.kind),
        namespace: namespace.cloned(),
        egress: class.scope().egress().cloned(),
        projection: class.project(dims | fixed),
        unclaimed: unclaimed(catalog, class),
    }
}

/// Returns the dimensions of all views that only one of the generations has.
pub(crate) fn changed_dims(from: &Catalog, to: &Catalog) -> KindDims {
    let mut out = KindDims::default();
    for item in from.hosts.diff(&to.hosts) {
        let (before, after) = match item {
            DiffItem::Add(_, after) => (None, Some(after)),
            DiffItem::Remove(_, before) => (Some(before), None),
            DiffItem::Update { old: (_, before), new: (_, after) } => (Some(before), Some(after)),
        };
        let views = before.into_iter().chain(after).flat_map(|entry| entry.claimants.iter());
        views.for_each(|view| out = union(out, view_dims(view)));
    }
    out
}

fn all_dims(catalog: &Catalog) -> KindDims {
    catalog.services().fold(KindDims::default(), |dims, view| union(dims, view_dims(view)))
}

fn view_dims(view: &ServiceView) -> KindDims {
    let partial = view.partial.iter().flat_map(|partial| partial.view.ports.iter());
    view.ports.iter().chain(partial).fold(KindDims::default(), |dims, port| union(dims, port_dims(port)))
}

fn port_dims(port: &PortView) -> KindDims {
    TypeMap::from_fn(|kind| match kind {
        ResourceType::Cluster => port.cluster.dimensions,
        ResourceType::Endpoints => port.endpoints.dimensions,
        ResourceType::Listener => port.listener.dimensions,
        ResourceType::Route => port.route.dimensions,
    })
}

fn union(a: KindDims, b: KindDims) -> KindDims {
    TypeMap::from_fn(|kind| a[kind] | b[kind])
}
