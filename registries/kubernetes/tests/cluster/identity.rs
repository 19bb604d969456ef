//! Another cluster that answers at the address of the followed one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tributary_kubernetes::{KubernetesFactory, RunMemory};
use tributary_model::SourceState;
use tributary_registry_api::RegistryError;
use tributary_scripted_api::ApiServer;

use crate::fixture::{RunOf, factory_with, options_for_every_kind, serve_every_kind};

const HELD: [&str; 5] = ["cluster", "configmaps", "gateways", "serviceexports", "serviceimports"];

fn first() -> ApiServer {
    serve_every_kind("pay", ["10.0.0.1", "10.0.0.2"])
}
/// Serves an empty cluster with lower versions.
fn other() -> ApiServer {
    let server = crate::fixture::serve();
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "uid-2"}}));
    server
}
fn factory(server: &ApiServer) -> KubernetesFactory {
    factory_with(server, options_for_every_kind()).memory(Arc::new(RunMemory::default()))
}

async fn synced(mut run: RunOf) -> RunOf {
    run.live().await;
    run.until("synced", RunOf::is_synced).await;
    run
}

/// Waits until the run ends by itself; returns the reason and the run.
async fn ended(mut run: RunOf) -> (String, RunOf) {
    run.until("ended", |run| run.task.is_finished()).await;
    run.pass(Duration::ZERO).await;
    match (&mut run.task).await.unwrap() {
        Err(RegistryError::Retryable(why)) => (why.to_string(), run),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn another_cluster_ends_the_run_and_changes_no_fact() {
    let (server, other) = (first(), other());
    let factory = factory(&server);
    let run = synced(RunOf::of(&server, &factory)).await;
    let before = run.facts.clone();
    server.swap(&other);
    let (why, run) = ended(run).await;
    assert!(why.contains("identity is uid-2, not uid-1 as before"), "{why}");
    assert_eq!((run.facts == before, &run.dropped), (true, &vec![]));
    assert_eq!(run.identities, [("uid-1".to_owned(), 0)]);

    let mut next = RunOf::holding(&server, &factory, &HELD);
    next.until("known", |run| !run.identities.is_empty()).await;
    assert_eq!(next.identities, [("uid-2".to_owned(), 0)], "it precedes the facts");

    server.swap(&other);
    let (why, _) = ended(next).await;
    assert!(why.contains("identity is uid-1, not uid-2 as before"), "{why}");
    let last = synced(RunOf::holding(&server, &factory, &HELD)).await;
    assert_eq!(last.identities, [("uid-1".to_owned(), 0)]);
    assert!(last.facts == before && last.withheld.is_empty(), "{:?}", last.withheld);
}

#[tokio::test(start_paused = true)]
async fn cluster_without_its_namespaces_so_far_changes_nothing() {
    let (server, other) = (first(), other());
    other.delete("namespaces", "", "kube-system");
    let mut run = synced(RunOf::of(&server, &factory(&server))).await;
    let before = run.facts.clone();
    server.swap(&other);
    run.until("reported", |run| run.state() == SourceState::Unreachable).await;
    run.pass(Duration::from_secs(2_000)).await;
    assert!(run.facts == before && run.dropped.is_empty() && !run.task.is_finished());
    server.swap(&other);
    run.live().await;
    assert_eq!((run.facts == before, run.withheld.len()), (true, 0));
}
