//! Starts and outages: unknown is not empty, and an error is never a deletion.

use tributary_model::Freshness;

use super::mk_services;
use crate::harness::{Act, Harness, Service};
use crate::stage::{Stage, freshness};

pub(super) async fn cold_start(harness: &dyn Harness) {
    let stage = Stage::prepare(harness, &mk_services()).await;
    assert!(!stage.handle.readiness().borrow().is_ready(), "nothing has been listed");
    stage.open().await;
    stage.until("the registry is known", |catalog| catalog.registries.contains_key(&stage.name)).await;
    stage.until_true().await;
    stage.until_live().await;
    stage.until("the catalog is complete", |catalog| catalog.complete).await;
    stage.handle.readiness().wait_for(|r| r.is_ready()).await.expect("it becomes ready");
    stage.assert_true();
    stage.stop().await;
}

pub(super) async fn source_down_at_start(harness: &dyn Harness) {
    let mut stage = Stage::prepare(harness, &mk_services()).await;
    stage.act(Act::Fail(None)).await;
    stage.open().await;
    stage.settle().await;
    let catalog = stage.handle.catalog();
    assert!(stage.served().is_empty(), "a source that cannot be read serves nothing");
    assert!(!catalog.complete, "an unknown source makes an incomplete catalog, not an empty one");
    let live = freshness(&catalog, &stage.name).contains(&Freshness::Live);
    assert!(!live, "no collection is live while its source cannot be read");
    assert!(!stage.handle.readiness().borrow().is_ready(), "a server without any list is not ready");
    stage.act(Act::Recover).await;
    stage.until_true().await;
    stage.until_live().await;
    stage.stop().await;
}

pub(super) async fn error_storm(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    let before = stage.witness.host_changes();
    for _ in 0..5 {
        stage.act(Act::Fail(None)).await;
        stage.until_stale().await;
        stage.assert_true();
        stage.act(Act::Recover).await;
        stage.until_live().await;
    }
    assert_eq!(stage.witness.host_changes(), before, "an outage changes no service");
    stage.set(&Service::new("pay", 1, 3..=9)).await;
    stage.until_true().await;
    stage.stop().await;
}
