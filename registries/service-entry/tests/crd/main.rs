//! Custom resources on a scripted API server, under a paused clock: what a source says, and what it
//! writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: what goes wrong here is a failed test"
)]

mod addresses;
mod fixture;
mod identity;
mod kinds;
mod objects;
