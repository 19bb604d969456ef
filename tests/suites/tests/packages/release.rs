//! A release: its checksums, its bill of materials, and what its archives contain.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tributary_suites::deploy::{Release, path, succeed};
use tributary_suites::kube::api::documents;

const LINKED: [&str; 10] =
    ["tree", "--locked", "--offline", "-p", "tributary", "-e", "normal", "--prefix", "none", "--format={p}"];

#[tokio::test]
async fn checksums_cover_every_file_of_a_release() -> Result<()> {
    let release = Release::shared().await?;
    let folder = release.files().display().to_string();
    let checked = succeed("env", ["-C", &folder, "sha256sum", "--check", "--strict", "SHA256SUMS"]).await?;
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(release.files())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name != "SHA256SUMS");
    names.sort();
    assert_eq!(
        names,
        [
            "tributary-0.1.0-linux-amd64.cdx.json",
            "tributary-0.1.0-linux-amd64.tar.gz",
            "tributary-chart-0.1.0.tgz",
            "tributary-image-0.1.0-linux-amd64.tar",
            "tributary-manifests-0.1.0.yaml",
            "tributary_0.1.0_amd64.deb",
        ]
    );
    for name in &names {
        ensure!(checked.contains(&format!("{name}: OK")), "{name} has no checksum: {checked}");
    }
    let manifests = documents(&std::fs::read_to_string(release.file("tributary-manifests-0.1.0.yaml"))?)?;
    ensure!(manifests.first().is_some_and(|one| one["kind"] == "Namespace"), "the namespace comes first");
    Ok(())
}

#[tokio::test]
async fn bill_of_materials_lists_every_linked_crate_and_package() -> Result<()> {
    let release = Release::shared().await?;
    let text = std::fs::read_to_string(release.file("tributary-0.1.0-linux-amd64.cdx.json"))?;
    let bom: Value = serde_json::from_str(&text)?;
    ensure!(bom["bomFormat"] == "CycloneDX" && bom["specVersion"] == "1.6", "{}", bom["bomFormat"]);
    let listed: BTreeSet<String> = bom["components"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| Some(format!("{} {}", one["name"].as_str()?, one["version"].as_str()?)))
        .collect();
    let manifest = path("../../Cargo.toml").display().to_string();
    let tree = succeed("cargo", [&LINKED[..], &["--manifest-path", &manifest]].concat()).await?;
    for line in tree.lines() {
        let mut parts = line.split_whitespace();
        let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let one = format!("{name} {}", version.trim_start_matches('v'));
        ensure!(name == "tributary" || listed.contains(&one), "{one} is linked and not listed");
    }
    for name in ["libc6 ", "libgcc-s1 ", "ca-certificates "] {
        ensure!(listed.iter().any(|one| one.starts_with(name)), "{name} is not listed");
    }
    let without =
        |one: &&Value| one["purl"].as_str().is_some_and(|p| p.contains("/ring@")) && one["hashes"].is_null();
    ensure!(
        !bom["components"].as_array().into_iter().flatten().any(|one| without(&one)),
        "a crate has no hash"
    );
    Ok(())
}

#[tokio::test]
async fn command_of_the_guide_installs_the_program_with_locked_dependencies() -> Result<()> {
    let guide = std::fs::read_to_string(path("../../docs/guides/install.md"))?;
    let command = guide.lines().find(|line| line.starts_with("cargo install ")).context("no command")?;
    let folder = command.strip_prefix("cargo install --locked --path ").context("it is not locked")?;
    let manifest = path("../..").join(folder).join("Cargo.toml").canonicalize()?.display().to_string();
    let args = ["metadata", "--no-deps", "--locked", "--offline", "--format-version", "1", "--manifest-path"];
    let metadata: Value = serde_json::from_str(&succeed("cargo", args.iter().chain(&[&*manifest])).await?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|one| one["manifest_path"] == manifest).context("no such package")?;
    let targets = package["targets"].as_array().into_iter().flatten();
    let programs: Vec<&Value> =
        targets.filter(|one| one["kind"][0] == "bin").map(|one| &one["name"]).collect();
    assert_eq!(programs, ["tributary"]);
    Ok(())
}
