//! The reference page about Kubernetes, rule by rule: generated from the ledger's rows, so it states exactly
//! what the tests prove.

use std::fmt::Write as _;

use crate::ledger::{Proof, Row};

/// Path of the page.
pub const PAGE: &str = "docs/reference/kubernetes.md";
const LEDGER: &str = "registries-3.tsv";

const OPENING: &str = "# Kubernetes, rule by rule

<!-- Made from the ledger: `UPDATE_DOCS=1 cargo test -p tributary-repo-rules --test rules` -->

The rules of Istio's Kubernetes discovery that Tributary follows, and the deliberate differences. [How a cluster is
read](../explanation/kubernetes.md) describes the design. A test proves each row; `tests/ledger/registries-3.tsv` names it.

A row marked *same* behaves as in Istio. A row marked *different* describes a behaviour of Istio that Tributary does not
have: the tests prove the difference. A row marked *not here* has the reason.
";

/// Sections of the reference and their titles on the page, in its order.
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

/// Returns the page for these rows.
pub fn page(rows: &[Row]) -> String {
    let mut page = OPENING.to_owned();
    for (number, title) in SECTIONS {
        let _ = write!(page, "\n## {title}\n\n| rule | here |\n|---|---|\n");
        for row in rows.iter().filter(|row| row.file == LEDGER && section(row) == number) {
            let _ = writeln!(page, "{}", line(row));
        }
    }
    page
}

/// Returns rows that belong to no section of the page.
pub fn homeless(rows: &[Row]) -> Vec<String> {
    let known = |row: &&Row| SECTIONS.iter().any(|(number, _)| *number == section(row));
    let lost = rows.iter().filter(|row| row.file == LEDGER && !known(row));
    lost.map(|row| format!("{}: no section of {PAGE} is about {}", row.place, row.section)).collect()
}

/// Returns a section's number, without the kind of row.
fn section(row: &Row) -> &str {
    row.section.split(' ').next().unwrap_or_default()
}

fn line(row: &Row) -> String {
    match &row.proof {
        Proof::Refused(reason) => format!("| {} | not here: {reason} |", row.text),
        Proof::Tests(_) => {
            let here = if row.section.ends_with(" T") { "different" } else { "same" };
            format!("| {} | {here} |", row.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(section: &str, proof: Proof) -> Row {
        let (file, section) = (LEDGER.to_owned(), section.to_owned());
        Row { place: "x:1".to_owned(), file, section, text: "a rule".to_owned(), proof }
    }

    #[test]
    fn each_kind_of_row_has_its_own_format() {
        let held = || Proof::Tests(vec!["a".to_owned(), "b.yaml".to_owned()]);
        assert_eq!(line(&row("3.1 R", held())), "| a rule | same |");
        assert_eq!(line(&row("3.1 T", held())), "| a rule | different |");
        let refused = row("3.1 R", Proof::Refused("no".to_owned()));
        assert_eq!(line(&refused), "| a rule | not here: no |");
    }

    #[test]
    fn rows_are_listed_in_their_section_and_lost_rows_are_found() {
        let rows = [row("3.10 R", Proof::Refused("no".to_owned())), row("3.11 R", Proof::Tests(Vec::new()))];
        let page = page(&rows);
        assert!(
            page.ends_with("## Headless services\n\n| rule | here |\n|---|---|\n| a rule | not here: no |\n")
        );
        assert_eq!(homeless(&rows).len(), 1);
    }
}
