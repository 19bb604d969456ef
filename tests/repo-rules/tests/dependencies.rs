//! Checks the dependencies between the crates of this workspace.

use tributary_repo_rules::dependencies::{faults, workspace};

#[test]
fn crates_depend_only_on_what_they_may() {
    let crates = workspace().unwrap();
    assert!(crates.len() >= 14, "cargo metadata shows only {} crates", crates.len());
    let faults = faults(&crates);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
