//! Run loop: the watches of one run, the index that they feed, and the channel for its updates.
//!
//! One task. It takes events of any ready watch, applies them in order, and flushes the index when no further event is
//! ready, so that related changes reach the core in one batch. Until every first list is complete, it flushes only when a
//! list ends, since nothing can be published before.

mod exporter;
mod run_memory;
mod status;
mod watch_plan;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use futures::{Future, FutureExt};
use tributary_kube_client::{ClusterContextSender, ClusterIdentity, Event};
use tributary_model::{
    Collection, RegistryUpdate, Scope, SourceDetail, SourceStatus, Withheld, WithheldCause,
};
use tributary_registry_api::UpdateSender;

use crate::collections::Part;
use crate::kind::{Kind, Name, WatchScope};
use crate::mesh_link::MeshLink;
use crate::project::ObjectEvent;
use crate::publish::Index;
use status::SourceHealth;
use watches::Source;

pub(crate) use exporter::Exporter;
pub use run_memory::RunMemory;
pub use watch_plan::{Planned, remote_kinds, watch_plan};
pub(crate) use watches::WatchSet;

/// Largest number of event batches that are applied before the index is flushed.
const MOST_BATCHES: usize = 64;

type NextEvents = Pin<Box<dyn Future<Output = (Box<dyn Source>, Vec<ObjectEvent>)> + Send>>;

/// Running run.
pub(crate) struct RunLoop {
    index: Index,
    health: SourceHealth,
    /// Identity that is confirmed before a watch reports anything.
    cluster: ClusterIdentity,
    watches: FuturesUnordered<NextEvents>,
    /// Watches that have not started.
    idle: Vec<Box<dyn Source>>,
    reported: BTreeMap<Scope, SourceStatus>,
    details: Vec<SourceDetail>,
    /// Watches that fail repeatedly, until it is known whether the whole server fails.
    failing: BTreeMap<WatchScope, Withheld>,
    /// Whether a first list ended since the last flush, or all have.
    ripe: bool,
    /// Watches whose first list has not ended.
    waiting: BTreeSet<WatchScope>,
    memory: Arc<RunMemory>,
    /// Sender of the cluster context to other registries of the cluster.
    context_sender: Option<Arc<ClusterContextSender>>,
    /// Writer of exports, where enabled.
    exporter: Option<Exporter>,
    /// Mesh configuration of other clusters.
    mesh_link: MeshLink,
}

impl RunLoop {
    /// Creates a run loop over an empty index and its watches.
    pub(crate) fn new(
        mut index: Index,
        set: WatchSet,
        context_sender: Option<Arc<ClusterContextSender>>,
        memory: Arc<RunMemory>,
    ) -> Self {
        let mesh = set.planned.iter().filter(|planned| planned.scope.kind == Kind::MeshConfig);
        mesh.filter_map(|planned| memory.recall(&planned.scope)).for_each(|known| index.remember_mesh(known));
        let health = SourceHealth::new(&set);
        let waiting = set.planned.iter().map(|planned| planned.scope.clone()).collect();
        Self {
            index,
            health,
            cluster: set.cluster,
            watches: FuturesUnordered::new(),
            idle: set.sources,
            reported: BTreeMap::new(),
            details: Vec::new(),
            failing: BTreeMap::new(),
            ripe: true,
            waiting,
            memory,
            context_sender,
            exporter: None,
            mesh_link: MeshLink::Own,
        }
    }
    /// Exports Services while this replica leads.
    pub(crate) fn exporting(mut self, exporter: Option<Exporter>) -> Self {
        self.exporter = exporter;
        self
    }

    /// Publishes or follows a mesh configuration.
    pub(crate) fn linked(mut self, link: MeshLink) -> Self {
        if link.follows() {
            self.health.spare(Kind::MeshConfig);
        }
        self.mesh_link = link;
        self.follow_mesh();
        self
    }

    /// Returns the identity of the followed cluster.
    pub(crate) fn cluster(&self) -> ClusterIdentity {
        self.cluster.clone()
    }

    /// Runs until the receiver is dropped. `held` lists the scopes whose facts are held from earlier runs.
    pub(crate) async fn run(mut self, out: &UpdateSender, held: &[Scope]) {
        for mut source in std::mem::take(&mut self.idle) {
            if self.is_held(source.scope().kind, held) {
                source.hold();
            }
            self.watches.push(next_events(source));
        }
        while self.flush(out) {
            // outputs that are marked during a first list are published when a list ends; waiting for them before
            // polling the watches again would block forever
            if self.ripe && self.index.is_behind() {
                tokio::task::yield_now().await;
                continue;
            }
            let may_export = self.waiting.is_empty() && self.index.knows_exports();
            // the watches come last: one of them can be ready for ever
            let first = tokio::select! {
                biased;
                () = self.mesh_link.changed() => {
                    self.follow_mesh();
                    continue;
                }
                () = exporter::work(&mut self.exporter, self.index.objects(), may_export) => continue,
                first = self.watches.next() => first,
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

    fn take(&mut self, (source, events): (Box<dyn Source>, Vec<ObjectEvent>)) {
        let scope = source.scope().clone();
        self.watches.push(next_events(source));
        for event in events {
            match event {
                Event::Unavailable(why) => drop(self.failing.insert(scope.clone(), why)),
                Event::Status(part) => self.health.report(&scope, part),
                Event::Recovered(lost) => {
                    tracing::warn!(
                        kind = scope.kind.as_str(),
                        lost,
                        "audit recovered events that the watch missed"
                    );
                    self.health.recovered(lost);
                }
                event => self.apply(&scope, event),
            }
        }
    }

    /// Takes the followed mesh configuration, if it is known.
    fn follow_mesh(&mut self) {
        if let Some(mesh) = self.mesh_link.current() {
            self.index.follow_mesh(mesh);
            self.ripe = true;
        }
    }

    /// Whether facts that depend on a kind are held from earlier runs.
    fn is_held(&self, kind: Kind, held: &[Scope]) -> bool {
        let options = &self.index.objects().options;
        let is_held = |part: Part| held.contains(options.scope(part));
        // exports decide which clusters reach every Service
        is_held(Part::of(kind)) || kind == Kind::Export && is_held(Part::Cluster)
    }

    fn apply(&mut self, scope: &WatchScope, event: ObjectEvent) {
        if matches!(event, Event::InitDone | Event::NotServed | Event::Resumed) {
            self.failing.remove(scope);
            self.ripe = true;
        }
        if matches!(event, Event::InitDone | Event::NotServed | Event::Unavailable(_)) {
            self.waiting.remove(scope);
            self.ripe = true;
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.observe(scope.kind, &event);
        }
        let note = Note::of(scope.kind, &event);
        self.index.apply(scope, event);
        if let Some(note) = note {
            self.remember(scope, note);
        }
    }

    /// Withholds refused kinds, and failing kinds while another kind is followed. If all kinds fail, the server fails, which
    /// proves nothing about its objects.
    fn withhold(&mut self) {
        let health = &self.health;
        let counts = |scope: &WatchScope, why: &mut Withheld| {
            why.cause == WithheldCause::Forbidden || health.is_any_live_but(scope)
        };
        let counted: Vec<(WatchScope, Withheld)> = self.failing.extract_if(.., counts).collect();
        for (scope, why) in counted {
            if let Some(known) = self.memory.recall(&scope) {
                self.index.recall(&scope, known);
            }
            self.apply(&scope, Event::Unavailable(why));
        }
    }

    /// Passes objects on to later runs.
    fn remember(&self, scope: &WatchScope, note: Note) {
        if matches!(note, Note::List)
            && let Some(identity) = self.cluster.known()
        {
            self.memory.identify(&identity);
        }
        let objects = self.index.objects();
        match note {
            Note::List => self.memory.keep(scope, objects.of_scope(scope)),
            Note::Object(name) => {
                let covers = |other: &&WatchScope| other.kind == scope.kind && other.covers(&name);
                for covering in self.health.watch_scopes().filter(covers) {
                    if self.index.has_listed(scope.kind) {
                        self.memory.note(covering, &name, objects.get(scope.kind, &name));
                    }
                }
            }
        }
    }

    /// Publishes a changed cluster context to other registries of this cluster, and its mesh configuration to other clusters.
    fn publish_context(&mut self) {
        let Some(context) = self.index.cluster_context().map(Arc::new) else { return };
        if let Some(mesh) = self.index.mesh_for_others() {
            self.mesh_link.publish(mesh);
        }
        let Some(sender) = &self.context_sender else { return };
        sender.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&context);
            *known = Some(context);
            changed
        });
    }

    /// Sends the next updates; returns false when the receiver is dropped.
    fn flush(&mut self, out: &UpdateSender) -> bool {
        if let Some(identity) = self.cluster.known() {
            self.index.learn(identity);
        }
        self.withhold();
        let mut updates = Vec::new();
        if self.ripe {
            updates = self.index.flush();
            self.ripe = self.waiting.is_empty() || self.index.is_behind();
            self.publish_context();
        }
        updates.extend(self.exporter.iter_mut().flat_map(Exporter::take_updates));
        // running watches do not compensate for a lost credential or right
        if updates.iter().any(|update| matches!(update, RegistryUpdate::Progress(_))) {
            let followed = self.followed();
            updates
                .retain(|update| !matches!(update, RegistryUpdate::Progress(of) if !followed.contains(of)));
        }
        self.repeat_status_of_unfollowed(&updates);
        updates.extend(self.statuses());
        if updates.is_empty() { !out.is_closed() } else { out.send_all(updates) }
    }

    /// Lets the status be sent again after the end of a list whose watches are not all followed: the end alone would make the
    /// collection live.
    fn repeat_status_of_unfollowed(&mut self, updates: &[RegistryUpdate]) {
        let mut ended = updates.iter().filter_map(|update| match update {
            RegistryUpdate::ListEnded(of, _) => Some(of),
            _ => None,
        });
        if ended.clone().next().is_some() {
            let followed = self.followed();
            if ended.any(|of| !followed.contains(of)) {
                self.reported.clear();
                self.health.report_again();
            }
        }
    }

    /// Returns the collections that are complete and followed.
    fn followed(&self) -> BTreeSet<Collection> {
        self.index.followed(|scope| self.health.is_live(scope)).cloned().collect()
    }

    /// Returns the changed statuses of the scopes. A failure of one kind makes only dependent collections stale: followed ones
    /// are confirmed after the status.
    fn statuses(&mut self) -> Vec<RegistryUpdate> {
        let details = self.index.details();
        if !self.health.take_changed() && self.details == details {
            return Vec::new();
        }
        let options = &self.index.objects().options;
        let (reported, now) = (self.health.status(details.clone()), self.health.now(details.clone()));
        let mut updates = Vec::new();
        for part in options.parts() {
            let scope = options.scope(part);
            let status = self.health.of_part(part, &reported);
            if self.reported.get(scope) == Some(&status) {
                continue;
            }
            updates.push(RegistryUpdate::Status(scope.clone(), self.health.of_part(part, &now)));
            if status.state.is_failure() {
                let followed = self.followed().into_iter().filter(|collection| collection.scope == *scope);
                updates.extend(followed.map(RegistryUpdate::Progress));
            }
            self.reported.insert(scope.clone(), status);
        }
        self.details = details;
        updates
    }
}

/// What an event changes in the memory for later runs.
enum Note {
    List,
    Object(Name),
}

impl Note {
    fn of(kind: Kind, event: &ObjectEvent) -> Option<Self> {
        match event {
            _ if !RunMemory::keeps(kind) => None,
            Event::InitDone | Event::NotServed => Some(Self::List),
            Event::Apply(object) => Some(Self::Object(object.name().clone())),
            Event::Delete(name) => Some(Self::Object(name.clone())),
            _ => None,
        }
    }
}

fn next_events(mut source: Box<dyn Source>) -> NextEvents {
    Box::pin(async move {
        let events = source.next().await;
        (source, events)
    })
}
