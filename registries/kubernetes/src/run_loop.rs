//! The rim: the watches of one run, the index that they feed, and the inlet that takes what it says.
//!
//! One task. Whatever watch has something is heard, its inputs are applied in order, and when no more are at
//! hand the index is flushed: what belongs together reaches the core in one turn. Until every first list is
//! complete the index is flushed only when a list ends, since nothing can be said before.

mod exporter;
mod status;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use futures::{Future, FutureExt};
use tributary_kube_client::ClusterIdentity;
use tributary_model::{
    Collection, RegistryUpdate, Scope, SourceState, SourceStatus, Withheld, WithheldCause,
};
use tributary_registry_api::{ClusterContextSender, UpdateSender};

use crate::index::Index;
use crate::input::{Input, Kind, Name, WatchScope};
use crate::memory::Memory;
use crate::part::Part;
use status::SourceHealth;
use watches::{Source, WatchOutput};

pub(crate) use exporter::Exporter;
pub(crate) use watches::WatchSet;

/// So many batches of words are applied before the core is told, however many more are at hand.
const MOST_BATCHES: usize = 64;

type Heard = Pin<Box<dyn Future<Output = (Box<dyn Source>, Vec<WatchOutput>)> + Send>>;

/// A run at work.
pub(crate) struct RunLoop {
    index: Index,
    standing: SourceHealth,
    /// Confirms which cluster answers, before a watch reports anything of it.
    cluster: ClusterIdentity,
    watches: FuturesUnordered<Heard>,
    /// Watches that have not begun.
    idle: Vec<Box<dyn Source>>,
    reported: BTreeMap<Scope, SourceStatus>,
    details: Vec<(Arc<str>, Arc<str>)>,
    /// Feeds that fail again and again, until it is seen whether the server does as a whole.
    failing: BTreeMap<WatchScope, Withheld>,
    /// Whether a first list ended since the index was last flushed, or all have.
    ripe: bool,
    /// Feeds whose first list has not ended.
    waiting: BTreeSet<WatchScope>,
    memory: Arc<Memory>,
    /// Where other registries of the cluster listen.
    surroundings: Option<Arc<ClusterContextSender>>,
    /// Writes exports, where that is asked for.
    exporter: Option<Exporter>,
}

impl RunLoop {
    /// Over an index that knows nothing, with the watches that feed it.
    pub(crate) fn new(
        mut index: Index,
        feeds: WatchSet,
        surroundings: Option<Arc<ClusterContextSender>>,
        memory: Arc<Memory>,
    ) -> Self {
        let mesh = feeds.planned.iter().filter(|planned| planned.feed.kind == Kind::MeshConfig);
        mesh.filter_map(|planned| memory.recall(&planned.feed)).for_each(|known| index.remember_mesh(known));
        let standing = SourceHealth::new(&feeds);
        let waiting = feeds.planned.iter().map(|planned| planned.feed.clone()).collect();
        Self {
            index,
            standing,
            cluster: feeds.cluster,
            watches: FuturesUnordered::new(),
            idle: feeds.sources,
            reported: BTreeMap::new(),
            details: Vec::new(),
            failing: BTreeMap::new(),
            ripe: true,
            waiting,
            memory,
            surroundings,
            exporter: None,
        }
    }
    /// Exporting Services while it leads.
    pub(crate) fn exporting(mut self, exporter: Option<Exporter>) -> Self {
        self.exporter = exporter;
        self
    }

    /// The identity of the cluster that the run follows.
    pub(crate) fn cluster(&self) -> ClusterIdentity {
        self.cluster.clone()
    }

    /// Runs until the receiver is dropped. Of the held scopes facts are held from earlier runs.
    pub(crate) async fn run(mut self, out: &UpdateSender, held: &[Scope]) {
        for mut source in std::mem::take(&mut self.idle) {
            if self.is_held(source.feed().kind, held) {
                source.hold();
            }
            self.watches.push(heard(source));
        }
        while self.flush(out) {
            // what is marked while a first list is under way is said when a list ends, so that waiting for it
            // to be said before a watch is heard again would be waiting for ever
            if self.ripe && self.index.is_behind() {
                tokio::task::yield_now().await;
                continue;
            }
            let may_export = self.waiting.is_empty() && self.index.knows_exports();
            let first = tokio::select! {
                first = self.watches.next() => first,
                () = exporter::work(&mut self.exporter, self.index.inputs(), may_export) => continue,
            };
            let Some(first) = first else { return };
            self.take(first);
            for _ in 1..MOST_BATCHES {
                match self.watches.next().now_or_never() {
                    Some(Some(more)) => self.take(more),
                    _ => break,
                }
            }
        }
    }

    fn take(&mut self, (source, words): (Box<dyn Source>, Vec<WatchOutput>)) {
        let feed = source.feed().clone();
        self.watches.push(heard(source));
        for word in words {
            match word {
                WatchOutput::Input(Input::Withheld(feed, why)) => drop(self.failing.insert(feed, why)),
                WatchOutput::Input(input) => self.apply(input),
                WatchOutput::Status(part) => self.standing.say(&feed, part),
                WatchOutput::Healed(lost) => {
                    tracing::warn!(
                        kind = feed.kind.as_str(),
                        lost,
                        "an audit healed events that a watch had lost"
                    );
                    self.standing.healed(lost);
                }
            }
        }
    }

    /// Whether facts that a kind decides over are held from earlier runs.
    fn is_held(&self, kind: Kind, held: &[Scope]) -> bool {
        let options = &self.index.inputs().options;
        let is_held = |part: Part| held.contains(options.scope(part));
        // exports decide of every Service which clusters reach it
        is_held(Part::of(kind)) || kind == Kind::Export && is_held(Part::Cluster)
    }

    fn apply(&mut self, input: Input) {
        if let Input::Listed(feed) | Input::Absent(feed) | Input::Resumed(feed) = &input {
            self.failing.remove(feed);
            self.ripe = true;
        }
        if let Input::Listed(feed) | Input::Absent(feed) | Input::Withheld(feed, _) = &input {
            self.waiting.remove(feed);
            self.ripe = true;
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.hear(&input);
        }
        let note = Note::of(&input);
        self.index.apply(input);
        if let Some(note) = note {
            self.remember(note);
        }
    }

    /// Withholds what is refused, and what fails although another kind is followed. That all kinds fail shows that the
    /// server does, and nothing of what it has.
    fn withhold(&mut self) {
        let standing = &self.standing;
        let counts = |feed: &WatchScope, why: &mut Withheld| {
            why.cause == WithheldCause::Forbidden || standing.is_any_live_but(feed)
        };
        let counted: Vec<(WatchScope, Withheld)> = self.failing.extract_if(.., counts).collect();
        for (feed, why) in counted {
            if let Some(known) = self.memory.recall(&feed) {
                self.index.apply(Input::Recall(feed.clone(), known));
            }
            self.apply(Input::Withheld(feed, why));
        }
    }

    /// Passes on to later runs what this one has read.
    fn remember(&self, note: Note) {
        if matches!(note, Note::Feed(_))
            && let Some(identity) = self.cluster.known()
        {
            self.memory.identify(&identity);
        }
        let inputs = self.index.inputs();
        match note {
            Note::Feed(feed) => self.memory.keep(&feed, inputs.objects(&feed)),
            Note::Object(kind, name) => {
                for feed in self.standing.feeds().filter(|feed| feed.kind == kind && feed.covers(&name)) {
                    if self.index.has_listed(kind) {
                        self.memory.note(feed, &name, inputs.get(kind, &name));
                    }
                }
            }
        }
    }

    /// Tells other registries of this cluster what surrounds its objects, where that is something else.
    fn surround(&mut self) {
        let Some(say) = &self.surroundings else { return };
        let Some(around) = self.index.cluster_context().map(Arc::new) else { return };
        say.send_if_modified(|known| {
            let other = known.as_ref() != Some(&around);
            *known = Some(around);
            other
        });
    }

    /// Sends what is to be reported; false when the receiver is dropped.
    fn flush(&mut self, out: &UpdateSender) -> bool {
        if let Some(identity) = self.cluster.known() {
            self.index.learn(identity);
        }
        self.withhold();
        let mut deltas = Vec::new();
        if self.ripe {
            deltas = self.index.flush();
            self.ripe = self.waiting.is_empty() || self.index.is_behind();
            self.surround();
        }
        deltas.extend(self.exporter.iter_mut().flat_map(Exporter::news));
        // watches that go on do not make up for a credential or a right that was lost
        if deltas.iter().any(|delta| matches!(delta, RegistryUpdate::Progress(_))) {
            let followed = self.followed();
            deltas.retain(|delta| !matches!(delta, RegistryUpdate::Progress(of) if !followed.contains(of)));
        }
        deltas.extend(self.statuses());
        if deltas.is_empty() { !out.is_closed() } else { out.send_all(deltas) }
    }

    /// The collections that are complete and followed.
    fn followed(&self) -> BTreeSet<Collection> {
        self.index.followed(|feed| self.standing.is_live(feed)).cloned().collect()
    }

    /// How each scope is doing, where that changed. Trouble of one kind makes nothing stale that does not depend on it:
    /// what is followed is confirmed after the status.
    fn statuses(&mut self) -> Vec<RegistryUpdate> {
        let details = self.index.details();
        if !self.standing.take_changed() && self.details == details {
            return Vec::new();
        }
        let options = &self.index.inputs().options;
        let (reported, now) = (self.standing.status(details.clone()), self.standing.now(details.clone()));
        let mut deltas = Vec::new();
        for part in options.parts() {
            let scope = options.scope(part);
            let status = self.standing.of_part(part, &reported);
            if self.reported.get(scope) == Some(&status) {
                continue;
            }
            deltas.push(RegistryUpdate::Status(scope.clone(), self.standing.of_part(part, &now)));
            if !matches!(status.state, SourceState::Live | SourceState::Syncing) {
                let followed = self.followed().into_iter().filter(|collection| collection.scope == *scope);
                deltas.extend(followed.map(RegistryUpdate::Progress));
            }
            self.reported.insert(scope.clone(), status);
        }
        self.details = details;
        deltas
    }
}

/// What an input leaves to later runs.
enum Note {
    Feed(WatchScope),
    Object(Kind, Name),
}

impl Note {
    fn of(input: &Input) -> Option<Self> {
        match input {
            Input::Listed(feed) | Input::Absent(feed) if Memory::keeps(feed.kind) => {
                Some(Self::Feed(feed.clone()))
            }
            Input::Put(object) if Memory::keeps(object.kind()) => {
                Some(Self::Object(object.kind(), object.name().clone()))
            }
            Input::Gone(kind, name) if Memory::keeps(*kind) => Some(Self::Object(*kind, name.clone())),
            _ => None,
        }
    }
}

fn heard(mut source: Box<dyn Source>) -> Heard {
    Box::pin(async move {
        let words = source.next().await;
        (source, words)
    })
}
