//! Holds the page on Kubernetes, rule by rule, in step with the ledger; `UPDATE_DOCS=1` rewrites it instead.

use tributary_repo_rules::tree::texts;
use tributary_repo_rules::{ledger, rules};

#[test]
fn the_rules_of_kubernetes_are_those_of_the_ledger() {
    let texts = texts().unwrap();
    let rows = ledger::rows(&texts).0;
    let lost = rules::homeless(&rows);
    assert!(lost.is_empty(), "\n{}\n", lost.join("\n"));
    let page = rules::page(&rows);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), rules::PAGE);
        std::fs::write(path, page).unwrap();
        return;
    }
    let held = texts.iter().find(|text| text.path == rules::PAGE).map(|text| text.text.as_str());
    assert!(
        held == Some(&page),
        "{} is out of date: UPDATE_DOCS=1 cargo test -p tributary-repo-rules --test rules",
        rules::PAGE
    );
}
