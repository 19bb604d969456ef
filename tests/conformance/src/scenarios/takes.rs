//! Takes, restarts and adoptions at every point of a run: none of them affects the result.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tributary_model::{Hostname, WithheldCause};

use super::mk_services;
use crate::harness::{Ability, Act, Harness, Service};
use crate::pace::Pace;
use crate::stage::{Stage, until_seen};
use crate::tamper::Crash;

/// Compared result of runs of the same content: served addresses, and the number of bad objects.
type Outcome = (BTreeMap<Hostname, BTreeSet<IpAddr>>, usize);

async fn outcome(stage: &Stage) -> Outcome {
    stage.until_true().await;
    stage.until_live().await;
    stage.until_agreed().await;
    stage.assert_true();
    let problems = stage.handle.inspect(|core| core.problems().count()).await.expect("it runs");
    (stage.served(), problems)
}

/// Plays changes while a run is held back; `round` distinguishes the changes of successive runs.
async fn play(stage: &mut Stage, harness: &dyn Harness, round: u8) {
    stage.settle().await;
    stage.set(&Service::new("pay", 1, round..=round + 4)).await;
    stage.set(&Service::new(format!("new-{round}"), 10 + round, 1..=3)).await;
    stage.delete(&format!("new-{}", round.saturating_sub(1))).await;
    if harness.declines(Ability::Refuse(WithheldCause::Forbidden)).is_none() {
        let all = harness.refusables();
        let one = all[usize::from(round) % all.len()].name;
        stage.act(Act::Refuse(one, WithheldCause::Forbidden)).await;
        settle_where_quick(stage, harness).await;
        stage.act(Act::Recover).await;
    }
    if harness.declines(Ability::Relist).is_none() {
        stage.act(Act::Relist).await;
    }
    settle_where_quick(stage, harness).await;
    stage.set(&Service::new("cart", 2, round..=round + 2)).await;
    stage.settle().await;
}

async fn settle_where_quick(stage: &Stage, harness: &dyn Harness) {
    if harness.is_quick() {
        stage.settle().await;
    }
}

async fn all_runs(harness: &dyn Harness, pace: Pace) -> Vec<Outcome> {
    let mut stage = Stage::prepare(harness, &mk_services()).await;
    let mut outcomes = Vec::new();
    for round in 1..=3 {
        stage.tamper.pace(pace);
        match round {
            1 => stage.open().await,
            2 => stage.crash_and_see(Crash::Error).await,
            _ => stage.rotate().await,
        }
        play(&mut stage, harness, round).await;
        stage.tamper.pace(Pace::Direct);
        outcomes.push(outcome(&stage).await);
    }
    stage.stop().await;
    outcomes
}

/// Asserts that a first run, a following run and a replacing run end alike, in one take and update by update.
pub(super) async fn run_in_one_take(harness: &dyn Harness) {
    let together = all_runs(harness, Pace::Together).await;
    assert_eq!(together, all_runs(harness, Pace::Singly).await);
}

/// Returns the numbers of updates after which runs are cut off.
fn positions(harness: &dyn Harness) -> Vec<usize> {
    if harness.is_quick() { (0..200).collect() } else { vec![0, 1, 2, 3, 5, 8, 13, 21, 34] }
}

/// Makes a change that only a list shows, different at each call.
async fn alternate(stage: &mut Stage, at: usize) {
    if at.is_multiple_of(2) {
        stage.set(&Service::new("extra", 9, 1..=2)).await;
        stage.delete("gone").await;
    } else {
        stage.delete("extra").await;
        stage.set(&Service::new("gone", 8, 1..=2)).await;
    }
}

pub(super) async fn restart_after_any_update(harness: &dyn Harness) {
    for rotates in [false, true] {
        let mut stage = Stage::playing(harness, &mk_services()).await;
        let mut last = 0;
        for at in positions(harness) {
            let (cuts, before) = (stage.tamper.cuts(), stage.run_generation());
            if rotates {
                alternate(&mut stage, at).await;
                stage.tamper.pace(Pace::Cut(at));
                stage.rotate().await;
            } else {
                stage.crash_and_wait(Crash::Error).await;
                alternate(&mut stage, at).await;
                stage.tamper.pace(Pace::Cut(at));
                stage.run_again();
            }
            if !cut_or_over(&stage, cuts, before).await {
                break;
            }
            last = at;
            stage.tamper.pace(Pace::Direct);
            outcome(&stage).await;
        }
        assert!(last >= 5, "a run of {last} updates lists nothing");
        stage.tamper.pace(Pace::Direct);
        stage.crash(Crash::Error);
        outcome(&stage).await;
        stage.stop().await;
    }
}

/// Waits until a run was cut off, or serves without being cut off. Returns true if it was cut off.
async fn cut_or_over(stage: &Stage, cuts: usize, before: u64) -> bool {
    until_seen("the run is cut off, or over", || {
        let serves = stage.run_generation() > before && stage.is_live() && stage.served() == *stage.truth();
        stage.tamper.cuts() > cuts || serves
    })
    .await;
    stage.tamper.cuts() > cuts
}

/// Ends a run in a shadow and the served one together, after any update of the former: whether the restart or
/// the adoption comes first, one run is in force in the end.
pub(super) async fn adoption_races(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    for at in positions(harness) {
        let (cuts, before) = (stage.tamper.cuts(), stage.run_generation());
        alternate(&mut stage, at).await;
        stage.tamper.pace(Pace::CutAll(at));
        stage.rotate().await;
        let cut = cut_or_over(&stage, cuts, before).await;
        stage.tamper.pace(Pace::Direct);
        outcome(&stage).await;
        if !cut {
            break;
        }
    }
    stage.tamper.pace(Pace::Direct);
    for round in 0..6 {
        alternate(&mut stage, round).await;
        stage.rotate().await;
        if round % 2 == 0 {
            stage.crash(Crash::Error);
            stage.rotate().await;
        } else {
            tokio::task::yield_now().await;
            stage.crash(Crash::Panic);
        }
        outcome(&stage).await;
    }
    older_shadow(&mut stage).await;
    stage.stop().await;
}

/// Ends and restarts the served run while a shadow is held back, so the adopted run is the older one.
async fn older_shadow(stage: &mut Stage) {
    for round in 0..2 {
        alternate(stage, round).await;
        let served = stage.rotate_held().await;
        let runs = served.senders().len();
        served.crash(Crash::Error);
        if stage.restarts_in_place() {
            until_seen("the served run begins again", || served.senders().len() > runs).await;
        }
        stage.tamper.pace(Pace::Direct);
        outcome(stage).await;
    }
}
