//! A different cluster that answers at the same address.

use std::sync::Arc;

use serde_json::json;
use tributary_kube_client::{ClusterContext, cluster_context_channel};
use tributary_model::Fingerprint;
use tributary_scripted_api::{ApiServer, Kind};
use tributary_service_entry::CrdOptions;

use crate::fixture::{ENTRIES, Fixture, GROUPS, WORKLOADS, entry, kind, secs};

const NAMESPACES: Kind =
    Kind { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false };

fn cluster(uid: &str) -> ApiServer {
    let server = ApiServer::new(&[kind(ENTRIES), kind(WORKLOADS), kind(GROUPS), NAMESPACES]);
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": uid}}));
    server
}

fn context(uid: &str) -> Option<Arc<ClusterContext>> {
    Some(Arc::new(ClusterContext { identity: Fingerprint::new(uid).ok(), ..ClusterContext::default() }))
}

#[tokio::test(start_paused = true)]
async fn another_cluster_ends_the_run_and_changes_no_fact() {
    let (server, other) = (cluster("uid-1"), cluster("uid-2"));
    server.put(ENTRIES, entry("pay", "pay.example.com"));
    let mut fixture = Fixture::all(server.clone());
    fixture.until_shown("pay.example.com").await;
    assert_eq!(fixture.identities, [("uid-1".to_owned(), 0)]);
    server.swap(&other);
    let why = fixture.until_ended().await;
    assert!(why.contains("identity is uid-2, not uid-1 as before"), "{why}");
    assert_eq!((fixture.shown().as_str(), fixture.evidence.len()), ("pay.example.com", 0));
    let mut next = Fixture::all(server);
    next.until_listed(&[ENTRIES, WORKLOADS, GROUPS]).await;
    assert_eq!(next.identities, [("uid-2".to_owned(), 0)]);
}

#[tokio::test(start_paused = true)]
async fn context_of_a_different_cluster_is_not_applied() {
    let (send, receive) = cluster_context_channel();
    send.send_replace(context("uid-1"));
    let server = cluster("uid-2");
    server.put(ENTRIES, entry("pay", "pay.example.com"));
    let options = CrdOptions { cluster_context: Some(receive), ..CrdOptions::default() };
    let mut fixture = Fixture::new(server, &options);
    fixture.pass(secs(100)).await;
    assert_eq!((fixture.puts, fixture.listed.len()), (0, 0));
    assert_eq!(fixture.identities, [("uid-2".to_owned(), 0)]);
    send.send_replace(context("uid-2"));
    fixture.until_shown("pay.example.com").await;
    assert_eq!(fixture.identities.len(), 1);
}
