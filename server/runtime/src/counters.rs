//! What the runtime has done, as numbers. Tests assert on them, telemetry shows them.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters that only grow; written by the pump, the fan-out and the supervisor.
        #[derive(Debug, Default)]
        pub struct RuntimeCounters { $(pub(crate) $name: AtomicU64),* }

        /// What the counters say at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct RuntimeStats { $($(#[$doc])* pub $name: u64),* }

        impl RuntimeCounters {
            /// What they say now.
            #[must_use]
            pub fn read(&self) -> RuntimeStats {
                RuntimeStats { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Turns applied that held at least one word.
    turns,
    /// Words applied.
    words,
    /// Generations published.
    publications,
    /// Of these, with a removal or a health change.
    urgent,
    /// Passes of the fan-out.
    passes,
    /// Questions handed to runs.
    asked,
    /// Questions that found no run or no room.
    unasked,
    /// Accepted changes handed to the journal.
    records,
    /// Runs begun.
    runs,
    /// Runs that ended without having been told to.
    failures,
    /// Of these, by a panic.
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
