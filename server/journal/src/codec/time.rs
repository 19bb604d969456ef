//! Converts times of a process to times on disk, and back.
//!
//! The codecs of lists, problems, held removals and ended scopes call it. A process counts milliseconds from its
//! own start, so a time is stored as wall time and its age then. A restored time is never in the
//! future, and never younger than it was when it was stored.

use std::time::Duration;

use tributary_model::{Mono, Timestamp};

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time of this process. It starts far above 0, so that times before the start of the process can be
    /// represented.
    pub mono: Mono,
    /// Wall time.
    pub wall: Timestamp,
}

impl Now {
    /// For readers that ignore times.
    pub(crate) const EPOCH: Self = Self { mono: Mono(0), wall: Timestamp::UNIX_EPOCH };

    /// Returns wall time and age, in milliseconds, of a time of this process.
    pub(crate) fn store(self, at: Mono) -> (i64, u64) {
        let age = u64::try_from(self.mono.since(at).as_millis()).unwrap_or(u64::MAX);
        (self.wall.as_millisecond().saturating_sub(i64::try_from(age).unwrap_or(i64::MAX)), age)
    }
    /// Returns the time of this process for a stored time.
    pub(crate) fn restore(self, wall: i64, age: u64) -> Mono {
        let passed = u64::try_from(self.wall.as_millisecond().saturating_sub(wall)).unwrap_or(0);
        Mono(self.mono.0.saturating_sub(passed.max(age)))
    }
    /// Returns this moment plus a duration; the wall clock saturates.
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
    fn wall_clock_set_back_does_not_reduce_ages() {
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
