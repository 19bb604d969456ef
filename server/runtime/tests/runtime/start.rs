//! The start rule on a running server, and sources that the binary runs itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tributary_conformance::Act;
use tributary_conformance::memory::MemorySource;
use tributary_model::{
    ClusterId, Collection, CollectionKind, Completeness, Fact, ProviderId, RegistryId, RegistrySpec,
    RegistryUpdate, Scope, Settings,
};
use tributary_registry_api::Clock;
use tributary_runtime::{ReadyBecause, RuntimeConfig, StartRule};

use crate::support::{Server, ip, mk_memory, mk_server, name};

fn waiting_for(known: &[&str]) -> RuntimeConfig {
    let known: BTreeSet<_> = known.iter().map(|n| name(n)).collect();
    RuntimeConfig { start: StartRule { known, ..StartRule::default() }, ..RuntimeConfig::default() }
}

fn mk_source(down: bool) -> MemorySource {
    let source = MemorySource::default();
    source.set(0, "pay", [ip(1)]);
    if down {
        source.act(Act::Fail(None));
    }
    source
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_the_publication_that_caused_it() {
    let server = mk_server(waiting_for(&["memory"]));
    let mut readiness = server.handle.readiness();
    assert!(!readiness.borrow().is_ready());
    server.handle.add_registry(mk_memory("memory", &mk_source(false))).await.unwrap();
    readiness.wait_for(|r| r.is_ready()).await.unwrap();
    let catalog = server.handle.catalog();
    assert!(catalog.complete && !catalog.hosts.is_empty());
    assert_eq!(readiness.borrow().ready, Some(ReadyBecause::Synced));
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unreachable_source_delays_start_by_the_timeout_and_is_listed() {
    let server = mk_server(waiting_for(&["good", "down"]));
    let down = mk_source(true);
    server.handle.add_registry(mk_memory("good", &mk_source(false))).await.unwrap();
    server.handle.add_registry(mk_memory("down", &down)).await.unwrap();
    let mut readiness = server.handle.readiness();
    sleep(Duration::from_millis(29_900)).await;
    assert!(!readiness.borrow().is_ready());
    sleep(Duration::from_millis(200)).await;
    assert_eq!(readiness.borrow().ready, Some(ReadyBecause::TimedOut));
    assert_eq!(readiness.borrow().unknown, BTreeSet::from([name("down")]));
    assert!(!server.handle.catalog().complete, "a ready server may be incomplete");
    down.act(Act::Recover);
    readiness.wait_for(|r| r.unknown.is_empty()).await.unwrap();
    assert!(server.handle.catalog().complete);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn added_or_stale_registry_does_not_change_readiness() {
    let server = mk_server(waiting_for(&["memory"]));
    let source = mk_source(false);
    server.handle.add_registry(mk_memory("memory", &source)).await.unwrap();
    let mut readiness = server.handle.readiness();
    readiness.wait_for(|r| r.is_ready()).await.unwrap();
    source.act(Act::Fail(None));
    server.handle.add_registry(mk_memory("later", &mk_source(true))).await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert!(readiness.borrow().is_ready());
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_registries_is_ready_at_once() {
    let server = mk_server(waiting_for(&[]));
    let began = server.clock.now();
    server.handle.readiness().wait_for(|r| r.is_ready()).await.unwrap();
    assert_eq!(server.clock.now(), began);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn start_that_awaits_its_membership_is_not_ready_before_it_is_known() {
    let start = StartRule { awaits_membership: true, ..StartRule::default() };
    let server = mk_server(RuntimeConfig { start, ..RuntimeConfig::default() });
    let mut readiness = server.handle.readiness();
    sleep(Duration::from_secs(1)).await;
    assert!(!readiness.borrow().is_ready(), "no registry is known, and more may be found");
    server.handle.set_membership_known(true).await.unwrap();
    readiness.wait_for(|r| r.ready == Some(ReadyBecause::Synced)).await.unwrap();
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn source_of_the_binary_is_served_until_it_leaves() {
    let (server, _source) = Server::with_pay(0..4).await;
    let cluster = ClusterId::new("config").unwrap();
    let id = RegistryId { name: name("config"), provider: ProviderId::CONFIG, cluster };
    let spec = RegistrySpec::new(Arc::new(id), 0);
    let source = server.handle.source(spec).await.unwrap();
    let scope = Scope::new("file").unwrap();
    let collection = Collection { scope: scope.clone(), kind: CollectionKind::Settings };
    let settings = Settings { trust_domain: Some("example.test".into()), ..Settings::default() };
    source.updates.send(RegistryUpdate::Follows { required: vec![collection.clone()], optional: Vec::new() });
    source.updates.put(scope, Fact::Settings(Arc::new(settings)));
    source.updates.send(RegistryUpdate::ListEnded(collection, Completeness::Complete));
    server.until(|catalog| catalog.settings.trust_domain() == "example.test" && catalog.complete).await;

    source.leave().await.unwrap();
    server.until(|catalog| catalog.settings.trust_domain() == "cluster.local").await;
    server.runtime.stop().await;
}
