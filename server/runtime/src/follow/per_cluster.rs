//! A handler for each cluster, from the generation that adds the cluster to the one that removes it.
//!
//! A cluster exists while the catalog has a registry of it, so a handler survives rotations, restarts and pauses. It is a future over
//! a subscription, which ends with the cluster: the last change removes all of it. The future of [`run`] owns all handlers, and
//! dropping it ends them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use tributary_model::{Catalog, ClusterId};

use super::{ClusterScope, ScopeSubscription, difference};
use crate::published_catalog::PublishedCatalog;

/// Running handlers.
struct Handlers<F> {
    published: Arc<PublishedCatalog>,
    begin: F,
    /// Number of registries of each cluster that exists.
    registries: BTreeMap<ClusterId, usize>,
    running: BTreeMap<ClusterId, Running>,
    tasks: JoinSet<()>,
    clusters: HashMap<Id, ClusterId>,
}

/// A handler that has not returned.
#[derive(Debug, Clone, Copy)]
struct Running {
    subscription: u64,
    /// Whether its cluster was removed since it began.
    has_ended: bool,
}

/// Runs a handler for each cluster until the server has stopped and all handlers have returned. A handler that returns or panics before
/// its cluster is removed is not begun again.
pub(crate) async fn run<F, H>(published: Arc<PublishedCatalog>, begin: F)
where
    F: FnMut(ClusterId, ScopeSubscription) -> H,
    H: Future<Output = ()> + Send + 'static,
{
    let (mut generation, mut seen) = (published.generation.subscribe(), Arc::<Catalog>::default());
    let subscribers = Arc::clone(&published.subscribers);
    let mut handlers = Handlers {
        published,
        begin,
        registries: BTreeMap::new(),
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
        clusters: HashMap::new(),
    };
    loop {
        generation.borrow_and_update();
        let catalog = handlers.published.catalog.load_full();
        handlers.follow(&seen, &catalog);
        seen = catalog;
        tokio::select! {
            () = subscribers.closed() => break,
            Ok(()) = generation.changed() => {}
            Some(ended) = handlers.tasks.join_next_with_id() => handlers.ended(ended),
        }
    }
    while handlers.tasks.join_next().await.is_some() {}
}

impl<F, H> Handlers<F>
where
    F: FnMut(ClusterId, ScopeSubscription) -> H,
    H: Future<Output = ()> + Send + 'static,
{
    /// Begins handlers of clusters that are new in a catalog, and ends those of clusters that are gone.
    fn follow(&mut self, old: &Catalog, new: &Arc<Catalog>) {
        let mut before: BTreeMap<ClusterId, usize> = BTreeMap::new();
        for (_, old, new) in difference::changed(&old.registries, &new.registries) {
            let (Some(view), true) = (old.or(new), old.is_some() != new.is_some()) else { continue };
            let cluster = &view.id.cluster;
            let count = self.registries.entry(cluster.clone()).or_default();
            before.entry(cluster.clone()).or_insert(*count);
            *count = if new.is_some() { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
        self.registries.retain(|_, count| *count > 0);
        for (cluster, before) in before {
            match (before > 0, self.registries.contains_key(&cluster)) {
                (false, true) => self.begin(cluster),
                (true, false) => self.end(&cluster, new),
                _ => {}
            }
        }
    }
    /// Begins a handler, unless one of an earlier cluster of this name has not returned yet.
    fn begin(&mut self, cluster: ClusterId) {
        if self.running.contains_key(&cluster) {
            return;
        }
        let scope = ClusterScope::Cluster(cluster.clone());
        let (number, subscription) = self.published.subscribe(scope);
        let task = self.tasks.spawn((self.begin)(cluster.clone(), subscription));
        self.clusters.insert(task.id(), cluster.clone());
        self.running.insert(cluster, Running { subscription: number, has_ended: false });
    }
    fn end(&mut self, cluster: &ClusterId, catalog: &Arc<Catalog>) {
        if let Some(running) = self.running.get_mut(cluster) {
            running.has_ended = true;
            self.published.subscribers.end(running.subscription, catalog);
        }
    }
    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(cluster) = self.clusters.remove(&id) else { return };
        if let Err(error) = ended {
            tracing::error!(%cluster, %error, "the handler of a cluster failed");
        }
        let was_removed = self.running.remove(&cluster).is_some_and(|running| running.has_ended);
        if was_removed && self.registries.contains_key(&cluster) {
            self.begin(cluster);
        }
    }
}
