//! Reads the configuration file again when it changes, and applies the parts that a running server can
//! change.
//!
//! An invalid file changes nothing: the running configuration stays, and the error shows in the log, in
//! `/debug/config` and as a metric. The file is watched through its directory, which covers editors and
//! mounts that replace it, and is also read every few seconds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tributary_model::Code;

use crate::config::change::{Change, merged};
use crate::config::{Config, ConfigFile, Loaded, check};
use crate::document::timestamp;
use crate::exit::{CommandError, Exit};

/// Quiet time after a change before the file is read: editors write in several steps.
const SETTLE: Duration = Duration::from_millis(50);
/// Interval at which the file is read without a notification.
const LOOK: Duration = Duration::from_secs(5);

/// Applies a change.
#[async_trait]
pub trait Apply: Send + Sync {
    /// Applies the configuration to the server; returns the errors of the parts that failed.
    async fn apply(&self, change: &Change, config: &Config) -> Vec<CommandError>;
}

/// Combines a file with the other layers.
pub type Layers = Box<dyn Fn(&ConfigFile) -> Result<Loaded, CommandError> + Send + Sync>;

/// Running configuration and the result of the last change.
#[derive(Debug)]
pub struct Running(Mutex<State>);

#[derive(Debug)]
struct State {
    loaded: Loaded,
    file: Option<PathBuf>,
    last: Option<Last>,
    applied: u64,
    rejected: u64,
}

#[derive(Debug, Clone)]
struct Last {
    at: Timestamp,
    error: Option<String>,
    restart: Vec<String>,
}

/// Metrics of reloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloads {
    /// Applied changes.
    pub applied: u64,
    /// Rejected changes.
    pub rejected: u64,
    /// Whether the running configuration equals the file.
    pub valid: bool,
}

impl Running {
    /// Configuration loaded at start.
    #[must_use]
    pub fn new(loaded: Loaded, file: Option<PathBuf>) -> Self {
        Self(Mutex::new(State { loaded, file, last: None, applied: 0, rejected: 0 }))
    }
    /// Running values.
    #[must_use]
    pub fn config(&self) -> Config {
        self.0.lock().loaded.config.clone()
    }
    /// Counts of changes.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        let state = self.0.lock();
        let clean = |last: &Last| last.error.is_none() && last.restart.is_empty();
        Reloads {
            applied: state.applied,
            rejected: state.rejected,
            valid: state.last.as_ref().is_none_or(clean),
        }
    }
    /// Returns why the last change was not fully applied, in one line.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let last = self.0.lock().last.clone()?;
        let restart =
            (!last.restart.is_empty()).then(|| format!("needs a restart: {}", last.restart.join(", ")));
        last.error.or(restart)
    }
    /// Returns the document of `/debug/config`.
    #[must_use]
    pub fn document(&self) -> Value {
        let state = self.0.lock();
        let last = state.last.as_ref().map(|last| {
            json!({
                "at": timestamp(last.at),
                "result": if last.error.is_some() { "rejected" } else { "applied" },
                "error": last.error,
                "needsRestart": last.restart,
            })
        });
        json!({
            "apiVersion": crate::document::API_VERSION,
            "kind": "RunningConfig",
            "file": state.file.as_ref().map(|path| path.display().to_string()),
            "lastReload": last,
            "origins": state.loaded.origins,
            "config": state.loaded.config,
        })
    }
    fn refuse(&self, failure: &CommandError) {
        let mut state = self.0.lock();
        state.rejected += 1;
        state.last =
            Some(Last { at: Timestamp::now(), error: Some(failure.to_string()), restart: Vec::new() });
    }
    fn take(&self, loaded: Loaded, restart: Vec<String>) {
        let mut state = self.0.lock();
        state.applied += 1;
        let config = merged(&state.loaded.config, &loaded.config);
        state.loaded = Loaded { config, ..loaded };
        state.last = Some(Last { at: Timestamp::now(), error: None, restart });
    }
}

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
}

impl Reloader {
    /// Watches the file until stopped.
    pub async fn run(self, stop: CancellationToken) {
        let changed = Arc::new(Notify::new());
        let _watcher = watcher(&self.path, Arc::clone(&changed));
        let mut seen = std::fs::read(&self.path).ok();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(LOOK) => {}
            }
            // A missing file is being replaced; the running configuration stays.
            let Ok(bytes) = tokio::fs::read(&self.path).await else { continue };
            if seen.as_ref() != Some(&bytes) {
                seen = Some(bytes);
                self.reload().await;
            }
        }
    }
    /// Reads the file once and applies it, or logs why not.
    pub async fn reload(&self) {
        let loaded =
            ConfigFile::read(&self.path).and_then(|file| (self.layers)(&file)).and_then(check::serves);
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(failure) => return self.refuse(failure),
        };
        let running = self.running.config();
        let change = Change::between(&running, &loaded.config);
        let failures = self.apply.apply(&change, &merged(&running, &loaded.config)).await;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        for failure in &failures {
            tracing::error!(error = %failure, "part of the changed configuration was not applied");
        }
        if !change.restart.is_empty() {
            tracing::warn!(
                fields = change.restart.join(", "),
                "changed fields need a restart; their old values stay"
            );
        }
        tracing::info!(
            joined = change.added.len(),
            rotated = change.rotated.len(),
            left = change.removed.len(),
            "changed configuration applied"
        );
        self.running.take(loaded, change.restart);
    }
    fn refuse(&self, failure: CommandError) {
        let failure = CommandError { exit: Exit::Failed, ..failure };
        let why = failure.message.clone();
        self.running.refuse(&failure);
        tracing::error!(code = %Code::CONFIG_RELOAD_FAILED, error = why, "{}", Code::CONFIG_RELOAD_FAILED.info().title);
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
    use super::*;
    use crate::config::layer;
    use crate::environment::Environment;

    const HEAD: &str =
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{kind: file, path: a}]\n";

    #[derive(Default)]
    struct Applied(Mutex<Vec<Change>>);

    #[async_trait]
    impl Apply for Applied {
        async fn apply(&self, change: &Change, _: &Config) -> Vec<CommandError> {
            self.0.lock().push(change.clone());
            Vec::new()
        }
    }

    fn mk_layers() -> Layers {
        Box::new(|file| layer(Some(file), &Environment::default(), &|_, _| Ok(())))
    }

    fn mk_reloader(dir: &Path) -> (Reloader, Arc<Applied>) {
        let path = dir.join("c.yaml");
        std::fs::write(&path, HEAD).unwrap();
        let loaded = mk_layers()(&ConfigFile::read(&path).unwrap()).unwrap();
        let (running, applied) =
            (Arc::new(Running::new(loaded, Some(path.clone()))), Arc::<Applied>::default());
        let apply = Arc::<Applied>::clone(&applied);
        (Reloader { path, layers: mk_layers(), running, apply }, applied)
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
        assert_eq!(reloader.running.reloads(), Reloads { applied: 0, rejected: 3, valid: false });
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
