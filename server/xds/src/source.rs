//! Interfaces to the rest of the server: a catalog, readiness, and a receiver of client facts. `app` implements
//! them over the runtime.

use std::net::SocketAddr;
use std::sync::Arc;

use tributary_model::Catalog;

use crate::client::ClientNode;

/// Source of the current generation.
pub trait CatalogSource: Send + Sync {
    /// Returns the current generation. Never older than one returned before, and at least as new as the
    /// last one that was announced.
    fn current(&self) -> Arc<Catalog>;
    /// Whether clients may be served (the start rule).
    fn ready(&self) -> bool;
}

/// Receiver of client connections: connected clients are a source of facts too.
pub trait ClientFacts: Send + Sync {
    /// Reports a client that opened a stream and sent its node.
    fn connected(&self, id: u64, client: &ClientNode, peer: SocketAddr);
    /// Reports that the stream ended.
    fn disconnected(&self, id: u64);
}

/// Ignores client connections.
impl ClientFacts for () {
    fn connected(&self, _: u64, _: &ClientNode, _: SocketAddr) {}
    fn disconnected(&self, _: u64) {}
}
