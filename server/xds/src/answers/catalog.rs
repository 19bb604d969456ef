//! Resources built from a catalog. Sessions hold [`CatalogAnswers`].
//!
//! Every method first looks in three caches: encoded resources in the catalog's resource inputs, the
//! sets of a generation, and the differences between generations. A set is a base, which many classes share, and an
//! overlay. Entries are never invalidated: all of them are keyed by immutable generations.

mod bodies;

use std::sync::Arc;

use smallvec::smallvec;
use tributary_answer::{ClusterName, OwnSide, PortSet};
use tributary_model::{Catalog, EncodedResource, Hostname};
use tributary_proto::{Body, Variant};

use super::budget::Budget;
use super::chunks::Chunks;
use super::counters::{Cause, Counters};
use super::diff_cache::{DiffCache, DiffKey};
use super::fixed::Fixed;
use super::fold::{Fold, Start, defaults};
use super::folded_set::{
    FoldedSet, SetStrategy, Tables, changed_listeners, changed_routes, difference, no_routes,
};
use super::forwarding;
use super::generations::{CachedGeneration, Generations};
use super::grpc::{self, TargetRoutes, Targets};
use super::layer::{Layer, LayerKey};
use super::mentions::Layering;
use super::private::Inbound;
use super::routes::port_of_table;
use super::secrets::secret;
use super::singles::{self, applied, port_names, port_of};
use super::store::{Assignments, Clusters, ResourceFamily, Store};
use super::{
    BodyChunks, ChangedSet, ClientClassKey, ResourceProvider, ResourceSet, ResourceType, Subscription,
    empty_assignment,
};

/// Resource provider over catalogs. One per process; all sessions share it.
#[derive(Debug)]
pub struct CatalogAnswers {
    store: Store,
    chunks: Chunks,
    fixed: Fixed,
    inbound: Inbound,
    pub(super) generations: Generations<FoldedSet>,
    pub(super) diffs: DiffCache,
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
        Self::layered(budget, Layering::DEFAULT)
    }
    /// Creates a provider that decides in this way which client values are part of a base.
    pub(crate) fn layered(budget: u64, layering: Layering) -> Self {
        let store = Store::new(budget);
        Self {
            chunks: Chunks::new(store.budget.copies()),
            store,
            fixed: Fixed::default(),
            inbound: Inbound::default(),
            generations: Generations::new(layering),
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
    /// Returns the whole set of a type: a base, or one under an overlay.
    fn folded(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> FoldedSet {
        let cached = self.generations.cached(catalog);
        let layer = self.generations.layer(&cached, class, kind);
        let base = self.base(&cached, &layer, class, kind);
        if layer.is_base() {
            return base;
        }
        self.generations.set(&cached, &layer.key, class, || {
            let kept = self.generations.elsewhere(&cached, &layer.key).filter(|kept| kept.is_over(&base));
            kept.unwrap_or_else(|| self.overlaid(&cached, &layer, &base, class, kind))
        })
    }
    /// Returns the base of a class, built from the nearest generation that has it, else from scratch.
    fn base(
        &self,
        cached: &CachedGeneration<FoldedSet>,
        layer: &Layer,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> FoldedSet {
        let key = LayerKey::of_base(layer.key.base.clone());
        self.generations.set(cached, &key, class, || {
            let near = self.generations.nearest(cached, &key.base);
            if near.is_none() {
                let again = self.generations.folded_again(&key.base, class);
                let first = self.generations.others(cached).is_empty();
                let new = if first { Cause::FirstAnswer } else { Cause::NewClass };
                self.store.counters.pass(if again { Cause::Evicted } else { new });
            }
            self.make(cached, near, &layer.base, kind)
        })
    }
    /// Lays the overlay of a class over its base.
    fn overlaid(
        &self,
        cached: &CachedGeneration<FoldedSet>,
        layer: &Layer,
        base: &FoldedSet,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> FoldedSet {
        let (fold, start) = (self.fold(&cached.catalog, class), Start::base(&cached.catalog, layer));
        let (own, replaced, kept) = match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => singles::overlay::<Clusters>(&self.store, fold, start, &base.set),
            SetStrategy::Assignments => singles::overlay::<Assignments>(&self.store, fold, start, &base.set),
            SetStrategy::Targets => singles::overlay::<Targets>(&self.store, fold, start, &base.set),
            SetStrategy::TargetRoutes => {
                singles::overlay::<TargetRoutes>(&self.store, fold, start, &base.set)
            }
            SetStrategy::Listeners | SetStrategy::Routes => {
                let tables = base.tables.overlaid(fold, start);
                let changes = tables.differing(&base.tables).into_owned();
                (changes.0, changes.1, tables.kept(&base.tables))
            }
            SetStrategy::Forwarding | SetStrategy::Secrets | SetStrategy::Nothing => {
                (Vec::new(), Vec::new(), Tables::None)
            }
        };
        self.store.counters.overlays.one();
        base.overlaid(own, &replaced, kept)
    }
    /// Returns the set of a generation if it is still cached.
    fn held(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Option<Arc<ResourceSet>> {
        let cached = self.generations.find(catalog)?;
        let layer = self.generations.layer(&cached, class, kind);
        cached.sets.get(&layer.key).map(|folded| folded.set)
    }
    /// Builds a base. `class` is the base's own class: a base that is continued as another class would miss
    /// changes that only the base sees.
    fn make(
        &self,
        cached: &CachedGeneration<FoldedSet>,
        near: Option<(Arc<Catalog>, FoldedSet)>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> FoldedSet {
        let fold = self.fold(&cached.catalog, class);
        let from = near.as_ref().map(|(catalog, folded)| (&**catalog, folded));
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => self.single_set::<Clusters>(cached, near, class),
            SetStrategy::Assignments => self.single_set::<Assignments>(cached, near, class),
            SetStrategy::Targets => self.single_set::<Targets>(cached, near, class),
            SetStrategy::TargetRoutes => self.single_set::<TargetRoutes>(cached, near, class),
            SetStrategy::Listeners => {
                FoldedSet::listeners(fold, from, self.fixed.listener(&cached.catalog, class))
            }
            SetStrategy::Routes => FoldedSet::routes(fold, from),
            SetStrategy::Forwarding => FoldedSet::new(Tables::None, forwarding::listeners(fold)),
            SetStrategy::Secrets | SetStrategy::Nothing => FoldedSet::new(Tables::None, Vec::new()),
        }
    }
    fn single_set<S: ResourceFamily>(
        &self,
        cached: &CachedGeneration<FoldedSet>,
        near: Option<(Arc<Catalog>, FoldedSet)>,
        class: &ClientClassKey,
    ) -> FoldedSet {
        let Some((from, folded)) = near else {
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
            SetStrategy::Forwarding => {
                let of = |catalog| self.folded(catalog, class, kind).set;
                difference(&of(from), &of(to))
            }
            SetStrategy::Secrets | SetStrategy::Nothing => ChangedSet::default(),
        }
    }
    fn composite_difference(
        &self,
        (from, to): (&Arc<Catalog>, &Arc<Catalog>),
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> ChangedSet {
        let now = self.folded(to, class, kind).set;
        if defaults(from, class, kind) != defaults(to, class, kind) {
            return difference(&self.folded(from, class, kind).set, &now);
        }
        let held = self.held(from, class, kind);
        let fold = self.fold(to, class);
        match kind {
            ResourceType::Listener => changed_listeners(fold, from, held.as_deref(), &now),
            _ => changed_routes(fold, from, held.as_deref(), &now),
        }
    }
    /// Returns the cache key of a difference of composites.
    fn composite_key(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> DiffKey {
        let layers =
            |cached: &CachedGeneration<FoldedSet>| self.generations.layer(cached, class, kind).key.clone();
        match self.generations.find(from) {
            Some(from) => DiffKey::Layers([layers(&from), layers(&self.generations.cached(to))].into()),
            None => DiffKey::Class(class.clone(), kind),
        }
    }
    fn single<S: ResourceFamily>(
        &self,
        catalog: &Catalog,
        class: &ClientClassKey,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        S::find(&self.store, port_of(catalog, class, name)?, class, name)
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
    /// Lays what a class sees differently over the subscribed resources of its base.
    fn subscribed_overlay(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: &Subscription,
        layer: &Layer,
        base: &Arc<ResourceSet>,
    ) -> Arc<ResourceSet> {
        let (fold, start) = (self.fold(catalog, class), Start::base(catalog, layer));
        let (mut own, mut replaced) = (Vec::new(), Vec::new());
        for difference in start.differences(fold) {
            let ports = singles::ports(&difference, fold.scope(), PortSet::Reached);
            let found = ports.flat_map(|(_, before, after)| port_names(kind, class, [before, after]));
            for name in found.filter(|name| names.contains(name)) {
                let (before, after) = (base.get(&name), self.subscribed(catalog, class, kind, &name));
                if before.zip(after.as_ref()).is_none_or(|(a, b)| a.version != b.version) {
                    own.extend(after);
                    replaced.extend(before.cloned());
                }
            }
        }
        Arc::new(ResourceSet::layered(base, own, &replaced))
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
            _ => found,
        }
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
        let layer = self.generations.layer(&cached, class, kind);
        let (id, hold) = (Arc::as_ptr(names) as usize, |set: Arc<ResourceSet>| (Arc::clone(names), set));
        let whole = |class: &ClientClassKey| {
            let found = names.iter().filter_map(|name| self.subscribed(catalog, class, kind, name));
            Arc::new(ResourceSet::new(found.collect()))
        };
        match SetStrategy::of(kind, class) {
            // what a short target means depends on the client's DNS domain, which no listener reads
            SetStrategy::Targets | SetStrategy::Secrets => return whole(class),
            SetStrategy::Listeners | SetStrategy::Routes => {
                let key = (id, layer.key.clone());
                return cached.subscribed.get_or_make(&key, class, || hold(whole(class))).1;
            }
            _ => {}
        }
        let of_base = (id, LayerKey::of_base(layer.key.base.clone()));
        let base = || cached.subscribed.get_or_make(&of_base, class, || hold(whole(&layer.base))).1;
        if layer.is_base() {
            return base();
        }
        let make = || hold(self.subscribed_overlay(catalog, class, kind, names, &layer, &base()));
        cached.subscribed.get_or_make(&(id, layer.key.clone()), class, make).1
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
            SetStrategy::Targets => {
                let own = self.inbound.server(&self.store.counters, class, name);
                own.or_else(|| grpc::target(&self.store, catalog, class, name))
            }
            SetStrategy::TargetRoutes => self.single::<TargetRoutes>(catalog, class, name),
            SetStrategy::Listeners | SetStrategy::Forwarding => {
                self.folded(catalog, class, kind).set.get(name).cloned()
            }
            SetStrategy::Routes => self.route_table(catalog, class, name),
            SetStrategy::Secrets => secret(class, name),
            SetStrategy::Nothing => None,
        }
    }

    fn refusing_listener(&self, name: &str) -> Option<Arc<EncodedResource>> {
        self.inbound.refusing(&self.store.counters, name)
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
        if let Some(noted) = diff.of_class(class, kind) {
            return noted;
        }
        let key = if SetStrategy::of(kind, class).is_composite() {
            self.composite_key(from, to, class, kind)
        } else {
            diff.key(from, to, class, kind)
        };
        diff.results.get_or_make(&key, class, || Arc::new(self.difference((from, to), class, kind)))
    }

    fn host_of(&self, class: &ClientClassKey, kind: ResourceType, name: &str) -> Option<Hostname> {
        match SetStrategy::of(kind, class) {
            SetStrategy::Clusters | SetStrategy::Assignments | SetStrategy::TargetRoutes => {
                ClusterName::parse(name, class.kind).map(|name| name.host)
            }
            SetStrategy::Targets => grpc::host_of(class, name),
            _ => None,
        }
    }

    fn body(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<BodyChunks> {
        if let Some(body) = resource.body() {
            return Some(smallvec![body]);
        }
        let again = self.encode_again(catalog, class, kind, resource);
        let body = again.and_then(|body| self.store.refill(resource, body));
        if body.is_none() {
            self.store.counters.lost.one();
        }
        body
    }

    fn rope(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        set: &Arc<ResourceSet>,
        variant: Variant,
    ) -> Body {
        let counters = &self.store.counters;
        let mut shared = true;
        let rope = set.rope_or_make(variant, || {
            shared = false;
            let body = |member: &Arc<EncodedResource>| self.body(catalog, class, kind, member);
            let members: Vec<_> = set.iter().collect();
            let (rope, copied) = self.chunks.rope(variant, kind, &members, body);
            counters.rope_made(copied, rope.len());
            rope
        });
        if shared {
            counters.bytes_shared.add(rope.len() as u64);
        }
        rope
    }

    fn private(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        own: OwnSide<'_>,
    ) -> Vec<Arc<EncodedResource>> {
        self.inbound.resources(&self.store.counters, catalog, class, kind, own)
    }
}

#[cfg(test)]
mod tests;
