//! Rows of the report: median of the runs, spread, and the counts beside them.

use std::fmt::Write as _;

/// One figure over several runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figure {
    runs: Vec<f64>,
}

impl Figure {
    /// Adds a run.
    pub(crate) fn add(&mut self, value: f64) {
        self.runs.push(value);
    }
    /// Returns the median.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.runs.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
    fn range(&self) -> (f64, f64) {
        let low = self.runs.iter().copied().fold(f64::INFINITY, f64::min);
        (low, self.runs.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// Table of one bench: figures by name, in the order in which they were first added.
#[derive(Debug, Default)]
pub(crate) struct Table {
    title: String,
    rows: Vec<(String, &'static str, Figure)>,
}

impl Table {
    /// Returns a table with a title that names the measurement.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new() }
    }
    /// Adds one run's value of a figure.
    pub(crate) fn add(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        let name = name.into();
        match self.rows.iter_mut().find(|(n, ..)| *n == name) {
            Some((.., figure)) => figure.add(value),
            None => {
                let mut figure = Figure::default();
                figure.add(value);
                self.rows.push((name, unit, figure));
            }
        }
    }
    /// Returns one run's figures as lines, for the process that collects the runs.
    pub(crate) fn write(&self) -> String {
        self.rows
            .iter()
            .map(|(name, unit, figure)| format!("{name}\t{unit}\t{}\n", figure.median()))
            .collect()
    }
    /// Adds the figures of a run that [`Table::write`] wrote.
    pub(crate) fn read(&mut self, lines: &str) {
        const UNITS: [&str; 7] = ["", "ms", "us", "s", "B", "MB", "%"];
        for line in lines.lines() {
            let mut cells = line.split('\t');
            let (Some(name), Some(unit), Some(value)) = (cells.next(), cells.next(), cells.next()) else {
                continue;
            };
            let unit = UNITS.iter().find(|u| **u == unit).copied().unwrap_or_default();
            if let Ok(value) = value.parse() {
                self.add(name, unit, value);
            }
        }
    }
    /// Returns the table as text.
    pub(crate) fn render(&self) -> String {
        let mut out = format!("\n{}\n", self.title);
        for (name, unit, figure) in &self.rows {
            let (low, high) = figure.range();
            let _ = writeln!(
                out,
                "  {name:<52} {:>12.2} {unit:<6} ({low:.2} to {high:.2}, {} runs)",
                figure.median(),
                figure.runs.len()
            );
        }
        out
    }
}

/// Returns the value at a quantile of unsorted samples; NaN if there are none.
pub(crate) fn quantile(samples: &mut [f64], q: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    if samples.is_empty() {
        return f64::NAN;
    }
    let last = samples.len() - 1;
    samples[((last as f64) * q).round() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_run() {
        let mut table = Table::new("t");
        for v in [5.0, 1.0, 9.0] {
            table.add("x", "ms", v);
        }
        assert!(table.render().contains("5.00 ms     (1.00 to 9.00, 3 runs)"), "{}", table.render());
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let mut run = Table::new("run");
        run.add("x: y", "ms", 2.5);
        let mut all = Table::new("all");
        all.read(&run.write());
        assert_eq!(all.write(), run.write());
    }

    #[test]
    fn quantiles_are_samples() {
        let mut samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert!((quantile(&mut samples, 0.99) - 99.0).abs() < f64::EPSILON);
    }
}
