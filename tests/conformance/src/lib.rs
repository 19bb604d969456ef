//! The rules for every adapter, as scenarios that run on a real core and a real core task.
//!
//! An adapter's tests implement [`Harness`] over a source that they can script, and call [`conformance_tests!`]
//! once: each scenario becomes a test of its own. A harness may decline an [`Ability`] that its source cannot
//! have, with a reason that is printed; it cannot decline a scenario. The in-memory registry in [`memory`]
//! passes all of them and serves other crates' tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test library: a panic here is a failed test"
)]

pub mod harness;
mod journal;
pub mod memory;
pub mod pace;
pub mod scenarios;
pub mod stage;
mod suite;
pub mod tamper;
pub mod witness;

pub use harness::{Ability, Act, Harness, Refusable, Rest, Script, Service};
pub use scenarios::Scenario;
pub use stage::{Stage, eventually, served};
pub use witness::Witness;

/// Runs one scenario, or prints why it does not apply.
pub async fn conformance(scenario: Scenario, harness: &dyn Harness) {
    for ability in scenario.needs() {
        if let Some(reason) = harness.declines(*ability) {
            println!("{scenario:?} does not apply: {reason}");
            return;
        }
    }
    scenario.run(harness).await;
}
