//! HTTP/2 transport for sessions: connections, TLS, streams, drain, and the services in tonic's router.
//!
//! `app` builds one [`XdsServer`], gives it bound listeners and calls [`XdsServer::published`] for
//! each generation. One task per connection, one per stream. Every deadline and bound is in
//! [`Limits`]. The caller decides whether plaintext may listen on an address.

mod abort;
mod admission;
mod ads;
mod alarm;
mod batch;
mod body;
mod connection;
mod debug;
mod deferred_server;
mod health;
mod inbound;
mod outbox;
mod patience;
mod reader;
mod reflection;
mod server;
mod stream;
pub mod tls;

pub use debug::DebugAccess;
pub use deferred_server::DeferredServer;
pub use server::{Limits, Listening, XdsServer, XdsServerBuilder};

#[cfg(test)]
mod tests;
