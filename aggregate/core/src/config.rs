//! Bounds and times of the core.

use std::time::Duration;

/// When sources are asked to confirm a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// How long after a question it is asked again; doubled each time.
    pub ask_first: Duration,
    /// The longest time between two questions.
    pub ask_most: Duration,
    /// How many questions one turn asks; the rest follow in the next.
    pub asks_per_turn: usize,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self { ask_first: Duration::from_secs(1), ask_most: Duration::from_secs(60), asks_per_turn: 1024 }
    }
}
