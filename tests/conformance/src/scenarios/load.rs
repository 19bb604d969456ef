//! Load: bursts are coalesced without losing the last update, and a stop leaves no task.

use super::mk_services;
use crate::harness::{Harness, Service};
use crate::stage::Stage;

pub(super) async fn burst(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    let passes = stage.witness.passes();
    for round in 0..10_u8 {
        for service in 0..10_u8 {
            let name = format!("burst-{service}");
            stage.set(&Service::new(name, 30 + service, round + 1..=round + 5)).await;
        }
        stage.set(&Service::new("pay", 1, round + 1..=round + 4)).await;
    }
    stage.until_true().await;
    let passes = stage.witness.passes() - passes;
    assert!(passes <= 110, "{passes} passes for 110 changes");
    for service in 0..10_u8 {
        stage.delete(&format!("burst-{service}")).await;
    }
    stage.until_true().await;
    stage.assert_true();
    stage.stop().await;
}

pub(super) async fn stop_with_work_in_flight(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    for service in 0..20_u8 {
        stage.set(&Service::new(format!("late-{service}"), 40 + service, 1..=5)).await;
    }
    stage.stop().await;

    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.rotate().await;
    for service in 0..20_u8 {
        stage.set(&Service::new(format!("late-{service}"), 40 + service, 1..=5)).await;
    }
    stage.drop_now().await;

    let stage = Stage::prepare(harness, &mk_services()).await;
    stage.open().await;
    stage.drop_now().await;
}
