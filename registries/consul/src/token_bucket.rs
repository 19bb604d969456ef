//! A token bucket over passed-in time: how often one loop may ask while its source keeps changing.
//!
//! Owned by one watch. A token that is not there yet is lent: the caller waits for as long as [`TokenBucket::take`] says.

use std::time::Duration;

use tributary_model::Mono;

/// Tokens that come back one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket {
    burst: u32,
    refill: Duration,
    /// When the bucket is full again; each token taken moves it one refill further, which may be less than the clock's
    /// own step.
    full_at: Duration,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens (at least one), one of which comes back every `refill`.
    #[must_use]
    pub const fn new(burst: u32, refill: Duration) -> Self {
        Self { burst: if burst == 0 { 1 } else { burst }, refill, full_at: Duration::ZERO }
    }
    /// Takes a token, and says how long to wait until it is there.
    pub fn take(&mut self, now: Mono) -> Duration {
        let now = Duration::from_millis(now.0);
        let missing = self.full_at.saturating_sub(now) + self.refill;
        self.full_at = now + missing;
        missing.saturating_sub(self.refill.saturating_mul(self.burst))
    }
    /// How long until a token is there, without taking it.
    #[must_use]
    pub fn wait(&self, now: Mono) -> Duration {
        self.clone().take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_free_and_the_rest_waits_its_turn() {
        let mut bucket = TokenBucket::new(2, 15 * SECOND);
        let waits: Vec<u64> = (0..4).map(|_| bucket.take(Mono(1_000)).as_secs()).collect();
        assert_eq!(waits, [0, 0, 15, 30]);
        assert_eq!(bucket.wait(Mono(1_000)).as_secs(), 45, "asking takes nothing");
        assert_eq!(bucket.wait(Mono(1_000)).as_secs(), 45);
    }

    #[test]
    fn a_quiet_while_gives_the_burst_back_and_no_more() {
        let mut bucket = TokenBucket::new(2, 15 * SECOND);
        for _ in 0..2 {
            bucket.take(Mono(0));
        }
        let later = Mono(3_600_000);
        let waits: Vec<u64> = (0..3).map(|_| bucket.take(later).as_secs()).collect();
        assert_eq!(waits, [0, 0, 15]);
    }

    #[test]
    fn a_rate_beyond_the_clocks_step_is_kept() {
        let mut bucket = TokenBucket::new(3_000, SECOND / 3_000);
        let taken = (0..2_000).flat_map(|now| std::iter::repeat_n(Mono(now), 10));
        let allowed = taken.filter(|now| {
            let free = bucket.wait(*now).is_zero();
            if free {
                bucket.take(*now);
            }
            free
        });
        let allowed = allowed.count();
        assert!((8_990..=9_010).contains(&allowed), "{allowed} in two seconds, and a burst");
    }

    #[test]
    fn a_bucket_without_burst_still_lets_one_through() {
        assert_eq!(TokenBucket::new(0, SECOND).take(Mono(0)), Duration::ZERO);
    }
}
