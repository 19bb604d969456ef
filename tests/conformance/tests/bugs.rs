//! Adapters that are wrong fail the suite: a suite that cannot fail proves nothing.

use tributary_conformance::memory::{Bug, MemoryHarness};
use tributary_conformance::{Scenario, conformance};

/// Whether the scenario finds the bug.
async fn finds(scenario: Scenario, bug: Bug) -> bool {
    let harness = MemoryHarness { bug: Some(bug), gullible: true, ..MemoryHarness::default() };
    tokio::spawn(async move { conformance(scenario, &harness).await }).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn an_error_that_counts_as_empty_is_found() {
    assert!(finds(Scenario::ErrorStorm, Bug::ErrorIsEmpty).await);
    assert!(finds(Scenario::SourceDownAtStart, Bug::ErrorIsEmpty).await);
}

#[tokio::test(start_paused = true)]
async fn a_torn_list_that_counts_as_complete_is_found() {
    assert!(finds(Scenario::InterruptedRelist, Bug::TornIsComplete).await);
    assert!(finds(Scenario::NoReapBeforeCompleteList, Bug::TornIsComplete).await);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_said_early_is_found() {
    assert!(finds(Scenario::UnchangedRelist, Bug::SyncsEarly).await);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_that_is_dropped_is_found() {
    assert!(finds(Scenario::OneBadObject, Bug::BadIsGone).await);
}

#[tokio::test(start_paused = true)]
async fn a_missed_deletion_is_found() {
    assert!(finds(Scenario::DuplicateDelivery, Bug::MissesDeletes).await);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_left_behind_is_found() {
    assert!(finds(Scenario::StopWithWorkInFlight, Bug::LeavesTask).await);
}

#[tokio::test(start_paused = true)]
async fn scopes_that_fail_together_are_found() {
    assert!(finds(Scenario::OneScopeFailing, Bug::FailsTogether).await);
}
