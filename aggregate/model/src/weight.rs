//! Units of weights: what an ordinary endpoint of a group weighs.
//!
//! Adapters whose source scales weights freely set the unit of a group. Answers convert weights where groups with
//! different units meet, so that only the endpoints' own weights decide how traffic is split.

/// Weight of an ordinary endpoint of a group: it counts as much as an endpoint of weight 1 in a group without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightUnit(u32);

impl WeightUnit {
    /// Unit of groups whose source does not scale weights.
    pub const ONE: Self = Self(1);
    /// Maximum unit. Weights in common units above it are rounded.
    pub const MAX: Self = Self(1 << 20);

    /// Creates a unit; 0 counts as 1.
    #[must_use]
    pub fn new(weight: u32) -> Self {
        Self(weight.clamp(1, Self::MAX.0))
    }
    /// Returns the weight of an ordinary endpoint.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
    /// Returns the smallest unit into which both convert without a remainder; at most [`WeightUnit::MAX`].
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        let multiple = u64::from(self.0 / common_divisor([self.0, other.0])) * u64::from(other.0);
        u32::try_from(multiple).map_or(Self::MAX, Self::new)
    }
    /// Converts a weight of this unit; 0 counts as 1. The result is at least 1.
    #[must_use]
    pub fn convert(self, weight: u32, to: Self) -> u64 {
        (u64::from(weight.max(1)) * u64::from(to.0) / u64::from(self.0)).max(1)
    }
}

impl Default for WeightUnit {
    fn default() -> Self {
        Self::ONE
    }
}

/// Returns the greatest common divisor of all weights, at least 1.
#[must_use]
pub fn common_divisor(weights: impl IntoIterator<Item = u32>) -> u32 {
    let of_two = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    weights.into_iter().fold(0, of_two).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_exact_in_a_common_unit() {
        let (six, four) = (WeightUnit::new(6), WeightUnit::new(4));
        let common = six.common(four);
        assert_eq!((common.get(), six.convert(1, common), four.convert(3, common)), (12, 2, 9));
        assert_eq!(six.common(six), six);
        assert_eq!(WeightUnit::ONE.convert(0, WeightUnit::ONE), 1, "0 counts as 1");
    }

    #[test]
    fn common_unit_is_bounded_in_any_order() {
        let units = [65_521, 65_519, 7].map(WeightUnit::new);
        let fold = |order: [usize; 3]| order.into_iter().map(|at| units[at]).reduce(WeightUnit::common);
        assert_eq!(fold([0, 1, 2]), Some(WeightUnit::MAX));
        assert_eq!(fold([2, 1, 0]), fold([0, 1, 2]));
        assert_eq!(WeightUnit::MAX.convert(1, WeightUnit::ONE), 1);
    }

    #[test]
    fn common_divisor_of_nothing_is_one() {
        assert_eq!(common_divisor([]), 1);
        assert_eq!(common_divisor([10, 15, 0]), 5);
    }
}
