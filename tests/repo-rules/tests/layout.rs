//! Checks the layout of this tree's files.

use tributary_repo_rules::tree::{Text, texts};
use tributary_repo_rules::{layers, layout};

fn holds(check: fn(&[Text]) -> Vec<String>) {
    let texts = texts().unwrap_or_default();
    assert!(texts.iter().filter(|text| text.is_rust()).count() > 20, "the tree was not read");
    let faults = check(&texts);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_rust_file_has_a_header() {
    holds(layout::without_opening);
}

#[test]
fn no_file_is_named_mod() {
    holds(layout::named_mod);
}

#[test]
fn no_rust_file_is_too_long() {
    holds(layout::too_long);
}

#[test]
fn every_crate_takes_the_lints() {
    holds(layout::without_lints);
}

#[test]
fn every_public_item_is_documented() {
    holds(layout::undocumented);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    holds(layout::machine_paths);
}

#[test]
fn no_lock_file_names_a_host() {
    holds(layout::resolved_hosts);
}

#[test]
fn crates_that_decide_have_no_clock_and_no_io() {
    holds(layout::worldly_calls);
}

#[test]
fn modules_of_the_core_name_no_higher_layer() {
    holds(layers::upward_references);
}
