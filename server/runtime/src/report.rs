//! State of each registry's runs, for operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_model::{Code, Generation, Mono, RegistryName};
use tributary_registry_api::{Reason, UpdateSender, UpdateStats};

use crate::status_changes::StatusFeed;

/// State of a registry's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunState {
    /// Not started.
    #[default]
    New,
    /// Running.
    Running,
    /// Failed; it is retried later.
    Waiting {
        /// Time of the retry.
        until: Mono,
    },
    /// Failed permanently, until its configuration or credential changes.
    Parked,
    /// Stopped until it is rotated; its facts stay.
    Paused,
    /// Stopping.
    Stopping,
}

/// A registry's runs, as its supervisor sees them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// State of the served run.
    pub state: RunState,
    /// Generation of the served run.
    pub generation: Generation,
    /// Generation and state of the shadow.
    pub shadow: Option<(Generation, RunState)>,
    /// Number of consecutive failed runs.
    pub failures: u32,
    /// Reason and time of the last failure; kept until the registry is removed.
    pub last_error: Option<(Code, Reason, Mono)>,
    /// Counters of the served run's update channel.
    pub updates: UpdateStats,
}

/// Reports of all registries; their supervisors write them. Update channels count by themselves, so
/// the sender of the served run is kept and read on request.
#[derive(Debug, Clone)]
pub(crate) struct Reports {
    entries: Arc<Mutex<BTreeMap<RegistryName, Entry>>>,
    changed: StatusFeed,
}

type Entry = (RunReport, Option<UpdateSender>);

impl Reports {
    /// Creates an empty table, which adds the names of changed reports to `changed`.
    pub(crate) fn new(changed: StatusFeed) -> Self {
        Self { entries: Arc::default(), changed }
    }
    pub(crate) fn update(
        &self,
        name: &RegistryName,
        change: impl FnOnce(&mut RunReport, &mut Option<UpdateSender>),
    ) {
        let mut all = self.entries.lock();
        let (report, updates) = all.entry(name.clone()).or_default();
        let before = report.clone();
        change(report, updates);
        let is_changed = *report != before;
        drop(all);
        self.changed.add(is_changed.then(|| name.clone()));
    }
    pub(crate) fn forget(&self, name: &RegistryName) {
        self.entries.lock().remove(name);
        self.changed.add([name.clone()]);
    }
    pub(crate) fn all(&self) -> BTreeMap<RegistryName, RunReport> {
        let all = self.entries.lock();
        let current = |(name, (report, updates)): (&RegistryName, &Entry)| {
            let counted = updates.as_ref().map_or(report.updates, UpdateSender::stats);
            (name.clone(), RunReport { updates: counted, ..report.clone() })
        };
        all.iter().map(current).collect()
    }
}
