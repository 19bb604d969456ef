//! Running configuration and the result of its last change, for `/debug/config`, readiness and metrics.
//!
//! The reloader and the certificates write it. Each write returns whether the result is new, so that a repeated failure is
//! logged and counted once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::config::change::{Part, after};
use crate::config::{Config, Loaded};
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineSeverity};
use crate::document::{CertificateItem, timestamp};
use crate::exit::CommandError;
use crate::ops::timeline::Timeline;

/// Running configuration and the result of the last change.
#[derive(Debug)]
pub struct Running {
    state: Mutex<State>,
    timeline: Timeline,
}

#[derive(Debug)]
struct State {
    loaded: Loaded,
    file: Option<PathBuf>,
    last: Option<Last>,
    /// Parts of the last applied file that failed.
    failed_parts: Vec<Part>,
    /// Why changed certificates are not in use.
    certificates: BTreeMap<&'static str, String>,
    /// Certificates in use, by the field of their listener.
    in_use: BTreeMap<&'static str, Vec<CertificateItem>>,
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
        let state = State {
            loaded,
            file,
            last: None,
            failed_parts: Vec::new(),
            certificates: BTreeMap::new(),
            in_use: BTreeMap::new(),
            counts: [0; 3],
        };
        Self { state: Mutex::new(state), timeline: Timeline::default() }
    }
    /// The last changes of the server, to which changes of the configuration are added.
    #[must_use]
    pub const fn timeline(&self) -> &Timeline {
        &self.timeline
    }
    /// Running values.
    #[must_use]
    pub fn config(&self) -> Config {
        self.state.lock().loaded.config.clone()
    }
    /// Returns the parts of the last applied file that failed.
    #[must_use]
    pub fn failed_parts(&self) -> Vec<Part> {
        self.state.lock().failed_parts.clone()
    }
    /// Counts of changes.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        let state = self.state.lock();
        let clean = |last: &Last| last.error.is_none() && last.restart.is_empty();
        let [applied, failed, rejected] = state.counts;
        let valid = state.certificates.is_empty() && state.last.as_ref().is_none_or(clean);
        Reloads { applied, failed, rejected, valid }
    }
    /// Returns why the last change was not fully applied, in one line.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let state = self.state.lock();
        let of_file = state.last.as_ref().and_then(|last| {
            let restart =
                (!last.restart.is_empty()).then(|| format!("needs a restart: {}", last.restart.join(", ")));
            last.error.clone().or(restart)
        });
        of_file.or_else(|| state.certificate_errors())
    }
    /// Returns the document of `/debug/config`.
    #[must_use]
    pub fn document(&self) -> Value {
        let state = self.state.lock();
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
            "certificateError": state.certificate_errors(),
            "origins": state.loaded.origins,
            "config": redacted(serde_json::to_value(&state.loaded.config).unwrap_or_default()),
        })
    }
    /// Records an invalid file. Returns whether its error is new.
    pub fn reject(&self, failure: &CommandError) -> bool {
        let is_new = self.state.lock().record(Outcome::Rejected, Some(failure.to_string()), Vec::new());
        if is_new {
            let message = format!("the changed file is rejected: {}", failure.message);
            self.note(TimelineKind::Configuration, TimelineSeverity::Error, message);
        }
        is_new
    }
    /// Records a valid file and the parts of it that failed. Returns whether the result is new.
    pub fn take(&self, loaded: Loaded, restart: Vec<String>, failures: Vec<(Part, CommandError)>) -> bool {
        let texts: Vec<String> = failures.iter().map(|(_, failure)| failure.to_string()).collect();
        let (error, outcome) = match texts.is_empty() {
            true => (None, Outcome::Applied),
            false => (Some(texts.join("\n")), Outcome::Failed),
        };
        let mut state = self.state.lock();
        state.failed_parts = failures.into_iter().map(|(part, _)| part).collect();
        let config = after(&state.loaded.config, &loaded.config, &state.failed_parts);
        state.loaded = Loaded { config, ..loaded };
        let needs = (!restart.is_empty()).then(|| format!("needs a restart: {}", restart.join(", ")));
        let is_new = state.record(outcome, error, restart);
        drop(state);
        if is_new {
            let severity = if texts.is_empty() { TimelineSeverity::Info } else { TimelineSeverity::Error };
            let parts: Vec<String> = std::iter::once("changed file applied".to_owned())
                .chain(needs)
                .chain(texts.into_iter().map(|text| format!("not applied: {text}")))
                .collect();
            self.note(TimelineKind::Configuration, severity, parts.join("; "));
        }
        is_new
    }
    fn note(&self, kind: TimelineKind, severity: TimelineSeverity, message: String) {
        let entry = TimelineItem { kind, severity, message, ..TimelineItem::default() };
        self.timeline.add(Timestamp::now(), entry);
    }
    /// Returns the certificates of the listeners that are in use.
    #[must_use]
    pub fn certificates(&self) -> Vec<CertificateItem> {
        self.state.lock().in_use.values().flatten().cloned().collect()
    }
    /// Records the certificates that a listener, named by its field, uses.
    pub fn use_certificates(&self, field: &'static str, certificates: Vec<CertificateItem>) {
        let before = self.state.lock().in_use.insert(field, certificates);
        if before.is_some() {
            let message = format!("changed certificates of {field} are in use");
            self.note(TimelineKind::Rotation, TimelineSeverity::Info, message);
        }
    }
    /// Records why changed certificates of a listener, named by its field, are not in use, or that they are. Returns whether the
    /// error is new.
    pub fn set_certificates(&self, field: &'static str, failure: Option<&CommandError>) -> bool {
        let error = failure.map(ToString::to_string);
        let mut state = self.state.lock();
        let before = match error.clone() {
            Some(error) => state.certificates.insert(field, error),
            None => state.certificates.remove(field),
        };
        drop(state);
        let is_new = before != error;
        if let Some(error) = error.filter(|_| is_new) {
            let message = format!("changed certificates are invalid; the old ones stay in use: {error}");
            self.note(TimelineKind::Rotation, TimelineSeverity::Error, message);
        }
        is_new
    }
}

impl State {
    fn certificate_errors(&self) -> Option<String> {
        let all: Vec<&str> = self.certificates.values().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }
    fn record(&mut self, outcome: Outcome, error: Option<String>, restart: Vec<String>) -> bool {
        let is_same = |last: &Last| last.outcome == outcome && error.is_some() && last.error == error;
        let is_new = !self.last.as_ref().is_some_and(is_same);
        self.counts[outcome as usize] += u64::from(is_new);
        self.last = Some(Last { at: Timestamp::now(), outcome, error, restart });
        is_new
    }
}

/// Ends of the names of fields that hold a secret themselves, in lower case; files are named by `tokenFile` and the like.
const SECRETS: [&str; 3] = ["token", "password", "secret"];

/// Replaces the values of secret fields, at any depth.
fn redacted(value: Value) -> Value {
    let field = |(name, value): (String, Value)| {
        let lower = name.to_ascii_lowercase();
        let is_secret = !value.is_null() && SECRETS.iter().any(|end| lower.ends_with(end));
        let value = if is_secret { "[redacted]".into() } else { redacted(value) };
        (name, value)
    };
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().map(field).collect()),
        Value::Array(all) => Value::Array(all.into_iter().map(redacted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_file_is_an_entry_of_the_timeline() {
        let running = Running::new(Loaded::default(), None);
        let entries = || -> Vec<_> {
            let all = running.timeline().read((None, None), None, 10).items;
            all.iter().map(|one| (one.kind, one.severity, one.message.clone())).collect()
        };
        assert!(entries().is_empty());
        let failure = CommandError::plain("registries: unknown field");
        running.reject(&failure);
        running.reject(&failure);
        let rejected = "the changed file is rejected: registries: unknown field".to_owned();
        let kind = TimelineKind::Configuration;
        assert_eq!(entries(), [(kind, TimelineSeverity::Error, rejected)], "a repeated result is one entry");
        running.take(Loaded::default(), vec!["xds.listen".to_owned()], Vec::new());
        let applied = "changed file applied; needs a restart: xds.listen".to_owned();
        assert_eq!(entries()[1], (kind, TimelineSeverity::Info, applied));
        running.set_certificates("xds.tls", Some(&failure));
        assert_eq!(entries()[2].0, TimelineKind::Rotation);
    }

    #[test]
    fn secrets_of_the_configuration_are_not_shown() {
        let config = json!({"registries": [{"kind": "consul", "token": "hunter2", "tokenFile": "f", "keys": {"a": "b"}}],
            "x": {"apiToken": ["hunter2"], "Password": "hunter2", "token": null}});
        let shown = redacted(config);
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
        let consul = &shown["registries"][0];
        assert_eq!((&consul["token"], &consul["tokenFile"]), (&json!("[redacted]"), &json!("f")));
        assert_eq!((&consul["keys"]["a"], &shown["x"]["token"]), (&json!("b"), &Value::Null));
    }

    #[test]
    fn every_secret_field_of_the_schema_is_known() {
        fn find(value: &Value, out: &mut Vec<String>) {
            for (name, of) in value["properties"].as_object().into_iter().flatten() {
                if of.to_string().contains("/Secret\"") || of["format"] == "password" {
                    out.push(name.clone());
                }
            }
            let children = value.as_object().into_iter().flat_map(|map| map.values());
            children.chain(value.as_array().into_iter().flatten()).for_each(|child| find(child, out));
        }
        let mut names = Vec::new();
        find(&crate::config::schema::schema(), &mut names);
        assert!(!names.is_empty(), "the schema has no field of type Secret");
        let known = |name: &String| SECRETS.iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        assert!(names.iter().all(known), "{names:?}");
    }
}
