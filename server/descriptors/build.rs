//! Compiles descriptors from the protobuf files that the package `envoy-types` publishes, so that they always belong to
//! its types and no such file is kept here.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost_types::FileDescriptorProto;
use protox::Compiler;
use protox::prost::Message as _;
use protox::prost::encoding::decode_varint;

/// Package whose protobuf files are compiled.
const PACKAGE: &str = "envoy-types";
/// Roots of imports within the package.
const ROOTS: [&str; 7] = [
    "data-plane-api",
    "googleapis",
    "protoc-gen-validate",
    "xds",
    "cel-spec/proto",
    "opentelemetry-proto",
    "client_model",
];
/// Files of the discovery service; their imports follow.
const DISCOVERY: [&str; 1] = ["envoy/service/discovery/v3/ads.proto"];
/// Folders with all messages that resources may hold, within the first root.
const RESOURCES: [&str; 2] = ["envoy/config", "envoy/extensions"];
/// File that the compiler cannot resolve: it takes a package of an imported file for the start of another name.
const LEFT_OUT: &str = "envoy/extensions/clusters/dynamic_forward_proxy/v3/cluster.proto";
/// Files of the pages about clients.
const PAGES: [&str; 2] = ["envoy/admin/v3/config_dump.proto", "envoy/service/status/v3/csds.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let protos = package()?.join("proto");
    compile(&protos, DISCOVERY.map(PathBuf::from), "discovery.bin")?;
    let mut files: Vec<PathBuf> = PAGES.map(PathBuf::from).into();
    let first = protos.join(ROOTS[0]);
    for folder in RESOURCES {
        add_files(&first, Path::new(folder), &mut files)?;
    }
    files.sort();
    compile(&protos, files, "resources.bin")
}

/// Adds the protobuf files below a folder, relative to the root.
fn add_files(root: &Path, folder: &Path, out: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let (path, is_folder) =
            entry.and_then(|e| Ok((folder.join(e.file_name()), e.file_type()?.is_dir())))?;
        if is_folder {
            add_files(root, &path, out)?;
        } else if path.extension().is_some_and(|extension| extension == "proto")
            && path != Path::new(LEFT_OUT)
        {
            out.push(path);
        }
    }
    Ok(())
}

/// Compiles files and their imports. Options of fields stay, since one marks the sensitive ones.
fn compile(
    protos: &Path,
    files: impl IntoIterator<Item = PathBuf>,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let compiler = || -> Result<Compiler, protox::Error> {
        let mut compiler = Compiler::new(ROOTS.map(|root| protos.join(root)))?;
        // comments and positions would multiply the size
        compiler.include_imports(true).include_source_info(false);
        Ok(compiler)
    };
    let mut set = FileSet::default();
    let mut shared = compiler()?;
    for file in files {
        // The compiler finds a name in any open file, protoc in imported ones only. So a file whose names are
        // ambiguous beside the others is compiled alone.
        if shared.open_file(&file).is_err() {
            let mut alone = compiler()?;
            alone.open_file(&file)?;
            set.add(&alone.encode_file_descriptor_set())?;
        }
    }
    set.add(&shared.encode_file_descriptor_set())?;
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    Ok(std::fs::write(Path::new(&out).join(name), set.encoded)?)
}

/// Encoded `FileDescriptorSet` with each file once, after its imports.
#[derive(Default)]
struct FileSet {
    names: BTreeSet<String>,
    encoded: Vec<u8>,
}

impl FileSet {
    /// Adds the new files of an encoded set. The files stay encoded, because decoding would drop the options.
    fn add(&mut self, set: &[u8]) -> Result<(), Box<dyn Error>> {
        let mut rest = set;
        while !rest.is_empty() {
            let start = rest;
            // field 1, a message
            let (_, length) = (decode_varint(&mut rest)?, usize::try_from(decode_varint(&mut rest)?)?);
            let (file, after) = rest.split_at(length);
            let name = FileDescriptorProto::decode(file)?.name().to_owned();
            if self.names.insert(name) {
                self.encoded.extend_from_slice(&start[..start.len() - after.len()]);
            }
            rest = after;
        }
        Ok(())
    }
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
