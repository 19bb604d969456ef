//! Failures are local: when one registry's run ends, no other registry is affected.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tributary_conformance::Act;
use tributary_conformance::memory::{MemoryFactory, MemorySource};
use tributary_model::Code;
use tributary_runtime::{RunState, RuntimeConfig, SupervisorError};

use crate::support::{Fault, Server, ip, mk_faulty, mk_identity, mk_memory, mk_server, name, pay};

#[tokio::test(start_paused = true)]
async fn failing_registry_does_not_affect_others() {
    let (server, source) = Server::with_pay(0..4).await;
    let faults = [
        Fault::CannotBeBuilt,
        Fault::BuildPanics,
        Fault::RunPanics,
        Fault::FailsAtOnce,
        Fault::EndsByItself,
        Fault::IgnoresStop,
    ];
    for (i, fault) in faults.into_iter().enumerate() {
        server.handle.add_registry(mk_faulty(&format!("faulty-{i}"), fault)).await.unwrap();
    }
    sleep(Duration::from_secs(600)).await;
    let before = server.handle.stats().publications;
    source.set(0, "pay", (1..6).map(ip));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(server.serves("pay"), (1..6).map(ip).collect());
    assert!(server.handle.stats().publications > before);

    let runs = server.handle.runs();
    assert_eq!(runs[&name("memory")].failures, 0);
    for i in 0..5 {
        let run = &runs[&name(&format!("faulty-{i}"))];
        assert!(run.failures >= 8, "faulty-{i} has been tried {} times in ten minutes", run.failures);
        assert!(run.failures <= 30, "faulty-{i} has been tried {} times: no backoff", run.failures);
        let (code, reason, _) = run.last_error.clone().unwrap();
        assert_eq!(code, Code::REGISTRY_FAILED);
        assert!(!reason.as_str().contains("hunter2"), "{reason}");
    }
    assert!(server.handle.stats().panics >= 16);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn final_error_is_not_retried() {
    let server = mk_server(RuntimeConfig::default());
    server.handle.add_registry(mk_faulty("faulty", Fault::RefusedForGood)).await.unwrap();
    sleep(Duration::from_secs(86_400)).await;
    let run = &server.handle.runs()[&name("faulty")];
    assert_eq!((run.state, run.failures), (RunState::Parked, 1));
    assert_eq!(server.handle.stats().runs, 1);

    let source = MemorySource::default();
    source.set(0, "pay", [ip(1)]);
    server.handle.rotate(mk_memory("faulty", &source)).await.unwrap();
    server.until(|catalog| !catalog.hosts.is_empty()).await;
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ignores_its_stop_is_dropped_after_its_grace() {
    let server = mk_server(RuntimeConfig::default());
    server.handle.add_registry(mk_faulty("faulty", Fault::IgnoresStop)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let (handle, began) = (server.handle.clone(), tokio::time::Instant::now());
    server.runtime.stop().await;
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(handle.stats().dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn registry_name_is_unique_and_free_after_removal() {
    let (server, source) = Server::with_pay(0..4).await;
    let again = server.handle.add_registry(mk_memory("memory", &source)).await;
    assert_eq!(again, Err(SupervisorError::Taken(name("memory"))));
    assert_eq!(
        server.handle.remove_registry(name("unknown")).await,
        Err(SupervisorError::Unknown(name("unknown")))
    );

    server.handle.remove_registry(name("memory")).await.unwrap();
    server.until(|catalog| catalog.hosts.is_empty() && catalog.registries.is_empty()).await;
    assert!(server.handle.runs().is_empty());

    server.handle.add_registry(mk_memory("memory", &source)).await.unwrap();
    server.until(|catalog| !catalog.hosts.is_empty()).await;
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn registries_are_removed_in_one_turn() {
    let (server, _source) = Server::with_pay(0..4).await;
    let other = MemorySource::default();
    other.set(0, "cart", [ip(77)]);
    server.handle.add_registry(mk_memory("second", &other)).await.unwrap();
    server.handle.add_registry(mk_faulty("slow", Fault::IgnoresStop)).await.unwrap();
    server.until(|catalog| catalog.hosts.len() == 2).await;
    // as a journal restores it: the core knows it and no run serves it
    let restored = mk_memory("restored", &other).spec();
    server.handle.restore(restored, Vec::new(), false).await.unwrap();
    server.handle.await_run(&name("restored"));
    assert_eq!(server.handle.runs()[&name("restored")].state, RunState::New);
    server.log.forget();

    let names = ["memory", "second", "slow", "restored", "unknown"].map(name);
    server.handle.remove_registries(names.to_vec()).await.unwrap();
    server.until(|catalog| catalog.registries.is_empty()).await;
    let sizes: Vec<usize> = server.log.publications().iter().map(|one| one.served.len()).collect();
    assert!(sizes.iter().all(|hosts| *hosts == 2 || *hosts == 0), "half a removal was served: {sizes:?}");
    assert!(server.handle.runs().is_empty());
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn paused_registry_keeps_its_facts_until_it_is_rotated() {
    let (server, source) = Server::with_pay(0..4).await;
    let weaker = MemorySource::default();
    weaker.act(Act::Fail(None));
    server.handle.rotate(mk_memory("memory", &weaker)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    server.handle.pause_registries(["memory", "unknown"].map(name).to_vec(), "paused".into()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    source.set(0, "pay", [ip(9)]);
    weaker.act(Act::Recover);
    sleep(Duration::from_secs(86_400)).await;
    assert_eq!(server.serves("pay"), (0..4).map(ip).collect(), "no run is left");
    let run = server.handle.runs()[&name("memory")].clone();
    assert_eq!((run.state, run.shadow), (RunState::Paused, None));
    let status = server.handle.inspect(|core| core.status()).await.unwrap().remove(0);
    assert!(format!("{:?}", status.collections).contains("paused"), "stale, with the reason");

    server.handle.rotate(mk_memory("memory", &source)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), [ip(9)].into());
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn registry_added_during_its_removal_waits_for_the_name() {
    let (server, source) = Server::with_pay(0..4).await;
    server.handle.add_registry(mk_faulty("slow", Fault::IgnoresStop)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let handle = server.handle.clone();
    let leaving = tokio::spawn(async move { handle.remove_registry(name("slow")).await });
    sleep(Duration::from_millis(1)).await;
    source.set(0, "cart", [ip(77)]);
    let began = tokio::time::Instant::now();
    server.handle.add_registry(mk_memory("slow", &source)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(4), "the old run had its grace");
    assert_eq!(leaving.await.unwrap(), Ok(()));
    server.until(|catalog| catalog.complete && catalog.registries.contains_key(&name("slow"))).await;
    assert_eq!(server.handle.runs()[&name("slow")].state, RunState::Running);

    let taken = server.handle.add_registry(mk_memory("slow", &source)).await;
    assert_eq!(taken, Err(SupervisorError::Taken(name("slow"))));
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rotation_cannot_change_the_identity_of_a_name() {
    let (server, _source) = Server::with_pay(0..4).await;
    let other = mk_identity("memory", "another-cluster");
    let refused = server.handle.rotate(other).await;
    assert!(matches!(refused, Err(SupervisorError::Identity(..))), "{refused:?}");
    assert_eq!(server.serves("pay"), (0..4).map(ip).collect());
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_a_month_removes_nothing() {
    let (server, source) = Server::with_pay(0..4).await;
    let served = server.served();
    source.act(Act::Fail(None));
    sleep(Duration::from_secs(30 * 86_400)).await;
    assert_eq!(server.served(), served);
    source.act(Act::Recover);
    source.set(0, "pay", (2..6).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (2..6).map(ip).collect());
    server.runtime.stop().await;
}

/// istio#60033, #48224: objects of a cluster outlived it.
#[tokio::test(start_paused = true)]
async fn add_rotate_remove_many_times_returns_to_baseline() {
    let server = mk_server(RuntimeConfig::default());
    sleep(Duration::from_secs(1)).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let source = MemorySource::default();
    source.set(0, "pay", [ip(1)]);
    for round in 0..200 {
        let registry = format!("member-{round}");
        server.handle.add_registry(mk_memory(&registry, &source)).await.unwrap();
        if round % 3 > 0 {
            server.until(|catalog| !catalog.hosts.is_empty()).await;
        }
        server.handle.rotate(mk_memory(&registry, &source)).await.unwrap();
        if round % 2 > 0 {
            sleep(Duration::from_millis(round)).await;
        }
        server.handle.remove_registry(name(&registry)).await.unwrap();
    }
    server.until(|catalog| catalog.hosts.is_empty() && catalog.registries.is_empty()).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(tasks(), before, "tasks are leaked");
    assert!(server.handle.runs().is_empty());
    assert_eq!(server.handle.stats().dropped, 0);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ended_facts_that_are_live_return_with_a_new_run() {
    for shadowing in [false, true] {
        let (server, source) = (mk_server(RuntimeConfig::default()), MemorySource::default());
        source.set(0, "pay", (0..4).map(ip));
        let factory = MemoryFactory::new("memory", source.clone());
        let factory = if shadowing { factory.shadowing() } else { factory };
        server.handle.add_registry(Arc::new(factory)).await.unwrap();
        server.until(|catalog| catalog.complete && !catalog.hosts.is_empty()).await;
        let before = server.generation(&name("memory"));
        let planned = server.handle.end_plan(name("memory"), None, None).await.unwrap();
        assert!(planned.iter().all(|part| part.live), "{planned:?}");
        assert_eq!(server.handle.end(name("memory"), None, None).await.unwrap(), planned);
        server.until(|catalog| catalog.hosts.contains_key(&pay())).await;
        assert_eq!(server.serves("pay"), (0..4).map(ip).collect(), "shadowing: {shadowing}");
        sleep(Duration::from_secs(1)).await;
        assert!(server.generation(&name("memory")) > before, "shadowing: {shadowing}");
        source.set(0, "pay", (1..5).map(ip));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(server.serves("pay"), (1..5).map(ip).collect(), "updates of the new run are applied");
        assert_eq!(
            server.handle.restart(name("unknown")).await,
            Err(SupervisorError::Unknown(name("unknown")))
        );
        server.runtime.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn accepted_source_is_listed_by_a_new_run() {
    let (server, source) = (mk_server(RuntimeConfig::default()), MemorySource::default());
    source.set(0, "pay", (0..4).map(ip));
    server.handle.add_registry(Arc::new(MemoryFactory::new("memory", source.clone()))).await.unwrap();
    server.until(|catalog| catalog.complete && !catalog.hosts.is_empty()).await;
    source.act(Act::Fail(None));
    source.act(Act::Swap);
    source.set(0, "pay", (1..5).map(ip));
    server.handle.restart(name("memory")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    source.act(Act::Recover);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(server.serves("pay"), (0..4).map(ip).collect(), "updates of another source are refused");
    assert!(server.handle.accept(name("memory")).await.unwrap());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.serves("pay"), (1..5).map(ip).collect());
    server.runtime.stop().await;
}
