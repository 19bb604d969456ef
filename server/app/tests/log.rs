//! Log of a server: its start and end, states of registries and problems of objects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use log::Log;
use world::{World, file_registry, mk_entry, mk_folder, put};

#[path = "support/log.rs"]
mod log;
#[path = "support/world.rs"]
mod world;

const UNREACHABLE: &str = "consul=http://127.0.0.1:1";

#[tokio::test]
async fn start_and_end_of_a_server_are_logged() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let (log, _guard) = Log::start();
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let line = log.until("registry is configured").await;
    let wanted = ["registry=\"file\"", "kind=\"file\"", &dir.path().display().to_string()];
    assert!(wanted.iter().all(|text| line.contains(text)), "{line}");
    log.until("ready; answering xDS").await;
    assert!(
        log.lines("").iter().all(|line| !line.contains("=\"\"")),
        "no field is empty: {:?}",
        log.lines("")
    );
    world.server.stop().await;
    let ends: Vec<_> = log.lines("").into_iter().rev().take(3).collect();
    for (line, text) in ends.iter().rev().zip([
        "drained; every stream has ended streams=0",
        "registries stopped registries=1",
        "server stopped",
    ]) {
        assert!(line.contains(text), "{ends:?}");
    }
}

#[tokio::test]
async fn registry_that_was_never_read_has_no_known_facts() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let (log, _guard) = Log::start();
    let args =
        ["--registry", &file_registry(&dir), "--registry", UNREACHABLE, "--first-sync-timeout", "500ms"];
    let world = World::start(&args).await;
    let line = log.until("registry is not live").await;
    assert!(line.contains("nothing of it is known yet") && line.contains("consul"), "{line}");
    assert!(log.lines("last known facts").is_empty(), "{:?}", log.lines(""));
    log.until("ready; answering xDS").await;
    let ready = world.readyz().await;
    assert!(
        ready.contains("[-] registry consul: has not synced: http://127.0.0.1:1: cannot connect"),
        "{ready}"
    );
    assert!(ready.contains("[+] not-draining\n"), "{ready}");
    world.server.stop().await;
}

#[tokio::test]
async fn invalid_object_is_logged_once_until_its_problem_ends() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let (log, _guard) = Log::start();
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    log.until("registry is live").await;
    put(dir.path(), "pay.yaml", &mk_entry("pay", "p!y.shop", "10.0.0.1"));
    let line = log.until("object has a problem").await;
    let wanted =
        ["WARN", "registry=file", "ServiceEntry shop/pay", "pay.yaml:1:1", "TRB0307", "is not a DNS name"];
    assert!(wanted.iter().all(|text| line.contains(text)), "{line}");
    put(dir.path(), "pay.yaml", &mk_entry("pay", "p!y.shop", "10.0.0.2"));
    put(dir.path(), "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.3"));
    let line = log.until("problem of an object ended").await;
    assert!(line.contains("INFO") && line.contains("ServiceEntry shop/pay"), "{line}");
    assert_eq!(log.lines("object has a problem").len(), 1, "{:?}", log.lines(""));
    world.server.stop().await;
}
