//! HTTP/2 transport for sessions: connections, TLS, streams, health, drain.
//!
//! `app` builds one [`XdsServer`], gives it bound listeners and calls [`XdsServer::published`] for
//! each generation. One task per connection, one per stream. Every deadline and bound is in
//! [`Limits`]. The caller decides whether plaintext may listen on an address.

mod body;
mod connection;
mod deferred_server;
mod health;
mod outbox;
mod reader;
mod route;
mod server;
mod stream;
pub mod tls;

pub use deferred_server::DeferredServer;
pub use server::{Limits, Listening, XdsServer, XdsServerBuilder};

#[cfg(test)]
mod tests;
