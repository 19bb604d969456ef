//! What a bench promises: each figure that is over its budget is remembered, so that the report is whole before it
//! fails.

use anyhow::{Result, bail};

/// Promises and which of them are broken.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    broken: Vec<String>,
}

impl Budgets {
    /// A figure may be at most this; one that is no number is too much.
    pub(super) fn at_most(&mut self, what: impl std::fmt::Display, value: f64, most: f64) {
        if value.is_nan() || value > most {
            self.broken.push(format!("{what}: {value:.2} is over {most:.2}"));
        }
    }
    /// Two figures must be the same.
    pub(super) fn equal(&mut self, what: impl std::fmt::Display, value: u64, want: u64) {
        if value != want {
            self.broken.push(format!("{what}: {value} is not {want}"));
        }
    }
    /// Fails where one is broken.
    pub(super) fn verdict(&self) -> Result<()> {
        if self.broken.is_empty() {
            return Ok(());
        }
        bail!("over budget: {}", self.broken.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_or_no_number_is_named_and_the_rest_is_not() {
        let mut budgets = Budgets::default();
        budgets.at_most("a", 3.0, 3.0);
        budgets.equal("b", 1, 1);
        assert!(budgets.verdict().is_ok());
        budgets.at_most("c", 3.1, 3.0);
        budgets.at_most("d", f64::NAN, 3.0);
        budgets.equal("e", 1, 2);
        let said = budgets.verdict().unwrap_err().to_string();
        assert_eq!(said, "over budget: c: 3.10 is over 3.00; d: NaN is over 3.00; e: 1 is not 2");
    }
}
