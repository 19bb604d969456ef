//! Clocks. Registries and the runtime get time only from a [`Clock`], so tests control it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tributary_model::Mono;

/// Source of monotonic time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Mono;
}

/// Clock of the process; a paused tokio clock pauses it too.
#[derive(Debug, Clone, Copy)]
pub struct ProcessClock {
    start: tokio::time::Instant,
}

impl ProcessClock {
    /// Creates a clock that starts now, at [`Mono::START`].
    #[must_use]
    pub fn starting_now() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Mono {
        Mono::START.plus(self.start.elapsed())
    }
}

/// Clock that only [`ManualClock::advance`] moves, for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Mono {
        Mono(self.0.load(Ordering::Relaxed))
    }
}
