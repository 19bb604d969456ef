//! The registry against a scripted Consul, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what goes wrong here is a failed test"
)]

mod answers;
mod conformance;
mod fake;
mod keepalive;
mod length;
mod login;
mod mesh;
mod requests;
mod scopes;
mod secure;
mod serve;
mod socket;
mod stage;
