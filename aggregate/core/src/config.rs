//! Bounds and intervals of the core. The runtime passes them to [`Core::new`](crate::Core::new).

use std::time::Duration;

/// Intervals and bounds of confirm requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// Time until the first repetition of a confirm request; doubled each time.
    pub confirm_backoff_min: Duration,
    /// Longest time between two repetitions.
    pub confirm_backoff_max: Duration,
    /// Most confirm requests of one batch; the rest follow in the next.
    pub confirms_per_batch: usize,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            confirm_backoff_min: Duration::from_secs(1),
            confirm_backoff_max: Duration::from_secs(60),
            confirms_per_batch: 1024,
        }
    }
}
