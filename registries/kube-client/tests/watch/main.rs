//! The watch against a scripted API server, under a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

mod beside;
mod fixture;
mod identity;
mod kinds;
mod lists;
mod streams;
