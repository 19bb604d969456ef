//! What is known of the newest generations: their sets, and which dimensions their answers use.
//!
//! A class's set is cached under the projection of the class onto the dimensions that the kind's
//! facets use, and under its namespace only where that makes a difference. So two clients share a
//! set exactly when nothing that they are told could differ.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::{overlay, resolve};
use tributary_model::{
    Catalog, ClientDimensions, ClientKind, Hostname, Namespace, PortView, Projection, ServiceView,
};

use super::fold::unclaimed;
use super::{ClientClassKey, ResourceSet, ResourceType, Subscription};
use crate::encode::route::Unclaimed;

/// Dimensions per kind.
pub(crate) type KindDims = [ClientDimensions; ResourceType::ALL.len()];

/// What a set depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub(crate) kind: ResourceType,
    pub(crate) client: Option<ClientKind>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) projection: Projection,
    pub(crate) unclaimed: Unclaimed,
}

/// Values made once per key. Bounded by the number of classes that differ; see [`Cells::MAX`].
#[derive(Debug)]
pub(crate) struct Cells<K, T>(Mutex<HashMap<K, Arc<OnceLock<T>>>>);

impl<K, T> Default for Cells<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + std::hash::Hash, T: Clone> Cells<K, T> {
    /// More classes than this share nothing; their values are made for each call.
    const MAX: usize = 1_024;

    /// The value of a key, made by whoever asks first. No lock is held while it is made.
    pub(crate) fn get_or_make(&self, key: &K, make: impl FnOnce() -> T) -> T {
        self.cell(key).get_or_init(make).clone()
    }
    /// The value of a key, if it has been made.
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

/// One generation, and what has been made from it.
#[derive(Debug)]
pub(crate) struct CachedGeneration<T> {
    pub(crate) catalog: Arc<Catalog>,
    dims: OnceLock<KindDims>,
    overlays: Cells<Namespace, bool>,
    pub(crate) sets: Cells<SetKey, T>,
    /// What followers of one subscription get, by the subscription's address; the value holds the
    /// subscription, so that no other can have that address.
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
    /// Whether clients of this namespace are told anything else than clients without one.
    fn is_overlaid(&self, namespace: &Namespace) -> bool {
        let hosts = overlay(&self.catalog, namespace);
        hosts.into_iter().flatten().any(|host| {
            let seen = |ns| resolve(&self.catalog, host.as_str(), ns, &mut ()).map(Arc::as_ptr);
            seen(Some(namespace)) != seen(None)
        })
    }
    /// The same, as it was in another generation, where nothing of the namespace has changed since.
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

/// The newest generations that were asked for, and the newest set of each sort, which may be older:
/// a class that asks seldom goes on from its own last set.
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
    /// Each pins a catalog, so that there are few.
    const KEPT: usize = 3;
    /// A set that lags further behind is forgotten: it pins the catalog that it was made from.
    const LAG: u64 = 512;
    /// How many sorts of sets are remembered.
    const LATEST: usize = 256;

    /// What is known of a generation; it is kept while it is among the newest.
    pub(crate) fn known(&self, catalog: &Arc<Catalog>) -> Arc<CachedGeneration<T>> {
        let mut ring = self.ring.lock();
        if let Some(found) = ring.iter().find(|known| Arc::ptr_eq(&known.catalog, catalog)) {
            return Arc::clone(found);
        }
        let fresh = Arc::new(CachedGeneration::new(catalog));
        ring.push(Arc::clone(&fresh));
        ring.sort_by_key(|known| std::cmp::Reverse(known.catalog.generation));
        ring.truncate(Self::KEPT);
        drop(ring);
        self.forget_older_than(catalog.generation.saturating_sub(Self::LAG));
        fresh
    }
    fn forget_older_than(&self, generation: u64) {
        self.latest.lock().retain(|_, (catalog, _)| catalog.generation >= generation);
    }
    /// The set of this sort in a generation, made by whoever asks first.
    pub(crate) fn set(&self, known: &CachedGeneration<T>, key: &SetKey, make: impl FnOnce() -> T) -> T {
        let mut made = false;
        let set = known.sets.get_or_make(key, || {
            made = true;
            make()
        });
        if made {
            self.remember(known, key, &set);
        }
        set
    }
    fn remember(&self, known: &CachedGeneration<T>, key: &SetKey, set: &T) {
        let mut latest = self.latest.lock();
        let newer = latest.get(key).is_none_or(|(at, _)| at.generation < known.catalog.generation);
        if newer && (latest.len() < Self::LATEST || latest.contains_key(key)) {
            latest.insert(key.clone(), (Arc::clone(&known.catalog), set.clone()));
        }
    }
    /// What is known of a generation, if it is kept.
    pub(crate) fn find(&self, catalog: &Arc<Catalog>) -> Option<Arc<CachedGeneration<T>>> {
        self.ring.lock().iter().find(|known| Arc::ptr_eq(&known.catalog, catalog)).cloned()
    }
    /// The other generations kept, the newest first.
    pub(crate) fn others(&self, than: &CachedGeneration<T>) -> Vec<Arc<CachedGeneration<T>>> {
        let ring = self.ring.lock();
        ring.iter().filter(|known| !Arc::ptr_eq(&known.catalog, &than.catalog)).cloned().collect()
    }
    /// Which dimensions the answers of a generation use: those of the last one and of what has
    /// changed since. May be more than they use now, which costs sharing and nothing else.
    pub(crate) fn dims(&self, known: &CachedGeneration<T>) -> KindDims {
        *known.dims.get_or_init(|| {
            let base = self.others(known).into_iter().find_map(|o| Some((o.dims.get().copied()?, o)));
            match base {
                Some((dims, base)) => union(dims, changed_dims(&base.catalog, &known.catalog)),
                None => all_dims(&known.catalog),
            }
        })
    }
    fn is_overlaid(&self, known: &CachedGeneration<T>, namespace: &Namespace) -> bool {
        known.overlays.get_or_make(namespace, || {
            let inherited = self.others(known).iter().find_map(|other| known.as_in(other, namespace));
            inherited.unwrap_or_else(|| known.is_overlaid(namespace))
        })
    }
    /// Under what a class's set of this kind is cached.
    pub(crate) fn key(
        &self,
        known: &CachedGeneration<T>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> SetKey {
        let namespace = class.namespace.as_ref().filter(|ns| self.is_overlaid(known, ns));
        let dims = self.dims(known)[kind as usize];
        set_key(&known.catalog, class, kind, namespace, dims)
    }
    /// The nearest generation in which this set has been made, and the set.
    pub(crate) fn nearest(&self, known: &CachedGeneration<T>, key: &SetKey) -> Option<(Arc<Catalog>, T)> {
        let made = |other: Arc<CachedGeneration<T>>| Some((Arc::clone(&other.catalog), other.sets.get(key)?));
        let near = self.others(known).into_iter().find_map(made);
        near.or_else(|| self.latest.lock().get(key).cloned())
    }
}

/// What a set of this class depends on.
pub(crate) fn set_key(
    catalog: &Catalog,
    class: &ClientClassKey,
    kind: ResourceType,
    namespace: Option<&Namespace>,
    dims: ClientDimensions,
) -> SetKey {
    // Fixed listeners read these whatever the services are.
    let fixed = if kind == ResourceType::Listener {
        ClientDimensions::BINDS | ClientDimensions::FAMILIES
    } else {
        ClientDimensions::NONE
    };
    SetKey {
        kind,
        // Whom assignments are for, their facets' dimensions say alone.
        client: (kind != ResourceType::Endpoints).then_some(class.kind),
        namespace: namespace.cloned(),
        projection: class.project(dims | fixed),
        unclaimed: unclaimed(catalog),
    }
}

/// The dimensions of all views that one generation has and the other has not.
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
    view.ports.iter().fold(KindDims::default(), |dims, port| union(dims, port_dims(port)))
}

fn port_dims(port: &PortView) -> KindDims {
    [port.cluster.dimensions, port.endpoints.dimensions, port.listener.dimensions, port.route.dimensions]
}

fn union(a: KindDims, b: KindDims) -> KindDims {
    std::array::from_fn(|i| a[i] | b[i])
}
