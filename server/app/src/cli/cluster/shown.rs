//! Findings of checks as tables, for `cluster check`, `add` and `rotate`.

use super::super::table::{Cell, Table, Tone};
use crate::document::{CheckedCluster, Finding, Findings, Outcome};

/// Renders the findings about one credential.
pub(super) fn render(findings: &Findings, color: bool) -> String {
    let mut table = Table::new(&["CHECK", "RESULT", "DETAIL"], &[], true);
    findings.checks.iter().for_each(|one| table.row(row(one)));
    table.render(true, color)
}

/// Renders what was found where clusters were tried: all of it if `wide`, and else what is not right.
pub(super) fn tried(all: &[CheckedCluster], wide: bool, color: bool) -> String {
    let mut table = Table::new(&["CLUSTER", "CHECK", "RESULT", "DETAIL"], &[], wide);
    for one in all {
        for finding in one.checks.iter().filter(|finding| wide || finding.outcome != Outcome::Ok) {
            table.row(std::iter::once(one.cluster.clone().into()).chain(row(finding)).collect());
        }
    }
    let text = table.render(true, color);
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn row(finding: &Finding) -> Vec<Cell> {
    let (text, tone) = match finding.outcome {
        Outcome::Ok => ("ok", Tone::Plain),
        Outcome::Warning => ("warning", Tone::Warn),
        Outcome::Failed => ("failed", Tone::Bad),
    };
    vec![finding.check.clone().into(), Cell(text.to_owned(), tone), finding.detail.clone().into()]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::document::cluster_check::of_clusters;
    use crate::document::clusters::{ClaimItem, ClusterItem};

    #[test]
    fn tried_clusters_show_what_is_not_right_and_the_rest_on_request() {
        let claim = ClaimItem { object: "file e.yaml".into(), outcome: "Used".into(), faults: Vec::new() };
        let item = ClusterItem { name: "east".into(), claims: vec![claim], ..ClusterItem::default() };
        let checked = of_clusters(&[item], Timestamp::UNIX_EPOCH).remove(0);
        let checks = vec![
            Finding::new("version", Outcome::Ok, "v1.34.1"),
            Finding::new("clock", Outcome::Warning, "300 s apart"),
        ];
        let all = [checked.found(Findings { checks, ..Findings::default() })];
        let (few, every) = (tried(&all, false, false), tried(&all, true, false));
        assert!(few.contains("300 s apart") && !few.contains("v1.34.1"), "{few}");
        assert!(every.contains("300 s apart") && every.contains("v1.34.1"), "{every}");
        assert_eq!(tried(&[], true, false), "", "no empty table");
    }
}
