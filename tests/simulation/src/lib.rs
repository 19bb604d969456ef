//! Simulation of a whole control plane in virtual time: every run is a function of its seed.
//!
//! The shipped supervisor, Kubernetes adapter, core, journal, task of the remote clusters and xDS session run in one thread. Only the
//! API servers ([`site`]), what a client does ([`client`]), the disk ([`disk`]), the clocks and the dice ([`dice`]) are simulated. [`runner`] takes random steps ([`plan`]) that
//! change what is true ([`world`]) and what fails, and [`invariants`] compare every published catalog with the truth. A planted bug
//! ([`bugs`]) shows that an invariant can fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test tool: a panic is a failed test"
)]

pub mod bugs;
pub mod client;
pub mod dice;
pub mod disk;
pub mod invariants;
pub mod observer;
pub mod plan;
pub mod platform;
pub mod process;
pub mod runner;
pub mod secrets;
pub mod served;
pub mod site;
pub mod world;

pub use bugs::Bug;
pub use runner::{Outcome, run};
