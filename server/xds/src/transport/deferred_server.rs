//! A server that does not exist yet: whoever publishes is built before it and wakes it through this.
//!
//! The runtime needs its fan-out when it starts, and the server needs the runtime's catalog. Both
//! get a clone of a [`DeferredServer`]; until it is set there are no sessions, so nobody misses a wake-up.

use std::sync::{Arc, OnceLock};

use tributary_model::{Catalog, CatalogChanges, ObservedSince};

use super::XdsServer;

/// Takes the server once it is there.
#[derive(Clone, Default)]
pub struct DeferredServer(Arc<OnceLock<XdsServer>>);

impl DeferredServer {
    /// This is the server. To be called before it listens; what comes second is not taken.
    pub fn set(&self, server: &XdsServer) {
        let _ = self.0.set(server.clone());
    }
    /// As [`XdsServer::published`]; wakes nobody while there is no server.
    pub fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        if let Some(server) = self.0.get() {
            server.published(catalog, changed, observed);
        }
    }
    /// As [`XdsServer::is_writing`].
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.0.get().is_some_and(XdsServer::is_writing)
    }
}
