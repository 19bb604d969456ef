//! A folder of documents for the file registry, written as careful editors write: to a new file that is then
//! renamed over the old one. Suites that move endpoints under a running server use it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A temporary folder that a server watches.
#[derive(Debug)]
pub struct Files {
    folder: TempDir,
}

impl Files {
    /// Returns an empty folder.
    pub fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir().context("make a folder for documents")? })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes or replaces `name` in one step.
    pub fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path().join(name);
        let fresh = self.path().join(format!(".{name}.new"));
        std::fs::write(&fresh, text).with_context(|| format!("write {}", fresh.display()))?;
        std::fs::rename(&fresh, &path).with_context(|| format!("replace {}", path.display()))
    }

    /// Removes `name`.
    pub fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.path().join(name)).with_context(|| format!("remove {name}"))
    }
}

/// Returns a ServiceEntry with static endpoints, one HTTP or gRPC port, and each endpoint on the port it listens on.
pub fn service_entry(host: &str, protocol: &str, port: u16, endpoints: &[SocketAddr]) -> String {
    let name = host.replace('.', "-");
    let mut text = format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: {name}\n  namespace: default\n\
         spec:\n  hosts: [{host}]\n  location: MESH_INTERNAL\n  resolution: STATIC\n  \
         ports:\n  - {{number: {port}, name: main, protocol: {protocol}}}\n  endpoints:"
    );
    if endpoints.is_empty() {
        text.push_str(" []");
    }
    for endpoint in endpoints {
        text.push_str(&format!("\n  - {{address: {}, ports: {{main: {}}}}}", endpoint.ip(), endpoint.port()));
    }
    text.push('\n');
    text
}
