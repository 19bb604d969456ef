//! Bounds and times of the core.

use std::time::Duration;

/// When sources are asked to confirm a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// How long after a question it is asked again; doubled each time.
    pub confirm_backoff_min: Duration,
    /// The longest time between two questions.
    pub confirm_backoff_max: Duration,
    /// How many questions one turn asks; the rest follow in the next.
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
