//! Where time comes from. Nothing below the rim reads a clock; it is handed one of these.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tributary_model::Mono;

/// Running monotonic time.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Mono;
}

/// The runtime's own clock; under a paused tokio clock it stands still too.
#[derive(Debug, Clone, Copy)]
pub struct ProcessClock {
    start: tokio::time::Instant,
}

impl ProcessClock {
    /// Begins at [`Mono::START`].
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

/// A clock that moves when it is told to, for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the time on.
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
