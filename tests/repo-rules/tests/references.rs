//! Checks the references between files: cited pages, and paths between modules of a crate.

use tributary_repo_rules::tree::{Text, texts};
use tributary_repo_rules::{circles, references};

fn holds(check: fn(&[Text]) -> Vec<String>) {
    let texts = texts().unwrap_or_default();
    assert!(texts.iter().filter(|text| text.is_rust()).count() > 20, "the tree was not read");
    let faults = check(&texts);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_cited_page_and_heading_exists() {
    holds(references::dangling);
}

#[test]
fn no_page_is_cited_by_section_number() {
    holds(references::numbered);
}

#[test]
fn circles_of_files_are_small() {
    holds(circles::faults);
}
