//! The registry against a scripted API server, under a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what goes wrong here is a failed test"
)]

mod conformance;
mod exports;
mod fixture;
mod identity;
mod run;
mod unread;
