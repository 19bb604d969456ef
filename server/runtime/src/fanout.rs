//! Notifies the servers of clients that there is a new catalog.
//!
//! It also wakes the followers of single clusters, and ends them with the server. One task, so that the core task never waits for
//! clients. Each pass gets the union of the changes since the last one; passes never overlap and never go back in generation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tributary_model::{Catalog, CatalogChanges, ObservedSince};
use tributary_registry_api::{Clock, Wake};

use crate::change_recorder::ChangeRecorder;
use crate::counters::RuntimeCounters;
use crate::published_catalog::PublishedCatalog;

/// Wakes the clients that a change concerns. The binary implements it over the interest index of xds.
pub trait Fanout: Send + Sync + 'static {
    /// Passes on a catalog, at least as new as the changes, all changes since the last call, and when
    /// they were first known.
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince);
    /// Whether clients are still being written to. Additions alone may wait for it, up to a bound.
    fn is_writing(&self) -> bool {
        false
    }
    /// Receiver of what led to each generation, if changes are traced. Called once, at start.
    fn recorder(&self) -> Option<Arc<dyn ChangeRecorder>> {
        None
    }
}

impl Fanout for () {
    fn published(&self, _: &Arc<Catalog>, _: &CatalogChanges, _: ObservedSince) {}
}

pub(crate) struct FanoutTask {
    pub(crate) published: Arc<PublishedCatalog>,
    pub(crate) fanout: Arc<dyn Fanout>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wake: Wake,
    pub(crate) counters: Arc<RuntimeCounters>,
}

impl FanoutTask {
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = self.published.posted.notified() => self.pass(),
                () = stop.cancelled() => return,
            }
        }
    }
    fn pass(&self) {
        let (changed, observed) = self.published.take_unsent();
        let catalog = self.published.catalog.load_full();
        let began = self.clock.now();
        let result = catch_unwind(AssertUnwindSafe(|| self.fanout.published(&catalog, &changed, observed)));
        if result.is_err() {
            // Later passes must run: without them no client would get another update.
            tracing::error!(
                generation = catalog.generation,
                "fan-out panicked; clients receive the change with the next publication"
            );
        }
        let woken = self.published.subscribers.published(&catalog);
        RuntimeCounters::add(&self.counters.subscriber_wakes, woken);
        RuntimeCounters::add(&self.counters.passes, 1);
        if self.published.passed(self.clock.now().since(began)) {
            self.wake.notify_one();
        }
    }
}

impl Drop for FanoutTask {
    fn drop(&mut self) {
        self.published.subscribers.close();
    }
}
