//! Log of a server over a state directory: one line per change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use log::Log;
use world::{World, file_registry, mk_entry, mk_folder, put};

#[path = "support/log.rs"]
mod log;
#[path = "support/world.rs"]
mod world;

#[tokio::test]
async fn first_start_logs_an_empty_state_directory() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let state = tempfile::tempdir().unwrap();
    let args = ["--registry", &file_registry(&dir), "--state-dir", state.path().to_str().unwrap()];
    let (log, _guard) = Log::start();
    World::start(&args).await.server.stop().await;
    log.until("the state directory is empty").await;
    assert_eq!(log.lines("the state directory is empty").len(), 1, "{:?}", log.lines(""));
    assert!(log.lines("restored the facts served").is_empty(), "{:?}", log.lines(""));
    World::start(&args).await.server.stop().await;
    let restored = log.lines("restored the facts served");
    assert!(restored.len() == 1 && restored[0].contains("whole=true"), "{restored:?}");
    assert_eq!(log.lines("the state directory is empty").len(), 1);
}

#[tokio::test]
async fn start_on_restored_facts_logs_no_rotation() {
    let dirs = ["10.0.0.1", "10.0.0.2"].map(|ip| mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", ip))]));
    let state = tempfile::tempdir().unwrap();
    let (log, _guard) = Log::start();
    for dir in &dirs {
        let args = ["--registry", &file_registry(dir), "--state-dir", state.path().to_str().unwrap()];
        World::start(&args).await.server.stop().await;
    }
    assert_eq!(log.lines("restored the facts served").len(), 1, "{:?}", log.lines(""));
    assert!(log.lines("rotation").is_empty(), "{:?}", log.lines("rotation"));
}

#[tokio::test]
async fn staleness_policy_is_logged_and_shown_while_it_applies() {
    let folder = tempfile::tempdir().unwrap();
    let (files, away) = (folder.path().join("files"), folder.path().join("away"));
    std::fs::create_dir(&files).unwrap();
    put(&files, "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.1"));
    let registry =
        format!("{{kind: file, name: file, path: {}, staleness: withdraw(200ms)}}", files.display());
    let config = format!("apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{registry}]\n");
    put(folder.path(), "config.yaml", &config);
    let (log, _guard) = Log::start();
    let world = World::start(&["--config", folder.path().join("config.yaml").to_str().unwrap()]).await;
    assert!(log.lines("staleness policy").is_empty());
    std::fs::rename(&files, &away).unwrap();
    let shown = world.until("get registries", "staleness policy withdraw(200ms) applies, not served: ").await;
    assert!(shown.contains("cannot be read"), "the state has its own reason: {shown}");
    let explained = world.run("explain 10.0.0.1").await.out;
    assert!(explained.contains("registry file: staleness policy withdraw(200ms) applies"), "{explained}");
    let line = log.until("the staleness policy applies to a scope").await;
    let wanted = ["WARN", "registry=file", &files.display().to_string(), "withdraw(200ms)"];
    assert!(wanted.iter().all(|text| line.contains(text)), "{line}");
    std::fs::rename(&away, &files).unwrap();
    log.until("the staleness policy no longer applies to a scope").await;
    assert_eq!(log.lines("the staleness policy applies to a scope").len(), 1, "{:?}", log.lines(""));
    assert!(!world.run("get registries").await.out.contains("staleness"));
    world.server.stop().await;
}
