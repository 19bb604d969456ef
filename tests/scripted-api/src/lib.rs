//! A Kubernetes API server that does as it is told: for what a real one will not do on command.
//!
//! An axum router that is handed to `kube::Client` in this process, so that everything happens under the
//! paused clock of a test. It keeps objects, lists them in pages or streams, sends watch events and bookmarks,
//! compacts, patches, and answers the next request of a kind in any way a test asks for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a tool of tests: what goes wrong here is a failed test"
)]

mod answer;
mod fault;
mod patch;
mod query;
mod server;
mod store;
mod stream;

pub use fault::{Answer, Verb};
pub use query::Asked;
pub use server::ApiServer;
pub use store::Kind;
