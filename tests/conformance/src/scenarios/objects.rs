//! Objects and scopes: order and repetition do not matter, and a bad object affects only itself.

use tributary_model::Freshness;

use super::mk_services;
use crate::harness::{Act, Harness, Service};
use crate::stage::{Stage, a_while, freshness, in_time};

pub(super) async fn reordering(harness: &dyn Harness) {
    let mut stage = Stage::prepare(harness, &mk_services()).await;
    stage.act(Act::Reorder).await;
    stage.open().await;
    stage.until_true().await;
    for round in 1..=5 {
        stage.set(&Service::new("pay", 1, round..=round + 3)).await;
        stage.set(&Service::new(format!("new-{round}"), 10 + round, 1..=2)).await;
        stage.delete(&format!("new-{}", round - 1)).await;
        stage.set(&Service::new("cart", 2, round..=round + 2)).await;
    }
    stage.until_true().await;
    stage.assert_true();
    stage.stop().await;
}

pub(super) async fn duplicate_delivery(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.act(Act::Duplicate).await;
    stage.settle().await;
    let before = stage.witness.host_changes();
    stage.set(&Service::new("pay", 1, 1..=6)).await;
    stage.until_true().await;
    stage.settle().await;
    assert_eq!(
        stage.witness.host_changes(),
        before + 1,
        "a change that is delivered twice is published once"
    );
    stage.delete("cart").await;
    stage.until_true().await;
    stage.settle().await;
    stage.assert_true();
    stage.stop().await;
}

async fn until_problems(stage: &Stage, want: usize) {
    while stage.handle.inspect(|core| core.problems().count()).await.expect("it runs") != want {
        a_while().await;
    }
}

pub(super) async fn one_bad_object(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.act(Act::Corrupt("pay".to_owned())).await;
    stage.settle().await;
    stage.assert_true();
    in_time("a bad object is shown", until_problems(&stage, 1)).await;

    stage.set(&Service::new("cart", 2, 2..=9)).await;
    stage.until_true().await;

    stage.set(&Service::new("pay", 1, 4..=8)).await;
    stage.until_true().await;
    in_time("the problem of a repaired object is cleared", until_problems(&stage, 0)).await;

    stage.act(Act::Corrupt("cart".to_owned())).await;
    stage.settle().await;
    stage.delete("cart").await;
    stage.until_true().await;
    stage.stop().await;
}

pub(super) async fn one_scope_failing(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.set_in(1, &Service::new("far", 20, 1..=3)).await;
    stage.until_true().await;
    stage.act(Act::Fail(Some(1))).await;
    stage.until_stale().await;
    stage.settle().await;
    let states = freshness(&stage.handle.catalog(), &stage.name);
    assert!(states.contains(&Freshness::Live), "the other scope is still followed: {states:?}");
    stage.set(&Service::new("pay", 1, 3..=6)).await;
    stage.until_true().await;
    stage.assert_true();
    stage.act(Act::Recover).await;
    stage.until_live().await;
    stage.set_in(1, &Service::new("far", 20, 2..=5)).await;
    stage.until_true().await;
    stage.stop().await;
}
