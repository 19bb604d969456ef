//! Compares the facts of two servers, and the differences with the table of known ones.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::Facts;

/// A fact that two servers do not agree on; an absent one is `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// World.
    pub world: String,
    /// Client.
    pub client: String,
    /// Key of the fact.
    pub key: String,
    /// Value at Tributary.
    pub ours: String,
    /// Recorded value.
    pub theirs: String,
}

/// A row of the table: known differences and their reason. `*` stands for any text.
#[derive(Debug, Clone)]
pub struct Known {
    line: usize,
    cells: [String; 5],
    /// Why they differ; `open` if they should not.
    pub reason: String,
}

const ABSENT: &str = "-";

/// Returns the differences between two sets of facts. Of a part that only one server has, its attributes are not
/// compared.
pub fn differences(world: &str, client: &str, ours: &Facts, theirs: &Facts) -> Vec<Difference> {
    let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let one_sided = |key: &str| {
        let lacks = |facts: &Facts, other: &Facts| !facts.contains_key(key) && other.contains_key(key);
        lacks(ours, theirs) || lacks(theirs, ours)
    };
    let under_one_sided =
        |key: &str| key.match_indices(' ').any(|(at, _)| key.get(..at).is_some_and(one_sided));
    let value = |facts: &Facts, key: &String| facts.get(key).cloned().unwrap_or_else(|| ABSENT.to_owned());
    keys.into_iter()
        .filter(|key| ours.get(*key) != theirs.get(*key) && !under_one_sided(key))
        .map(|key| Difference {
            world: world.to_owned(),
            client: client.to_owned(),
            key: key.clone(),
            ours: value(ours, key),
            theirs: value(theirs, key),
        })
        .collect()
}

/// Parses the table: world, client, key, ours, theirs, reason, separated by tabs; lines with `#` are remarks.
pub fn table(text: &str) -> Result<Vec<Known>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
            ensure!(cells.len() == 6, "line {} has {} cells in place of 6", number + 1, cells.len());
            ensure!(!cells[5].trim().is_empty(), "line {} has no reason", number + 1);
            let [world, client, key, ours, theirs, reason] = [0, 1, 2, 3, 4, 5].map(|at| cells[at].clone());
            Ok(Known { line: number + 1, cells: [world, client, key, ours, theirs], reason })
        })
        .collect()
}

/// Returns a message for each difference without a row, and for each row without a difference.
pub fn faults(differences: &[Difference], known: &[Known]) -> Vec<String> {
    let unknown = differences.iter().filter(|one| !known.iter().any(|row| row.covers(one)));
    let unknown = unknown.map(|one| {
        let Difference { world, client, key, ours, theirs } = one;
        format!("no row: {world}\t{client}\t{key}\t{ours}\t{theirs}")
    });
    let stale = known.iter().filter(|row| !differences.iter().any(|one| row.covers(one)));
    let stale = stale.map(|row| format!("no difference for line {}: {}", row.line, row.cells.join("\t")));
    unknown.chain(stale).collect()
}

impl Known {
    fn covers(&self, one: &Difference) -> bool {
        let values = [&one.world, &one.client, &one.key, &one.ours, &one.theirs];
        self.cells.iter().zip(values).all(|(pattern, value)| is_like(pattern, value))
    }
}

/// Returns true if a text matches a pattern, in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = text.get(at + part.len()..).unwrap_or_default();
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn found() -> Vec<Difference> {
        let ours = facts(&[("cds a", "EDS"), ("cds a http", "2"), ("cds b", "EDS"), ("cds b http", "2")]);
        let theirs = facts(&[("cds a", "STATIC"), ("cds a http", "2"), ("cds c", "EDS")]);
        differences("w", "shop", &ours, &theirs)
    }

    #[test]
    fn attributes_of_a_missing_part_are_not_counted() {
        let texts: Vec<String> =
            found().iter().map(|d| format!("{} {} {}", d.key, d.ours, d.theirs)).collect();
        assert_eq!(texts, ["cds a EDS STATIC", "cds b EDS -", "cds c - EDS"]);
    }

    #[test]
    fn difference_without_a_row_and_row_without_a_difference_are_faults() {
        let rows = table(
            "# a remark\n*\tshop\tcds a\tEDS\tSTATIC\topen\nw\t*\tcds *\t*\t-\twhy\n\nw\tx\ty\t-\t-\tno\n",
        )
        .unwrap();
        assert_eq!(
            faults(&found(), &rows),
            ["no row: w\tshop\tcds c\t-\tEDS", "no difference for line 5: w\tx\ty\t-\t-"]
        );
    }

    #[test]
    fn row_without_six_cells_or_a_reason_is_refused() {
        assert!(table("a\tb\tc").is_err());
        assert!(table("a\tb\tc\td\te\t ").is_err());
    }

    #[test]
    fn star_stands_for_any_text() {
        let cases = [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("a*b*", "a-b-c", true),
            ("a", "ab", false),
            ("*ab", "abab", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }
}
