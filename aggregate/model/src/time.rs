//! Time as a value. Nothing in the model reads a clock: the rim passes time in (law 15).

use std::time::Duration;

/// Running monotonic time since the process started, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// From a duration since the process started.
    #[must_use]
    pub fn from_elapsed(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX))
    }
    /// How long ago `earlier` was; zero when it was not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
    /// This time and a duration more.
    #[must_use]
    pub fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(more.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Wall time in whole seconds, for creation times and for people.
pub type Timestamp = jiff::Timestamp;
