//! The page on Kubernetes, rule by rule: written from the ledger's rows, so that it says what the tests hold and
//! nothing else.

use std::fmt::Write as _;

use crate::ledger::{Proof, Row};

/// The page.
pub const PAGE: &str = "docs/reference/kubernetes.md";
const LEDGER: &str = "registries-3.tsv";

const OPENING: &str = "# Kubernetes, rule by rule

<!-- Made from the ledger: `UPDATE_DOCS=1 cargo test -p tributary-repo-rules --test rules` -->

What of Istio's Kubernetes discovery is done here, and what is different on purpose. How it is done is told in [How a cluster is
read](../explanation/kubernetes.md). Each row names the tests that hold it; they run with `./test`.

A row marked *same* behaves as in Istio. A row marked *different* describes what Istio does and this does not: the tests hold
the difference. A row marked *not here* says why.
";

/// Sections of the reference and what the page calls them, in its order.
const SECTIONS: [(&str, &str); 10] = [
    ("3.1", "Watches"),
    ("3.2", "Services"),
    ("3.3", "EndpointSlices"),
    ("3.4", "Pods"),
    ("3.5", "Localities and nodes"),
    ("3.6", "Networks and gateways"),
    ("3.8", "Services of several clusters"),
    ("3.7", "WorkloadEntries behind Services"),
    ("3.9", "What a change costs"),
    ("3.10", "Headless services"),
];

/// The page as the ledger has it.
pub fn page(rows: &[Row]) -> String {
    let mut page = OPENING.to_owned();
    for (number, title) in SECTIONS {
        let _ = write!(page, "\n## {title}\n\n| rule | here | held by |\n|---|---|---|\n");
        for row in rows.iter().filter(|row| row.file == LEDGER && section(row) == number) {
            let _ = writeln!(page, "{}", line(row));
        }
    }
    page
}

/// Rows that no section of the page takes.
pub fn homeless(rows: &[Row]) -> Vec<String> {
    let known = |row: &&Row| SECTIONS.iter().any(|(number, _)| *number == section(row));
    let lost = rows.iter().filter(|row| row.file == LEDGER && !known(row));
    lost.map(|row| format!("{}: no section of {PAGE} is about {}", row.place, row.section)).collect()
}

/// A section's number, without what kind of row it is.
fn section(row: &Row) -> &str {
    row.section.split(' ').next().unwrap_or_default()
}

fn line(row: &Row) -> String {
    match &row.proof {
        Proof::Refused(reason) => format!("| {} | not here: {reason} | |", row.words),
        Proof::Tests(names) => {
            let here = if row.section.ends_with(" T") { "different" } else { "same" };
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("| {} | {here} | {} |", row.words, names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(section: &str, proof: Proof) -> Row {
        let (file, section) = (LEDGER.to_owned(), section.to_owned());
        Row { place: "x:1".to_owned(), file, section, words: "a rule".to_owned(), proof }
    }

    #[test]
    fn a_rule_is_kept_a_trap_is_avoided_and_a_refusal_says_why() {
        let held = || Proof::Tests(vec!["a".to_owned(), "b.yaml".to_owned()]);
        assert_eq!(line(&row("3.1 R", held())), "| a rule | same | `a`, `b.yaml` |");
        assert_eq!(line(&row("3.1 T", held())), "| a rule | different | `a`, `b.yaml` |");
        let refused = row("3.1 R", Proof::Refused("no".to_owned()));
        assert_eq!(line(&refused), "| a rule | not here: no | |");
    }

    #[test]
    fn rows_stand_in_their_section_and_none_is_lost() {
        let rows = [row("3.10 R", Proof::Refused("no".to_owned())), row("3.11 R", Proof::Tests(Vec::new()))];
        let page = page(&rows);
        assert!(page.ends_with(
            "## Headless services\n\n| rule | here | held by |\n|---|---|---|\n| a rule | not here: no | |\n"
        ));
        assert_eq!(homeless(&rows).len(), 1);
    }
}
