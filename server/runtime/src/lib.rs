//! Runs the server: the supervisor of registries, the core task, the fan-out of published catalogs,
//! and the start rule.
//!
//! Contains neither xDS nor HTTP; the binary and the simulation use it. [`Runtime::start`] spawns one
//! task tree; dropping the [`Runtime`] ends all of it. All other calls go through a [`Handle`].

mod change_recorder;
mod core_task;
mod counters;
mod fanout;
mod follow;
mod handle;
mod journal;
mod published_catalog;
mod readiness;
mod report;
mod runtime;
mod status_changes;
mod supervisor;

pub use change_recorder::{AppliedBatch, ChangeRecorder, Publication};
pub use core_task::pace::PacePolicy;
pub use counters::{RuntimeCounters, RuntimeStats};
pub use fanout::Fanout;
pub use follow::{ClusterScope, ObjectChange, ScopeChange, ScopeSubscription};
pub use handle::{Handle, Source, Stopped};
pub use journal::{JournalSink, NoJournal, SnapshotRequest};
pub use published_catalog::Catalogs;
pub use readiness::{Readiness, ReadyBecause, StartFacts, StartRule};
pub use report::{RunReport, RunState};
pub use runtime::{Runtime, RuntimeConfig};
pub use status_changes::StatusChanges;
pub use supervisor::{RegistryFactories, SupervisorError};
