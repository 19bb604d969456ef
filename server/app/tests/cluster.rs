//! A Kubernetes registry as people meet it before there is a cluster: what stands in the way is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_app::exit::Exit;
use world::{World, mk_bound, mk_folder, put};

#[path = "support/world.rs"]
mod world;

/// Of a server that nobody runs: port 1 of this machine refuses.
const NOBODY: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
    users: [{name: u, user: {token: hunter2}}]\n\
    contexts: [{name: c, context: {cluster: c, user: u}}]\n";

/// What the process logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The log, once it holds these.
    async fn until(&self, texts: &[&str]) -> String {
        let waiting = async {
            loop {
                let log = String::from_utf8(self.0.lock().clone()).unwrap();
                if texts.iter().all(|text| log.contains(text)) {
                    return log;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(world::LONG, waiting).await.expect("the log holds what was to be said")
    }
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_waited_for_and_told() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    let dir = mk_folder(&[]);
    let path = dir.path().join("kubeconfig");
    let words = ["--registry", "kubernetes", "--kubeconfig", path.to_str().unwrap()];
    let world = World { server: mk_bound(&words).await.unwrap().start().await.unwrap() };
    for name in ["kubernetes", "kubernetes-entries"] {
        world.until(&format!("get registries {name}"), "cannot be read").await;
    }
    let told = world.run("get registries").await.out;
    let states = told.lines().skip(1).map(|line| line.split_whitespace().take(3).collect::<Vec<_>>());
    let states: Vec<_> = states.collect();
    assert_eq!(
        states,
        [["kubernetes", "kubernetes", "Unreachable"], ["kubernetes-entries", "kubernetes", "Unreachable"]],
        "{told}"
    );
    assert_eq!(
        world.run("get services").await.exit,
        Ok(Exit::Partial),
        "nothing is known, so nothing is gone"
    );
    put(dir.path(), "kubeconfig", NOBODY);
    let told = world.until("get registries -o wide", "Connection refused").await;
    assert!(!told.contains("hunter2"), "{told}");
    let log = log
        .until(&["registry=\"kubernetes\" state=\"Unreachable\"", "registry=\"kubernetes-entries\" state="])
        .await;
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("registry=\"kubernetes\" state")).collect();
    assert_eq!(lines.len(), 1, "told once:\n{log}");
    assert!(!log.contains("hunter2"), "{log}");
    world.server.stop().await;
}
