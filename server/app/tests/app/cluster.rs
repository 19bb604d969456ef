//! Kubernetes registry before its cluster is reachable: the reason is reported.

use std::io;
use std::sync::Arc;

use crate::world::{World, mk_bound, mk_folder, put};
use parking_lot::Mutex;
use tributary_app::exit::Exit;

/// Kubeconfig of a server that does not exist: port 1 of this machine refuses connections.
const UNREACHABLE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
    users: [{name: u, user: {token: hunter2}}]\n\
    contexts: [{name: c, context: {cluster: c, user: u}}]\n";

/// Log of the process.
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
    /// Waits until the log contains these texts and returns it.
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
        tokio::time::timeout(crate::world::LONG, waiting).await.expect("the log contains every text")
    }
}

#[tokio::test]
async fn unreachable_cluster_is_retried_and_reported() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    let dir = mk_folder(&[]);
    let path = dir.path().join("kubeconfig");
    let args = ["--registry", "kubernetes", "--kubeconfig", path.to_str().unwrap()];
    let world = World { server: mk_bound(&args).await.unwrap().start().await.unwrap() };
    for name in ["kubernetes", "kubernetes-entries"] {
        world.until(&format!("get registries {name}"), "cannot be read").await;
    }
    let output = world.run("get registries").await.out;
    let states = output.lines().skip(1).map(|line| line.split_whitespace().take(3).collect::<Vec<_>>());
    let states: Vec<_> = states.collect();
    assert_eq!(
        states,
        [["kubernetes", "kubernetes", "Unreachable"], ["kubernetes-entries", "kubernetes", "Unreachable"]],
        "{output}"
    );
    assert_eq!(
        world.run("get services").await.exit,
        Ok(Exit::Partial),
        "nothing is known, so nothing is gone"
    );
    put(dir.path(), "kubeconfig", UNREACHABLE);
    let output = world.until("get registries -o wide", "Connection refused").await;
    assert!(!output.contains("hunter2"), "{output}");
    let log = log
        .until(&["registry=\"kubernetes\" state=\"Unreachable\"", "registry=\"kubernetes-entries\" state="])
        .await;
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("registry=\"kubernetes\" state")).collect();
    assert_eq!(lines.len(), 1, "logged once:\n{log}");
    assert!(!log.contains("hunter2"), "{log}");
    world.server.stop().await;
}
