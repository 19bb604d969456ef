//! Tells whoever serves clients that there is a new catalog.
//!
//! One task, so that the owner of the core never waits for clients. Each pass gets the union of
//! what changed since the last one; passes never overlap and never go back in generation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tributary_model::{Catalog, CatalogChanges, ObservedSince};
use tributary_registry_api::{Clock, Wake};

use crate::counters::RuntimeCounters;
use crate::published_catalog::PublishedCatalog;

/// Wakes the clients that a change is for. Implemented by the binary over xds's interest index.
pub trait Fanout: Send + Sync + 'static {
    /// A catalog, at least as fresh as the changes, all that changed since the last call, and since
    /// when it was known.
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince);
    /// Whether clients are still being written to. Additions alone may wait for it, up to a bound.
    fn is_writing(&self) -> bool {
        false
    }
}

impl Fanout for () {
    fn published(&self, _: &Arc<Catalog>, _: &CatalogChanges, _: ObservedSince) {}
}

pub(crate) struct FanoutTask {
    pub(crate) board: Arc<PublishedCatalog>,
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
                () = self.board.posted.notified() => self.pass(),
                () = stop.cancelled() => return,
            }
        }
    }
    fn pass(&self) {
        let (changed, observed) = self.board.take_unsaid();
        let catalog = self.board.catalog.load_full();
        let began = self.clock.now();
        let told = catch_unwind(AssertUnwindSafe(|| self.fanout.published(&catalog, &changed, observed)));
        if told.is_err() {
            // the next pass must happen: a fan-out that stays dead would freeze every client
            tracing::error!(
                generation = catalog.generation,
                "a fan-out panicked; its clients hear of the next one"
            );
        }
        RuntimeCounters::add(&self.counters.passes, 1);
        if self.board.passed(self.clock.now().since(began)) {
            self.wake.notify_one();
        }
    }
}
