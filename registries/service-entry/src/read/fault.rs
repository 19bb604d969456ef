//! Faults of documents: code, position, message.
//!
//! The readers, the decoder and the validation create them; [`crate::read::load`] and the sources convert them
//! to a [`Problem`], once the file name is known.

use std::fmt;

use tributary_model::{Code, Problem};

/// A position in a document, counted from 1; 0 if the source has no positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pos {
    /// The line, counted from the document's first.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl Pos {
    /// A line and a column.
    #[must_use]
    pub const fn new(line: u32, column: u32) -> Self {
        Self { line, column }
    }
    /// The position in the file, given the file's line at which the document begins.
    #[must_use]
    pub const fn from_line(self, first: u32) -> Self {
        Self { line: first.saturating_add(self.line).saturating_sub(1), column: self.column }
    }
}

/// Effect of a fault on its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The document is served, and the fault is shown.
    Warning,
    /// The document is quarantined; its last good version stays served.
    Refused,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// Where, within the document.
    pub at: Pos,
    /// Whether the document is served.
    pub severity: Severity,
    /// What is wrong and what to do, in one line.
    pub message: String,
}

impl Fault {
    /// A fault that keeps the document out of service.
    #[must_use]
    pub fn refused(code: Code, at: Pos, message: impl Into<String>) -> Self {
        Self { code, at, severity: Severity::Refused, message: message.into() }
    }
    /// A fault that is only shown.
    #[must_use]
    pub fn warning(code: Code, at: Pos, message: impl Into<String>) -> Self {
        Self { code, at, severity: Severity::Warning, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} {}", self.at.line, self.at.column, self.code, self.message)
    }
}

/// The faults of one document. Bounded, so that a document with only invalid values produces a short
/// report.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Fault>,
    lenient: bool,
}

impl Faults {
    const MAX: usize = 16;

    /// Faults of an object that an API server accepted: an unknown field belongs to a newer version of
    /// its kind and is not a typing mistake.
    pub(crate) fn lenient() -> Self {
        Self { found: Vec::new(), lenient: true }
    }
    /// Collects faults of a part whose unknown fields are refused from any source.
    pub(crate) fn strictly<T>(&mut self, collect: impl FnOnce(&mut Self) -> T) -> T {
        let lenient = std::mem::replace(&mut self.lenient, false);
        let found = collect(self);
        self.lenient = lenient;
        found
    }
    pub(crate) fn add(&mut self, fault: Fault) {
        // A refusal must not be lost behind warnings.
        if self.found.len() < Self::MAX || (fault.severity == Severity::Refused && !self.refused()) {
            self.found.push(fault);
        }
    }
    pub(crate) fn unknown_field(&mut self, at: Pos, message: impl Into<String>) {
        if self.lenient {
            self.warn(Code::FIELD_UNKNOWN, at, message);
        } else {
            self.refuse(Code::UNKNOWN_FIELD, at, message);
        }
    }
    pub(crate) fn refuse(&mut self, code: Code, at: Pos, message: impl Into<String>) {
        self.add(Fault::refused(code, at, message));
    }
    pub(crate) fn warn(&mut self, code: Code, at: Pos, message: impl Into<String>) {
        self.add(Fault::warning(code, at, message));
    }
    pub(crate) fn refused(&self) -> bool {
        self.found.iter().any(|fault| fault.severity == Severity::Refused)
    }
    pub(crate) fn sorted(mut self) -> Vec<Fault> {
        self.found.sort_by_key(|fault| (std::cmp::Reverse(fault.severity), fault.at));
        self.found
    }
}

/// Summarizes the faults of one document: the first fault's code, and one line with the position and
/// message of each.
pub(crate) fn problem(faults: &[Fault], file: &str, first_line: u32) -> Option<Problem> {
    const SHOWN: usize = 4;
    let first = faults.first()?;
    let mut message = String::new();
    for (i, fault) in faults.iter().take(SHOWN).enumerate() {
        let separator = if i == 0 { "" } else { "; " };
        message.push_str(&format!("{separator}{}{}", position(fault.at, file, first_line), fault.message));
    }
    if faults.len() > SHOWN {
        message.push_str(&format!("; and {} more", faults.len() - SHOWN));
    }
    Some(Problem { code: first.code, message: message.into() })
}

/// `shop/pay.yaml:12:1: `, or an empty text if the source has no positions.
fn position(at: Pos, file: &str, first_line: u32) -> String {
    if file.is_empty() {
        return String::new();
    }
    let at = at.from_line(first_line);
    format!("{file}:{}:{}: ", at.line, at.column)
}

/// Shortens external text for a message.
pub(crate) fn clip(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_counts_lines_from_the_start_of_the_file() {
        let fault = Fault::refused(Code::INVALID_HOST, Pos::new(3, 7), "host \"*\" is too wide");
        let problem = problem(&[fault], "shop/pay.yaml", 10).unwrap();
        assert_eq!(problem.code, Code::INVALID_HOST);
        assert_eq!(&*problem.message, "shop/pay.yaml:12:7: host \"*\" is too wide");
    }

    #[test]
    fn refusal_is_kept_after_any_number_of_warnings() {
        let mut faults = Faults::default();
        for line in 1..100 {
            faults.warn(Code::EMPTY_SELECTOR, Pos::new(line, 1), "w");
        }
        faults.refuse(Code::INVALID_HOST, Pos::new(100, 1), "r");
        assert!(faults.refused());
        assert_eq!(faults.sorted()[0].code, Code::INVALID_HOST);
    }
}
