//! Runs: they fail in place, are fenced by generation, and replace each other without a gap.

use tributary_model::{Evidence, FactId, FactKey, RegistryUpdate};

use super::mk_services;
use crate::harness::{Harness, Service};
use crate::stage::{Stage, a_while, in_time};
use crate::tamper::Crash;

pub(super) async fn restart_of_a_generation(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    let changes = stage.witness.host_changes();
    for how in [Crash::Error, Crash::Panic] {
        let before = stage.run_generation();
        stage.crash_and_wait(how).await;
        stage.assert_true();
        stage.run_again();
        stage.until_live().await;
        assert!(stage.run_generation() > before, "a run has a generation of its own");
    }
    assert_eq!(stage.witness.host_changes(), changes, "a run that reports known facts changes no service");
    stage.set(&Service::new("pay", 1, 4..=6)).await;
    stage.delete("cart").await;
    stage.until_true().await;
    let stats = stage.handle.stats();
    assert_eq!((stats.runs, stats.failures, stats.panics), (3, 2, 1));
    stage.stop().await;
}

pub(super) async fn late_updates(harness: &dyn Harness) {
    let stage = Stage::playing(harness, &mk_services()).await;
    stage.crash_and_wait(Crash::Error).await;
    stage.run_again();
    stage.until_live().await;
    let changes = stage.witness.host_changes();
    let catalog = stage.handle.catalog();
    let late = stage.tamper.senders().first().cloned().expect("there was a first run");
    for view in catalog.services() {
        for declaration in &*view.declarations {
            let object = declaration.declaration.source.object.clone();
            let item = FactId::Service(tributary_model::DeclKey { service: view.key.clone(), object });
            let key = FactKey { scope: declaration.shard.scope.clone(), item };
            let accepted = late.send(RegistryUpdate::Remove(key, Evidence::Confirmed));
            assert!(!accepted, "updates of a run that has ended are rejected");
        }
    }
    stage.settle().await;
    assert_eq!(stage.witness.host_changes(), changes, "late updates change nothing");
    stage.assert_true();
    stage.stop().await;
}

pub(super) async fn rotation(harness: &dyn Harness) {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    let (generation, changes) = (stage.run_generation(), stage.witness.host_changes());
    stage.rotate().await;
    stage
        .until("the new run is served", |catalog| {
            catalog.registries.get(&stage.name).is_some_and(|registry| registry.generation.0 > generation)
        })
        .await;
    stage.until_live().await;
    stage.assert_true();
    assert_eq!(stage.witness.host_changes(), changes, "the same content under a new credential is no change");
    stage.set(&Service::new("pay", 1, 2..=7)).await;
    stage.until_true().await;
    let senders = stage.tamper.senders();
    let over = async {
        while !senders.first().is_some_and(tributary_registry_api::UpdateSender::is_closed) {
            a_while().await;
        }
    };
    in_time("the old run is over", over).await;
    stage.settle().await;
    let stats = stage.handle.stats();
    assert_eq!((stats.adoptions, stats.dropped), (1, 0), "the old run stops on request");
    stage.stop().await;
}
