//! Publishes the current catalog.
//!
//! Only the core task writes it: first the catalog, then the changes, then the wake-ups. So a woken
//! reader finds a catalog that is at least as new as the batch that woke it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tributary_model::{Catalog, CatalogChanges, ObservedSince};

use crate::follow::subscribers::Subscribers;
use crate::follow::{ClusterScope, ScopeSubscription};

/// Shared reference to the current catalog, for readers that keep it across generations.
pub type Catalogs = Arc<ArcSwap<Catalog>>;

/// State that the core task and the fan-out task share.
#[derive(Debug)]
pub(crate) struct PublishedCatalog {
    pub(crate) catalog: Catalogs,
    /// Generation of the current catalog; subscribers wait on it.
    pub(crate) generation: watch::Sender<u64>,
    /// Followers of single clusters, which the fan-out task wakes.
    pub(crate) subscribers: Arc<Subscribers>,
    /// Wakes the fan-out task.
    pub(crate) posted: Notify,
    unsent: Mutex<(CatalogChanges, ObservedSince)>,
    busy: AtomicBool,
    cost_millis: AtomicU64,
}

impl PublishedCatalog {
    pub(crate) fn new() -> Self {
        Self {
            catalog: Arc::new(ArcSwap::from_pointee(Catalog::default())),
            generation: watch::Sender::new(0),
            subscribers: Arc::default(),
            posted: Notify::new(),
            unsent: Mutex::default(),
            busy: AtomicBool::new(false),
            cost_millis: AtomicU64::new(0),
        }
    }
    /// Subscribes to the facts of a cluster; returns the number of the subscription, too.
    pub(crate) fn subscribe(&self, scope: ClusterScope) -> (u64, ScopeSubscription) {
        self.subscribers.subscribe(scope, Arc::clone(&self.catalog))
    }
    /// Publishes a catalog and makes the fan-out busy.
    pub(crate) fn post(&self, catalog: Arc<Catalog>, changed: CatalogChanges, observed: ObservedSince) {
        let generation = catalog.generation;
        self.catalog.store(catalog);
        let mut unsent = self.unsent.lock();
        unsent.0.merge(changed);
        unsent.1.merge(observed);
        self.busy.store(true, Ordering::Release);
        drop(unsent);
        self.generation.send_replace(generation);
        self.posted.notify_one();
    }
    /// Returns the changes since the last call, and when they were first known; the fan-out task loads the catalog after it.
    pub(crate) fn take_unsent(&self) -> (CatalogChanges, ObservedSince) {
        std::mem::take(&mut *self.unsent.lock())
    }
    /// Records the end and duration of a pass. Returns whether no change arrived meanwhile.
    pub(crate) fn passed(&self, cost: Duration) -> bool {
        let millis = u64::try_from(cost.as_millis()).unwrap_or(u64::MAX);
        self.cost_millis.store(millis, Ordering::Relaxed);
        let unsent = self.unsent.lock();
        let idle = unsent.0.is_empty();
        self.busy.store(!idle, Ordering::Release);
        idle
    }
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }
    /// Returns the duration of the last pass.
    pub(crate) fn cost(&self) -> Duration {
        Duration::from_millis(self.cost_millis.load(Ordering::Relaxed))
    }
}
