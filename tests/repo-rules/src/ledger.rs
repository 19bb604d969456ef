//! The ledger: `tests/ledger/*.tsv` lists the rules that must be proven, one row each: section, text, tests.
//! The last cell is one or more tests (`name`, `file::name`, or a file such as `grpc_client.py`) separated by
//! commas, or `refused: ` with the reason. `tests/ledger/counts.txt` pins the number of rows of each file, so
//! that no row is lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::scan::Tests;
use crate::tree::Text;

/// Path of the pins: a line `FILE ROWS` for each file of the ledger.
pub const COUNTS: &str = "tests/ledger/counts.txt";

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// File and line.
    pub place: String,
    /// File name.
    pub file: String,
    /// Section of the reference that has the rule.
    pub section: String,
    /// Text of the rule.
    pub text: String,
    /// Proof of the rule.
    pub proof: Proof,
}

/// Proof of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// These tests prove it.
    Tests(Vec<String>),
    /// It does not apply here, for this reason.
    Refused(String),
}

/// Returns every row, and the lines that are not valid rows.
pub fn rows(texts: &[Text]) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for text in
        texts.iter().filter(|text| text.path.starts_with("tests/ledger/") && text.path.ends_with(".tsv"))
    {
        for (number, line) in text.text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match row(text.file_name(), number + 1, line) {
                Ok(row) => rows.push(row),
                Err(fault) => faults.push(fault),
            }
        }
    }
    (rows, faults)
}

fn row(file: &str, number: usize, line: &str) -> Result<Row, String> {
    let place = format!("{file}:{number}");
    let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
    let &[section, rule, test] = cells.as_slice() else {
        return Err(format!(
            "{place}: {} cells, expected section, text and tests separated by tabs",
            cells.len()
        ));
    };
    if section.is_empty() || rule.is_empty() || test.is_empty() {
        return Err(format!("{place}: an empty cell; name a test, or write `refused: ` and the reason"));
    }
    let proof = match test.strip_prefix("refused:").map(str::trim) {
        Some("") => return Err(format!("{place}: a refusal needs its reason")),
        Some(reason) => Proof::Refused(reason.to_owned()),
        None => Proof::Tests(test.split(',').map(|name| name.trim().to_owned()).collect()),
    };
    let (file, section, text) = (file.to_owned(), section.to_owned(), rule.to_owned());
    Ok(Row { place, file, section, text, proof })
}

/// Returns files whose number of rows differs from the pinned one.
pub fn miscounted(rows: &[Row], counts: &str) -> Vec<String> {
    let mut have: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *have.entry(&row.file).or_default() += 1;
    }
    let mut faults = Vec::new();
    for line in counts.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (file, pinned) = line.split_once(' ').unwrap_or((line, ""));
        let found = have.remove(file).unwrap_or(0);
        if pinned.trim().parse() != Ok(found) {
            faults.push(format!("{file}: {found} rows, {COUNTS} has {}", pinned.trim()));
        }
    }
    faults.extend(have.iter().map(|(file, found)| format!("{file}: pin its {found} rows in {COUNTS}")));
    faults
}

/// Returns rows whose test does not exist.
pub fn missing(rows: &[Row], tests: &Tests, texts: &[Text]) -> Vec<String> {
    let files: BTreeSet<&str> = texts.iter().map(Text::file_name).collect();
    let exists = |name: &str| if is_file(name) { files.contains(name) } else { is_test(name, tests) };
    named(rows)
        .filter(|(_, name)| !exists(name))
        .map(|(row, name)| format!("{}: test {name} not found; it must prove: {}", row.place, row.text))
        .collect()
}

/// Returns rows whose test exists but did not run, or did not pass.
pub fn idle(rows: &[Row], ran: &BTreeSet<String>) -> Vec<String> {
    named(rows)
        .filter(|(_, name)| !is_file(name) && !ran.contains(bare(name)))
        .map(|(row, name)| format!("{}: {name} did not run and pass", row.place))
        .collect()
}

fn named(rows: &[Row]) -> impl Iterator<Item = (&Row, &str)> {
    rows.iter().flat_map(|row| match &row.proof {
        Proof::Tests(names) => names.iter().map(|name| (row, name.as_str())).collect::<Vec<_>>(),
        Proof::Refused(_) => Vec::new(),
    })
}

fn is_file(name: &str) -> bool {
    [".py", ".js", ".yaml"].iter().any(|end| name.ends_with(end))
}

fn bare(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Returns true if a test of that name exists, in a file or folder of each name before it.
fn is_test(name: &str, tests: &Tests) -> bool {
    let Some(paths) = tests.get(bare(name)) else { return false };
    let parts: Vec<&str> = name.split("::").collect();
    let places = &parts[..parts.len() - 1];
    paths.iter().any(|path| places.iter().all(|place| path.split(['/', '.']).any(|part| part == *place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    const CODE: &str = "#[test]\nfn holds() {}\n";

    fn ledger(text: &str) -> (Vec<Row>, Vec<String>) {
        rows(&[Text::new("tests/ledger/a.tsv", text)])
    }

    #[test]
    fn rows_are_read() {
        let (rows, faults) =
            ledger("# note\n1.2\tshows this\tx::holds, other\n3\tnever\trefused: not ours\n");
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(rows[0].proof, Proof::Tests(vec!["x::holds".to_owned(), "other".to_owned()]));
        assert_eq!(rows[1].proof, Proof::Refused("not ours".to_owned()));
    }

    #[test]
    fn invalid_rows_are_reported() {
        let (rows, faults) = ledger("1\tno test\n2\tempty\t \n3\tno reason\trefused:\n");
        assert_eq!((rows.len(), faults.len()), (0, 3));
        assert!(faults[0].starts_with("a.tsv:1:"), "{faults:?}");
    }

    #[test]
    fn lost_row_is_found() {
        let (rows, _) = ledger("1\tshows\tholds\n");
        assert_eq!(miscounted(&rows, "a.tsv 1\n"), [""; 0]);
        assert_eq!(miscounted(&rows, "a.tsv 2\n").len(), 1);
        assert_eq!(miscounted(&rows, "").len(), 1);
        assert_eq!(miscounted(&rows, "a.tsv 1\nb.tsv 4\n").len(), 1);
    }

    #[test]
    fn missing_test_is_found() {
        let texts = [Text::new("server/xds/tests/session.rs", CODE), Text::new("tests/tools/c.py", "")];
        let tests = scan::tests(&texts);
        let absent = |test: &str| missing(&ledger(&format!("1\tshows\t{test}\n")).0, &tests, &texts).len();
        assert_eq!(["holds", "session::holds", "xds::holds", "c.py"].map(absent), [0; 4]);
        assert_eq!(["gone", "other::holds", "d.py", "holds, gone"].map(absent), [1; 4]);
    }

    #[test]
    fn test_that_did_not_run_is_found() {
        let (rows, _) = ledger("1\tshows\tx::holds\n2\tshows\tc.py\n");
        assert_eq!(idle(&rows, &scan::ran("test a::holds ... ok\n")), [""; 0]);
        assert_eq!(idle(&rows, &scan::ran("test a::holds ... ignored\n")).len(), 1);
    }
}
