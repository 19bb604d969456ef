//! The index: takes inputs, and says what differs from what it has said.
//!
//! Owned by one run of the rim, which applies every event in order and flushes when no more are at hand. The
//! facts that were said are the very values that the core holds, so remembering them costs a pointer each. A
//! fresh run begins with an empty index; a list of one kind that begins again keeps everything until it ends.

mod derived_key;
mod published_facts;
mod sync;
mod unread;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tributary_model::{Evidence, ExcludedObject, Fingerprint, ObjectRef, RegistryUpdate, StaleSet};

pub use derived_key::DerivedKey;

use tributary_registry_api::ClusterContext;

use crate::derive::derive;
use crate::input::{Input, Kind, Name, Object, WatchScope};
use crate::interner::Interner;
use crate::invalidate::{self, Change, DirtyOutputs};
use crate::namespace_selector;
use crate::objects::ClusterObjects;
use crate::options::Options;
use crate::part::{Listing, Part};
use published_facts::PublishedFacts;
use sync::Sync;

/// What an index has done, for people and for tests of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Objects that were put.
    pub put: u64,
    /// Of these, those that said nothing new.
    pub unchanged: u64,
    /// Outputs that were derived.
    pub derived: u64,
    /// Facts that were said.
    pub said: u64,
}

/// ClusterObjects, marks and what was said.
#[derive(Debug)]
pub struct Index {
    inputs: ClusterObjects,
    shared: Interner,
    marks: DirtyOutputs,
    said: PublishedFacts,
    sync: Sync,
    /// Outputs of collections that may be said since a moment ago.
    backlog: VecDeque<DerivedKey>,
    sweeps: BTreeMap<WatchScope, StaleSet<Name>>,
    counts: Counts,
    left_out: Saying<Arc<[ExcludedObject]>>,
    /// Whether what surrounds this cluster's objects may have changed since it was last asked for.
    around_stale: bool,
    /// The identity of the cluster, as it was reported.
    identity: Option<Fingerprint>,
    /// The identity that was confirmed before anything was read.
    learned: Option<Fingerprint>,
}

/// A value that is said whole, and whether it may differ from what was said.
#[derive(Debug)]
struct Saying<T> {
    said: T,
    stale: bool,
}

impl Index {
    /// How many outputs one flush derives at most, so that a first list neither holds up the watches nor
    /// stands in memory twice.
    pub const PART: usize = 1024;

    /// Knows nothing and has said nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let (sync, said) = (Sync::new(&options), PublishedFacts::new(&options));
        let inputs = ClusterObjects::new(options);
        Self {
            inputs,
            shared: Interner::default(),
            marks: DirtyOutputs::new(),
            said,
            sync,
            backlog: VecDeque::new(),
            sweeps: BTreeMap::new(),
            counts: Counts::default(),
            left_out: Saying { said: Arc::from([]), stale: true },
            around_stale: true,
            identity: None,
            learned: None,
        }
    }
    /// What is known of the cluster.
    #[must_use]
    pub const fn inputs(&self) -> &ClusterObjects {
        &self.inputs
    }

    /// What it has done.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        Counts { said: self.said.count(), ..self.counts }
    }

    /// Takes one input. Nothing is said before [`Index::flush`].
    pub fn apply(&mut self, input: Input) {
        match input {
            Input::Put(object) => self.put(object),
            Input::Seen(kind, name) => self.see(kind, &name),
            Input::Gone(kind, name) => {
                let evidence = Evidence::Deleted(ObjectRef::new(name.object(kind)));
                self.gone(kind, &name, evidence);
            }
            Input::Bad(kind, name, why) => {
                self.see(kind, &name);
                self.said.bad(kind, &name, why);
            }
            Input::Restart(feed) => self.restart(feed),
            Input::Listed(feed) => {
                self.sweep(&feed);
                self.readable(&feed, Sync::listed);
            }
            Input::Confirmed(feed) => self.sync.confirmed(&feed),
            Input::Absent(feed) => {
                self.restart(feed.clone());
                self.sweep(&feed);
                self.readable(&feed, Sync::listed);
            }
            Input::Withheld(feed, why) => {
                self.sweeps.remove(&feed);
                self.withhold(&feed, why);
            }
            Input::Resumed(feed) => self.readable(&feed, Sync::resumed),
            Input::Recall(feed, objects) => self.recall(&feed, objects),
        }
    }

    fn put(&mut self, mut object: Object) {
        let (kind, name) = (object.kind(), object.name().clone());
        self.see(kind, &name);
        self.said.good(kind, &name);
        self.counts.put += 1;
        if self.inputs.get(kind, &name).is_some_and(|known| known == object) {
            self.counts.unchanged += 1;
            return;
        }
        share(&mut object, &mut self.shared);
        let changes = self.inputs.changes();
        let old = self.inputs.put(object);
        // it may have inherited from what it was
        let new = self.inputs.get(kind, &name);
        let evidence = Evidence::Changed(ObjectRef::new(name.object(kind)));
        self.changed(Change { old, new, evidence }, kind, changes);
    }
    fn gone(&mut self, kind: Kind, name: &Name, evidence: Evidence) {
        self.see(kind, name);
        self.said.good(kind, name);
        let changes = self.inputs.changes();
        let old = self.inputs.remove(kind, name);
        if old.is_some() {
            self.changed(Change { old, new: None, evidence }, kind, changes);
        }
    }
    fn changed(&mut self, change: Change, kind: Kind, changes: u64) {
        let around = matches!(kind, Kind::Namespace | Kind::MeshConfig);
        self.left_out.stale |= around;
        self.around_stale |= around;
        if self.inputs.changes() != changes {
            self.touch_all(&change.evidence);
        }
        if self.sync.has_begun() {
            invalidate::change(&self.inputs, &change, &mut self.marks);
            self.sync.forget(&mut self.marks);
        }
    }
    fn see(&mut self, kind: Kind, name: &Name) {
        for (feed, sweep) in &mut self.sweeps {
            if feed.kind == kind {
                sweep.mark_present(name);
            }
        }
    }

    /// A list begins: all that its feed has is unseen, the bad included.
    fn restart(&mut self, feed: WatchScope) {
        let mut live = self.inputs.names(&feed);
        live.extend(self.said.bad_names(&feed));
        self.sweeps.entry(feed).or_default().open(live);
    }
    fn sweep(&mut self, feed: &WatchScope) {
        let unseen = self.sweeps.remove(feed).map(|mut sweep| sweep.close().collect::<Vec<_>>());
        for name in unseen.unwrap_or_default() {
            self.gone(feed.kind, &name, Evidence::AbsentFromList);
        }
    }

    /// Marks every output: a value that all of them may read has changed.
    pub fn touch_all(&mut self, evidence: &Evidence) {
        invalidate::all(&self.inputs, evidence, &mut self.marks);
    }

    /// What is left out on purpose, where that is something else.
    fn leave_out(&mut self) -> Option<RegistryUpdate> {
        if !self.left_out.stale || !self.sync.is_ready(Listing::SERVICES) {
            return None;
        }
        self.left_out.stale = false;
        let now = namespace_selector::left_out(&self.inputs);
        if now == self.left_out.said {
            return None;
        }
        self.left_out.said = Arc::clone(&now);
        Some(RegistryUpdate::Excluded(self.inputs.options.scope(Part::Cluster).clone(), now))
    }
    /// What other registries of this cluster need to know, once it is known and where it may be something else
    /// than when it was last asked for.
    pub fn cluster_context(&mut self) -> Option<ClusterContext> {
        let withheld = self.sync.held_back().cloned();
        if !self.around_stale || !(withheld.is_some() || self.sync.is_ready(Listing::SETTINGS)) {
            return None;
        }
        self.around_stale = false;
        Some(ClusterContext { identity: self.identity.clone(), withheld, ..self.inputs.cluster_context() })
    }
    /// The detail that lists what of the mesh configuration has no effect.
    pub const NOT_HONOURED: &str = "mesh configuration that is not honoured";
    /// The detail that counts waiting addresses beyond those that are listed.
    pub const WAITING: &str = "further addresses that wait for their pod";
    /// What a person may ask of the cluster, as name and value, for its status.
    #[must_use]
    pub fn details(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let network = self.inputs.networks().own();
        let network = network.map(|said| format!("{} ({})", said.network, said.place).into());
        let mesh = self.inputs.mesh();
        let ignored = (!mesh.ignored.is_empty()).then(|| mesh.ignored.join(", ").into());
        let waiting = self.said.unlisted_waiting();
        let waiting = (waiting > 0).then(|| waiting.to_string().into());
        let named = [("network", network), (Self::NOT_HONOURED, ignored), (Self::WAITING, waiting)];
        named.into_iter().filter_map(|(name, value)| Some((Arc::from(name), value?))).collect()
    }

    /// Derives what was touched and says what differs, in an order that may be applied: what begins the run,
    /// what is so, what is no more, which collections are synced. Of very much it says the first part only:
    /// flush again while the index [is behind](Index::is_behind).
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
        out.extend(self.said.take());
        if !self.is_behind() {
            out.extend(self.leave_out());
            out.extend(self.sync.end());
        }
        out
    }
    /// Whether there is more to say than one flush did.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.sync.held_back().is_none() && self.has_more()
    }
    fn has_more(&self) -> bool {
        !self.marks.is_empty() || !self.backlog.is_empty()
    }
    fn derive(&mut self, output: DerivedKey, evidence: &Evidence) {
        self.counts.derived += 1;
        let derived = derive(&self.inputs, &mut self.shared, &output);
        let doubt = self.sync.doubt(&output, derived.lacks.as_ref());
        self.said.say(&self.inputs.options, &mut self.shared, output, derived, (evidence, doubt));
    }
    /// Pods' outputs precede those of groups, so that no group is derived from ground that is old.
    fn next(&mut self) -> Option<(DerivedKey, Evidence)> {
        if self.sync.held_back().is_some() {
            return None;
        }
        self.marks.pop_first().or_else(|| Some((self.backlog.pop_front()?, Evidence::AbsentFromList)))
    }
    /// What was marked before its collection could be said is forgotten: then all of it is derived.
    fn queue(&mut self) {
        let ready: Vec<Listing> = self.sync.begun();
        if !ready.is_empty() {
            let outputs =
                invalidate::outputs(&self.inputs).filter(|output| ready.contains(&output.listing()));
            self.backlog.extend(outputs);
            self.marks.retain(|output, _| !ready.contains(&output.listing()));
        }
    }
}

fn share(object: &mut Object, shared: &mut Interner) {
    match object {
        Object::Namespace(object) => Arc::make_mut(object).share(shared),
        Object::Service(object) => Arc::make_mut(object).share(shared),
        Object::Slice(object) => Arc::make_mut(object).share(shared),
        Object::Pod(object) => Arc::make_mut(object).share(shared),
        Object::Node(object) => Arc::make_mut(object).share(shared),
        Object::Export(object) => Arc::make_mut(object).share(shared),
        Object::Import(object) => Arc::make_mut(object).share(shared),
        Object::Gateway(object) => Arc::make_mut(object).share(shared),
        Object::MeshConfig(object) => Arc::make_mut(object).share(shared),
    }
}

#[cfg(test)]
mod tests;
