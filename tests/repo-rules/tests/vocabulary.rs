//! Checks that the repository uses the terms of its glossary.

use tributary_repo_rules::tree::texts;
use tributary_repo_rules::vocabulary;

#[test]
fn names_comments_and_messages_use_the_glossary() {
    let faults = vocabulary::faults(&texts().unwrap());
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_exception_is_used() {
    let unused = vocabulary::unused_exceptions(&texts().unwrap());
    assert!(unused.is_empty(), "\n{}\n", unused.join("\n"));
}
