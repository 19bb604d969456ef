//! Index: applies events of watches and publishes how the derived facts differ from the published ones.
//!
//! Owned by one run loop, which applies every event in order and flushes when no further event is ready. Published facts
//! share their values with the core, so remembering them costs a pointer each. A new run begins with an empty index; a
//! repeated list of one kind keeps everything until it ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tributary_kube_client::{ClusterContext, Event};
use tributary_model::{
    Evidence, ExcludedObject, Fingerprint, ObjectRef, RegistryUpdate, SourceDetail, StaleSet,
};

use super::published_facts::PublishedFacts;
use super::sync::Sync;
use crate::collections::{Listing, Part};
use crate::derive::derive;
use crate::interner::Interner;
use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::project::{Object, ObjectEvent};
use crate::state::invalidate::{self, Change, DirtyOutputs};
use crate::state::namespace_selector;
use crate::state::{ClusterObjects, DerivedKey};

/// Counters of an index, for operators and for tests of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Objects that were put.
    pub put: u64,
    /// Puts of an equal object.
    pub unchanged: u64,
    /// Derived outputs.
    pub derived: u64,
    /// Published facts.
    pub published: u64,
    /// Values that objects and facts share.
    pub shared: u64,
}

/// Objects, dirty outputs and published facts.
#[derive(Debug)]
pub struct Index {
    pub(super) objects: ClusterObjects,
    shared: Interner,
    pub(super) dirty: DirtyOutputs,
    pub(super) published: PublishedFacts,
    pub(super) sync: Sync,
    /// Outputs of collections that have just become ready.
    backlog: VecDeque<DerivedKey>,
    stale_sets: BTreeMap<WatchScope, StaleSet<Name>>,
    counts: Counts,
    pub(super) excluded: WholeValue<Arc<[ExcludedObject]>>,
    /// Whether the cluster context may have changed since it was last taken.
    pub(super) context_stale: bool,
    /// Identity of the cluster, as published.
    pub(super) identity: Option<Fingerprint>,
    /// Identity that was confirmed before anything was read.
    pub(super) learned: Option<Fingerprint>,
}

/// Value that is published as a whole, and whether it may have changed.
#[derive(Debug)]
pub(super) struct WholeValue<T> {
    value: T,
    pub(super) stale: bool,
}

impl Index {
    /// Largest number of outputs that one flush derives, so that a first list neither delays the watches nor is held in
    /// memory twice.
    pub const PART: usize = 1024;

    /// Creates an empty index.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let (sync, published) = (Sync::new(&options), PublishedFacts::new(&options));
        let objects = ClusterObjects::new(options);
        Self {
            objects,
            shared: Interner::default(),
            dirty: DirtyOutputs::new(),
            published,
            sync,
            backlog: VecDeque::new(),
            stale_sets: BTreeMap::new(),
            counts: Counts::default(),
            excluded: WholeValue { value: Arc::from([]), stale: true },
            context_stale: true,
            identity: None,
            learned: None,
        }
    }
    /// Returns the known objects.
    #[must_use]
    pub const fn objects(&self) -> &ClusterObjects {
        &self.objects
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { published: self.published.count(), shared: self.shared.len() as u64, ..self.counts }
    }

    /// Applies one event of the watch of this scope. Nothing is published before [`Index::flush`].
    pub fn apply(&mut self, scope: &WatchScope, event: ObjectEvent) {
        match event {
            Event::Apply(object) => self.put(object),
            Event::Unchanged(name) => self.see(scope.kind, &name),
            Event::Delete(name) => {
                let evidence = Evidence::Deleted(ObjectRef::new(name.object(scope.kind)));
                self.gone(scope.kind, &name, evidence);
            }
            Event::Invalid(name, why) => {
                self.see(scope.kind, &name);
                self.published.bad(scope.kind, &name, why);
            }
            Event::Init => self.restart(scope),
            Event::InitDone => {
                self.end_list(scope);
                self.readable(scope, Sync::listed);
            }
            Event::Confirmed => self.sync.confirmed(scope),
            Event::NotServed => {
                self.restart(scope);
                self.end_list(scope);
                self.readable(scope, Sync::listed);
            }
            Event::Unavailable(why) => {
                self.stale_sets.remove(scope);
                self.withhold(scope, why);
            }
            Event::Resumed => self.readable(scope, Sync::resumed),
            // the health of the watch, which changes no object
            Event::Status(_) | Event::Recovered(_) => {}
        }
    }

    pub(super) fn put(&mut self, mut object: Object) {
        let (kind, name) = (object.kind(), object.name().clone());
        self.see(kind, &name);
        self.published.good(kind, &name);
        self.counts.put += 1;
        if self.objects.get(kind, &name).is_some_and(|known| known == object) {
            self.counts.unchanged += 1;
            return;
        }
        object.share(&mut self.shared);
        let changes = self.objects.changes();
        let old = self.objects.put(object);
        // the mesh configuration may have inherited from its last valid version
        let new = self.objects.get(kind, &name);
        let evidence = Evidence::Changed(ObjectRef::new(name.object(kind)));
        self.changed(Change { old, new, evidence }, kind, changes);
    }
    fn gone(&mut self, kind: Kind, name: &Name, evidence: Evidence) {
        self.see(kind, name);
        self.published.good(kind, name);
        let changes = self.objects.changes();
        let old = self.objects.remove(kind, name);
        if old.is_some() {
            self.changed(Change { old, new: None, evidence }, kind, changes);
        }
    }
    fn changed(&mut self, change: Change, kind: Kind, changes: u64) {
        let is_context = matches!(kind, Kind::Namespace | Kind::MeshConfig);
        self.excluded.stale |= is_context;
        self.context_stale |= is_context;
        if change.old.is_some() {
            self.shared.note_release();
        }
        if self.objects.changes() != changes {
            self.touch_all(&change.evidence);
        }
        if self.sync.has_begun() {
            invalidate::change(&self.objects, &change, &mut self.dirty);
            self.sync.forget(&mut self.dirty);
        }
    }
    fn see(&mut self, kind: Kind, name: &Name) {
        for (scope, stale) in &mut self.stale_sets {
            if scope.kind == kind {
                stale.mark_present(name);
            }
        }
    }

    /// Begins a list: all objects of the watch scope are unseen, the invalid ones included.
    fn restart(&mut self, scope: &WatchScope) {
        let mut live = self.objects.names(scope);
        live.extend(self.published.bad_names(scope));
        self.stale_sets.entry(scope.clone()).or_default().open(live);
    }
    fn end_list(&mut self, scope: &WatchScope) {
        let unseen = self.stale_sets.remove(scope).map(|mut stale| stale.close().collect::<Vec<_>>());
        for name in unseen.unwrap_or_default() {
            self.gone(scope.kind, &name, Evidence::AbsentFromList);
        }
    }

    /// Marks every output dirty, after a change that all of them may read.
    pub fn touch_all(&mut self, evidence: &Evidence) {
        invalidate::all(&self.objects, evidence, &mut self.dirty);
    }

    /// Returns the excluded namespaces, if they changed.
    fn exclude(&mut self) -> Option<RegistryUpdate> {
        if !self.excluded.stale || !self.sync.is_ready(Listing::SERVICES) {
            return None;
        }
        self.excluded.stale = false;
        let now = namespace_selector::excluded(&self.objects);
        if now == self.excluded.value {
            return None;
        }
        self.excluded.value = Arc::clone(&now);
        Some(RegistryUpdate::Excluded(self.objects.options.scope(Part::Cluster).clone(), now))
    }
    /// Returns the cluster context once it is known, and when it may have changed since the last call.
    pub fn cluster_context(&mut self) -> Option<ClusterContext> {
        let withheld = self.sync.held_back().cloned();
        if !self.context_stale || !(withheld.is_some() || self.sync.is_context_known()) {
            return None;
        }
        self.context_stale = false;
        Some(ClusterContext { identity: self.identity.clone(), withheld, ..self.objects.cluster_context() })
    }
    /// Status detail that lists the ignored fields of the mesh configuration.
    pub(crate) const NOT_HONOURED: &str = "mesh configuration that is not honoured";
    /// Status detail that counts waiting addresses beyond the listed ones.
    pub(crate) const WAITING: &str = "further addresses that wait for their pod";
    /// Returns details of the cluster for its status.
    #[must_use]
    pub fn details(&self) -> Vec<SourceDetail> {
        let network = self.objects.networks().own();
        let network =
            network.map(|own| SourceDetail::text("network", format!("{} ({})", own.network, own.origin)));
        // those of a followed mesh configuration are shown by its own cluster
        let is_own = !self.objects.options.follows_mesh;
        let ignored = &self.objects.mesh().ignored;
        let ignored = (is_own && !ignored.is_empty())
            .then(|| SourceDetail::text(Self::NOT_HONOURED, ignored.join(", ")).warning());
        let waiting = self.published.unlisted_waiting() as u64;
        let waiting = (waiting > 0).then(|| SourceDetail::number(Self::WAITING, waiting));
        [network, ignored, waiting].into_iter().flatten().collect()
    }

    /// Derives dirty outputs and returns the changes in an order that may be applied: start of the run, new values, removals,
    /// synced collections. Returns only the first part of many changes: flush again while the index
    /// [is behind](Index::is_behind).
    pub fn flush(&mut self) -> Vec<RegistryUpdate> {
        let mut out = self.sync.begin();
        self.judge();
        out.extend(self.identify());
        self.queue();
        self.shared.bare.clear();
        for _ in 0..Self::PART {
            let Some((output, evidence)) = self.next() else { break };
            if self.sync.is_ready(output.listing()) {
                self.derive(output, &evidence);
            }
        }
        self.shared.bare.clear();
        out.extend(self.published.take());
        if !self.is_behind() {
            out.extend(self.exclude());
            out.extend(self.sync.end());
            self.shared.trim();
        }
        out
    }
    /// Whether the last flush left outputs for the next one.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.sync.held_back().is_none() && self.has_more()
    }
    fn has_more(&self) -> bool {
        !self.dirty.is_empty() || !self.backlog.is_empty()
    }
    fn derive(&mut self, output: DerivedKey, evidence: &Evidence) {
        self.counts.derived += 1;
        let derived = derive(&self.objects, &mut self.shared, &output);
        let doubt = self.sync.doubt(&output, derived.lacks.as_ref());
        self.published.publish(&self.objects.options, &mut self.shared, output, derived, (evidence, doubt));
    }
    /// Returns the next output. Workloads precede groups, so that no group reads stale attributes of a pod.
    fn next(&mut self) -> Option<(DerivedKey, Evidence)> {
        if self.sync.held_back().is_some() {
            return None;
        }
        self.dirty.pop_first().or_else(|| Some((self.backlog.pop_front()?, Evidence::AbsentFromList)))
    }
    /// Queues all outputs of collections that became ready, and drops their earlier marks.
    fn queue(&mut self) {
        let ready: Vec<Listing> = self.sync.begun();
        if !ready.is_empty() {
            let outputs =
                invalidate::outputs(&self.objects).filter(|output| ready.contains(&output.listing()));
            self.backlog.extend(outputs);
            self.dirty.retain(|output, _| !ready.contains(&output.listing()));
        }
    }
}

#[cfg(test)]
mod tests;
