//! What makes the pieces run: the supervisor of registries, the pump that owns the core, the
//! fan-out of what it publishes, and the rule for when a server may begin to serve.
//!
//! Knows neither xDS nor HTTP; the binary and the simulation drive it. [`Runtime::start`] spawns one
//! task tree; dropping the [`Runtime`] ends all of it. Everything else goes through a [`Handle`].

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
mod supervisor;

pub use core_task::pace::PacePolicy;
pub use counters::{RuntimeCounters, RuntimeStats};
pub use fanout::Fanout;
pub use follow::{ClusterScope, Follower, ScopeChange};
pub use handle::{Handle, Source, Stopped};
pub use journal::{JournalSink, NoJournal, SnapshotRequest};
pub use published_catalog::Catalogs;
pub use readiness::{Readiness, ReadyBecause, StartFacts, StartRule};
pub use report::{RunReport, RunState};
pub use runtime::{Runtime, RuntimeConfig};
pub use supervisor::{RegistryFactories, SupervisorError};
