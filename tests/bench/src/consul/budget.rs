//! Budgets of a bench: records each figure that exceeds its budget, so the report is complete before it fails.

use anyhow::{Result, bail};

/// Budgets, and those that were exceeded.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    broken: Vec<String>,
}

impl Budgets {
    /// Requires a figure to be at most this; a NaN exceeds it.
    pub(super) fn at_most(&mut self, what: impl std::fmt::Display, value: f64, most: f64) {
        if value.is_nan() || value > most {
            self.broken.push(format!("{what}: {value:.2} is over {most:.2}"));
        }
    }
    /// Requires two figures to be equal.
    pub(super) fn equal(&mut self, what: impl std::fmt::Display, value: u64, want: u64) {
        if value != want {
            self.broken.push(format!("{what}: {value} is not {want}"));
        }
    }
    /// Returns an error if any budget is exceeded.
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
    fn exceeded_or_nan_figures_are_named() {
        let mut budgets = Budgets::default();
        budgets.at_most("a", 3.0, 3.0);
        budgets.equal("b", 1, 1);
        assert!(budgets.verdict().is_ok());
        budgets.at_most("c", 3.1, 3.0);
        budgets.at_most("d", f64::NAN, 3.0);
        budgets.equal("e", 1, 2);
        let error = budgets.verdict().unwrap_err().to_string();
        assert_eq!(error, "over budget: c: 3.10 is over 3.00; d: NaN is over 3.00; e: 1 is not 2");
    }
}
