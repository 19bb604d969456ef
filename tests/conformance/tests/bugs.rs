//! Checks that adapters with a fault fail the suite.

use tributary_conformance::memory::{Bug, MemoryHarness};
use tributary_conformance::{Scenario, conformance};

/// Returns true if the scenario finds the bug.
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
async fn an_end_that_is_reported_early_is_found() {
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

#[tokio::test(start_paused = true)]
async fn a_refusal_that_counts_as_empty_is_found() {
    assert!(finds(Scenario::RightTaken, Bug::RefusalIsEmpty).await);
    assert!(finds(Scenario::OneKindFailing, Bug::RefusalIsEmpty).await);
}

#[tokio::test(start_paused = true)]
async fn a_right_that_returns_without_a_list_is_found() {
    assert!(finds(Scenario::RightTaken, Bug::ForgetsToList).await);
    assert!(finds(Scenario::OneKindFailing, Bug::ForgetsToList).await);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_stops_the_rest_is_found() {
    assert!(finds(Scenario::RightTaken, Bug::RefusalStopsRest).await);
    assert!(finds(Scenario::OneKindFailing, Bug::RefusalStopsRest).await);
}

#[tokio::test(start_paused = true)]
async fn an_omission_that_counts_as_an_end_is_found() {
    assert!(finds(Scenario::ShorterDiscovery, Bug::OmittedIsEnded).await);
}

#[tokio::test(start_paused = true)]
async fn held_facts_that_are_not_followed_are_found() {
    assert!(finds(Scenario::ShorterDiscovery, Bug::IgnoresHeld).await);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_followed_though_configured_away_is_found() {
    assert!(finds(Scenario::ScopeConfiguredAway, Bug::IgnoresConfiguration).await);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_not_reported_is_found() {
    assert!(finds(Scenario::ScopeEnded, Bug::MissesEnds).await);
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_is_not_reported_is_found() {
    assert!(finds(Scenario::IdentitySwapped, Bug::HidesIdentity).await);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_after_its_objects_is_found() {
    assert!(finds(Scenario::RunInOneTake, Bug::RestartsLate).await);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_clears_what_is_held_is_found() {
    assert!(finds(Scenario::RestartAfterAnyUpdate, Bug::ClearsHeld).await);
    assert!(finds(Scenario::AdoptionRaces, Bug::ClearsHeld).await);
    assert!(finds(Scenario::JournalRestored, Bug::ClearsHeld).await);
}

#[tokio::test(start_paused = true)]
async fn facts_that_a_silent_run_drops_are_found() {
    assert!(finds(Scenario::SilentRun, Bug::DropsWhenItEnds).await);
}
