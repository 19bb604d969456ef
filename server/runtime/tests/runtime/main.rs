//! The runtime as a whole, on a clock that stands still until nobody has anything to do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap in a test is a failed test"
)]

mod follow;
mod pacing;
mod races;
mod rotation;
mod simulation;
mod start;
mod supervision;
mod support;
