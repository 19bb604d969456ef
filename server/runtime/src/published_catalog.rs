//! Where the pump pins the current catalog, and everyone reads it.
//!
//! Written by the pump alone: first the catalog, then what changed, then the wake-ups. So whoever
//! is woken finds a catalog that is at least as fresh as the turn that woke it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tributary_model::{Catalog, CatalogChanges, ObservedSince};

/// The current catalog, for readers that keep it across generations.
pub type Catalogs = Arc<ArcSwap<Catalog>>;

/// What the pump and the fan-out task share.
#[derive(Debug)]
pub(crate) struct PublishedCatalog {
    pub(crate) catalog: Catalogs,
    /// The generation of the catalog that hangs here; followers wait on it.
    pub(crate) generation: watch::Sender<u64>,
    /// Wakes the fan-out task.
    pub(crate) posted: Notify,
    unsaid: Mutex<(CatalogChanges, ObservedSince)>,
    busy: AtomicBool,
    cost_millis: AtomicU64,
}

impl PublishedCatalog {
    pub(crate) fn new() -> Self {
        Self {
            catalog: Arc::new(ArcSwap::from_pointee(Catalog::default())),
            generation: watch::Sender::new(0),
            posted: Notify::new(),
            unsaid: Mutex::default(),
            busy: AtomicBool::new(false),
            cost_millis: AtomicU64::new(0),
        }
    }
    /// Pins a catalog; the fan-out is busy with it from now on.
    pub(crate) fn post(&self, catalog: Arc<Catalog>, changed: CatalogChanges, observed: ObservedSince) {
        let generation = catalog.generation;
        self.catalog.store(catalog);
        let mut unsaid = self.unsaid.lock();
        unsaid.0.merge(changed);
        unsaid.1.merge(observed);
        self.busy.store(true, Ordering::Release);
        drop(unsaid);
        self.generation.send_replace(generation);
        self.posted.notify_one();
    }
    /// What has changed since this was last called, and since when it was known; the fan-out task loads the catalog after it.
    pub(crate) fn take_unsaid(&self) -> (CatalogChanges, ObservedSince) {
        std::mem::take(&mut *self.unsaid.lock())
    }
    /// A pass is over and took this long; whether nothing came in meanwhile.
    pub(crate) fn passed(&self, cost: Duration) -> bool {
        let millis = u64::try_from(cost.as_millis()).unwrap_or(u64::MAX);
        self.cost_millis.store(millis, Ordering::Relaxed);
        let unsaid = self.unsaid.lock();
        let idle = unsaid.0.is_empty();
        self.busy.store(!idle, Ordering::Release);
        idle
    }
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }
    /// What the last pass cost.
    pub(crate) fn cost(&self) -> Duration {
        Duration::from_millis(self.cost_millis.load(Ordering::Relaxed))
    }
}
