//! Exponential backoff with jitter, for all retries.
//!
//! Pure: the caller passes randomness in and waits by itself.

use std::time::Duration;

/// Source of randomness.
pub trait RandomSource: Send {
    /// Returns a number in the range 0 (inclusive) to 1 (exclusive).
    fn unit(&mut self) -> f64;
}

/// Small seeded generator (SplitMix64); not for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Creates a generator; equal seeds give equal numbers.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }
}

impl RandomSource for SplitMix {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // an f64 holds 53 bits exactly
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Parameters of a backoff.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffPolicy {
    /// Maximum first delay.
    pub first: Duration,
    /// Maximum of any delay.
    pub cap: Duration,
    /// An attempt that worked for this long resets the backoff.
    pub reset_after: Duration,
    /// Random part of a delay, 0 to 1. With 1, simultaneous clients spread most evenly.
    pub jitter: f64,
}

impl Default for BackoffPolicy {
    /// One second, doubling up to one minute, half of it random; reset after two minutes.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            cap: Duration::from_secs(60),
            reset_after: Duration::from_secs(120),
            jitter: 0.5,
        }
    }
}

/// Backoff whose delay doubles with each failure until it is reset.
#[derive(Debug, Clone)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff without failures.
    #[must_use]
    pub const fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: 0 }
    }
    /// Counts a failure and returns the delay before the next attempt.
    pub fn next(&mut self, random: &mut (impl RandomSource + ?Sized)) -> Duration {
        let longest = self.policy.first.saturating_mul(1 << self.failures.min(20)).min(self.policy.cap);
        self.failures = self.failures.saturating_add(1);
        let jitter = self.policy.jitter.clamp(0.0, 1.0);
        longest.mul_f64(1.0 - jitter + jitter * random.unit().clamp(0.0, 1.0))
    }
    /// Does the same as [`Backoff::next`] for an attempt that worked for `lasted` before it failed.
    pub fn next_after(&mut self, lasted: Duration, random: &mut (impl RandomSource + ?Sized)) -> Duration {
        if lasted >= self.policy.reset_after {
            self.reset();
        }
        self.next(random)
    }
    /// Resets the number of failures.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
    /// Returns the number of failures since the last reset.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Always(f64);
    impl RandomSource for Always {
        fn unit(&mut self) -> f64 {
            self.0
        }
    }

    fn mk_backoff(jitter: f64) -> Backoff {
        Backoff::new(BackoffPolicy { jitter, ..BackoffPolicy::default() })
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let mut backoff = mk_backoff(0.0);
        let delays: Vec<u64> = (0..8).map(|_| backoff.next(&mut Always(0.9)).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn jitter_only_shortens_a_delay() {
        assert_eq!(mk_backoff(0.5).next(&mut Always(0.0)), Duration::from_millis(500));
        assert_eq!(mk_backoff(1.0).next(&mut Always(0.0)), Duration::ZERO);
    }

    #[test]
    fn only_a_long_successful_attempt_resets_the_backoff() {
        let mut backoff = mk_backoff(0.0);
        backoff.next(&mut Always(0.0));
        let short = backoff.next_after(Duration::from_secs(119), &mut Always(0.0));
        let long = backoff.next_after(Duration::from_secs(120), &mut Always(0.0));
        assert_eq!((short.as_secs(), long.as_secs()), (2, 1));
    }

    proptest! {
        #[test]
        fn random_numbers_are_in_the_unit_interval(seed: u64) {
            let mut random = SplitMix::seeded(seed);
            for _ in 0..64 {
                let unit = random.unit();
                prop_assert!((0.0..1.0).contains(&unit));
            }
        }

        #[test]
        fn delay_never_exceeds_the_cap(seed: u64, failures in 0..200_usize) {
            let (mut backoff, mut random) = (mk_backoff(1.0), SplitMix::seeded(seed));
            for _ in 0..failures {
                prop_assert!(backoff.next(&mut random) <= Duration::from_secs(60));
            }
        }
    }
}
