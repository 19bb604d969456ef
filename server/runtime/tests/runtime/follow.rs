//! Subscribers: compute differences by cluster, across rotations.

use std::time::Duration;

use tokio::time::sleep;
use tributary_conformance::memory::{MemorySource, memory_host};
use tributary_model::ClusterId;
use tributary_runtime::{ClusterScope, ScopeChange};

use crate::support::{Server, ip, mk_memory, name, pay};

fn named(change: &ScopeChange) -> Vec<(String, bool)> {
    change.services.iter().map(|(key, view)| (key.host.to_string(), view.is_some())).collect()
}

#[tokio::test(start_paused = true)]
async fn subscriber_receives_changes_of_its_cluster_only() {
    let (server, east) = Server::with_pay(0..4).await;
    let west = MemorySource::default();
    west.set(0, "cart", [ip(50)]);
    server.handle.add_registry(mk_memory("west", &west)).await.unwrap();
    server.until(|catalog| catalog.hosts.len() == 2).await;

    let scope = ClusterScope::Cluster(ClusterId::new("west").unwrap());
    let mut subscriber = server.handle.subscribe(scope);
    let first = subscriber.next().await.unwrap();
    assert_eq!(
        named(&first),
        [(memory_host("cart").to_string(), true)],
        "the first change contains everything"
    );

    east.set(0, "pay", [ip(9)]);
    sleep(Duration::from_secs(1)).await;
    assert!(subscriber.catch_up().is_empty(), "a change of another cluster");

    west.delete("cart");
    let gone = subscriber.next().await.unwrap();
    assert_eq!(named(&gone), [(memory_host("cart").to_string(), false)]);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_skips_generations() {
    let (server, source) = Server::with_pay(0..4).await;
    let mut subscriber = server.handle.subscribe(ClusterScope::All);
    subscriber.next().await.unwrap();
    for i in 0..10 {
        source.set(0, "pay", (i..i + 4).map(ip));
        sleep(Duration::from_millis(100)).await;
    }
    let change = subscriber.next().await.unwrap();
    assert_eq!(named(&change), [(pay().to_string(), true)], "one difference for ten generations");
    assert_eq!(change.generation, server.handle.catalog().generation);
    server.runtime.stop().await;
}

/// istio#60920: handlers were not registered again after a swap.
#[tokio::test(start_paused = true)]
async fn rotation_preserves_subscribers() {
    let (server, _source) = Server::with_pay(0..4).await;
    let mut subscriber = server.handle.subscribe(ClusterScope::Cluster(ClusterId::new("memory").unwrap()));
    subscriber.next().await.unwrap();
    let other = MemorySource::default();
    other.set(0, "pay", (0..4).map(ip));
    server.handle.rotate(mk_memory("memory", &other)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.generation(&name("memory")), 2);
    assert!(subscriber.catch_up().is_empty(), "equal content is not a change");
    other.set(0, "cart", [ip(5)]);
    let change = subscriber.next().await.unwrap();
    assert_eq!(named(&change), [(memory_host("cart").to_string(), true)]);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn subscription_ends_with_the_server() {
    let (server, _source) = Server::with_pay(0..4).await;
    let mut subscriber = server.handle.subscribe(ClusterScope::All);
    subscriber.next().await.unwrap();
    drop(server);
    assert!(subscriber.next().await.is_none());
}
