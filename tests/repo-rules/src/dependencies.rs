//! Allowed dependencies between crates. Knowledge flows one way: the model depends on no crate, the core and
//! the answers depend on the model, servers depend on them, and only the application depends on every registry.
//! Normal dependencies only; tests may use any crate.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::tree;

/// A crate of the workspace.
#[derive(Debug, Clone)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// Its folder, relative to the root.
    pub folder: String,
    /// Names of its normal dependencies, in and outside the workspace.
    pub needs: Vec<String>,
}

/// Product crates, and the crates of the workspace that each may use.
const MAY_USE: [(&str, &[&str]); 16] = [
    ("tributary-model", &[]),
    ("tributary-core", &["tributary-model"]),
    ("tributary-answer", &["tributary-model"]),
    ("tributary-registry-api", &["tributary-model"]),
    ("tributary-consul", &["tributary-model", "tributary-registry-api"]),
    ("tributary-dns", &["tributary-model", "tributary-registry-api"]),
    ("tributary-kube-client", &["tributary-model", "tributary-registry-api"]),
    ("tributary-kubernetes", &["tributary-model", "tributary-registry-api", "tributary-kube-client"]),
    ("tributary-remote", &["tributary-model", "tributary-registry-api", "tributary-kube-client"]),
    // values of EnvoyFilters are messages of Envoy's API
    (
        "tributary-service-entry",
        &["tributary-model", "tributary-registry-api", "tributary-kube-client", "tributary-descriptors"],
    ),
    // an example of a registry outside Tributary, and of a binary with it
    ("tributary-example-registry", &["tributary-model", "tributary-registry-api", "tributary"]),
    ("tributary-descriptors", &[]),
    ("tributary-proto", &[]),
    ("tributary-xds", &["tributary-model", "tributary-answer", "tributary-descriptors", "tributary-proto"]),
    ("tributary-journal", &["tributary-model"]),
    ("tributary-runtime", &["tributary-model", "tributary-core", "tributary-registry-api"]),
];

/// The one crate that may use every other product crate.
const APPLICATION: &str = "tributary";

/// Dependencies that would bring input, output or a clock into the crates that decide.
const WORLDLY: [&str; 12] = [
    "axum",
    "h2",
    "hyper",
    "hyper-util",
    "notify",
    "reqwest",
    "rustls",
    "tokio",
    "tokio-util",
    "tonic",
    "tower",
    "tracing",
];

/// Reads the crates of the workspace from cargo.
pub fn workspace() -> Result<Vec<Crate>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(tree::root());
    let output = command.output().context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    Ok(metadata["packages"].as_array().into_iter().flatten().map(|package| read(package, root)).collect())
}

fn read(package: &Value, root: &str) -> Crate {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let folder = manifest.trim_start_matches(root).trim_start_matches('/').trim_end_matches("/Cargo.toml");
    let normal =
        package["dependencies"].as_array().into_iter().flatten().filter(|need| need["kind"].is_null());
    Crate {
        name: package["name"].as_str().unwrap_or_default().to_owned(),
        folder: folder.to_owned(),
        needs: normal.filter_map(|need| need["name"].as_str().map(str::to_owned)).collect(),
    }
}

/// Returns the violations in these crates as messages; empty if there are none.
pub fn faults(crates: &[Crate]) -> Vec<String> {
    let mut faults = Vec::new();
    for one in crates.iter().filter(|one| !is_test(one)) {
        for need in &one.needs {
            let ours = crates.iter().find(|other| other.name == *need);
            if let Some(other) = ours.filter(|other| !may_use(one, other)) {
                faults.push(format!("{} may not depend on {}", one.name, other.name));
            }
            if one.folder.starts_with("aggregate/") && WORLDLY.contains(&need.as_str()) {
                faults.push(format!("{} decides and does no I/O: it may not depend on {need}", one.name));
            }
        }
        if one.name != APPLICATION && allowed(&one.name).is_none() {
            faults.push(format!(
                "{} is not listed: add its allowed dependencies to tests/repo-rules/src/dependencies.rs",
                one.name
            ));
        }
    }
    faults
}

fn is_test(one: &Crate) -> bool {
    one.folder.starts_with("tests/")
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    MAY_USE.iter().find(|(crate_name, _)| *crate_name == name).map(|(_, may)| *may)
}

fn may_use(one: &Crate, other: &Crate) -> bool {
    if is_test(other) {
        return false;
    }
    one.name == APPLICATION || allowed(&one.name).is_some_and(|may| may.contains(&other.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a(name: &str, folder: &str, needs: &[&str]) -> Crate {
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        Crate { name: name.to_owned(), folder: folder.to_owned(), needs }
    }

    fn world(core: &[&str], app: &[&str]) -> Vec<Crate> {
        vec![
            a("tributary-model", "aggregate/model", &[]),
            a("tributary-core", "aggregate/core", core),
            a("tributary-answer", "aggregate/answer", &["tributary-model"]),
            a("tributary", "server/app", app),
            a("tributary-suites", "tests/suites", &["tributary"]),
        ]
    }

    #[test]
    fn allowed_dependencies_pass() {
        assert_eq!(faults(&world(&["tributary-model", "imbl"], &["tributary-core"])), [""; 0]);
    }

    #[test]
    fn sideways_dependency_is_a_fault() {
        let faults = faults(&world(&["tributary-answer"], &[]));
        assert_eq!(faults, ["tributary-core may not depend on tributary-answer"]);
    }

    #[test]
    fn application_cannot_depend_on_test_crates() {
        assert_eq!(
            faults(&world(&[], &["tributary-suites"])),
            ["tributary may not depend on tributary-suites"]
        );
    }

    #[test]
    fn runtime_in_the_core_is_a_fault() {
        assert_eq!(faults(&world(&["tokio"], &[])).len(), 1);
    }

    #[test]
    fn crate_without_a_rule_is_a_fault() {
        assert_eq!(faults(&[a("tributary-new", "registries/new", &[])]).len(), 1);
    }
}
