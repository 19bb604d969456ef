//! Time as a value. The model never reads a clock; callers pass the time in (law 15).

use std::time::Duration;

/// Monotonic time in milliseconds. A process's clock starts at [`Mono::START`], so times from before
/// the start, which a journal restores, are representable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// Time at which a process starts: about 35 years after zero.
    pub const START: Self = Self(1 << 40);

    /// Converts a duration since an origin of the caller's choice.
    #[must_use]
    pub fn from_elapsed(since_origin: Duration) -> Self {
        Self(u64::try_from(since_origin.as_millis()).unwrap_or(u64::MAX))
    }
    /// Returns the time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
    /// Returns this time plus a duration; saturates.
    #[must_use]
    pub fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(more.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Wall time in whole seconds, for creation times and display.
pub type Timestamp = jiff::Timestamp;
