//! How each registry's runs are doing, for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_model::{Code, Generation, Mono, RegistryName};
use tributary_registry_api::{Reason, UpdateSender, UpdateStats};

/// What a registry's run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunState {
    /// Has not been started.
    #[default]
    New,
    /// Runs.
    Running,
    /// Failed, and is started again then.
    Waiting {
        /// When.
        until: Mono,
    },
    /// Failed for good, until its configuration or credential changes.
    Parked,
    /// Is being stopped.
    Stopping,
}

/// A registry's runs, as its supervisor sees them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// What the run that is served is doing.
    pub state: RunState,
    /// Its generation.
    pub generation: Generation,
    /// The generation of the run that is to replace it, and what that is doing.
    pub shadow: Option<(Generation, RunState)>,
    /// How many runs have failed in a row.
    pub failures: u32,
    /// Why the last one failed, and when; kept until the registry leaves.
    pub last_error: Option<(Code, Reason, Mono)>,
    /// What the inlet of the served run has counted.
    pub updates: UpdateStats,
}

/// Every registry's report; written by their supervisors. Inlets count by themselves, so the one of
/// the served run is kept and read when somebody asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<BTreeMap<RegistryName, Entry>>>);

type Entry = (RunReport, Option<UpdateSender>);

impl Reports {
    pub(crate) fn update(
        &self,
        name: &RegistryName,
        change: impl FnOnce(&mut RunReport, &mut Option<UpdateSender>),
    ) {
        let mut all = self.0.lock();
        let (report, updates) = all.entry(name.clone()).or_default();
        change(report, updates);
    }
    pub(crate) fn forget(&self, name: &RegistryName) {
        self.0.lock().remove(name);
    }
    pub(crate) fn all(&self) -> BTreeMap<RegistryName, RunReport> {
        let all = self.0.lock();
        let current = |(name, (report, updates)): (&RegistryName, &Entry)| {
            let counted = updates.as_ref().map_or(report.updates, UpdateSender::stats);
            (name.clone(), RunReport { updates: counted, ..report.clone() })
        };
        all.iter().map(current).collect()
    }
}
