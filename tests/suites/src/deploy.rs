//! What `server/deploy` offers to operators, run as they would: helm, the scripts, and the image. The suite `packages` uses it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::kube::api::documents;
use crate::tools;

/// Namespace of releases.
pub const NAMESPACE: &str = "tributary-system";

static IMAGE: OnceCell<Image> = OnceCell::const_new();

/// Returns a path in `server/deploy`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/deploy").join(name)
}

/// Runs a program to its end.
pub async fn output<I: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = I>,
) -> Result<Output> {
    let name = program.as_ref().display().to_string();
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true).env("PYTHONDONTWRITEBYTECODE", "1");
    command.output().await.with_context(|| format!("run {name}"))
}

/// Runs a program that must succeed, and returns its standard output.
pub async fn succeed<I: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = I>,
) -> Result<String> {
    let name = program.as_ref().display().to_string();
    let done = output(program, args).await?;
    let error = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{name} ended with {}: {error}", done.status);
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs a program that must fail, and returns its standard error.
pub async fn fail<I: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = I>,
) -> Result<String> {
    let done = output(program, args).await?;
    ensure!(!done.status.success(), "it succeeded: {}", String::from_utf8_lossy(&done.stdout));
    Ok(String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Helm with folders of its own, for one kubeconfig or none.
#[derive(Debug)]
pub struct Helm {
    folder: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Uses no cluster, or that of a kubeconfig.
    pub fn new(kubeconfig: Option<PathBuf>) -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, kubeconfig })
    }

    /// Runs a command of helm for release `tributary` of the chart: `template`, or `upgrade --install`.
    pub async fn run(&self, command: &[&str], values: &Value) -> Result<Output> {
        let file = self.folder.path().join("values.json");
        std::fs::write(&file, values.to_string())?;
        let mut helm = Command::new(tools::helm()?);
        helm.args(command).arg("tributary").arg(path("chart")).args(["-n", NAMESPACE, "--values"]).arg(&file);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(name, self.folder.path().join(name));
        }
        match &self.kubeconfig {
            Some(file) => helm.env("KUBECONFIG", file),
            None => helm.env_remove("KUBECONFIG"),
        };
        helm.kill_on_drop(true).output().await.context("run helm")
    }

    /// Renders the chart.
    pub async fn render(&self, values: &Value) -> Result<Vec<Value>> {
        let done = self.run(&["template"], values).await?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        documents(&String::from_utf8_lossy(&done.stdout))
    }

    /// Installs the release, or changes it.
    pub async fn upgrade(&self, values: &Value) -> Result<String> {
        let done = self.run(&["upgrade", "--install", "--create-namespace"], values).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(done.status.success(), "{}", text(&done.stderr));
        Ok(text(&done.stdout))
    }
}

/// The image of the binary under test, unpacked.
#[derive(Debug)]
pub struct Image {
    folder: TempDir,
}

impl Image {
    /// Returns the image that the tests of this process share.
    pub async fn shared() -> Result<&'static Self> {
        IMAGE.get_or_try_init(Self::build).await
    }

    async fn build() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        build_image(&tools::tributary()?, folder.path(), &[]).await?;
        let (oci, root) = (folder.path().join("oci"), folder.path().join("root"));
        succeed(path("image/unpack"), [&oci, &root]).await?;
        Ok(Self { folder })
    }

    /// Returns its layout.
    pub fn layout(&self) -> PathBuf {
        self.folder.path().join("oci")
    }

    /// Returns its root.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
}

/// Builds an image of a binary and returns the digest of its manifest. Where the sources of this machine no longer have the
/// pinned versions, the current ones are pinned for this test run.
pub async fn build_image(binary: &Path, out: &Path, more: &[&str]) -> Result<String> {
    let packages = cache()?;
    let mut args: Vec<&OsStr> = vec!["--binary".as_ref(), binary.as_ref(), "--out".as_ref(), out.as_ref()];
    args.extend(["--packages".as_ref(), packages.as_os_str()]);
    args.extend(more.iter().map(OsStr::new));
    let done = output(path("image/build"), &args).await?;
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned());
    }
    if !error.contains("is not available from this machine's package sources") {
        bail!("{error}");
    }
    eprintln!("the pinned packages are gone, so current ones are used: {error}");
    let pins = out.join("pins.tsv");
    succeed(
        path("image/update-pins"),
        [OsStr::new("--pins"), pins.as_ref(), "--packages".as_ref(), packages.as_ref()],
    )
    .await?;
    args.extend(["--pins".as_ref(), pins.as_os_str()]);
    Ok(succeed(path("image/build"), &args).await?.trim().to_owned())
}

/// Returns the folder that keeps downloaded packages between runs.
pub fn cache() -> Result<PathBuf> {
    Ok(tools::cache()?.join("packages"))
}
