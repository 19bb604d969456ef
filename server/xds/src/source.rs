//! What the server needs of the rest of the house: a catalog, readiness, and somebody who wants to
//! hear of clients. `app` implements both over the runtime.

use std::net::SocketAddr;
use std::sync::Arc;

use tributary_model::Catalog;

use crate::client::ClientNode;

/// Where sessions get the current generation.
pub trait CatalogSource: Send + Sync {
    /// The current generation. Never older than one returned before, and at least as fresh as the
    /// last one that was announced.
    fn current(&self) -> Arc<Catalog>;
    /// Whether clients may be served (the start rule).
    fn ready(&self) -> bool;
}

/// Who hears of clients: they are a source of facts too.
pub trait ClientFacts: Send + Sync {
    /// A client has opened a stream and said who it is.
    fn connected(&self, id: u64, client: &ClientNode, peer: SocketAddr);
    /// Its stream has ended.
    fn disconnected(&self, id: u64);
}

/// Nobody wants to hear of clients.
impl ClientFacts for () {
    fn connected(&self, _: u64, _: &ClientNode, _: SocketAddr) {}
    fn disconnected(&self, _: u64) {}
}
