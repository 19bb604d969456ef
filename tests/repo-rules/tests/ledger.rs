//! Checks that every row of the ledger names a test that exists and, if TRIBUTARY_RUN_LOG is the path of a
//! run's collected output (a file, or a folder of logs), that ran and passed.

use std::path::Path;

use tributary_repo_rules::tree::texts;
use tributary_repo_rules::{ledger, scan};

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn read_log(path: &Path) -> std::io::Result<String> {
    if path.is_file() {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    for log in std::fs::read_dir(path)? {
        let log = log?.path();
        if log.is_file() {
            text.push_str(&std::fs::read_to_string(log)?);
        }
    }
    Ok(text)
}

#[test]
fn every_row_is_whole() {
    none(&ledger::rows(&texts().unwrap()).1);
}

#[test]
fn no_row_is_lost() {
    let texts = texts().unwrap();
    let counts =
        texts.iter().find(|text| text.path == ledger::COUNTS).expect("tests/ledger/counts.txt is gone");
    none(&ledger::miscounted(&ledger::rows(&texts).0, &counts.text));
}

#[test]
fn every_named_test_exists() {
    let texts = texts().unwrap();
    none(&ledger::missing(&ledger::rows(&texts).0, &scan::tests(&texts), &texts));
}

#[test]
fn every_named_test_ran() {
    let Some(log) = std::env::var_os("TRIBUTARY_RUN_LOG") else { return };
    let log = read_log(Path::new(&log)).unwrap();
    none(&ledger::idle(&ledger::rows(&texts().unwrap()).0, &scan::ran(&log)));
}
