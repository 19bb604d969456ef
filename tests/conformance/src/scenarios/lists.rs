//! Lists: only a complete list is evidence of absence, and an unchanged list changes nothing.

use super::mk_services;
use crate::harness::{Act, Harness, Service};
use crate::stage::Stage;
use crate::tamper::Crash;

pub(super) async fn empty_answer_after_full(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.act(Act::LieEmpty).await;
    stage.act(Act::Relist).await;
    stage.settle().await;
    stage.assert_true();
    for service in mk_services() {
        stage.delete(&service.name).await;
    }
    stage.until_true().await;
    stage.stop().await;
}

pub(super) async fn interrupted_relist(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.act(Act::Tear(3)).await;
    stage.act(Act::Relist).await;
    stage.delete("cart").await;
    stage.set(&Service::new("pay", 1, 2..=5)).await;
    stage.until_true().await;
    stage.until_live().await;
    stage.assert_true();
    stage.stop().await;
}

pub(super) async fn unchanged_relist(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    let before = stage.witness.host_changes();
    for _ in 0..3 {
        stage.act(Act::Relist).await;
        stage.settle().await;
    }
    assert_eq!(stage.witness.host_changes(), before, "an unchanged list changes no service");
    stage.assert_true();
    stage.stop().await;
}

/// Covers consul-k8s#319 and #4714: a reaper that ran before the first full list of a new process.
pub(super) async fn no_reap_before_complete_list(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    let first = stage.run_generation();
    stage.act(Act::Tear(3)).await;
    stage.crash(Crash::Error);
    stage
        .until("a new run reports", |catalog| {
            catalog.registries.get(&stage.name).is_some_and(|registry| registry.generation.0 > first)
        })
        .await;
    stage.until_live().await;
    stage.assert_true();
    stage.crash(Crash::Error);
    stage.delete("cart").await;
    stage.until_true().await;
    stage.assert_true();
    stage.stop().await;
}
