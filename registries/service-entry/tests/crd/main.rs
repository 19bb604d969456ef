//! Custom resources on a scripted API server, under a paused clock: reported events and written addresses.

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
mod unserved;
