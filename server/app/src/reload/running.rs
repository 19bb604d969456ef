//! Running configuration and the result of its last change, for `/debug/config`, readiness and metrics.
//!
//! The reloader and the certificates write it. Each write returns whether the result is new, so that a repeated failure is
//! logged and counted once.

use std::path::PathBuf;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::config::change::{Part, after};
use crate::config::{Config, Loaded};
use crate::document::timestamp;
use crate::exit::CommandError;

/// Running configuration and the result of the last change.
#[derive(Debug)]
pub struct Running(Mutex<State>);

#[derive(Debug)]
struct State {
    loaded: Loaded,
    file: Option<PathBuf>,
    last: Option<Last>,
    /// Parts of the last applied file that failed.
    failed_parts: Vec<Part>,
    /// Why changed certificates are not in use.
    certificates: Option<String>,
    counts: [u64; 3],
}

#[derive(Debug, Clone)]
struct Last {
    at: Timestamp,
    outcome: Outcome,
    error: Option<String>,
    restart: Vec<String>,
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Everything that needs no restart is in use.
    Applied,
    /// A part failed; it keeps its old state and is tried again.
    Failed,
    /// The file is invalid and changed nothing.
    Rejected,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }
}

/// Metrics of reloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloads {
    /// Applied changes.
    pub applied: u64,
    /// Changes of which a part failed.
    pub failed: u64,
    /// Rejected changes.
    pub rejected: u64,
    /// Whether the running configuration equals the file, and the certificates in use equal theirs.
    pub valid: bool,
}

impl Running {
    /// Configuration loaded at start.
    #[must_use]
    pub fn new(loaded: Loaded, file: Option<PathBuf>) -> Self {
        let state =
            State { loaded, file, last: None, failed_parts: Vec::new(), certificates: None, counts: [0; 3] };
        Self(Mutex::new(state))
    }
    /// Running values.
    #[must_use]
    pub fn config(&self) -> Config {
        self.0.lock().loaded.config.clone()
    }
    /// Returns the parts of the last applied file that failed.
    #[must_use]
    pub fn failed_parts(&self) -> Vec<Part> {
        self.0.lock().failed_parts.clone()
    }
    /// Counts of changes.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        let state = self.0.lock();
        let clean = |last: &Last| last.error.is_none() && last.restart.is_empty();
        let [applied, failed, rejected] = state.counts;
        let valid = state.certificates.is_none() && state.last.as_ref().is_none_or(clean);
        Reloads { applied, failed, rejected, valid }
    }
    /// Returns why the last change was not fully applied, in one line.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let state = self.0.lock();
        let of_file = state.last.as_ref().and_then(|last| {
            let restart =
                (!last.restart.is_empty()).then(|| format!("needs a restart: {}", last.restart.join(", ")));
            last.error.clone().or(restart)
        });
        of_file.or_else(|| state.certificates.clone())
    }
    /// Returns the document of `/debug/config`.
    #[must_use]
    pub fn document(&self) -> Value {
        let state = self.0.lock();
        let last = state.last.as_ref().map(|last| {
            json!({
                "at": timestamp(last.at),
                "result": last.outcome.as_str(),
                "error": last.error,
                "needsRestart": last.restart,
            })
        });
        json!({
            "apiVersion": crate::document::API_VERSION,
            "kind": "RunningConfig",
            "file": state.file.as_ref().map(|path| path.display().to_string()),
            "lastReload": last,
            "certificateError": state.certificates,
            "origins": state.loaded.origins,
            "config": state.loaded.config,
        })
    }
    /// Records an invalid file. Returns whether its error is new.
    pub fn reject(&self, failure: &CommandError) -> bool {
        self.0.lock().record(Outcome::Rejected, Some(failure.to_string()), Vec::new())
    }
    /// Records a valid file and the parts of it that failed. Returns whether the result is new.
    pub fn take(&self, loaded: Loaded, restart: Vec<String>, failures: Vec<(Part, CommandError)>) -> bool {
        let texts: Vec<String> = failures.iter().map(|(_, failure)| failure.to_string()).collect();
        let (error, outcome) = match texts.is_empty() {
            true => (None, Outcome::Applied),
            false => (Some(texts.join("\n")), Outcome::Failed),
        };
        let mut state = self.0.lock();
        state.failed_parts = failures.into_iter().map(|(part, _)| part).collect();
        let config = after(&state.loaded.config, &loaded.config, &state.failed_parts);
        state.loaded = Loaded { config, ..loaded };
        state.record(outcome, error, restart)
    }
    /// Records why changed certificates are not in use, or that they are. Returns whether the error is new.
    pub fn set_certificates(&self, failure: Option<&CommandError>) -> bool {
        let error = failure.map(ToString::to_string);
        let mut state = self.0.lock();
        let is_new = error.is_some() && state.certificates != error;
        state.certificates = error;
        is_new
    }
}

impl State {
    fn record(&mut self, outcome: Outcome, error: Option<String>, restart: Vec<String>) -> bool {
        let is_same = |last: &Last| last.outcome == outcome && error.is_some() && last.error == error;
        let is_new = !self.last.as_ref().is_some_and(is_same);
        self.counts[outcome as usize] += u64::from(is_new);
        self.last = Some(Last { at: Timestamp::now(), outcome, error, restart });
        is_new
    }
}
