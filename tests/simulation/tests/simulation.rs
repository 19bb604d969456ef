//! Many seeds without a planted bug, the same seed twice, and each planted bug.
//!
//! `TRIBUTARY_SIMULATION_SEED=N` runs one seed and prints its trace; `TRIBUTARY_SIMULATION_SEEDS=N` sets the number of seeds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is a failed test")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tributary_simulation::{Bug, Outcome, run};

/// Seeds of a plain `cargo test`.
const FEW: u64 = 40;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn failure(outcome: &Outcome) -> String {
    let trace = outcome.trace.join("\n");
    format!(
        "seed {}: {:#?}\n{trace}\nrun it again with TRIBUTARY_SIMULATION_SEED={}",
        outcome.seed, outcome.violations, outcome.seed
    )
}

/// Runs seeds on two threads; returns the first outcome that fails.
fn first_failure(
    seeds: std::ops::Range<u64>,
    fails: impl Fn(&Outcome) -> bool + Sync,
    bug: Option<Bug>,
) -> Option<Outcome> {
    let next = AtomicU64::new(seeds.start);
    let (end, fails) = (seeds.end, &fails);
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return None;
            }
            let outcome = run(seed, bug);
            if fails(&outcome) {
                next.store(end, Ordering::Relaxed);
                return Some(outcome);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        let found = workers.into_iter().filter_map(|worker| worker.join().expect("a worker"));
        found.min_by_key(|outcome| outcome.seed)
    })
}

#[test]
fn invariants_hold_for_every_seed() {
    if let Some(seed) = variable("TRIBUTARY_SIMULATION_SEED") {
        let outcome = run(seed, None);
        println!("{}", outcome.trace.join("\n"));
        assert!(outcome.violations.is_empty(), "{}", failure(&outcome));
        return;
    }
    let seeds = variable("TRIBUTARY_SIMULATION_SEEDS").unwrap_or(FEW);
    if let Some(outcome) = first_failure(0..seeds, |outcome| !outcome.violations.is_empty(), None) {
        panic!("{}", failure(&outcome));
    }
}

/// A run whose credential may not read pods takes over when the earlier credential is refused. Endpoints whose pods it never saw stay.
#[test]
fn run_that_reads_less_and_takes_over_loses_no_endpoint() {
    let outcome = run(815, None);
    assert!(outcome.violations.is_empty(), "{}", failure(&outcome));
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [1, 2, 3] {
        assert_eq!(run(seed, None).trace, run(seed, None).trace, "seed {seed}");
    }
}

/// Seeds within which each planted bug must be found.
const WITHIN: u64 = 300;

/// Asserts that the invariant finds the planted bug.
fn found(bug: Bug, invariant: &str) {
    let outcome = first_failure(0..WITHIN, |outcome| outcome.has(invariant), Some(bug));
    let outcome = outcome.unwrap_or_else(|| panic!("{bug:?} is not found by {invariant} in {WITHIN} seeds"));
    println!("{bug:?} is found by {invariant} with seed {}", outcome.seed);
}

#[test]
fn refused_credential_read_as_empty_is_found() {
    found(Bug::UnauthorizedIsEmpty, "decreases_have_evidence");
}

#[test]
fn expired_version_read_as_empty_is_found() {
    found(Bug::ResetIsEmpty, "decreases_have_evidence");
}

#[test]
fn withheld_kind_read_as_empty_is_found() {
    found(Bug::WithheldIsEmpty, "decreases_have_evidence");
}

#[test]
fn mesh_read_as_empty_is_found() {
    found(Bug::MeshIsEmpty, "no_fact_before_the_mesh");
}

#[test]
fn failed_list_that_leaves_is_found() {
    found(Bug::FailedListLeaves, "decreases_have_evidence");
}

#[test]
fn forgotten_loser_is_found() {
    found(Bug::LoserIsForgotten, "decreases_have_evidence");
}

#[test]
fn identity_read_once_is_found() {
    found(Bug::IdentityOnce, "no_fact_of_another_uid");
}

#[test]
fn cluster_that_blocks_others_is_found() {
    found(Bug::FrozenBlocksOthers, "one_cluster_costs_others_nothing");
}

#[test]
fn forgotten_unseen_facts_are_found() {
    found(Bug::UnseenForgotten, "decreases_have_evidence");
}

#[test]
fn swap_before_sync_is_found() {
    found(Bug::SwapBeforeSync, "adopted_only_when_complete");
}

#[test]
fn registry_adopted_alone_is_found() {
    found(Bug::AdoptedAlone, "both_registries_serve_one_lane");
}

#[test]
fn late_delete_is_found() {
    found(Bug::LateDelete, "decreases_have_evidence");
}

#[test]
fn rewritten_facts_are_found() {
    found(Bug::AdoptionRewrites, "equal_facts_send_nothing");
}

#[test]
fn live_without_progress_is_found() {
    found(Bug::LiveWithoutProgress, "live_only_if_confirmed");
}

#[test]
fn lost_wake_up_is_found() {
    found(Bug::WakeUpLost, "client_has_what_is_served");
}

#[test]
fn journal_restored_as_live_is_found() {
    found(Bug::RestoredAsLive, "live_only_if_confirmed");
}
