//! How fast a client may ask: a bucket of requests, and a pause after refusals in a row.

use std::time::Duration;

use tributary_model::Mono;

/// Requests that may come at once.
const BURST: u64 = 2_000;
/// Requests a second that may come for ever.
const RATE: u64 = 1_000;
/// Refusals in a row before a client is slowed down.
const PATIENCE: u32 = 5;
/// The longest pause after refusals.
const LONGEST: Duration = Duration::from_secs(10);

/// One stream's pace. Backpressure is all that it asks for: nothing is dropped.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Thousandths of requests.
    tokens: u64,
    at: Mono,
    refusals: u32,
}

impl Pace {
    pub(crate) const fn new(now: Mono) -> Self {
        Self { tokens: BURST * 1000, at: now, refusals: 0 }
    }
    /// Counts a request; tells how long the next one has to wait.
    pub(crate) fn request(&mut self, now: Mono) -> Duration {
        let gained = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX).saturating_mul(RATE);
        self.tokens = self.tokens.saturating_add(gained).min(BURST * 1000).saturating_sub(1000);
        self.at = now;
        let empty = if self.tokens < 1000 { Duration::from_millis(1000 / RATE + 1) } else { Duration::ZERO };
        empty.max(self.pause())
    }
    pub(crate) fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }
    pub(crate) fn taken(&mut self) {
        self.refusals = 0;
    }
    fn pause(&self) -> Duration {
        match self.refusals.checked_sub(PATIENCE) {
            None | Some(0) => Duration::ZERO,
            Some(over) => LONGEST.min(Duration::from_millis(50 << over.min(10))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_waits() {
        let mut pace = Pace::new(Mono(0));
        assert!((0..BURST - 1).all(|_| pace.request(Mono(0)).is_zero()));
        assert!(!pace.request(Mono(0)).is_zero());
        assert!(pace.request(Mono(1000)).is_zero(), "a second later there is room again");
    }

    #[test]
    fn endless_refusals_slow_a_client_down_until_it_takes_something() {
        let mut pace = Pace::new(Mono(0));
        let waits: Vec<Duration> = (0..100)
            .map(|_| {
                pace.refused();
                pace.request(Mono(0))
            })
            .collect();
        assert!(waits[..PATIENCE as usize].iter().all(Duration::is_zero));
        assert!(waits.is_sorted() && waits[99] == LONGEST);
        pace.taken();
        assert!(pace.request(Mono(0)).is_zero());
    }
}
