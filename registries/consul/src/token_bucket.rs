//! Token bucket on an injected clock: limits the reads of one loop while its source keeps changing.
//!
//! One watch owns it. A missing token is lent: the caller waits for the time that [`TokenBucket::take`] returns.

use std::time::Duration;

use tributary_model::Mono;

/// Bucket whose tokens return one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket {
    burst: u32,
    refill: Duration,
    /// Time at which the bucket is full again. Each token moves it by one refill, which may be less than the clock's
    /// resolution.
    full_at: Duration,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` tokens (at least one); one token returns every `refill`.
    #[must_use]
    pub const fn new(burst: u32, refill: Duration) -> Self {
        Self { burst: if burst == 0 { 1 } else { burst }, refill, full_at: Duration::ZERO }
    }
    /// Changes burst and refill; tokens already taken stay taken.
    pub fn set(&mut self, burst: u32, refill: Duration) {
        (self.burst, self.refill) = (burst.max(1), refill);
    }
    /// Takes a token, and returns the time until it is available.
    pub fn take(&mut self, now: Mono) -> Duration {
        let now = Duration::from_millis(now.0);
        let missing = self.full_at.saturating_sub(now) + self.refill;
        self.full_at = now + missing;
        missing.saturating_sub(self.refill.saturating_mul(self.burst))
    }
    /// Returns the time until a token is available, without taking it.
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
    fn burst_is_free_and_further_tokens_wait() {
        let mut bucket = TokenBucket::new(2, 15 * SECOND);
        let waits: Vec<u64> = (0..4).map(|_| bucket.take(Mono(1_000)).as_secs()).collect();
        assert_eq!(waits, [0, 0, 15, 30]);
        assert_eq!(bucket.wait(Mono(1_000)).as_secs(), 45, "asking takes nothing");
        assert_eq!(bucket.wait(Mono(1_000)).as_secs(), 45);
    }

    #[test]
    fn idle_time_restores_at_most_the_burst() {
        let mut bucket = TokenBucket::new(2, 15 * SECOND);
        for _ in 0..2 {
            bucket.take(Mono(0));
        }
        let later = Mono(3_600_000);
        let waits: Vec<u64> = (0..3).map(|_| bucket.take(later).as_secs()).collect();
        assert_eq!(waits, [0, 0, 15]);
    }

    #[test]
    fn rate_above_clock_resolution_is_kept() {
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
    fn bucket_without_burst_admits_one() {
        assert_eq!(TokenBucket::new(0, SECOND).take(Mono(0)), Duration::ZERO);
    }
}
