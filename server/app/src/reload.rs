//! Reads the configuration file again when it changes, and applies the parts that a running server can
//! change.
//!
//! An invalid file changes nothing: the running configuration stays, and the error shows in the log, in
//! `/debug/config` and as a metric. A part that cannot be applied keeps its old state and shows in the same places. Both
//! are tried again after a backoff, because the reason may be a file that the configuration names. The file is watched
//! through its directory, which covers editors and mounts that replace it, and is also read every few seconds.

mod running;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tributary_model::Code;
use tributary_registry_api::{Backoff, BackoffPolicy, SplitMix};

use crate::config::change::{Change, Part, merged};
use crate::config::{Config, ConfigFile, Loaded};
use crate::exit::{CommandError, Exit};
pub use running::{Reloads, Running};

/// Quiet time after a change before the file is read: editors write in several steps.
const SETTLE: Duration = Duration::from_millis(50);
/// Interval at which the file is read without a notification.
const LOOK: Duration = Duration::from_secs(5);
/// Stands for no next try.
const NEVER: Duration = Duration::from_secs(86_400);

/// Applies a change.
#[async_trait]
pub trait Apply: Send + Sync {
    /// Applies the configuration to the server; returns the parts that failed, each with its error.
    async fn apply(&self, change: &Change, config: &Config) -> Vec<(Part, CommandError)>;
}

/// Combines a file with the other layers, and checks that the result can be run.
pub type Layers = Box<dyn Fn(&ConfigFile) -> Result<Loaded, CommandError> + Send + Sync>;

/// Watches one file.
pub struct Reloader {
    /// The file.
    pub path: PathBuf,
    /// The other layers.
    pub layers: Layers,
    /// The running configuration.
    pub running: Arc<Running>,
    /// Applies changes.
    pub apply: Arc<dyn Apply>,
    /// Seed of the backoff's jitter.
    pub seed: u64,
}

impl Reloader {
    /// Watches the file until stopped.
    pub async fn run(self, stop: CancellationToken) {
        let changed = Arc::new(Notify::new());
        let _watcher = watcher(&self.path, Arc::clone(&changed));
        let mut seen = std::fs::read(&self.path).ok();
        let (mut backoff, mut random) = (Backoff::new(BackoffPolicy::default()), SplitMix::seeded(self.seed));
        let mut retry_at: Option<Instant> = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed.notified() => sleep(SETTLE).await,
                () = sleep(LOOK) => {}
                () = sleep_until(retry_at.unwrap_or_else(|| Instant::now() + NEVER)) => {}
            }
            // A missing file is being replaced; the running configuration stays.
            let Ok(bytes) = tokio::fs::read(&self.path).await else { continue };
            if seen.as_ref() != Some(&bytes) {
                seen = Some(bytes);
                backoff.reset();
            } else if retry_at.is_none_or(|at| Instant::now() < at) {
                continue;
            }
            let is_complete = self.reload().await;
            retry_at = (!is_complete).then(|| Instant::now() + backoff.next(&mut random));
        }
    }
    /// Reads the file once and applies it. Returns whether all of it was valid and no part failed.
    pub async fn reload(&self) -> bool {
        let loaded = match ConfigFile::read(&self.path).and_then(|file| (self.layers)(&file)) {
            Ok(loaded) => loaded,
            Err(failure) => {
                self.reject(failure);
                return false;
            }
        };
        let running = self.running.config();
        let change =
            Change::between(&running, &loaded.config).again(&self.running.failed_parts(), &loaded.config);
        let failures = self.apply.apply(&change, &merged(&running, &loaded.config)).await;
        let errors: Vec<CommandError> = failures.iter().map(|(_, failure)| failure.clone()).collect();
        let warnings = loaded.warnings.clone();
        if self.running.take(loaded, change.restart.clone(), failures) {
            log(&change, &warnings, &errors);
        }
        errors.is_empty()
    }
    fn reject(&self, failure: CommandError) {
        let failure = CommandError { exit: Exit::Failed, ..failure };
        if self.running.reject(&failure) {
            let why = failure.message;
            tracing::error!(code = %Code::CONFIG_RELOAD_FAILED, error = why, "{}", Code::CONFIG_RELOAD_FAILED.info().title);
        }
    }
}

/// Logs a result that differs from the last one.
fn log(change: &Change, warnings: &[String], errors: &[CommandError]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    for failure in errors {
        tracing::error!(error = %failure, "part of the changed configuration was not applied; it is tried again");
    }
    if !change.restart.is_empty() {
        tracing::warn!(
            fields = change.restart.join(", "),
            "changed fields need a restart; their old values stay"
        );
    }
    if errors.is_empty() {
        tracing::info!(
            joined = change.added.len(),
            rotated = change.rotated.len(),
            left = change.removed.len(),
            "changed configuration applied"
        );
    }
}

/// Watches the file's directory; without a watch the file is still read at an interval.
fn watcher(path: &Path, changed: Arc<Notify>) -> Option<RecommendedWatcher> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or_else(|| Path::new("."));
    let watching = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            changed.notify_one();
        }
    });
    let mut watcher = watching.ok()?;
    watcher.watch(directory, RecursiveMode::NonRecursive).ok()?;
    Some(watcher)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::config::{check, layer};
    use crate::environment::Environment;

    const HEAD: &str =
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{kind: file, path: a}]\n";

    /// Records changes; the rotation of a registry fails while it has failures left.
    #[derive(Default)]
    struct Applied(Mutex<Vec<Change>>, Mutex<usize>);

    #[async_trait]
    impl Apply for Applied {
        async fn apply(&self, change: &Change, _: &Config) -> Vec<(Part, CommandError)> {
            self.0.lock().push(change.clone());
            let mut left = self.1.lock();
            let fails = change.rotated.first().filter(|_| *left > 0).and_then(|r| r.name.clone());
            *left = left.saturating_sub(1);
            fails.map(|name| (Part::Rotated(name), CommandError::plain("no such file"))).into_iter().collect()
        }
    }

    fn mk_layers() -> Layers {
        Box::new(|file| {
            let loaded = layer(Some(file), &Environment::default(), &|_, _| Ok(()))?;
            check::serves(&loaded).map(|()| loaded)
        })
    }

    fn mk_reloader(dir: &Path) -> (Reloader, Arc<Applied>) {
        let path = dir.join("c.yaml");
        std::fs::write(&path, HEAD).unwrap();
        let loaded = mk_layers()(&ConfigFile::read(&path).unwrap()).unwrap();
        let (running, applied) =
            (Arc::new(Running::new(loaded, Some(path.clone()))), Arc::<Applied>::default());
        let apply = Arc::<Applied>::clone(&applied);
        (Reloader { path, layers: mk_layers(), running, apply, seed: 1 }, applied)
    }

    #[tokio::test]
    async fn invalid_file_changes_nothing_and_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (reloader, applied) = mk_reloader(dir.path());
        let before = reloader.running.config();
        for bad in ["xds: {lisen: 1}\n", "registries: [{kind: file, path: b}]\n"] {
            std::fs::write(&reloader.path, format!("{HEAD}{bad}")).unwrap();
            reloader.reload().await;
        }
        std::fs::write(&reloader.path, "apiVersion: tributary.dev/v1alpha1\nkind: Config\n").unwrap();
        reloader.reload().await;
        assert!(
            reloader.running.complaint().unwrap().starts_with("TRB0101"),
            "a configuration without a registry is rejected"
        );
        assert_eq!(reloader.running.config(), before);
        assert!(applied.0.lock().is_empty());
        assert_eq!(reloader.running.reloads(), Reloads { applied: 0, failed: 0, rejected: 3, valid: false });
        assert_eq!(reloader.running.document()["lastReload"]["result"], "rejected");
    }

    #[tokio::test]
    async fn valid_file_is_applied_and_restart_fields_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (reloader, applied) = mk_reloader(dir.path());
        std::fs::write(&reloader.path, format!("{HEAD}clusterId: east\nsettings: {{domain: x.local}}\n"))
            .unwrap();
        reloader.reload().await;
        assert!(applied.0.lock()[0].settings);
        assert_eq!(reloader.running.config().settings.domain.as_deref(), Some("x.local"));
        assert_eq!(reloader.running.config().cluster_id, "Kubernetes");
        assert_eq!(reloader.running.complaint().as_deref(), Some("needs a restart: clusterId"));
    }

    #[tokio::test]
    async fn failed_part_is_shown_and_applied_by_the_next_try() {
        let dir = tempfile::tempdir().unwrap();
        let (reloader, applied) = mk_reloader(dir.path());
        *applied.1.lock() = 2;
        std::fs::write(&reloader.path, HEAD.replace("path: a", "path: b")).unwrap();
        for _ in 0..2 {
            assert!(!reloader.reload().await);
            let shown = &reloader.running.document()["lastReload"];
            assert_eq!((&shown["result"], &shown["error"]), (&"failed".into(), &"no such file".into()));
        }
        let reloads = reloader.running.reloads();
        assert_eq!(reloads, Reloads { applied: 0, failed: 1, rejected: 0, valid: false }, "counted once");
        assert_eq!(reloader.running.complaint().as_deref(), Some("no such file"));
        assert!(reloader.reload().await, "the registry is rotated again");
        assert_eq!(applied.0.lock()[2].rotated.len(), 1);
        assert_eq!(reloader.running.reloads(), Reloads { applied: 1, valid: true, ..reloads });
        assert!(reloader.reload().await);
        assert!(applied.0.lock()[3].is_empty(), "nothing is left");
    }

    #[tokio::test(start_paused = true)]
    async fn failed_reload_is_tried_again_after_a_backoff() {
        let dir = tempfile::tempdir().unwrap();
        let (reloader, applied) = mk_reloader(dir.path());
        let (path, running, stop) =
            (reloader.path.clone(), Arc::clone(&reloader.running), CancellationToken::new());
        *applied.1.lock() = 3;
        let following = tokio::spawn(reloader.run(stop.clone()));
        tokio::task::yield_now().await;
        std::fs::write(&path, HEAD.replace("path: a", "path: b")).unwrap();
        let began = Instant::now();
        while running.reloads().applied == 0 {
            sleep(Duration::from_millis(100)).await;
            assert!(began.elapsed() < Duration::from_secs(600), "{:?}", running.document());
        }
        assert_eq!(applied.0.lock().len(), 4, "three failures and a success, without another change");
        stop.cancel();
        following.await.unwrap();
    }

    #[tokio::test]
    async fn replaced_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (reloader, applied) = mk_reloader(dir.path());
        let (path, stop) = (reloader.path.clone(), CancellationToken::new());
        let following = tokio::spawn(reloader.run(stop.clone()));
        let next = dir.path().join("next");
        // The watch may start after the first write, so the file changes until the reload sees it.
        for i in 0.. {
            std::fs::write(&next, format!("{HEAD}settings: {{domain: d{i}.local}}\n")).unwrap();
            std::fs::rename(&next, &path).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            if !applied.0.lock().is_empty() {
                break;
            }
        }
        stop.cancel();
        following.await.unwrap();
        assert!(applied.0.lock()[0].settings);
    }
}
