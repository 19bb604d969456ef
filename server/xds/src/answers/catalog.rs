//! Resources built from a catalog. Sessions hold [`CatalogAnswers`].
//!
//! Every method first looks in three caches: encoded resources in the catalog's resource inputs, the
//! sets of a generation, and the differences between generations. Entries are never invalidated: all
//! of them are keyed by immutable generations.

use std::sync::Arc;

use bytes::Bytes;
use tributary_answer::names;
use tributary_model::{Catalog, EncodedResource, Hostname, Version, WorkloadKey};
use tributary_proto::Variant;

use super::budget::Budget;
use super::chunks::Chunks;
use super::counters::{Cause, Counters};
use super::diff_cache::DiffCache;
use super::fixed::Fixed;
use super::fold::{Fold, unclaimed};
use super::folded_set::{
    FoldedSet, SetStrategy, Tables, changed_listeners, changed_routes, difference, no_routes,
};
use super::generations::{CachedGeneration, Generations, SetKey};
use super::grpc::{self, TargetRoutes, Targets};
use super::private::Inbound;
use super::routes::port_of_table;
use super::singles::{self, applied, port_of};
use super::store::{Assignments, Clusters, ResourceFamily, Store};
use super::{
    ChangedSet, ClientClassKey, ResourceProvider, ResourceSet, ResourceType, Rope, Subscription,
    empty_assignment,
};

/// Resource provider over catalogs. One per process; all sessions share it.
#[derive(Debug)]
pub struct CatalogAnswers {
    store: Store,
    chunks: Chunks,
    fixed: Fixed,
    inbound: Inbound,
    generations: Generations<FoldedSet>,
    diffs: DiffCache,
}

impl Default for CatalogAnswers {
    fn default() -> Self {
        Self::new(Budget::DEFAULT)
    }
}

impl CatalogAnswers {
    /// Creates a provider that holds at most this many bytes of encoded resources.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        let store = Store::new(budget);
        Self {
            chunks: Chunks::new(store.budget.copies()),
            store,
            fixed: Fixed::default(),
            inbound: Inbound::default(),
            generations: Generations::default(),
            diffs: DiffCache::default(),
        }
    }
    /// Returns the counters of this provider.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.store.counters
    }
    /// Returns the number of bytes of encoded resources held.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.store.budget.held()
    }
}

/// The sets of a generation.
impl CatalogAnswers {
    /// Returns the whole set of a type, built from the nearest generation that has it, else from scratch.
    fn folded(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> FoldedSet {
        let cached = self.generations.cached(catalog);
        let key = self.generations.key(&cached, class, kind);
        self.generations.set(&cached, &key, || self.make(&cached, &key, class, kind))
    }
    /// Returns the set of a generation if it is still cached.
    fn held(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<Arc<ResourceSet>> {
        let cached = self.generations.find(catalog)?;
        let key = self.generations.key(&cached, class, kind);
        cached.sets.get(&key).map(|folded| folded.set)
    }
    fn make(
        &self,
        cached: &CachedGeneration<FoldedSet>,
        key: &SetKey,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> FoldedSet {
        let base = self.generations.nearest(cached, key);
        if base.is_none() {
            let first = self.generations.others(cached).is_empty();
            self.store.counters.pass(if first { Cause::FirstAnswer } else { Cause::NewClass });
        }
        let fold = self.fold(&cached.catalog, class);
        let from = base.as_ref().map(|(catalog, folded)| (&**catalog, folded));
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => self.single_set::<Clusters>(cached, base, class),
            SetStrategy::Assignments => self.single_set::<Assignments>(cached, base, class),
            SetStrategy::Targets => self.single_set::<Targets>(cached, base, class),
            SetStrategy::TargetRoutes => self.single_set::<TargetRoutes>(cached, base, class),
            SetStrategy::Listeners => {
                FoldedSet::listeners(fold, from, self.fixed.listener(&cached.catalog, class))
            }
            SetStrategy::Routes => FoldedSet::routes(fold, from),
            SetStrategy::Nothing => FoldedSet::new(Tables::None, Vec::new()),
        }
    }
    fn single_set<S: ResourceFamily>(
        &self,
        cached: &CachedGeneration<FoldedSet>,
        base: Option<(Arc<Catalog>, FoldedSet)>,
        class: &ClientClassKey,
    ) -> FoldedSet {
        let Some((from, folded)) = base else {
            let mut all = singles::all::<S>(&self.store, &cached.catalog, class);
            all.extend(self.fixed.of(S::KIND, &cached.catalog, class).iter().cloned());
            return FoldedSet::new(Tables::None, all);
        };
        let changed = self.changed(&from, &cached.catalog, class, S::KIND);
        if changed.is_empty() { folded } else { FoldedSet::new(Tables::None, applied(&folded.set, &changed)) }
    }
    fn fold<'a>(&'a self, catalog: &'a Catalog, class: &'a ClientClassKey) -> Fold<'a> {
        Fold { store: &self.store, class, catalog }
    }
}

/// Differences and single resources.
impl CatalogAnswers {
    fn difference(
        &self,
        (from, to): (&Arc<Catalog>, &Arc<Catalog>),
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> ChangedSet {
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => {
                let mut out = singles::changed::<Clusters>(&self.store, (from, to), class);
                let (old, new) = (self.fixed.of(kind, from, class), self.fixed.of(kind, to, class));
                let differ = old.iter().zip(new.iter()).filter(|(a, b)| a.version != b.version);
                out.upserted.extend(differ.map(|(_, now)| Arc::clone(now)));
                singles::sort(out)
            }
            SetStrategy::Assignments => singles::changed::<Assignments>(&self.store, (from, to), class),
            SetStrategy::Targets => singles::changed::<Targets>(&self.store, (from, to), class),
            SetStrategy::TargetRoutes => singles::changed::<TargetRoutes>(&self.store, (from, to), class),
            SetStrategy::Listeners | SetStrategy::Routes => {
                self.composite_difference((from, to), class, kind)
            }
            SetStrategy::Nothing => ChangedSet::default(),
        }
    }
    fn composite_difference(
        &self,
        (from, to): (&Arc<Catalog>, &Arc<Catalog>),
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> ChangedSet {
        let now = self.folded(to, class, kind).set;
        if unclaimed(from, class) != unclaimed(to, class) {
            return difference(&self.folded(from, class, kind).set, &now);
        }
        let held = self.held(from, class, kind);
        let fold = self.fold(to, class);
        match kind {
            ResourceType::Listener => changed_listeners(fold, from, held.as_deref(), &now),
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Route => {
                changed_routes(fold, from, held.as_deref(), &now)
            }
        }
    }
    /// Whether this class has its own composites, which hold parts of its namespace beside those that changed.
    fn has_own_composites(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> bool {
        let own = |cached: &CachedGeneration<FoldedSet>| {
            self.generations.key(cached, class, kind).namespace.is_some()
        };
        matches!(SetStrategy::of(kind, class), SetStrategy::Listeners | SetStrategy::Routes)
            && class.namespace.is_some()
            && (own(&self.generations.cached(to))
                || self.generations.find(from).is_none_or(|from| own(&from)))
    }
    fn single<S: ResourceFamily>(
        &self,
        catalog: &Catalog,
        class: &ClientClassKey,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        let found = S::fill(&self.store, port_of(catalog, class, name)?, class)?;
        (*found.name == *name).then_some(found)
    }
    fn route_table(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        port_of_table(name)?;
        let found = self.folded(catalog, class, ResourceType::Route).set.get(name).cloned();
        Some(found.unwrap_or_else(|| no_routes(self.fold(catalog, class), name)))
    }
    fn subscribed(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        let found = self.one(catalog, class, kind, name);
        match kind {
            ResourceType::Endpoints => Some(found.unwrap_or_else(|| empty_assignment(name))),
            ResourceType::Cluster | ResourceType::Listener | ResourceType::Route => found,
        }
    }
    /// Encodes the body of a resource again from the catalog.
    fn encode_again(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &EncodedResource,
    ) -> Option<Bytes> {
        let name = &*resource.name;
        let body = match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => Clusters::body(port_of(catalog, class, name)?, class)?,
            SetStrategy::Assignments => Assignments::body(port_of(catalog, class, name)?, class)?,
            SetStrategy::Targets => Targets::body(grpc::port_of(catalog, class, name)?, class)?,
            SetStrategy::TargetRoutes => TargetRoutes::body(port_of(catalog, class, name)?, class)?,
            SetStrategy::Listeners | SetStrategy::Routes => {
                let folded = self.folded(catalog, class, kind);
                let same = folded.set.get(name).is_some_and(|now| now.version == resource.version);
                return same.then(|| folded.body(self.fold(catalog, class), name)).flatten();
            }
            SetStrategy::Nothing => return None,
        };
        (Version::of(&body) == resource.version).then(|| body.into())
    }
}

impl ResourceProvider for CatalogAnswers {
    fn all(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> Arc<ResourceSet> {
        if kind.has_wildcard() { self.folded(catalog, class, kind).set } else { Arc::default() }
    }

    fn many(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: &Arc<Subscription>,
    ) -> Arc<ResourceSet> {
        let cached = self.generations.cached(catalog);
        let key = (Arc::as_ptr(names) as usize, self.generations.key(&cached, class, kind));
        let make = || {
            let found = names.names().iter().filter_map(|name| self.subscribed(catalog, class, kind, name));
            (Arc::clone(names), Arc::new(ResourceSet::new(found.collect())))
        };
        cached.subscribed.get_or_make(&key, make).1
    }

    fn one(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => self
                .single::<Clusters>(catalog, class, name)
                .or_else(|| self.fixed.cluster(catalog, class, name)),
            SetStrategy::Assignments => self.single::<Assignments>(catalog, class, name),
            SetStrategy::Targets => grpc::target(&self.store, catalog, class, name),
            SetStrategy::TargetRoutes => self.single::<TargetRoutes>(catalog, class, name),
            SetStrategy::Listeners => self.folded(catalog, class, kind).set.get(name).cloned(),
            SetStrategy::Routes => self.route_table(catalog, class, name),
            SetStrategy::Nothing => None,
        }
    }

    fn changed(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Arc<ChangedSet> {
        if Arc::ptr_eq(from, to) {
            return Arc::default();
        }
        let diff = self.diffs.diff(from, to);
        let key = diff.key(from, to, class, kind, self.has_own_composites(from, to, class, kind));
        diff.results.get_or_make(&key, || Arc::new(self.difference((from, to), class, kind)))
    }

    fn host_of(&self, class: &ClientClassKey, kind: ResourceType, name: &str) -> Option<Hostname> {
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters | SetStrategy::Assignments | SetStrategy::TargetRoutes => {
                names::parse_cluster_name(name).map(|(_, host)| host)
            }
            SetStrategy::Targets => grpc::host_of(class, name),
            SetStrategy::Listeners | SetStrategy::Routes | SetStrategy::Nothing => None,
        }
    }

    fn bytes(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<Bytes> {
        resource.body().or_else(|| {
            let again = self.encode_again(catalog, class, kind, resource);
            let body = again.and_then(|body| self.store.refill(resource, body));
            if body.is_none() {
                self.store.counters.lost.one();
            }
            body
        })
    }

    fn rope(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        set: &Arc<ResourceSet>,
        variant: Variant,
    ) -> Arc<Rope> {
        let counters = &self.store.counters;
        let mut shared = true;
        let rope = set.rope_or_make(variant, || {
            shared = false;
            let body = |member: &Arc<EncodedResource>| self.bytes(catalog, class, kind, member);
            let (rope, copied) = self.chunks.rope(variant, kind, set.members(), body);
            counters.rope_made(copied, rope.len);
            rope
        });
        if shared {
            counters.bytes_shared.add(rope.len as u64);
        }
        rope
    }

    fn private(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        own: &[WorkloadKey],
    ) -> Vec<Arc<EncodedResource>> {
        self.inbound.resources(&self.store.counters, catalog, class, kind, own)
    }
}

#[cfg(test)]
mod tests;
