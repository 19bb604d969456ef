//! Checks the references between files: cited pages, and paths between modules of a crate.

use tributary_repo_rules::tree::assert_holds;
use tributary_repo_rules::{circles, references};

#[test]
fn every_cited_page_and_heading_exists() {
    assert_holds(references::dangling);
}

#[test]
fn no_page_is_cited_by_section_number() {
    assert_holds(references::numbered);
}

#[test]
fn code_that_documents_name_exists() {
    assert_holds(references::without_code);
}

#[test]
fn circles_of_files_are_small() {
    assert_holds(circles::faults);
}
