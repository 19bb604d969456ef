//! Breaks the cycle between runtime and server at start.
//!
//! The runtime needs its fan-out when it starts, and the server needs the runtime's catalog. Both get
//! a clone of a [`DeferredServer`]. Until it is set there are no sessions, so no wake-up is lost.

use std::sync::{Arc, OnceLock};

use tributary_model::{Catalog, CatalogChanges, ObservedSince};

use super::XdsServer;

/// A server that is set later.
#[derive(Clone, Default)]
pub struct DeferredServer(Arc<OnceLock<XdsServer>>);

impl DeferredServer {
    /// Sets the server. Call it before the server listens; later calls have no effect.
    pub fn set(&self, server: &XdsServer) {
        let _ = self.0.set(server.clone());
    }
    /// Like [`XdsServer::published`]; does nothing until the server is set.
    pub fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        if let Some(server) = self.0.get() {
            server.published(catalog, changed, observed);
        }
    }
    /// Like [`XdsServer::is_writing`].
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.0.get().is_some_and(XdsServer::is_writing)
    }
}
