//! Random numbers of a seed.
//!
//! Everything that is random draws from dice that descend from the seed of the run, each user from its own, so that a change of one
//! does not change the numbers of another.

use std::time::Duration;

use tributary_registry_api::{RandomSource as _, SplitMix};

/// Source of random numbers.
#[derive(Debug, Clone)]
pub struct Dice(SplitMix);

impl Dice {
    /// Creates the dice of a seed and a user.
    #[must_use]
    pub fn new(seed: u64, user: &str) -> Self {
        let mixed = user.bytes().fold(seed ^ 0x5EED, |mixed, byte| {
            mixed.rotate_left(9).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(byte)
        });
        Self(SplitMix::seeded(mixed))
    }
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.0.unit() * bound as f64) as usize
    }
    /// Returns true in this many of 100 cases.
    pub fn percent(&mut self, cases: usize) -> bool {
        self.below(100) < cases
    }
    /// Returns one of the elements; `None` without elements.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
    /// Returns a time in milliseconds below `bound`.
    pub fn millis(&mut self, bound: usize) -> Duration {
        Duration::from_millis(self.below(bound) as u64)
    }
}
