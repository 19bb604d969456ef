//! Paths of the tools of the suites. `./test` installs them and sets environment variables; a suite that is run
//! by hand finds them in the private cache. The Envoy, gRPC and server parts call it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

/// Returns the Envoy binary.
pub fn envoy() -> Result<PathBuf> {
    if let Some(path) = named("TRIBUTARY_ENVOY")? {
        return Ok(path);
    }
    let site = newest(&venv()?.join("lib"), "python3")?;
    exists("TRIBUTARY_ENVOY", site.join("site-packages/envoy/_bin/envoy"))
}

/// Returns the Python that has grpcio.
pub fn python() -> Result<PathBuf> {
    match named("TRIBUTARY_PYTHON")? {
        Some(path) => Ok(path),
        None => exists("TRIBUTARY_PYTHON", venv()?.join("bin/python")),
    }
}

/// Returns the folder with the packages of gRPC for JavaScript.
pub fn node_modules() -> Result<PathBuf> {
    match named("TRIBUTARY_NODE_MODULES")? {
        Some(path) => Ok(path),
        None => exists("TRIBUTARY_NODE_MODULES", newest(&cache()?, "node-")?.join("node_modules")),
    }
}

/// Returns the Kubernetes API server.
pub fn kube_apiserver() -> Result<PathBuf> {
    built("TRIBUTARY_KUBE_APISERVER", "kubernetes-", "kube-apiserver")
}

/// Returns the etcd binary.
pub fn etcd() -> Result<PathBuf> {
    built("TRIBUTARY_ETCD", "kubernetes-", "etcd")
}

/// Returns the Consul binary.
pub fn consul() -> Result<PathBuf> {
    built("TRIBUTARY_CONSUL", "consul-", "consul")
}

/// Returns the helm binary.
pub fn helm() -> Result<PathBuf> {
    built("TRIBUTARY_HELM", "helm-", "helm")
}

/// Returns Prometheus; promtool is beside it.
pub fn prometheus() -> Result<PathBuf> {
    built("TRIBUTARY_PROMETHEUS", "prometheus-", "usr/bin/prometheus")
}

fn built(variable: &str, folder: &str, name: &str) -> Result<PathBuf> {
    match named(variable)? {
        Some(path) => Ok(path),
        None => exists(variable, newest(&cache()?, folder)?.join(name)),
    }
}

/// Returns the `tributary` binary: the configured one, or the one beside the running test in cargo's target
/// folder.
pub fn tributary() -> Result<PathBuf> {
    if let Some(path) = named("TRIBUTARY_BIN")? {
        return Ok(path);
    }
    let test = std::env::current_exe()?;
    let profile =
        test.ancestors().nth(2).ok_or_else(|| anyhow!("{} lies in no target folder", test.display()))?;
    exists("TRIBUTARY_BIN", profile.join("tributary"))
}

/// Returns the `tributary` binary of the previous commit.
pub fn previous() -> Result<PathBuf> {
    match named("TRIBUTARY_PREVIOUS_BIN")? {
        Some(path) => Ok(path),
        None => exists("TRIBUTARY_PREVIOUS_BIN", cache()?.join("previous/tributary")),
    }
}

/// Returns a script in `tests/tools`.
pub fn script(name: &str) -> Result<PathBuf> {
    exists(name, Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools").join(name))
}

fn named(variable: &str) -> Result<Option<PathBuf>> {
    std::env::var_os(variable).map(|path| exists(variable, path.into())).transpose()
}

fn exists(what: &str, path: PathBuf) -> Result<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    bail!("{what}: {} is not there; run ./test, which makes it, or set {what}", path.display())
}

/// Returns the private cache.
pub fn cache() -> Result<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    var("TRIBUTARY_CACHE")
        .or_else(|| Some(var("XDG_CACHE_HOME")?.join("tributary")))
        .or_else(|| Some(var("HOME")?.join(".cache/tributary")))
        .ok_or_else(|| anyhow!("no cache folder: set TRIBUTARY_CACHE or HOME"))
}

fn venv() -> Result<PathBuf> {
    newest(&cache()?, "venv-")
}

/// Returns the newest folder in `folder` whose name starts with `prefix`.
fn newest(folder: &Path, prefix: &str) -> Result<PathBuf> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| anyhow!("{}: {error}; run ./test", folder.display()))?;
    entries
        .flatten()
        .filter(|entry| starts_with(&entry.file_name(), prefix) && entry.path().is_dir())
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok())
        .map(|entry| entry.path())
        .ok_or_else(|| anyhow!("{} has no {prefix}*; run ./test, which makes it", folder.display()))
}

fn starts_with(name: &OsString, prefix: &str) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(prefix))
}
