//! Checks that the reference page about Kubernetes matches the ledger; `UPDATE_DOCS=1` rewrites it.

use tributary_repo_rules::tree::texts;
use tributary_repo_rules::{ledger, rules};

#[test]
fn kubernetes_page_matches_the_ledger() {
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
