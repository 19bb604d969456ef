//! The answers of a catalog: [`CatalogAnswers`], which sessions hold.
//!
//! Every method first looks for what somebody else has paid for, in three places: the slots of
//! facets (resources), what is known of a generation (sets), the steps between generations
//! (differences). Nothing here is ever invalidated: all of it is keyed by immutable generations.

use std::sync::Arc;

use bytes::Bytes;
use tributary_answer::names;
use tributary_model::{Catalog, Encoded, Hostname, Version, WorkloadKey};

use super::budget::Budget;
use super::chunks::Chunks;
use super::counters::{Cause, Counters};
use super::fixed::Fixed;
use super::fold::{Fold, unclaimed};
use super::generations::{Generations, Known, SetKey};
use super::grpc::{self, TargetRoutes, Targets};
use super::made::{Made, Tables, Way, changed_listeners, changed_routes, difference, no_routes};
use super::private;
use super::routes::port_of_table;
use super::singles::{self, applied, port_of};
use super::steps::Steps;
use super::store::{Assignments, Clusters, Single, Store};
use super::{Answers, ChangedSet, ClassKey, Form, Kind, ResourceSet, Rope, Subscription, empty_assignment};

/// Answers from catalogs. One per process; shared by all sessions.
#[derive(Debug)]
pub struct CatalogAnswers {
    store: Store,
    chunks: Chunks,
    fixed: Fixed,
    generations: Generations<Made>,
    steps: Steps,
}

impl Default for CatalogAnswers {
    fn default() -> Self {
        Self::new(Budget::DEFAULT)
    }
}

impl CatalogAnswers {
    /// Answers that hold at most this many bytes of encoded resources.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        let store = Store::new(budget);
        Self {
            chunks: Chunks::new(store.budget.copies()),
            store,
            fixed: Fixed::default(),
            generations: Generations::default(),
            steps: Steps::default(),
        }
    }
    /// What has been done so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.store.counters
    }
    /// How many bytes of encoded resources are held.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.store.budget.held()
    }
}

/// The sets of a generation.
impl CatalogAnswers {
    /// The whole set of a kind, made from the nearest generation that has it, else from everything.
    fn made(&self, catalog: &Arc<Catalog>, class: &ClassKey, kind: Kind) -> Made {
        let known = self.generations.known(catalog);
        let key = self.generations.key(&known, class, kind);
        self.generations.set(&known, &key, || self.make(&known, &key, class, kind))
    }
    /// The set of a generation if it is still known.
    fn held(&self, catalog: &Arc<Catalog>, class: &ClassKey, kind: Kind) -> Option<Arc<ResourceSet>> {
        let known = self.generations.find(catalog)?;
        let key = self.generations.key(&known, class, kind);
        known.sets.get(&key).map(|made| made.set)
    }
    fn make(&self, known: &Known<Made>, key: &SetKey, class: &ClassKey, kind: Kind) -> Made {
        let base = self.generations.nearest(known, key);
        if base.is_none() {
            let first = self.generations.others(known).is_empty();
            self.store.counters.pass(if first { Cause::FirstAnswer } else { Cause::NewClass });
        }
        let fold = self.fold(&known.catalog, class);
        let from = base.as_ref().map(|(catalog, made)| (&**catalog, made));
        match Way::of(kind, class) {
            Way::Clusters => self.single_set::<Clusters>(known, base, class),
            Way::Assignments => self.single_set::<Assignments>(known, base, class),
            Way::Targets => self.single_set::<Targets>(known, base, class),
            Way::TargetRoutes => self.single_set::<TargetRoutes>(known, base, class),
            Way::Listeners => Made::listeners(fold, from, self.fixed.listener(&known.catalog, class)),
            Way::Routes => Made::routes(fold, from),
            Way::Nothing => Made::new(Tables::None, Vec::new()),
        }
    }
    fn single_set<S: Single>(
        &self,
        known: &Known<Made>,
        base: Option<(Arc<Catalog>, Made)>,
        class: &ClassKey,
    ) -> Made {
        let Some((from, made)) = base else {
            let mut all = singles::all::<S>(&self.store, &known.catalog, class);
            all.extend(self.fixed.of(S::KIND, &known.catalog, class).iter().cloned());
            return Made::new(Tables::None, all);
        };
        let changed = self.changed(&from, &known.catalog, class, S::KIND);
        if changed.is_empty() { made } else { Made::new(Tables::None, applied(&made.set, &changed)) }
    }
    fn fold<'a>(&'a self, catalog: &'a Catalog, class: &'a ClassKey) -> Fold<'a> {
        Fold { store: &self.store, class, catalog }
    }
}

/// Differences and single resources.
impl CatalogAnswers {
    fn difference(
        &self,
        (from, to): (&Arc<Catalog>, &Arc<Catalog>),
        class: &ClassKey,
        kind: Kind,
    ) -> ChangedSet {
        match Way::of(kind, class) {
            Way::Clusters => {
                let mut out = singles::changed::<Clusters>(&self.store, (from, to), class);
                let (old, new) = (self.fixed.of(kind, from, class), self.fixed.of(kind, to, class));
                let differ = old.iter().zip(new.iter()).filter(|(a, b)| a.version != b.version);
                out.upserted.extend(differ.map(|(_, now)| Arc::clone(now)));
                singles::sort(out)
            }
            Way::Assignments => singles::changed::<Assignments>(&self.store, (from, to), class),
            Way::Targets => singles::changed::<Targets>(&self.store, (from, to), class),
            Way::TargetRoutes => singles::changed::<TargetRoutes>(&self.store, (from, to), class),
            Way::Listeners | Way::Routes => self.composite_difference((from, to), class, kind),
            Way::Nothing => ChangedSet::default(),
        }
    }
    fn composite_difference(
        &self,
        (from, to): (&Arc<Catalog>, &Arc<Catalog>),
        class: &ClassKey,
        kind: Kind,
    ) -> ChangedSet {
        let now = self.made(to, class, kind).set;
        if unclaimed(from) != unclaimed(to) {
            return difference(&self.made(from, class, kind).set, &now);
        }
        let held = self.held(from, class, kind);
        let fold = self.fold(to, class);
        match kind {
            Kind::Listener => changed_listeners(fold, from, held.as_deref(), &now),
            Kind::Cluster | Kind::Endpoints | Kind::Route => {
                changed_routes(fold, from, held.as_deref(), &now)
            }
        }
    }
    /// Whether this class has composites of its own, which hold its namespace's parts beside those that differ.
    fn is_apart(&self, from: &Arc<Catalog>, to: &Arc<Catalog>, class: &ClassKey, kind: Kind) -> bool {
        let own = |known: &Known<Made>| self.generations.key(known, class, kind).namespace.is_some();
        matches!(Way::of(kind, class), Way::Listeners | Way::Routes)
            && class.namespace.is_some()
            && (own(&self.generations.known(to)) || self.generations.find(from).is_none_or(|from| own(&from)))
    }
    fn single<S: Single>(&self, catalog: &Catalog, class: &ClassKey, name: &str) -> Option<Arc<Encoded>> {
        let found = S::fill(&self.store, port_of(catalog, class, name)?, class)?;
        (*found.name == *name).then_some(found)
    }
    fn route_table(&self, catalog: &Arc<Catalog>, class: &ClassKey, name: &str) -> Option<Arc<Encoded>> {
        port_of_table(name)?;
        let found = self.made(catalog, class, Kind::Route).set.get(name).cloned();
        Some(found.unwrap_or_else(|| no_routes(self.fold(catalog, class), name)))
    }
    fn subscribed(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClassKey,
        kind: Kind,
        name: &str,
    ) -> Option<Arc<Encoded>> {
        let found = self.one(catalog, class, kind, name);
        match kind {
            Kind::Endpoints => Some(found.unwrap_or_else(|| empty_assignment(name))),
            Kind::Cluster | Kind::Listener | Kind::Route => found,
        }
    }
    /// The body of a resource, made once more from the catalog.
    fn encode_again(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClassKey,
        kind: Kind,
        resource: &Encoded,
    ) -> Option<Bytes> {
        let name = &*resource.name;
        let body = match Way::of(kind, class) {
            Way::Clusters => Clusters::body(port_of(catalog, class, name)?, class)?,
            Way::Assignments => Assignments::body(port_of(catalog, class, name)?, class)?,
            Way::Targets => Targets::body(grpc::port_of(catalog, class, name)?, class)?,
            Way::TargetRoutes => TargetRoutes::body(port_of(catalog, class, name)?, class)?,
            Way::Listeners | Way::Routes => {
                let made = self.made(catalog, class, kind);
                let same = made.set.get(name).is_some_and(|now| now.version == resource.version);
                return same.then(|| made.body(self.fold(catalog, class), name)).flatten();
            }
            Way::Nothing => return None,
        };
        (Version::of(&body) == resource.version).then(|| body.into())
    }
}

impl Answers for CatalogAnswers {
    fn all(&self, catalog: &Arc<Catalog>, class: &ClassKey, kind: Kind) -> Arc<ResourceSet> {
        if kind.has_wildcard() { self.made(catalog, class, kind).set } else { Arc::default() }
    }

    fn many(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClassKey,
        kind: Kind,
        names: &Arc<Subscription>,
    ) -> Arc<ResourceSet> {
        let known = self.generations.known(catalog);
        let key = (Arc::as_ptr(names) as usize, self.generations.key(&known, class, kind));
        let make = || {
            let found = names.names().iter().filter_map(|name| self.subscribed(catalog, class, kind, name));
            (Arc::clone(names), Arc::new(ResourceSet::new(found.collect())))
        };
        known.subscribed.get_or_make(&key, make).1
    }

    fn one(&self, catalog: &Arc<Catalog>, class: &ClassKey, kind: Kind, name: &str) -> Option<Arc<Encoded>> {
        match Way::of(kind, class) {
            Way::Clusters => self
                .single::<Clusters>(catalog, class, name)
                .or_else(|| self.fixed.cluster(catalog, class, name)),
            Way::Assignments => self.single::<Assignments>(catalog, class, name),
            Way::Targets => grpc::target(&self.store, catalog, class, name),
            Way::TargetRoutes => self.single::<TargetRoutes>(catalog, class, name),
            Way::Listeners => self.made(catalog, class, kind).set.get(name).cloned(),
            Way::Routes => self.route_table(catalog, class, name),
            Way::Nothing => None,
        }
    }

    fn changed(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClassKey,
        kind: Kind,
    ) -> Arc<ChangedSet> {
        if Arc::ptr_eq(from, to) {
            return Arc::default();
        }
        let step = self.steps.step(from, to);
        let key = step.key(from, to, class, kind, self.is_apart(from, to, class, kind));
        step.results.get_or_make(&key, || Arc::new(self.difference((from, to), class, kind)))
    }

    fn host_of(&self, class: &ClassKey, kind: Kind, name: &str) -> Option<Hostname> {
        match Way::of(kind, class) {
            Way::Clusters | Way::Assignments | Way::TargetRoutes => {
                names::parse_cluster_name(name).map(|(_, host)| host)
            }
            Way::Targets => grpc::host_of(class, name),
            Way::Listeners | Way::Routes | Way::Nothing => None,
        }
    }

    fn bytes(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClassKey,
        kind: Kind,
        resource: &Arc<Encoded>,
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
        class: &ClassKey,
        kind: Kind,
        set: &Arc<ResourceSet>,
        form: Form,
    ) -> Arc<Rope> {
        let counters = &self.store.counters;
        let mut shared = true;
        let rope = set.rope_or_make(form, || {
            shared = false;
            let body = |member: &Arc<Encoded>| self.bytes(catalog, class, kind, member);
            let (rope, copied) = self.chunks.rope(form, kind, set.members(), body);
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
        class: &ClassKey,
        kind: Kind,
        own: &[WorkloadKey],
    ) -> Vec<Arc<Encoded>> {
        private::resources(catalog, class, kind, own)
    }
}

#[cfg(test)]
mod tests;
