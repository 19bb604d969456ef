//! Time as a value. Nothing in the model reads a clock: the rim passes time in (law 15).

use std::time::Duration;

/// Running monotonic time in milliseconds. A process's clock begins at [`Mono::START`], so that times
/// before its start, which a journal restores, have numbers too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// The time at which a process starts: about 35 years after zero.
    pub const START: Self = Self(1 << 40);

    /// From a duration since an origin of the caller's own.
    #[must_use]
    pub fn from_elapsed(since_origin: Duration) -> Self {
        Self(u64::try_from(since_origin.as_millis()).unwrap_or(u64::MAX))
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
