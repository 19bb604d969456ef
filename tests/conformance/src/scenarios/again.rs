//! A server that starts again from its journal: it serves the restored facts, stale, until it has read its
//! sources.

use tributary_model::Freshness;

use super::mk_services;
use crate::harness::{Ability, Act, Harness, Service};
use crate::stage::{Stage, freshness, until_seen};
use crate::tamper::Crash;

/// Asserts that everything served was restored: all of it is present, and none of it is live.
async fn assert_restored(stage: &Stage) {
    stage.until_true().await;
    let states = freshness(&stage.handle.catalog(), &stage.name);
    assert!(!states.is_empty() && states.iter().all(|f| matches!(f, Freshness::Stale { .. })), "{states:?}");
    let ready = || stage.handle.readiness().borrow().is_ready();
    until_seen("a server that was ready before is ready again", ready).await;
}

pub(super) async fn journal_restored(harness: &dyn Harness) {
    for changed in [false, true] {
        println!("the journal is restored; the configuration changed: {changed}");
        let mut stage = Stage::playing(harness, &mk_services()).await;
        stage.set_in(1, &Service::new("far", 20, 1..=3)).await;
        outcome(&stage).await;

        let mut stage = stage.restored(changed).await;
        assert_restored(&stage).await;
        let changes = stage.witness.host_changes();
        stage.open().await;
        outcome(&stage).await;
        stage.settle().await;
        assert_eq!(stage.witness.host_changes(), changes, "an unchanged source changes no service");

        stage.set(&Service::new("pay", 1, 2..=5)).await;
        outcome(&stage).await;
        let mut stage = stage.restored(changed).await;
        assert_restored(&stage).await;
        let down = harness.declines(Ability::Fail).is_none();
        if down {
            stage.act(Act::Fail(None)).await;
        }
        stage.open().await;
        stage.settle().await;
        stage.assert_true();
        stage.delete("cart").await;
        stage.set_in(1, &Service::new("far", 20, 2..=5)).await;
        if down {
            stage.act(Act::Recover).await;
        }
        outcome(&stage).await;
        stage.crash(Crash::Error);
        outcome(&stage).await;
        stage.stop().await;
    }
}

async fn outcome(stage: &Stage) {
    stage.until_true().await;
    stage.until_live().await;
    stage.until_agreed().await;
    stage.assert_true();
}
