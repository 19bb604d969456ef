//! Caches the newest generations: their sets, and what their resources mention.
//!
//! A set is cached under its base and its overlay (`layer.rs`), never under a class. So two clients share a
//! set exactly when no resource could differ between them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::Egress;
use tributary_model::{
    Catalog, ClientDimensions, ClientKind, ForwardingServer, HostEntry, Hostname, Namespace, PortView,
    Projection, ServiceView,
};

use super::fold::defaults;
use super::held::{Held, Users};
use super::layer::{Layer, LayerKey, base_of, candidates};
use super::mentions::{Layering, Mentions};
use super::{ClientClassKey, ResourceSet, ResourceType, Subscription, TypeMap};
use crate::encode::defaults::Defaults;

/// Dimensions per kind.
pub(crate) type KindDims = TypeMap<ClientDimensions>;

/// Everything that a base depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub(crate) kind: ResourceType,
    pub(crate) client: Option<ClientKind>,
    pub(crate) namespace: Option<Namespace>,
    /// Imports of its Sidecar, if they restrict what the namespace sees.
    pub(crate) egress: Option<Egress>,
    /// Servers of a router, for its listeners.
    pub(crate) servers: Option<Arc<[ForwardingServer]>>,
    pub(crate) projection: Projection,
    pub(crate) defaults: Defaults,
}

/// One generation, and the sets built from it.
#[derive(Debug)]
pub(crate) struct CachedGeneration<T> {
    pub(crate) catalog: Arc<Catalog>,
    dims: OnceLock<KindDims>,
    mentions: OnceLock<Arc<Mentions>>,
    layers: Held<(ClientClassKey, ResourceType), Arc<Layer>>,
    /// The generation that was cached before, and the hosts that changed since.
    since: OnceLock<(u64, Arc<BTreeSet<Hostname>>)>,
    pub(crate) sets: Held<LayerKey, T>,
    /// Sets by subscription. The key holds the subscription's address; the value holds the subscription,
    /// so the address is not reused.
    pub(crate) subscribed: Held<(usize, LayerKey), (Arc<Subscription>, Arc<ResourceSet>)>,
}

impl<T: Clone> CachedGeneration<T> {
    fn new(catalog: &Arc<Catalog>) -> Self {
        Self {
            catalog: Arc::clone(catalog),
            dims: OnceLock::new(),
            mentions: OnceLock::new(),
            layers: Held::default(),
            since: OnceLock::new(),
            sets: Held::default(),
            subscribed: Held::default(),
        }
    }
    /// Returns the hosts that differ from another generation; those of one other are kept.
    fn changed_since(&self, other: &Self) -> Arc<BTreeSet<Hostname>> {
        let all = || {
            let diff = other.catalog.hosts.diff(&self.catalog.hosts);
            Arc::new(diff.map(|item| host_of(&item).clone()).collect())
        };
        let (at, hosts) = self.since.get_or_init(|| (other.catalog.generation, all()));
        if *at == other.catalog.generation { Arc::clone(hosts) } else { all() }
    }
}

fn host_of<'a, V>(item: &DiffItem<'a, 'a, Hostname, V>) -> &'a Hostname {
    match item {
        DiffItem::Add(host, _) | DiffItem::Remove(host, _) => host,
        DiffItem::Update { old: (host, _), .. } => host,
    }
}

/// The newest generations that were requested, and the newest set of each base, which may be older:
/// a class with few requests continues from its base's own last set.
#[derive(Debug)]
pub(crate) struct Generations<T> {
    ring: Mutex<Vec<Arc<CachedGeneration<T>>>>,
    latest: Mutex<HashMap<SetKey, Latest<T>>>,
    /// Bases that were folded from scratch, with the classes that asked for it.
    folded: Mutex<HashMap<SetKey, Users>>,
    layering: Layering,
}

#[derive(Debug)]
struct Latest<T> {
    catalog: Arc<Catalog>,
    set: T,
    users: Users,
}

impl<T: Clone> Generations<T> {
    /// Most cached generations. Each pins a catalog.
    const KEPT: usize = 3;
    /// A set without users that lags further behind is dropped, because it pins the catalog that it was built from.
    const LAG: u64 = 512;
    /// Most bases without users that have a newest set.
    const UNUSED: usize = 64;

    pub(crate) fn new(layering: Layering) -> Self {
        Self { ring: Mutex::default(), latest: Mutex::default(), folded: Mutex::default(), layering }
    }
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
        let mut latest = self.latest.lock();
        let mut unused = 0;
        latest.retain(|_, latest| {
            let used = latest.users.any();
            unused += usize::from(!used);
            used || (latest.catalog.generation >= generation && unused <= Self::UNUSED)
        });
    }
    /// Returns the set of this key in a generation; the first caller builds it.
    pub(crate) fn set(
        &self,
        cached: &CachedGeneration<T>,
        key: &LayerKey,
        user: &ClientClassKey,
        make: impl FnOnce() -> T,
    ) -> T {
        let set = cached.sets.get_or_make(key, user, make);
        if key.over.is_empty() {
            self.remember(cached, &key.base, &set, user);
        }
        set
    }
    fn remember(&self, cached: &CachedGeneration<T>, key: &SetKey, set: &T, user: &ClientClassKey) {
        let mut latest = self.latest.lock();
        if let Some(entry) = latest.get_mut(key) {
            entry.users.add(user);
            if entry.catalog.generation < cached.catalog.generation {
                (entry.catalog, entry.set) = (Arc::clone(&cached.catalog), set.clone());
            }
            return;
        }
        let mut users = Users::default();
        users.add(user);
        latest.insert(key.clone(), Latest { catalog: Arc::clone(&cached.catalog), set: set.clone(), users });
    }
    /// Records a fold of a base from scratch. Returns whether a class that is still connected had it before.
    pub(crate) fn folded_again(&self, key: &SetKey, user: &ClientClassKey) -> bool {
        let mut folded = self.folded.lock();
        folded.retain(|_, users| users.any());
        let users = folded.entry(key.clone()).or_default();
        let again = users.any();
        users.add(user);
        again
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
    fn mentions(&self, cached: &CachedGeneration<T>) -> Arc<Mentions> {
        let make = || {
            let base = self.others(cached).into_iter().find_map(|o| Some((o.mentions.get().cloned()?, o)));
            Arc::new(match base {
                Some((mentions, base)) => mentions.advance(&base.catalog, &cached.catalog, self.layering),
                None => Mentions::default().advance(&Catalog::default(), &cached.catalog, self.layering),
            })
        };
        Arc::clone(cached.mentions.get_or_init(make))
    }
    /// Returns the layers of a class's set of this type.
    pub(crate) fn layer(
        &self,
        cached: &CachedGeneration<T>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Arc<Layer> {
        let key = (class.clone(), kind);
        cached.layers.get_or_make(&key, class, || {
            let mentions = self.mentions(cached);
            let base = base_of(class, kind, &mentions);
            let set = set_key(&cached.catalog, &base, kind, base.namespace.as_ref(), self.dims(cached)[kind]);
            let hosts = candidates(&cached.catalog, class, kind, &mentions);
            let kept = self.others(cached).into_iter().find_map(|other| {
                let before = other.layers.get(&key)?;
                let changed = cached.changed_since(&other);
                let same = before.base == base && before.candidates == hosts && changed.is_disjoint(&hosts);
                same.then(|| Arc::clone(&before.key.over))
            });
            let over = kept.unwrap_or_else(|| Layer::outcomes(&cached.catalog, kind, class, &base, &hosts));
            Arc::new(Layer { key: LayerKey { base: set, over }, base, candidates: hosts })
        })
    }
    /// Returns the layers of a class's set of this type, if they are known.
    pub(crate) fn known_layer(
        cached: &CachedGeneration<T>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<Arc<Layer>> {
        cached.layers.get(&(class.clone(), kind))
    }
    /// Returns the nearest generation in which this base was built, and the set.
    pub(crate) fn nearest(&self, cached: &CachedGeneration<T>, key: &SetKey) -> Option<(Arc<Catalog>, T)> {
        let base = LayerKey::of_base(key.clone());
        let built =
            |other: Arc<CachedGeneration<T>>| Some((Arc::clone(&other.catalog), other.sets.get(&base)?));
        let near = self.others(cached).into_iter().find_map(built);
        near.or_else(|| {
            self.latest.lock().get(key).map(|latest| (Arc::clone(&latest.catalog), latest.set.clone()))
        })
    }
    /// Returns the set of the same layers in another generation.
    pub(crate) fn elsewhere(&self, cached: &CachedGeneration<T>, key: &LayerKey) -> Option<T> {
        self.others(cached).into_iter().find_map(|other| other.sets.get(key))
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
        _ => ClientDimensions::NONE,
    };
    SetKey {
        kind,
        // For assignments, the dimensions of their resource inputs already separate clients.
        client: (kind != ResourceType::Endpoints || class.kind == ClientKind::Router).then_some(class.kind),
        namespace: namespace.cloned(),
        egress: class.scope().egress().cloned(),
        servers: class
            .sidecar
            .as_ref()
            .and_then(|of| of.servers.clone())
            .filter(|_| kind == ResourceType::Listener),
        projection: class.project(dims | fixed),
        defaults: defaults(catalog, class, kind),
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
        before.into_iter().chain(after).for_each(|entry| out = union(out, entry_dims(entry)));
    }
    out
}

fn all_dims(catalog: &Catalog) -> KindDims {
    catalog.hosts.values().fold(KindDims::default(), |dims, entry| union(dims, entry_dims(entry)))
}

fn entry_dims(entry: &HostEntry) -> KindDims {
    let own = TypeMap::from_fn(|kind| match (kind, &entry.routes) {
        (ResourceType::Route, Some(routes)) => routes.dimensions,
        _ => ClientDimensions::NONE,
    });
    entry.claimants.iter().fold(own, |dims, view| union(dims, view_dims(view)))
}

fn view_dims(view: &ServiceView) -> KindDims {
    let others = view.audiences.iter().flat_map(|audience| audience.view.ports.iter());
    view.ports.iter().chain(others).fold(KindDims::default(), |dims, port| union(dims, port_dims(port)))
}

fn port_dims(port: &PortView) -> KindDims {
    TypeMap::from_fn(|kind| match kind {
        ResourceType::Cluster => port.cluster.dimensions,
        ResourceType::Endpoints => port.endpoints.dimensions,
        ResourceType::Listener => port.listener.dimensions,
        ResourceType::Route => port.route.dimensions,
        ResourceType::Secret => ClientDimensions::NONE,
    })
}

fn union(a: KindDims, b: KindDims) -> KindDims {
    TypeMap::from_fn(|kind| a[kind] | b[kind])
}
