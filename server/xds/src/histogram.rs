//! A histogram with fixed bounds: one atomic addition to a bucket and one to the sum.
//!
//! Written by sessions and streams, read at scrape. Values are whole numbers of a small unit, so
//! that no lock and no float is needed to add them; the reader says what the unit is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many values fell under each bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for all that is above the last.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// What a histogram says at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The upper bound of each bucket, and how many values are in it and in none before it. The
    /// last has no bound.
    pub buckets: Vec<(Option<f64>, u64)>,
    /// The sum of all values.
    pub sum: f64,
}

impl Distribution {
    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

impl Histogram {
    /// Over these bounds, which ascend; a value that equals a bound is under it.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }
    /// One more value.
    pub fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
            self.sum.fetch_add(value, Relaxed);
        }
    }
    /// What it says now, in a unit that is this many of its own.
    #[must_use]
    pub fn read(&self, unit: f64) -> Distribution {
        let bounds = self.bounds.iter().map(|bound| Some(*bound as f64 / unit)).chain([None]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        Distribution { buckets: bounds.zip(counts).collect(), sum: self.sum.load(Relaxed) as f64 / unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_whose_bound_it_does_not_pass() {
        let histogram = Histogram::new(&[10, 1_000]);
        [0, 10, 11, 1_000, 1_001, 5_000].into_iter().for_each(|value| histogram.observe(value));
        let read = histogram.read(1_000.0);
        assert_eq!(read.buckets, [(Some(0.01), 2), (Some(1.0), 2), (None, 2)]);
        assert_eq!((read.count(), read.sum), (6, 7.022));
    }
}
