//! Counters of the runtime. Tests assert on them, telemetry exports them.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters that only grow; written by the core task, the fan-out and the supervisor.
        #[derive(Debug, Default)]
        pub struct RuntimeCounters { $(pub(crate) $name: AtomicU64),* }

        /// Snapshot of the counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct RuntimeStats { $($(#[$doc])* pub $name: u64),* }

        impl RuntimeCounters {
            /// Returns a snapshot.
            #[must_use]
            pub fn read(&self) -> RuntimeStats {
                RuntimeStats { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Batches with at least one update.
    batches,
    /// Updates applied.
    updates,
    /// Generations published.
    publications,
    /// Of these, those with a removal or a health change.
    urgent,
    /// Passes of the fan-out.
    passes,
    /// Followers of a cluster that a pass woke, since the cluster changed.
    subscriber_wakes,
    /// Confirm requests sent to runs.
    confirms,
    /// Confirm requests dropped because the run was unknown or its queue was full.
    unsent_confirms,
    /// Accepted changes handed to the journal.
    records,
    /// Runs begun.
    runs,
    /// Runs that ended without a stop request.
    failures,
    /// Of these, those that panicked.
    panics,
    /// Shadows adopted.
    adoptions,
    /// Runs that did not stop in time and were dropped.
    dropped,
}

impl RuntimeCounters {
    pub(crate) fn add(counter: &AtomicU64, more: usize) {
        counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
