//! Rotation: the old generation serves until the new one is complete, however long that takes.

use std::time::Duration;

use tokio::time::sleep;
use tributary_conformance::Act;
use tributary_conformance::memory::MemorySource;
use tributary_conformance::tamper::{Crash, Tamper};
use tributary_runtime::{RunState, RuntimeConfig};

use crate::support::{Fault, Server, ip, mk_faulty, mk_identity, mk_memory, mk_server, name, pay};

#[tokio::test(start_paused = true)]
async fn rotation_to_bad_token_serves_previous_forever() {
    let (server, source) = Server::with_pay(0..4).await;
    server.handle.rotate(mk_faulty("memory", Fault::RefusedForGood)).await.unwrap();
    sleep(Duration::from_secs(30 * 86_400)).await;
    source.set(0, "pay", (1..5).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (1..5).map(ip).collect(), "updates of the old run are still applied");
    let run = &server.handle.runs()[&name("memory")];
    assert_eq!((run.state, run.shadow.map(|(_, state)| state)), (RunState::Running, Some(RunState::Parked)));
    assert_eq!(server.handle.stats().adoptions, 0);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rotation_never_syncs_keeps_old_and_reports() {
    let (server, _source) = Server::with_pay(0..4).await;
    let down = MemorySource::default();
    down.act(Act::Fail(None));
    server.handle.rotate(mk_memory("memory", &down)).await.unwrap();
    sleep(Duration::from_secs(86_400)).await;
    assert_eq!(server.serves("pay"), (0..4).map(ip).collect());
    let run = server.handle.runs()[&name("memory")].clone();
    assert_eq!(run.shadow.map(|(_, state)| state), Some(RunState::Running));

    down.set(0, "pay", (7..9).map(ip));
    down.act(Act::Recover);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (7..9).map(ip).collect(), "adopted a day later, in one batch");
    assert_eq!(server.handle.stats().adoptions, 1);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_adoption_is_one_step() {
    let (server, _source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(1)).await;
    server.log.forget();
    let other = MemorySource::default();
    other.set(0, "pay", (2..6).map(ip));
    for i in 0..50 {
        other.set(0, &format!("other-{i}"), [ip(100 + i)]);
    }
    server.handle.rotate(mk_memory("memory", &other)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let published = server.log.publications();
    let steps: Vec<usize> = published.iter().map(|one| one.served.len()).collect();
    assert!(steps.iter().all(|hosts| *hosts == 1 || *hosts == 51), "half a rotation was served: {steps:?}");
    assert_eq!(server.serves("pay"), (2..6).map(ip).collect());
    let lost = published.iter().any(|one| !one.served.get(&pay()).is_some_and(|ips| ips.contains(&ip(2))));
    assert!(!lost, "addresses of both runs were always served");
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn registries_put_together_begin_to_serve_in_one_turn() {
    let server = mk_server(RuntimeConfig::default());
    let mk_source = |service: &str, address: u16| {
        let source = MemorySource::default();
        source.set(0, service, [ip(address)]);
        source
    };
    let mk_both = |sources: [&MemorySource; 2]| {
        vec![mk_memory("objects", sources[0]), mk_memory("entries", sources[1])]
    };
    let old = [mk_source("pay", 1), mk_source("cart", 1)];
    server.handle.put_registries(mk_both(old.each_ref())).await.unwrap();
    server.until(|catalog| catalog.hosts.len() == 2).await;

    let new = [mk_source("pay", 2), mk_source("cart", 2)];
    new[1].act(Act::Fail(None));
    server.handle.put_registries(mk_both(new.each_ref())).await.unwrap();
    sleep(Duration::from_secs(86_400)).await;
    assert_eq!(
        (server.serves("pay"), server.serves("cart")),
        ([ip(1)].into(), [ip(1)].into()),
        "half a rotation"
    );
    server.log.forget();
    new[1].act(Act::Recover);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((server.serves("pay"), server.serves("cart")), ([ip(2)].into(), [ip(2)].into()));
    for published in server.log.publications() {
        let addresses: std::collections::BTreeSet<_> = published.served.values().flatten().collect();
        assert_eq!(addresses.len(), 1, "one lane at a time: {:?}", published.served);
    }
    // a mistake in one changes neither
    let wrong = vec![mk_memory("objects", &old[0]), mk_identity("entries", "another-cluster")];
    assert!(server.handle.put_registries(wrong).await.is_err());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.serves("pay"), [ip(2)].into());
    server.runtime.stop().await;
}

/// istio#61043: the old instance's close wiped the facts of the new one.
#[tokio::test(start_paused = true)]
async fn rotation_old_close_after_new_sync() {
    let (server, _source) = Server::with_pay(0..4).await;
    for round in 1..=20 {
        let source = MemorySource::default();
        source.set(0, "pay", (round..round + 4).map(ip));
        server.handle.rotate(mk_memory("memory", &source)).await.unwrap();
        sleep(Duration::from_secs(20)).await;
        assert_eq!(server.serves("pay"), (round..round + 4).map(ip).collect(), "round {round}");
    }
    assert_eq!(server.handle.stats().adoptions, 20);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn second_rotation_replaces_the_one_in_progress() {
    let (server, _source) = Server::with_pay(0..4).await;
    let (down, good) = (MemorySource::default(), MemorySource::default());
    down.act(Act::Fail(None));
    good.set(0, "pay", (5..8).map(ip));
    server.handle.rotate(mk_memory("memory", &down)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    server.handle.rotate(mk_memory("memory", &good)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    down.set(0, "pay", [ip(99)]);
    down.act(Act::Recover);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(server.serves("pay"), (5..8).map(ip).collect());
    assert_eq!(server.generation(&name("memory")), 3);
    server.runtime.stop().await;
}

/// The served run ended and began again after the shadow began, so its generation is the higher one.
#[tokio::test(start_paused = true)]
async fn shadow_with_the_lower_generation_is_in_force_once_adopted() {
    let (server, source, down) =
        (mk_server(RuntimeConfig::default()), MemorySource::default(), MemorySource::default());
    source.set(0, "pay", (0..4).map(ip));
    let tamper = Tamper::new();
    server.handle.add_registry(tamper.around(mk_memory("memory", &source))).await.unwrap();
    server.until(|catalog| catalog.complete && !catalog.hosts.is_empty()).await;
    down.act(Act::Fail(None));
    server.handle.rotate(mk_memory("memory", &down)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    tamper.crash(Crash::Error);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.handle.runs()[&name("memory")].generation.0, 3);

    down.set(0, "pay", (7..9).map(ip));
    down.act(Act::Recover);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (7..9).map(ip).collect());
    let run = server.handle.runs()[&name("memory")].clone();
    assert_eq!((run.generation.0, server.generation(&name("memory")), run.shadow), (2, 2, None));
    down.set(0, "pay", (8..12).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (8..12).map(ip).collect(), "updates of the adopted run are applied");
    server.runtime.stop().await;
}
