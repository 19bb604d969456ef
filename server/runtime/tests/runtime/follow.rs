//! Subscribers: compute differences by cluster, across rotations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::sleep;
use tributary_conformance::memory::{MemorySource, memory_host};
use tributary_model::{
    Basis, ClusterId, Collection, CollectionKind, Completeness, Fact, Gateway, GatewayAddress, GatewayKey,
    NetworkId, ObjectId, PortNumber, ProviderId, RegistryId, RegistryName, RegistryUpdate, Scope, Source,
};
use tributary_registry_api::{
    CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo, RegistrySpec,
};
use tributary_runtime::{ClusterScope, ScopeChange, ScopeSubscription};

use crate::support::{Server, ip, mk_memory, name, pay};

fn named(change: &ScopeChange) -> Vec<(String, bool)> {
    change.services.iter().map(|one| (one.key.host.to_string(), one.after.is_some())).collect()
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

    sleep(Duration::from_secs(1)).await;
    let woken = server.handle.stats().subscriber_wakes;
    for address in 9..19 {
        east.set(0, "pay", [ip(address)]);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(
        server.handle.stats().subscriber_wakes,
        woken,
        "changes of another cluster wake no subscriber"
    );
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

/// istio#60920: handlers were not registered again after a swap, and a gateway vanished.
#[tokio::test(start_paused = true)]
async fn rotation_preserves_gateways_and_subscribers() {
    let (server, _source) = Server::with_pay(0..4).await;
    let both = |source: &MemorySource, port| vec![mk_memory("memory", source), mk_gateways("gates", port)];
    server.handle.add_registry(mk_gateways("gates", 15443)).await.unwrap();
    server.until(|catalog| !catalog.gateways.is_empty()).await;
    let mut subscriber = server.handle.subscribe(ClusterScope::Cluster(ClusterId::new("memory").unwrap()));
    let first = subscriber.next().await.unwrap();
    assert_eq!((first.services.len(), first.gateways.len()), (1, 1), "the first change contains everything");

    let other = MemorySource::default();
    other.set(0, "pay", (0..4).map(ip));
    server.handle.put_registries(both(&other, 15443)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!((server.generation(&name("memory")), server.generation(&name("gates"))), (2, 2));
    assert!(subscriber.catch_up().is_empty(), "equal content is not a change");

    server.handle.put_registries(both(&other, 15444)).await.unwrap();
    let change = subscriber.next().await.unwrap();
    assert_eq!((named(&change), change.gateways.len()), (vec![], 1));
    let gateway = &change.gateways[0];
    let ports = [&gateway.before, &gateway.after]
        .map(|value| value.as_ref().and_then(|gateway| gateway.mtls_port).map(PortNumber::get));
    assert_eq!(ports, [Some(15443), Some(15444)], "it is changed and not removed");
    other.set(0, "cart", [ip(5)]);
    let change = subscriber.next().await.unwrap();
    assert_eq!(named(&change), [(memory_host("cart").to_string(), true)]);
    server.runtime.stop().await;
}

/// A registry of the cluster "memory" with one gateway at this port.
fn mk_gateways(registry: &str, port: u32) -> Arc<dyn RegistryFactory> {
    Arc::new(Gateways { name: name(registry), port: PortNumber::new(port).unwrap() })
}

#[derive(Clone)]
struct Gateways {
    name: RegistryName,
    port: PortNumber,
}

impl RegistryFactory for Gateways {
    fn spec(&self) -> RegistrySpec {
        let (name, cluster) = (self.name.clone(), ClusterId::new("memory").unwrap());
        RegistrySpec::new(Arc::new(RegistryId { name, provider: ProviderId::MEMORY, cluster }), 1)
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Registry for Gateways {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let scope = Scope::new("gates").unwrap();
        let collection = Collection { scope: scope.clone(), kind: CollectionKind::Gateways };
        let object = ObjectId::new("Gateway", "system", "east-west");
        let gateway = Gateway {
            source: Source::new(object.clone()),
            address: Some(GatewayAddress::Ip(ip(200))),
            mtls_port: Some(self.port),
            hbone_port: None,
        };
        let key = GatewayKey {
            network: NetworkId::new("net").unwrap(),
            cluster: ClusterId::new("memory").unwrap(),
            object,
            index: 0,
        };
        io.out.send_all([
            RegistryUpdate::Follows { required: vec![collection.clone()], optional: Vec::new() },
            RegistryUpdate::ListStarted(collection.clone()),
            RegistryUpdate::Put(scope, Fact::Gateway(key, Arc::new(gateway)), Basis::Authoritative),
            RegistryUpdate::ListEnded(collection, Completeness::Complete),
        ]);
        stop.cancelled().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn subscription_ends_with_the_server() {
    let (server, _source) = Server::with_pay(0..4).await;
    let mut subscriber = server.handle.subscribe(ClusterScope::All);
    subscriber.next().await.unwrap();
    drop(server);
    assert!(subscriber.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dropped_subscriber_is_woken_no_more() {
    let (server, source) = Server::with_pay(0..4).await;
    let mut subscriber = server.handle.subscribe(ClusterScope::All);
    subscriber.next().await.unwrap();
    source.set(0, "pay", [ip(7)]);
    sleep(Duration::from_secs(1)).await;
    let woken = server.handle.stats().subscriber_wakes;
    assert!(woken > 0);
    subscriber.next().await.unwrap();
    drop(subscriber);
    source.set(0, "pay", [ip(8)]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((server.handle.stats().subscriber_wakes, server.serves("pay")), (woken, [ip(8)].into()));
    server.runtime.stop().await;
}

/// Begins and ends of handlers, and the services that each counts.
type Handled = Arc<Mutex<BTreeMap<String, (u32, u32, i64)>>>;

/// Runs handlers that count the services of their clusters.
fn mk_handlers(server: &Server) -> (Handled, tokio::task::JoinHandle<()>) {
    let (handled, handle) = (Handled::default(), server.handle.clone());
    let all = Arc::clone(&handled);
    let running = tokio::spawn(async move {
        let handler = |cluster: ClusterId, mut subscriber: ScopeSubscription| {
            let (all, cluster) = (Arc::clone(&all), cluster.to_string());
            all.lock().entry(cluster.clone()).or_default().0 += 1;
            async move {
                while let Some(change) = subscriber.next().await {
                    let count = |there: bool| i64::from(there);
                    let sum = change.services.iter();
                    let sum: i64 =
                        sum.map(|one| count(one.after.is_some()) - count(one.before.is_some())).sum();
                    all.lock().entry(cluster.clone()).or_default().2 += sum;
                }
                all.lock().entry(cluster).or_default().1 += 1;
            }
        };
        handle.per_cluster(handler).await;
    });
    (handled, running)
}

#[tokio::test(start_paused = true)]
async fn handler_lives_from_join_to_removal_across_rotations() {
    let (server, _east) = Server::with_pay(0..4).await;
    let (handled, running) = mk_handlers(&server);
    let is = |cluster: &str| handled.lock().get(cluster).copied().unwrap_or_default();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(is("memory"), (1, 0, 1), "a cluster that was there before the handlers");

    let west = MemorySource::default();
    west.set(0, "cart", [ip(50)]);
    server.handle.add_registry(mk_memory("west", &west)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(is("west"), (1, 0, 1));
    let other = MemorySource::default();
    (0..3).for_each(|n| other.set(0, &format!("cart-{n}"), [ip(60 + n)]));
    server.handle.rotate(mk_memory("west", &other)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(is("west"), (1, 0, 3), "one handler for both runs");

    server.handle.remove_registry(name("west")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(is("west"), (1, 1, 0), "the last change removes everything");
    server.handle.add_registry(mk_memory("west", &west)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        (is("west"), is("memory")),
        ((2, 1, 1), (1, 0, 1)),
        "a cluster that returns has a new handler"
    );

    server.runtime.stop().await;
    running.await.unwrap();
    assert_eq!((is("west").1, is("memory").1), (2, 1), "handlers end with the server");
}

#[tokio::test(start_paused = true)]
async fn dropped_handlers_end_and_a_failed_one_ends_alone() {
    let (server, _source) = Server::with_pay(0..4).await;
    let (handled, running) = mk_handlers(&server);
    sleep(Duration::from_secs(1)).await;
    let handle = server.handle.clone();
    let failing = tokio::spawn(async move {
        let fail = |_, _: ScopeSubscription| async { panic!("the test requests a panic of a handler") };
        handle.per_cluster(fail).await;
    });
    sleep(Duration::from_secs(1)).await;
    assert!(!failing.is_finished());
    failing.abort();
    sleep(Duration::from_secs(1)).await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    running.abort();
    sleep(Duration::from_secs(1)).await;
    let after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!((before - after, handled.lock().len()), (2, 1), "the task and its handler");
    server.runtime.stop().await;
}
