//! Checks of a server, as `tributary check` and the console's overview show them.
//!
//! Every check is a pure function over documents of the admin surface: the command line calls [`judge`] with the documents of each
//! replica and [`merge`]s the results, the server calls [`judge`] with its own. [`TABLE`] is the one list of checks; results have its
//! order, and findings of one check are ordered by severity, then by object. The work grows with registries, clusters, clients and
//! conditions, not with endpoints.

pub mod before;
mod before_consul;
pub(crate) mod certificates;
mod clients;
mod clusters;
pub mod conditions;
pub mod documents;
mod finding;
mod registries;
pub mod replicas;
mod serving;
mod state;
pub mod table;

use serde::{Deserialize, Serialize};

pub use documents::Documents;
pub use finding::{Finding, ObjectName, Severity};
pub use replicas::merge;
pub use table::{CheckInfo, Judge, Section, TABLE};

/// Maximum number of findings that one check lists; the rest is counted.
pub const MAX_FINDINGS: usize = 50;

/// Id of the check that has a result for a server that does not answer.
const ANSWERS: &str = "server-answers";

/// Result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// It is right, or has only findings that need no action.
    Pass,
    /// What it needs was not requested or does not exist here.
    Skipped,
    /// Something should be corrected.
    Warning,
    /// Something is wrong now.
    Error,
}

/// Check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckItem {
    /// Section.
    pub section: Section,
    /// Id from the table of checks; also its anchor in the reference.
    pub check: String,
    /// What holds if the check passes.
    pub title: String,
    /// Result.
    pub outcome: Outcome,
    /// Numbers, or why the check was skipped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Findings, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Number of findings beyond the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
const fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// What one check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Numbers, or why the check was skipped.
    pub summary: String,
    /// Findings, in any order.
    pub findings: Vec<Finding>,
    /// Whether the check has nothing to judge.
    pub is_skipped: bool,
}

impl Found {
    /// Returns findings with a summary.
    #[must_use]
    pub fn new(summary: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self { summary: summary.into(), findings, is_skipped: false }
    }
    /// Returns the result of a check that has nothing to judge.
    #[must_use]
    pub fn skipped(why: impl Into<String>) -> Self {
        Self { summary: why.into(), findings: Vec::new(), is_skipped: true }
    }
}

impl CheckItem {
    /// Combines a row of the table with what was found.
    #[must_use]
    pub fn new(info: &CheckInfo, found: Found) -> Self {
        let Found { summary, mut findings, is_skipped } = found;
        findings
            .sort_by(|a, b| (a.severity, &a.object, &a.message).cmp(&(b.severity, &b.object, &b.message)));
        let outcome = match findings.first().map(|one| one.severity) {
            Some(Severity::Error) => Outcome::Error,
            Some(Severity::Warning) => Outcome::Warning,
            None if is_skipped => Outcome::Skipped,
            Some(Severity::Info) | None => Outcome::Pass,
        };
        let more = findings.len().saturating_sub(MAX_FINDINGS);
        findings.truncate(MAX_FINDINGS);
        findings.iter_mut().for_each(|one| one.complete(info));
        let (check, title) = (info.id.to_owned(), info.title.to_owned());
        Self { section: info.section, check, title, outcome, summary, findings, more }
    }
    /// Returns the number of findings of a severity, of those that are listed.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|one| one.severity == severity).count()
    }
}

/// Returns the result of every check of one running server, in the order of the table.
#[must_use]
pub fn judge(documents: &Documents) -> Vec<CheckItem> {
    let is_known = |info: &CheckInfo| documents.silent.is_none() || info.id == ANSWERS;
    let one = |info: &CheckInfo| match info.judge {
        Judge::Server(judge) if is_known(info) => Some(CheckItem::new(info, judge(documents))),
        Judge::Server(_) => Some(CheckItem::new(info, Found::skipped("the server does not answer"))),
        Judge::Replicas(_) | Judge::Before(_) => None,
    };
    TABLE.iter().filter_map(one).collect()
}

/// Returns every finding of some checks with its section, the worst first, in the order of the table among equals.
#[must_use]
pub fn worst_first(items: &[CheckItem]) -> Vec<(Section, &Finding)> {
    let mut all: Vec<_> =
        items.iter().flat_map(|item| item.findings.iter().map(|finding| (item.section, finding))).collect();
    all.sort_by_key(|(_, finding)| finding.severity);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_ordered_bounded_and_completed_by_the_table() {
        let info = table::find("registries-live").unwrap();
        let many = (0..60).map(|n| Finding::warning("w", "m").about("registry", format!("r{n:02}")));
        let findings = many.chain([Finding::error("e", "m").about("registry", "z")]).collect();
        let item = CheckItem::new(info, Found::new("s", findings));
        assert_eq!((item.outcome, item.findings.len(), item.more), (Outcome::Error, MAX_FINDINGS, 11));
        assert_eq!(item.findings[0].severity, Severity::Error, "the worst is never cut");
        assert!(item.findings.iter().all(|one| !one.next.is_empty() && !one.view.is_empty()));
    }

    #[test]
    fn information_alone_passes() {
        let info = table::find("kinds").unwrap();
        let item = CheckItem::new(info, Found::new("", vec![Finding::info("i", "m")]));
        assert_eq!(item.outcome, Outcome::Pass);
        assert_eq!(CheckItem::new(info, Found::skipped("none")).outcome, Outcome::Skipped);
    }

    #[test]
    fn checks_of_empty_documents_find_only_what_is_missing() {
        let items = judge(&Documents::default());
        let ids: Vec<&str> = items.iter().map(|item| &*item.check).collect();
        let of_table = TABLE.iter().filter(|info| matches!(info.judge, Judge::Server(_)));
        assert_eq!(ids, of_table.map(|info| info.id).collect::<Vec<_>>(), "the order of the table");
        let worst = worst_first(&items);
        assert!(worst.windows(2).all(|pair| pair[0].1.severity <= pair[1].1.severity));
    }
}
