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

#[tokio::test]
async fn rotation_that_cannot_read_its_source_is_logged_and_shown() {
    let old = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let config = mk_folder(&[]);
    let new = config.path().join("later");
    let text = |path: &std::path::Path| {
        let registry = format!("- {{kind: file, name: east, path: {}}}\n", path.display());
        format!("apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n{registry}")
    };
    put(config.path(), "c.yaml", &text(old.path()));
    let (log, _guard) = Log::start();
    let world = World::start(&["--config", config.path().join("c.yaml").to_str().unwrap()]).await;
    put(config.path(), "c.yaml", &text(&new));
    let line = log.until("a new run cannot read its source").await;
    let wanted = ["WARN", "registry=east", &format!("{} cannot be read", new.display())];
    assert!(wanted.iter().all(|text| line.contains(text)), "{line}");
    let table = world.run("get registries").await.out;
    assert!(table.contains("Live") && table.contains("a new run waits until it can read"), "{table}");
    assert!(world.readyz().await.contains("run east: a new run waits until it can read its source: "));
    assert!(world.run("get endpoints").await.out.contains("10.0.0.1:80"), "the old facts stay");
    std::fs::create_dir(&new).unwrap();
    put(&new, "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.2"));
    world.until("get endpoints", "10.0.0.2:80").await;
    log.until("the new run no longer fails to read its source").await;
    assert_eq!(log.lines("a new run cannot read").len(), 1, "{:?}", log.lines(""));
    assert!(!world.run("get registries").await.out.contains("a new run waits"));
    world.server.stop().await;
}

#[tokio::test]
async fn certificate_that_has_expired_is_logged_at_the_start() {
    let authority = tributary_suites::Authority::new().unwrap();
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let (log, _guard) = Log::start();
    for (identity, expected) in
        [(authority.server("good").unwrap(), 0), (authority.expired("expired").unwrap(), 1)]
    {
        let files = [&identity.certificate_file, &identity.key_file].map(|path| path.display().to_string());
        let tls = ["--xds-cert", &files[0], "--xds-key", &files[1]];
        let world = World::start(&[&["--registry", &file_registry(&dir)][..], &tls].concat()).await;
        let lines = log.lines("certificate has expired; clients refuse it");
        assert_eq!(lines.len(), expected, "{lines:?}");
        let wanted = ["WARN", "certificate=\"xDS certificate\"", &files[0], "end="];
        assert!(lines.iter().all(|line| wanted.iter().all(|text| line.contains(text))), "{lines:?}");
        world.server.stop().await;
    }
}
