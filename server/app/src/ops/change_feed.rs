//! What changed, for event streams: versions of what the documents show, at most 20 times a second.
//!
//! Started with the server. The catalog, the registries, the clusters, the clients and the timeline wake it; it reads the versions
//! once for all streams. Without a stream it waits and reads nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tributary_runtime::StatusChanges;

use super::backend::LiveBackend;
use super::clusters::board::RemotesView;
use crate::admin::backend::Versions;

/// Shortest time between two versions.
const PACE: Duration = Duration::from_millis(50);
/// Longest wait for the number of held removals; while the core is busy, the other versions do not wait for it.
const HELD: Duration = Duration::from_millis(5);

/// Place where the versions are published.
#[derive(Debug, Default)]
pub struct ChangeFeed {
    versions: watch::Sender<Versions>,
    opened: Notify,
}

impl ChangeFeed {
    /// Returns a receiver of the versions, which soon gets the current ones.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Versions> {
        let receiver = self.versions.subscribe();
        self.opened.notify_one();
        receiver
    }
}

/// Publishes versions until the server stops.
pub async fn run(live: Arc<LiveBackend>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = follow(&live) => {}
    }
}

async fn follow(live: &LiveBackend) {
    let feed = &live.changes;
    let mut versions = Versions::default();
    loop {
        feed.opened.notified().await;
        let mut sources = Sources::of(live);
        while feed.versions.receiver_count() > 0 {
            let began = Instant::now();
            let is_complete = sources.read(live, &mut versions).await;
            // a stream that has just opened waits for a value, though it is the same one
            feed.versions.send_replace(versions);
            tokio::select! {
                is_of_registry = sources.changed(live, versions.clients_changes) => {
                    versions.registries += u64::from(is_of_registry);
                }
                () = feed.opened.notified() => {}
                () = sleep_until(began + PACE), if !is_complete => {}
                () = feed.versions.closed() => break,
            }
            sleep_until(began + PACE).await;
        }
    }
}

/// What wakes the feed.
struct Sources {
    generation: watch::Receiver<u64>,
    registries: StatusChanges,
    clusters: watch::Receiver<Arc<RemotesView>>,
    timeline: watch::Receiver<u64>,
}

impl Sources {
    fn of(live: &LiveBackend) -> Self {
        let mut registries = live.handle.status_changes();
        // it begins with all earlier changes
        drop(registries.next().now_or_never());
        Self {
            generation: live.handle.generation(),
            registries,
            clusters: live.remotes.changes(),
            timeline: live.timeline.last(),
        }
    }
    /// Reads the versions; those of a server that stops stay. Returns false if the core is too busy for its part.
    async fn read(&mut self, live: &LiveBackend, versions: &mut Versions) -> bool {
        versions.generation = *self.generation.borrow_and_update();
        versions.timeline = *self.timeline.borrow_and_update();
        versions.clients_changes = live.sessions.counters.events.changes();
        versions.clients = live.sessions.table.len() as u64;
        let held = timeout(HELD, live.handle.inspect(tributary_core::Core::held_count)).await;
        if let Ok(Ok(held)) = held {
            versions.held = held as u64;
        }
        held.is_ok()
    }
    /// Waits for a change. Returns whether it is of a registry or a cluster.
    async fn changed(&mut self, live: &LiveBackend, clients: u64) -> bool {
        let (generation, timeline) = (self.generation.changed(), self.timeline.changed());
        tokio::select! {
            true = async { self.registries.next().await.is_some() } => true,
            Ok(()) = self.clusters.changed() => true,
            Ok(()) = generation => false,
            Ok(()) = timeline => false,
            () = live.sessions.counters.events.changed(clients) => false,
        }
    }
}
