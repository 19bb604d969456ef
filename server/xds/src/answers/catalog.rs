//! The answers of a catalog: [`CatalogAnswers`], which sessions hold.
//!
//! Every method first looks for what somebody else has paid for, in three places: the slots of
//! facets (resources), what is known of a generation (sets), the steps between generations
//! (differences). Nothing here is ever invalidated: all of it is keyed by immutable generations.

use std::sync::Arc;

use bytes::Bytes;
use tributary_answer::names;
use tributary_model::{Catalog, Encoded, Hostname, WorkloadKey};

use super::budget::Budget;
use super::counters::{Cause, Counters};
use super::fixed::Fixed;
use super::generations::{Generations, Known, SetKey};
use super::rope::RopeWriter;
use super::singles::{self, applied, port_of};
use super::steps::Steps;
use super::store::{Assignments, Clusters, Single, Store};
use super::{Answers, ChangedSet, ClassKey, Form, Kind, ResourceSet, Rope, Subscription, empty_assignment};

/// Answers from catalogs. One per process; shared by all sessions.
#[derive(Debug)]
pub struct CatalogAnswers {
    store: Store,
    fixed: Fixed,
    generations: Generations<Arc<ResourceSet>>,
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
        Self {
            store: Store::new(budget),
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

    /// The whole set of a kind, made from the nearest generation that has it, else from everything.
    fn set(&self, catalog: &Arc<Catalog>, class: &ClassKey, kind: Kind) -> Arc<ResourceSet> {
        let known = self.generations.known(catalog);
        let key = self.generations.key(&known, class, kind);
        known.sets.get_or_make(&key, || Arc::new(ResourceSet::new(self.make(&known, &key, class, kind))))
    }
    fn make(
        &self,
        known: &Known<Arc<ResourceSet>>,
        key: &SetKey,
        class: &ClassKey,
        kind: Kind,
    ) -> Vec<Arc<Encoded>> {
        if let Some((from, base)) = self.generations.nearest(known, key) {
            return applied(&base, &self.changed(&from, &known.catalog, class, kind));
        }
        self.store.counters.pass(Cause::NewClass);
        match kind {
            Kind::Cluster => {
                let mut out = singles::all::<Clusters>(&self.store, &known.catalog, class);
                out.extend(self.fixed.clusters(&known.catalog, class).iter().cloned());
                out.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                out
            }
            Kind::Endpoints | Kind::Listener | Kind::Route => Vec::new(),
        }
    }
    fn difference(&self, from: &Catalog, to: &Catalog, class: &ClassKey, kind: Kind) -> ChangedSet {
        match kind {
            Kind::Cluster => {
                let mut out = singles::changed::<Clusters>(&self.store, (from, to), class);
                let old = self.fixed.clusters(from, class);
                let new = self.fixed.clusters(to, class);
                let differ = old.iter().zip(new.iter()).filter(|(a, b)| a.version != b.version);
                out.upserted.extend(differ.map(|(_, now)| Arc::clone(now)));
                singles::sort(out)
            }
            Kind::Endpoints => singles::changed::<Assignments>(&self.store, (from, to), class),
            Kind::Listener | Kind::Route => ChangedSet::default(),
        }
    }
    fn single<S: Single>(&self, catalog: &Catalog, class: &ClassKey, name: &str) -> Option<Arc<Encoded>> {
        let found = S::fill(&self.store, port_of(catalog, class, name)?, class)?;
        (*found.name == *name).then_some(found)
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
    fn encode_again(&self, catalog: &Catalog, class: &ClassKey, kind: Kind, name: &str) -> Option<Vec<u8>> {
        match kind {
            Kind::Cluster => Clusters::body(port_of(catalog, class, name)?, class),
            Kind::Endpoints => Assignments::body(port_of(catalog, class, name)?, class),
            Kind::Listener | Kind::Route => None,
        }
    }
}

impl Answers for CatalogAnswers {
    fn all(&self, catalog: &Arc<Catalog>, class: &ClassKey, kind: Kind) -> Arc<ResourceSet> {
        if kind.has_wildcard() { self.set(catalog, class, kind) } else { Arc::default() }
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
        match kind {
            Kind::Cluster => self
                .single::<Clusters>(catalog, class, name)
                .or_else(|| self.fixed.cluster(catalog, class, name)),
            Kind::Endpoints => self.single::<Assignments>(catalog, class, name),
            Kind::Listener | Kind::Route => None,
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
        let key = step.key(from, to, class, kind);
        step.results.get_or_make(&key, || Arc::new(self.difference(from, to, class, kind)))
    }

    fn host_of(&self, _: &ClassKey, kind: Kind, name: &str) -> Option<Hostname> {
        match kind {
            Kind::Cluster | Kind::Endpoints => names::parse_cluster_name(name).map(|(_, host)| host),
            Kind::Listener | Kind::Route => None,
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
            let body = self.encode_again(catalog, class, kind, &resource.name)?;
            self.store.refill(resource, body.into())
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
        let mut made = false;
        let rope = set.rope_or_make(form, || {
            made = true;
            let mut writer = RopeWriter::new(form, kind);
            for member in set.members() {
                if let Some(body) = self.bytes(catalog, class, kind, member) {
                    writer.push(member, &body);
                }
            }
            writer.finish()
        });
        let counters = &self.store.counters;
        if made {
            counters.ropes.one();
            counters.rope_bytes.add(rope.len as u64);
        } else {
            counters.bytes_shared.add(rope.len as u64);
        }
        rope
    }

    fn private(&self, _: &Arc<Catalog>, _: &ClassKey, _: Kind, _: &[WorkloadKey]) -> Vec<Arc<Encoded>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
