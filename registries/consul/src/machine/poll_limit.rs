//! Limit of a scope's long polls: halved while overloads repeat, and raised step by step after they end.
//!
//! The request limiter owns it. One overload slows requests down and leaves the polls alone: a server that refuses a
//! burst of reads need not be short of connections.

use std::time::Duration;

use tributary_model::Mono;

/// Overloads in a row after which long polls are taken for their cause.
const REPEATED: u32 = 3;
/// Time without an overload after which a row ends, and after which the limit rises by one step.
const CALM: Duration = Duration::from_secs(60);
/// Steps from no poll to the whole share.
const STEPS: usize = 16;

/// Limit of long polls.
#[derive(Debug, Clone)]
pub(super) struct PollLimit {
    max: usize,
    now: usize,
    /// Overloads that are closer than this count as one.
    apart: Duration,
    /// Overloads in a row, and the time of the last one.
    row: (u32, Option<Mono>),
    raise_at: Option<Mono>,
}

impl PollLimit {
    /// Creates a limit at its maximum.
    pub(super) const fn new(max: usize, apart: Duration) -> Self {
        Self { max, now: max, apart, row: (0, None), raise_at: None }
    }
    /// Returns the current limit.
    pub(super) const fn current(&self) -> usize {
        self.now
    }
    /// Returns whether overloads have lowered the limit.
    pub(super) const fn is_lowered(&self) -> bool {
        self.now < self.max
    }
    /// Returns when the limit rises next.
    pub(super) const fn due(&self) -> Option<Mono> {
        self.raise_at
    }
    /// Changes the maximum. A limit that overloads have lowered stays, if the new maximum allows it.
    pub(super) fn set_max(&mut self, max: usize) {
        self.now = if self.is_lowered() { self.now.min(max) } else { max };
        self.max = max;
        self.raise_at = self.raise_at.filter(|_| self.now < max);
    }
    /// Records an overload while this many polls are held.
    pub(super) fn overloaded(&mut self, now: Mono, held: usize) {
        let (count, last) = self.row;
        let since = last.map_or(Duration::MAX, |last| now.since(last));
        if since < self.apart {
            return;
        }
        let count = if since > CALM { 1 } else { count + 1 };
        self.row = (count, Some(now));
        if count >= REPEATED {
            self.now = self.now.min(held) / 2;
        }
        self.raise_at = self.is_lowered().then(|| now.plus(CALM));
    }
    /// Raises the limit if that is due.
    pub(super) fn tick(&mut self, now: Mono) {
        if self.raise_at.is_some_and(|at| at <= now) {
            self.now = (self.now + self.max.div_ceil(STEPS)).min(self.max);
            self.raise_at = self.is_lowered().then(|| now.plus(CALM));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn mk_limit() -> PollLimit {
        PollLimit::new(100, 5 * SECOND)
    }

    fn overload(limit: &mut PollLimit, seconds: &[u64], held: usize) {
        seconds.iter().for_each(|second| limit.overloaded(Mono(second * 1_000), held));
    }

    #[test]
    fn single_or_simultaneous_overloads_lower_nothing() {
        let mut limit = mk_limit();
        overload(&mut limit, &[10, 10, 11, 12, 13, 14], 40);
        assert_eq!((limit.current(), limit.due()), (100, None));
        overload(&mut limit, &[80, 150, 220], 40);
        assert_eq!(limit.current(), 100, "they are a minute apart");
    }

    #[test]
    fn repeated_overloads_halve_the_polls_that_are_held() {
        let mut limit = mk_limit();
        overload(&mut limit, &[0, 5, 10], 40);
        assert_eq!((limit.current(), limit.due()), (20, Some(Mono(70_000))));
        overload(&mut limit, &[12, 15, 20, 25, 30, 35], 20);
        assert_eq!(limit.current(), 0, "each overload halves again");
    }

    #[test]
    fn limit_rises_by_a_sixteenth_in_each_calm_minute() {
        let mut limit = mk_limit();
        overload(&mut limit, &[0, 5, 10], 40);
        limit.tick(Mono(69_999));
        assert_eq!(limit.current(), 20);
        limit.tick(Mono(70_000));
        assert_eq!((limit.current(), limit.due()), (27, Some(Mono(130_000))));
        overload(&mut limit, &[100], 27);
        assert_eq!((limit.current(), limit.due()), (27, Some(Mono(160_000))), "one overload postpones it");
        (3..40).for_each(|minute| limit.tick(Mono(minute * 60_000)));
        assert_eq!((limit.current(), limit.due()), (100, None));
    }

    #[test]
    fn changed_share_applies_at_once_unless_overloads_lowered_the_limit() {
        let mut limit = mk_limit();
        limit.set_max(30);
        assert_eq!(limit.current(), 30);
        overload(&mut limit, &[0, 5, 10], 30);
        limit.set_max(200);
        assert_eq!((limit.current(), limit.is_lowered()), (15, true));
        limit.set_max(10);
        assert_eq!((limit.current(), limit.due()), (10, None));
    }
}
