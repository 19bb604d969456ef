//! Runs that end, begin again and replace each other at once: exactly one is in force, and all components agree on it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tributary_conformance::Act;
use tributary_conformance::memory::{MemoryFactory, MemorySource};
use tributary_conformance::pace::Pace;
use tributary_conformance::tamper::{Crash, Tamper};
use tributary_registry_api::RegistryFactory;
use tributary_runtime::{RunState, RuntimeConfig};

use crate::support::{Server, ip, mk_memory, mk_server, name};

fn mk_shadowing(source: &MemorySource) -> Arc<dyn RegistryFactory> {
    Arc::new(MemoryFactory::new("memory", source.clone()).shadowing())
}

/// A source whose service "pay" is at these addresses.
fn mk_source(hosts: std::ops::Range<u16>) -> MemorySource {
    let source = MemorySource::default();
    source.set(0, "pay", hosts.map(ip));
    source
}

async fn with_run(factory: Arc<dyn RegistryFactory>) -> Server {
    let server = mk_server(RuntimeConfig::default());
    server.handle.add_registry(factory).await.unwrap();
    server.until(|catalog| catalog.complete && !catalog.hosts.is_empty()).await;
    server
}

fn assert_agreed(server: &Server) {
    let run = server.handle.runs()[&name("memory")].clone();
    let in_force = server.generation(&name("memory"));
    assert_eq!((run.generation.0, run.state, run.shadow), (in_force, RunState::Running, None));
}

#[tokio::test(start_paused = true)]
async fn rotation_during_a_shadow_restart_is_served() {
    let (source, other, tamper) = (mk_source(0..4), mk_source(5..8), Tamper::new());
    let server = with_run(tamper.around(mk_shadowing(&source))).await;
    source.act(Act::Fail(None));
    tamper.crash(Crash::Error);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.serves("pay"), (0..4).map(ip).collect(), "the shadow has listed nothing");
    server.handle.rotate(mk_shadowing(&other)).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.serves("pay"), (5..8).map(ip).collect());
    assert_agreed(&server);

    source.set(0, "pay", [ip(99)]);
    source.act(Act::Recover);
    sleep(Duration::from_secs(60)).await;
    other.set(0, "pay", (6..9).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (6..9).map(ip).collect(), "the replaced run has ended");
    assert_agreed(&server);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_shadow_restarts_and_serves_once_it_has_listed() {
    let (source, other, tamper) = (mk_source(0..4), mk_source(5..8), Tamper::new());
    let server = with_run(mk_memory("memory", &source)).await;
    tamper.pace(Pace::Cut(6));
    server.handle.rotate(tamper.around(mk_memory("memory", &other))).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    assert!(tamper.cuts() >= 5, "it began {} times in ten minutes", tamper.cuts());
    source.set(0, "pay", (1..5).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (1..5).map(ip).collect(), "updates of the served run are still applied");
    assert_eq!(server.handle.stats().adoptions, 0);
    tamper.pace(Pace::Direct);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(server.serves("pay"), (5..8).map(ip).collect());
    assert_eq!(server.handle.stats().adoptions, 1);
    assert_agreed(&server);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_run_is_in_force_whenever_the_served_run_ends() {
    for restarts_in_shadow in [false, true] {
        let mk = |source: &MemorySource| {
            if restarts_in_shadow { mk_shadowing(source) } else { mk_memory("memory", source) }
        };
        let (first, tamper) = (mk_source(0..4), Tamper::new());
        let server = with_run(tamper.around(mk(&first))).await;
        for at in 0..24 {
            let next = mk_source(at..at + 4);
            tamper.pace(Pace::CutAll(at.into()));
            server.handle.rotate(tamper.around(mk(&next))).await.unwrap();
            sleep(Duration::from_secs(5)).await;
            tamper.pace(Pace::Direct);
            sleep(Duration::from_secs(600)).await;
            assert_eq!(server.serves("pay"), (at..at + 4).map(ip).collect(), "after {at} updates");
            assert_agreed(&server);
        }
        server.runtime.stop().await;
    }
}

/// The shadow is held back until the served run, which the test ends, has begun again: the adopted run has
/// the lower generation.
#[tokio::test(start_paused = true)]
async fn older_shadow_that_is_adopted_is_the_run_in_force() {
    let mut served = Tamper::new();
    let server = with_run(served.around(mk_memory("memory", &mk_source(0..4)))).await;
    let in_force = || server.generation(&name("memory"));
    for at in 1..5 {
        let (shadow, before) = (Tamper::new(), server.handle.runs()[&name("memory")].generation.0);
        shadow.pace(Pace::Together);
        let factory = shadow.around(mk_memory("memory", &mk_source(at..at + 4)));
        server.handle.rotate(factory).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        let (held, _) = server.handle.runs()[&name("memory")].shadow.expect("the shadow is held back");
        for _ in 0..at {
            served.crash(Crash::Error);
            sleep(Duration::from_secs(300)).await;
        }
        assert!(before < held.0 && held.0 < in_force(), "{before}, {held}, {}", in_force());
        shadow.pace(Pace::Direct);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(server.serves("pay"), (at..at + 4).map(ip).collect());
        assert_eq!(in_force(), held.0, "the shadow is adopted");
        assert_agreed(&server);
        served = shadow;
    }
    server.runtime.stop().await;
}
