//! What `server/deploy` offers to operators, run as they would: helm, the scripts, and the image. The suite `packages` uses it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::kube::api::documents;
use crate::tools;

/// Namespace of releases.
pub const NAMESPACE: &str = "tributary-system";

static RELEASE: OnceCell<Release> = OnceCell::const_new();

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
        self.run_for(("tributary", NAMESPACE), command, values).await
    }

    /// Runs a command of helm for a release of this name and namespace.
    async fn run_for(
        &self,
        (release, namespace): (&str, &str),
        command: &[&str],
        values: &Value,
    ) -> Result<Output> {
        let file = self.folder.path().join("values.json");
        std::fs::write(&file, values.to_string())?;
        let mut helm = Command::new(tools::helm()?);
        helm.args(command).arg(release).arg(path("chart")).args(["-n", namespace, "--values"]).arg(&file);
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
        self.render_for(("tributary", NAMESPACE), values).await
    }

    /// Renders the chart for a release of this name and namespace.
    pub async fn render_for(&self, release: (&str, &str), values: &Value) -> Result<Vec<Value>> {
        let done = self.run_for(release, &["template"], values).await?;
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

/// A release of the binary under test, with its image unpacked. It is made once in a run of a suite and lies beside the binary.
#[derive(Debug)]
pub struct Release {
    folder: PathBuf,
}

impl Release {
    /// Returns the release that the tests of this process share.
    pub async fn shared() -> Result<&'static Self> {
        RELEASE.get_or_try_init(Self::build).await
    }

    async fn build() -> Result<Self> {
        let built = tools::tributary()?;
        let folder = built.parent().context("the binary lies in a folder")?.join("packages");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let release = Self { folder };
        std::fs::create_dir_all(release.oci())?;
        let binary = release.folder.join("tributary");
        succeed("strip", [Path::new("-o"), &binary, &built]).await?;
        release.make(&binary).await?;
        let (image, oci) = (release.file("tributary-image-0.1.0-linux-amd64.tar"), release.oci());
        succeed("tar", ["-xf".as_ref(), image.as_os_str(), "-C".as_ref(), oci.as_os_str()]).await?;
        succeed(path("image/unpack"), [&release.oci(), &release.root()]).await?;
        Ok(release)
    }

    async fn make(&self, binary: &Path) -> Result<()> {
        let (helm, files, cache) = (tools::helm()?, self.files(), packages()?);
        let mut args: Vec<&OsStr> =
            vec!["--binary".as_ref(), binary.as_ref(), "--out".as_ref(), files.as_ref()];
        args.extend::<[&OsStr; 4]>(["--helm".as_ref(), helm.as_ref(), "--packages".as_ref(), cache.as_ref()]);
        args.extend::<[&OsStr; 2]>(["--revision".as_ref(), "abc".as_ref()]);
        let pins = pins(&self.folder).await?;
        if let Some(pins) = &pins {
            args.extend::<[&OsStr; 2]>(["--pins".as_ref(), pins.as_ref()]);
        }
        succeed(path("release"), args).await.map(|_| ())
    }

    /// Returns the folder of its files.
    pub fn files(&self) -> PathBuf {
        self.folder.join("release")
    }

    /// Returns one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files().join(name)
    }

    /// Returns the layout of its image.
    pub fn oci(&self) -> PathBuf {
        self.folder.join("oci")
    }

    /// Returns the root of its image.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }
}

/// Returns the folder that keeps downloaded packages between runs.
pub fn packages() -> Result<PathBuf> {
    Ok(tools::cache()?.join("packages"))
}

/// Returns `None` if the pinned packages are at hand. Else pins the current ones in this folder, because the sources of a
/// machine change while the pins do not.
pub async fn pins(folder: &Path) -> Result<Option<PathBuf>> {
    let cache = packages()?;
    let args = ["--fetch".as_ref(), "--packages".as_ref(), cache.as_os_str()];
    let done = output(path("image/build"), args).await?;
    let error = String::from_utf8_lossy(&done.stderr);
    if done.status.success() {
        return Ok(None);
    }
    ensure!(error.contains("is not available from this machine's package sources"), "{error}");
    eprintln!("the pinned packages are gone, so current ones are used: {error}");
    let pins = folder.join("pins.tsv");
    let args = ["--pins".as_ref(), pins.as_os_str(), "--packages".as_ref(), cache.as_os_str()];
    succeed(path("image/update-pins"), args).await?;
    Ok(Some(pins))
}
