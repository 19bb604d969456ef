//! The one backoff: how long to wait before the next try, whoever tries.
//!
//! Pure: the caller passes chance in and does the waiting.

use std::time::Duration;

/// Chance, as something that is passed in.
pub trait RandomSource: Send {
    /// A number from 0 up to, not including, 1.
    fn unit(&mut self) -> f64;
}

/// A small generator with a seed (SplitMix64); not for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The same seed gives the same numbers.
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
        // 53 bits are what an f64 holds exactly
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How delays grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffPolicy {
    /// The longest that the first delay may be.
    pub first: Duration,
    /// The longest that any delay may be.
    pub cap: Duration,
    /// A try that went well for this long makes the next failure a first one.
    pub reset_after: Duration,
    /// Which part of a delay is left to chance, 0 to 1. 1 spreads a herd best.
    pub jitter: f64,
}

impl Default for BackoffPolicy {
    /// One second, doubling up to a minute, half of it chance; forgiven after two minutes.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            cap: Duration::from_secs(60),
            reset_after: Duration::from_secs(120),
            jitter: 0.5,
        }
    }
}

/// Doubles from one failure to the next until it is reset.
#[derive(Debug, Clone)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
}

impl Backoff {
    /// Has not failed yet.
    #[must_use]
    pub const fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: 0 }
    }
    /// The delay before the next try, and counts the failure.
    pub fn next(&mut self, chance: &mut (impl RandomSource + ?Sized)) -> Duration {
        let longest = self.policy.first.saturating_mul(1 << self.failures.min(20)).min(self.policy.cap);
        self.failures = self.failures.saturating_add(1);
        let jitter = self.policy.jitter.clamp(0.0, 1.0);
        longest.mul_f64(1.0 - jitter + jitter * chance.unit().clamp(0.0, 1.0))
    }
    /// As [`Backoff::next`], for a try that had gone well for `lasted` before it failed.
    pub fn next_after(&mut self, lasted: Duration, chance: &mut (impl RandomSource + ?Sized)) -> Duration {
        if lasted >= self.policy.reset_after {
            self.reset();
        }
        self.next(chance)
    }
    /// The next failure is a first one again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
    /// Failures since the last reset.
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
    fn chance_takes_from_a_delay_and_never_adds() {
        assert_eq!(mk_backoff(0.5).next(&mut Always(0.0)), Duration::from_millis(500));
        assert_eq!(mk_backoff(1.0).next(&mut Always(0.0)), Duration::ZERO);
    }

    #[test]
    fn a_long_good_run_is_forgiven_and_a_short_one_is_not() {
        let mut backoff = mk_backoff(0.0);
        backoff.next(&mut Always(0.0));
        let short = backoff.next_after(Duration::from_secs(119), &mut Always(0.0));
        let long = backoff.next_after(Duration::from_secs(120), &mut Always(0.0));
        assert_eq!((short.as_secs(), long.as_secs()), (2, 1));
    }

    proptest! {
        #[test]
        fn chance_stays_within_the_unit(seed: u64) {
            let mut chance = SplitMix::seeded(seed);
            for _ in 0..64 {
                let unit = chance.unit();
                prop_assert!((0.0..1.0).contains(&unit));
            }
        }

        #[test]
        fn no_delay_passes_the_cap(seed: u64, failures in 0..200_usize) {
            let (mut backoff, mut chance) = (mk_backoff(1.0), SplitMix::seeded(seed));
            for _ in 0..failures {
                prop_assert!(backoff.next(&mut chance) <= Duration::from_secs(60));
            }
        }
    }
}
