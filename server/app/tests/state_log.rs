//! Log of a server over a state directory: one line per change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;
use world::{LONG, World, file_registry, mk_entry, mk_folder, put};

#[path = "support/world.rs"]
mod world;

/// Log of this thread, on which all tasks of a test run.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(lines))
    }
    fn lines(&self, text: &str) -> Vec<String> {
        let all = String::from_utf8(self.0.lock().clone()).unwrap();
        all.lines().filter(|line| line.contains(text)).map(ToOwned::to_owned).collect()
    }
    async fn until(&self, text: &str) -> String {
        let waiting = async {
            loop {
                if let Some(line) = self.lines(text).pop() {
                    return line;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(LONG, waiting).await;
        found.unwrap_or_else(|_| panic!("{text:?} was not logged: {:?}", self.lines("")))
    }
}

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
