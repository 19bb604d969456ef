//! Checks the layout of this tree's files.

use tributary_repo_rules::tree::assert_holds;
use tributary_repo_rules::{layers, layout};

#[test]
fn every_rust_file_has_a_header() {
    assert_holds(layout::without_opening);
}

#[test]
fn no_file_is_named_mod() {
    assert_holds(layout::named_mod);
}

#[test]
fn no_rust_file_is_too_long() {
    assert_holds(layout::too_long);
}

#[test]
fn every_crate_takes_the_lints() {
    assert_holds(layout::without_lints);
}

#[test]
fn every_public_item_is_documented() {
    assert_holds(layout::undocumented);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    assert_holds(layout::machine_paths);
}

#[test]
fn no_lock_file_names_a_host() {
    assert_holds(layout::resolved_hosts);
}

#[test]
fn crates_that_decide_have_no_clock_and_no_io() {
    assert_holds(layout::worldly_calls);
}

#[test]
fn modules_of_the_core_name_no_higher_layer() {
    assert_holds(layers::upward_references);
}
