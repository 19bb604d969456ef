//! Compiles descriptors from the protobuf files that the package `envoy-types` publishes, so that they always belong to
//! its types and no such file is kept here.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Package whose protobuf files are compiled.
const PACKAGE: &str = "envoy-types";
/// Roots of imports within the package.
const ROOTS: [&str; 5] = ["data-plane-api", "googleapis", "protoc-gen-validate", "xds", "cel-spec/proto"];
/// Compiled files; their imports follow.
const FILES: [&str; 1] = ["envoy/service/discovery/v3/ads.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let protos = package()?.join("proto");
    let mut compiler = protox::Compiler::new(ROOTS.map(|root| protos.join(root)))?;
    // comments and positions would multiply the size
    compiler.include_imports(true).include_source_info(false).open_files(FILES)?;
    let set = compiler.file_descriptor_set();
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join("envoy.bin"), protox::prost::Message::encode_to_vec(&set))?;
    Ok(())
}

/// Returns the folder of the package's source.
fn package() -> Result<PathBuf, Box<dyn Error>> {
    // A build of some crates alone downloads only what they need, and the list of packages needs them all.
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    let packages = metadata["packages"].as_array().ok_or("cargo lists no packages")?;
    let found = packages.iter().find(|package| package["name"] == PACKAGE);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|path| Path::new(path).parent());
    Ok(folder.ok_or_else(|| format!("{PACKAGE} is not a dependency"))?.to_owned())
}

/// Returns the packages of this platform as cargo lists them.
fn metadata(arguments: &[&str]) -> Result<serde_json::Value, Box<dyn Error>> {
    let variable = |name: &str| std::env::var_os(name).ok_or_else(|| format!("{name} is not set"));
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    let output = cargo.arg(variable("TARGET")?).args(arguments).output()?;
    let listed = serde_json::from_slice(&output.stdout);
    Ok(listed.map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?)
}
