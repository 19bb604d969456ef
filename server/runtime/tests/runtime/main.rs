//! Tests of the whole runtime, on a paused clock that advances when all tasks are idle.

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
mod statuses;
mod supervision;
mod support;
