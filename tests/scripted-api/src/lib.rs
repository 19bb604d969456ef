//! Scripted Kubernetes API server, for behaviour that a real one does not show on demand.
//!
//! An axum router inside `kube::Client`, in the test's process, so that everything happens under the paused clock of the
//! test. It stores objects, lists them in pages or streams, sends watch events and bookmarks, compacts, patches, and
//! injects any answer that a test requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test tool: a panic is a failed test"
)]

mod answer;
mod fault;
mod patch;
mod query;
mod server;
mod store;
mod stream;

pub use fault::{Answer, Verb};
pub use query::ReceivedRequest;
pub use server::ApiServer;
pub use store::Kind;
