//! Limits the request rate of a client: a bucket of requests, and a pause after repeated rejections
//! (docs/reference/xds.md#limits).

use std::time::Duration;

use tributary_model::Mono;

/// Requests that may arrive at once.
const BURST: u64 = 2_000;
/// Sustained requests a second.
const RATE: u64 = 1_000;
/// Consecutive rejections before a client is slowed down.
const PATIENCE: u32 = 5;
/// The longest pause after rejections.
const LONGEST: Duration = Duration::from_secs(10);

/// Request pace of one stream. It delays reading; no request is dropped.
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
    /// Counts a request. Returns how long the next one must wait.
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
    fn burst_passes_and_sustained_flood_waits() {
        let mut pace = Pace::new(Mono(0));
        assert!((0..BURST - 1).all(|_| pace.request(Mono(0)).is_zero()));
        assert!(!pace.request(Mono(0)).is_zero());
        assert!(pace.request(Mono(1000)).is_zero(), "a second refills the bucket");
    }

    #[test]
    fn repeated_rejections_delay_a_client_until_it_accepts() {
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
