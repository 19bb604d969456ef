//! Every check of the table has a real fault: a list of proofs, compared with the table.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::checked::run;

/// Folder of the tests that run servers in their own process.
const APP: &str = "server/app/tests/app";
/// Folder of this suite.
const HERE: &str = "tests/suites/tests/hybrid_check";

/// Check, and the file of the test that makes it red by a real fault.
const PROOFS: &[(&str, &str, &str)] = &[
    ("server-answers", HERE, "replicas.rs"),
    ("server-ready", APP, "check_worlds.rs"),
    ("server-version", HERE, "running.rs"),
    ("server-clock", HERE, "running.rs"),
    ("cluster-clocks", HERE, "running.rs"),
    ("config-reload", APP, "check_worlds.rs"),
    ("rights", HERE, "main.rs"),
    ("kinds", HERE, "running.rs"),
    ("registries-live", HERE, "main.rs"),
    ("registry-runs", HERE, "running.rs"),
    ("registry-problems", APP, "check_command.rs"),
    ("clusters-live", HERE, "main.rs"),
    ("cluster-credentials", APP, "check_worlds.rs"),
    ("cluster-declarations", APP, "check_worlds.rs"),
    ("cluster-identities", HERE, "running.rs"),
    ("cluster-tries", HERE, "main.rs"),
    ("gateways", APP, "check_worlds.rs"),
    ("certificates", HERE, "main.rs"),
    ("certificate-files", APP, "check_worlds.rs"),
    ("consul-tokens", HERE, "main.rs"),
    ("service-conflicts", APP, "check_command.rs"),
    ("policies-valid", APP, "check_worlds.rs"),
    ("policy-conditions", APP, "check_worlds.rs"),
    ("clients-synced", APP, "check_worlds.rs"),
    ("client-notes", HERE, "replicas.rs"),
    ("held-removals", APP, "check_worlds.rs"),
    ("state-kept", APP, "check_worlds.rs"),
    ("state-files", APP, "check_worlds.rs"),
    ("replicas-answer", HERE, "replicas.rs"),
    ("replicas-version", HERE, "replicas.rs"),
    ("replicas-registries", HERE, "replicas.rs"),
    ("replicas-content", HERE, "replicas.rs"),
    ("replicas-config", HERE, "replicas.rs"),
    ("before-config", HERE, "before.rs"),
    ("before-ports", HERE, "before.rs"),
    ("before-cluster", HERE, "before.rs"),
    ("before-version", HERE, "before.rs"),
    ("before-clock", HERE, "before.rs"),
    ("before-rights", HERE, "main.rs"),
    ("before-kinds", HERE, "before.rs"),
    ("before-namespace", HERE, "before.rs"),
    ("before-certificates", HERE, "main.rs"),
    ("before-state", HERE, "main.rs"),
    ("before-consul", HERE, "before.rs"),
    ("before-consul-token", HERE, "main.rs"),
    ("before-remotes", HERE, "before.rs"),
];

#[tokio::test]
async fn every_check_of_the_table_has_a_real_fault() -> Result<()> {
    let (code, page, notes) = run(&["reference", "checks.md"]).await?;
    ensure!(code == Some(0), "{notes}");
    let table: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let proved: BTreeSet<&str> = PROOFS.iter().map(|(id, ..)| *id).collect();
    ensure!(proved.len() == PROOFS.len(), "a check has two proofs");
    let (missing, gone) = (table.difference(&proved), proved.difference(&table));
    let differ = (missing.collect::<Vec<_>>(), gone.collect::<Vec<_>>());
    ensure!(
        differ.0.is_empty() && differ.1.is_empty(),
        "without a real fault, and without a check: {differ:?}"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (id, folder, file) in PROOFS {
        let path = root.join(folder).join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let is_named = text.contains(&format!("\"{id}\""))
            || text.contains(&format!("#{id}"))
            || text.contains(&format!("{id}: "));
        ensure!(is_named, "{} does not name {id}", path.display());
    }
    Ok(())
}
