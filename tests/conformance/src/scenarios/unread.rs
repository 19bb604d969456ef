//! What a run cannot read although it read it before: nothing of that is lost, it is stale, and the rest goes on.

use tributary_model::{Freshness, WithheldCause};

use super::mk_services;
use crate::harness::{Act, Harness, Service};
use crate::pace::Pace;
use crate::stage::{Stage, freshness, until_seen};
use crate::tamper::Crash;

/// What happens to the run when something cannot be read any more.
#[derive(Debug, Clone, Copy)]
enum Then {
    GoesOn,
    Restarts,
    Rotates,
}

impl Then {
    const ALL: [Self; 3] = [Self::GoesOn, Self::Restarts, Self::Rotates];

    async fn happens(self, stage: &Stage) {
        match self {
            Self::GoesOn => {}
            Self::Restarts => stage.crash_and_see(Crash::Error).await,
            Self::Rotates => stage.rotate().await,
        }
    }
}

async fn with_two_parts(harness: &dyn Harness) -> Stage {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.set_in(1, &Service::new("far", 20, 1..=3)).await;
    stage.until_true().await;
    stage.until_live().await;
    stage
}

fn is_live(stage: &Stage) -> bool {
    freshness(&stage.handle.catalog(), &stage.name).contains(&Freshness::Live)
}

pub(super) async fn refused(harness: &dyn Harness, cause: WithheldCause) {
    for then in Then::ALL {
        println!("{cause:?}, and the run {then:?}");
        let mut stage = with_two_parts(harness).await;
        stage.act(Act::Refuse(cause)).await;
        then.happens(&stage).await;
        stage.until_stale().await;
        stage.delete("cart").await;
        stage.until_true().await;
        until_seen("the rest is confirmed", || is_live(&stage)).await;
        stage.settle().await;
        stage.assert_true();
        stage.until_stale().await;
        let changes = stage.witness.hosts_told();
        stage.act(Act::Recover).await;
        stage.until_live().await;
        stage.settle().await;
        stage.assert_true();
        assert_eq!(stage.witness.hosts_told(), changes, "a right that returns changes no service");
        stage.until_agreed().await;
        stage.set_in(1, &Service::new("far", 20, 2..=5)).await;
        stage.until_true().await;
        stage.stop().await;
    }
}

pub(super) async fn shorter_discovery(harness: &dyn Harness) {
    for then in Then::ALL {
        println!("discovery lists less, and the run {then:?}");
        let mut stage = with_two_parts(harness).await;
        stage.act(Act::Shorten).await;
        then.happens(&stage).await;
        stage.settle().await;
        stage.assert_true();
        stage.set_in(1, &Service::new("far", 20, 2..=5)).await;
        stage.delete("cart").await;
        stage.until_true().await;
        stage.act(Act::Recover).await;
        stage.until_live().await;
        stage.settle().await;
        stage.assert_true();
        stage.until_agreed().await;
        stage.stop().await;
    }
}

/// A run that reports nothing, or only that it can read nothing, changes no fact.
pub(super) async fn silent_run(harness: &dyn Harness) {
    for pace in [Pace::Muted, Pace::Withheld] {
        for then in [Then::Restarts, Then::Rotates] {
            println!("{pace:?}, and the run {then:?}");
            let stage = with_two_parts(harness).await;
            let changes = stage.witness.hosts_told();
            stage.tamper.pace(pace);
            then.happens(&stage).await;
            stage.settle().await;
            stage.assert_true();
            assert_eq!(stage.witness.hosts_told(), changes, "a run without a list changes no service");
            stage.tamper.pace(Pace::Direct);
            stage.crash(Crash::Error);
            stage.until_live().await;
            stage.until_agreed().await;
            stage.assert_true();
            stage.stop().await;
        }
    }
}

pub(super) async fn scope_that_ended(harness: &dyn Harness) {
    for then in Then::ALL {
        println!("a scope ended, and the run {then:?}");
        let mut stage = with_two_parts(harness).await;
        let before = freshness(&stage.handle.catalog(), &stage.name).len();
        stage.expect_gone(&["far"]);
        stage.act(Act::End).await;
        then.happens(&stage).await;
        stage.until_true().await;
        stage.until_live().await;
        stage.until("the scope is free", |catalog| freshness(catalog, &stage.name).len() < before).await;
        stage.settle().await;
        stage.until_agreed().await;
        stage.assert_true();
        stage.stop().await;
    }
}

/// Another source answers in place of the one that is known: nothing of it is taken until an operator accepts it.
pub(super) async fn identity_swapped(harness: &dyn Harness) {
    for rotates in [false, true] {
        println!("another identity, by a rotation: {rotates}");
        let mut stage = Stage::playing(harness, &mk_services()).await;
        stage.crash_and_wait(Crash::Error).await;
        stage.act(Act::Swap).await;
        if rotates {
            stage.rotate().await;
        }
        stage.run_again();
        stage.settle().await;
        stage.assert_true();
        stage.expect_gone(&["pay", "cart", "idle"]);
        let name = stage.name.clone();
        assert!(stage.handle.accept(name).await.expect("it runs"), "there is another source to accept");
        stage.crash(Crash::Error);
        stage.until_true().await;
        stage.until_live().await;
        stage.set(&Service::new("other", 5, 1..=3)).await;
        stage.until_true().await;
        stage.until_agreed().await;
        stage.stop().await;
    }
}
