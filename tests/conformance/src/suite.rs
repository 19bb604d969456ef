//! The macro that makes a test of every scenario, on a paused clock or on a real one.
//!
//! Every test is written out so that a search for its name finds it.

/// Makes a test of every scenario: `conformance_tests!(paused, mk_harness())`, or `real` for a
/// source whose events come from outside the tokio runtime.
#[macro_export]
macro_rules! conformance_tests {
    (paused, $harness:expr) => {
        #[tokio::test(start_paused = true)]
        async fn cold_start() {
            $crate::conformance($crate::Scenario::ColdStart, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn source_down_at_start() {
            $crate::conformance($crate::Scenario::SourceDownAtStart, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn error_storm() {
            $crate::conformance($crate::Scenario::ErrorStorm, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn empty_answer_after_full() {
            $crate::conformance($crate::Scenario::EmptyAnswerAfterFull, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn interrupted_relist() {
            $crate::conformance($crate::Scenario::InterruptedRelist, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn unchanged_relist() {
            $crate::conformance($crate::Scenario::UnchangedRelist, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn no_reap_before_complete_list() {
            $crate::conformance($crate::Scenario::NoReapBeforeCompleteList, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn reordering() {
            $crate::conformance($crate::Scenario::Reordering, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn duplicate_delivery() {
            $crate::conformance($crate::Scenario::DuplicateDelivery, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn restart_of_a_generation() {
            $crate::conformance($crate::Scenario::RestartOfAGeneration, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn late_updates_of_an_old_generation() {
            $crate::conformance($crate::Scenario::LateUpdates, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn one_bad_object() {
            $crate::conformance($crate::Scenario::OneBadObject, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn one_scope_failing() {
            $crate::conformance($crate::Scenario::OneScopeFailing, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn burst() {
            $crate::conformance($crate::Scenario::Burst, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn rotation_make_before_break() {
            $crate::conformance($crate::Scenario::Rotation, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn stop_with_work_in_flight() {
            $crate::conformance($crate::Scenario::StopWithWorkInFlight, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn right_taken_and_given_back() {
            $crate::conformance($crate::Scenario::RightTaken, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn one_kind_failing() {
            $crate::conformance($crate::Scenario::OneKindFailing, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn shorter_discovery() {
            $crate::conformance($crate::Scenario::ShorterDiscovery, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn silent_run_changes_nothing() {
            $crate::conformance($crate::Scenario::SilentRun, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn run_in_one_take() {
            $crate::conformance($crate::Scenario::RunInOneTake, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn restart_after_any_update() {
            $crate::conformance($crate::Scenario::RestartAfterAnyUpdate, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn adoption_races() {
            $crate::conformance($crate::Scenario::AdoptionRaces, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn scope_that_ended() {
            $crate::conformance($crate::Scenario::ScopeEnded, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn scope_configured_away() {
            $crate::conformance($crate::Scenario::ScopeConfiguredAway, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn identity_swapped() {
            $crate::conformance($crate::Scenario::IdentitySwapped, &$harness).await;
        }
        #[tokio::test(start_paused = true)]
        async fn journal_restored() {
            $crate::conformance($crate::Scenario::JournalRestored, &$harness).await;
        }
    };
    (real, $harness:expr) => {
        $crate::conformance_tests!(@real $harness;
            cold_start ColdStart, source_down_at_start SourceDownAtStart,
            error_storm ErrorStorm, empty_answer_after_full EmptyAnswerAfterFull,
            interrupted_relist InterruptedRelist, unchanged_relist UnchangedRelist,
            no_reap_before_complete_list NoReapBeforeCompleteList, reordering Reordering,
            duplicate_delivery DuplicateDelivery, restart_of_a_generation RestartOfAGeneration,
            late_updates_of_an_old_generation LateUpdates, one_bad_object OneBadObject,
            one_scope_failing OneScopeFailing, burst Burst,
            rotation_make_before_break Rotation, stop_with_work_in_flight StopWithWorkInFlight,
            right_taken_and_given_back RightTaken,
            one_kind_failing OneKindFailing,
            shorter_discovery ShorterDiscovery,
            silent_run_changes_nothing SilentRun,
            run_in_one_take RunInOneTake,
            restart_after_any_update RestartAfterAnyUpdate,
            adoption_races AdoptionRaces,
            scope_that_ended ScopeEnded,
            scope_configured_away ScopeConfiguredAway,
            identity_swapped IdentitySwapped,
            journal_restored JournalRestored);
    };
    (@real $harness:expr; $($name:ident $scenario:ident),*) => {
        $($crate::conformance_tests!(@one $name, $scenario, $harness);)*
    };
    (@one $name:ident, $scenario:ident, $harness:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $crate::conformance($crate::Scenario::$scenario, &$harness).await;
        }
    };
}
