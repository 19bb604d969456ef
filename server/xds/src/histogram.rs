//! A histogram with fixed bounds: one atomic addition to a bucket and one to the sum.
//!
//! Sessions and streams write it, the scrape reads it. Values are whole numbers of a small unit, so adding
//! needs no lock and no float; the reader passes the unit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of values by upper bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for values above the last.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// Snapshot of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bound of each bucket, and the number of values in it that exceed the previous bound. The
    /// last has no bound.
    pub buckets: Vec<(Option<f64>, u64)>,
    /// Sum of all values.
    pub sum: f64,
}

impl Distribution {
    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

impl Histogram {
    /// Creates a histogram with these ascending bounds, which are inclusive.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }
    /// Adds a value.
    pub fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
            self.sum.fetch_add(value, Relaxed);
        }
    }
    /// Returns a snapshot, with values divided by `unit`.
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
    fn value_is_in_the_first_bucket_that_includes_it() {
        let histogram = Histogram::new(&[10, 1_000]);
        [0, 10, 11, 1_000, 1_001, 5_000].into_iter().for_each(|value| histogram.observe(value));
        let read = histogram.read(1_000.0);
        assert_eq!(read.buckets, [(Some(0.01), 2), (Some(1.0), 2), (None, 2)]);
        assert_eq!((read.count(), read.sum), (6, 7.022));
    }
}
