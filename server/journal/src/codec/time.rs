//! Times of a process as times on disk, and back.
//!
//! Called by the codecs of lists, problems, holds and ended scopes. A process counts milliseconds from
//! its own start, so a time is stored as wall time with the age that it had. A restored time is never
//! in the future, and never younger than it was when it was stored.

use std::time::Duration;

use tributary_model::{Mono, Timestamp};

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time of this process. It starts far above 0, so that what happened before the process started
    /// has a time too.
    pub mono: Mono,
    /// Wall time.
    pub wall: Timestamp,
}

impl Now {
    /// For readers that look at no times.
    pub(crate) const EPOCH: Self = Self { mono: Mono(0), wall: Timestamp::UNIX_EPOCH };

    /// Wall time in milliseconds, and the age in milliseconds, of a time of this process.
    pub(crate) fn store(self, at: Mono) -> (i64, u64) {
        let age = u64::try_from(self.mono.since(at).as_millis()).unwrap_or(u64::MAX);
        (self.wall.as_millisecond().saturating_sub(i64::try_from(age).unwrap_or(i64::MAX)), age)
    }
    /// The time of this process that was stored so.
    pub(crate) fn restore(self, wall: i64, age: u64) -> Mono {
        let passed = u64::try_from(self.wall.as_millisecond().saturating_sub(wall)).unwrap_or(0);
        Mono(self.mono.0.saturating_sub(passed.max(age)))
    }
    /// This moment and a duration more; the wall clock stays where it has no later time.
    #[must_use]
    pub fn plus(self, more: Duration) -> Self {
        let wall = self.wall.checked_add(more).unwrap_or(self.wall);
        Self { mono: self.mono.plus(more), wall }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(mono: u64, wall: i64) -> Now {
        Now { mono: Mono(mono), wall: Timestamp::from_millisecond(wall).unwrap() }
    }

    #[test]
    fn age_includes_the_time_that_the_process_was_down() {
        let (wall, age) = now(5_000, 1_000_000).store(Mono(3_000));
        assert_eq!(now(1 << 40, 1_060_000).restore(wall, age), Mono((1 << 40) - 62_000));
    }

    #[test]
    fn wall_clock_that_was_set_back_makes_nothing_younger() {
        let (wall, age) = now(5_000, 1_000_000).store(Mono(3_000));
        assert_eq!(now(1 << 40, 10).restore(wall, age), Mono((1 << 40) - 2_000));
    }

    #[test]
    fn hostile_times_are_clamped() {
        assert_eq!(now(7, 1_000).restore(i64::MIN, 0), Mono(0));
        assert_eq!(now(7, 1_000).restore(i64::MAX, 0), Mono(7));
        assert_eq!(now(7, 1_000).restore(0, u64::MAX), Mono(0));
        let future = now(7, 1_000).store(Mono(9));
        assert_eq!(future, (1_000, 0));
    }
}
