//! Checks that the repository uses the terms of its glossary.

use tributary_repo_rules::tree::assert_holds;
use tributary_repo_rules::vocabulary;

#[test]
fn names_comments_and_messages_use_the_glossary() {
    assert_holds(vocabulary::faults);
}

#[test]
fn every_exception_is_used() {
    assert_holds(vocabulary::unused_exceptions);
}
