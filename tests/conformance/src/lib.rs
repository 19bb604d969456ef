//! What every adapter must do, as scenarios that run on a real core and a real pump.
//!
//! An adapter's tests implement [`Harness`] over a source that they can script, and call
//! [`conformance_tests!`] once: each scenario becomes a test of its own. A harness may decline an
//! [`Ability`] that its source cannot have, with a reason that is printed; it cannot decline a
//! scenario. The in-memory registry in [`memory`] passes all of them and serves other crates' tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a library of tests: what goes wrong here is a failed test"
)]

pub mod harness;
pub mod memory;
pub mod scenarios;
pub mod stage;
pub mod tamper;
pub mod witness;

pub use harness::{Ability, Act, Harness, Script, Service};
pub use scenarios::Scenario;
pub use stage::{Stage, served};
pub use witness::Witness;

/// Runs one scenario, or says why it does not apply.
pub async fn conformance(scenario: Scenario, harness: &dyn Harness) {
    for ability in scenario.needs() {
        if let Some(reason) = harness.declines(*ability) {
            println!("{scenario:?} does not apply: {reason}");
            return;
        }
    }
    scenario.run(harness).await;
}

/// Makes a test of every scenario: `conformance_tests!(paused, mk_harness())`, or `real` for a
/// source whose events come from outside the tokio runtime.
#[macro_export]
macro_rules! conformance_tests {
    (paused, $harness:expr) => {
        $crate::conformance_tests!(@each [tokio::test(start_paused = true)] $harness);
    };
    (real, $harness:expr) => {
        $crate::conformance_tests!(@each [tokio::test(flavor = "multi_thread", worker_threads = 2)] $harness);
    };
    (@each [$($test:tt)*] $harness:expr) => {
        $crate::conformance_tests!(@one [$($test)*] $harness;
            cold_start ColdStart, source_down_at_start SourceDownAtStart,
            error_storm ErrorStorm, empty_answer_after_full EmptyAnswerAfterFull,
            interrupted_relist InterruptedRelist, unchanged_relist UnchangedRelist,
            no_reap_before_complete_list NoReapBeforeCompleteList,
            reordering Reordering, duplicate_delivery DuplicateDelivery,
            restart_of_a_generation RestartOfAGeneration,
            late_words_of_an_old_generation LateWords, one_bad_object OneBadObject,
            one_scope_failing OneScopeFailing, burst Burst,
            rotation_make_before_break Rotation,
            stop_with_work_in_flight StopWithWorkInFlight);
    };
    (@one $test:tt $harness:expr; $($name:ident $scenario:ident),*) => {
        $($crate::conformance_tests!(@test $test $name, $scenario, $harness);)*
    };
    (@test [$($test:tt)*] $name:ident, $scenario:ident, $harness:expr) => {
        #[$($test)*]
        async fn $name() {
            $crate::conformance($crate::Scenario::$scenario, &$harness).await;
        }
    };
}
