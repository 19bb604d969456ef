//! The Debian package: what it contains, and that dpkg takes it, changes it and removes it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tributary_suites::deploy::{Release, output, path, succeed};

/// Writes completion and pages as the binary does, but is small.
const STAND_IN: &str = "#!/bin/sh\ncase $1 in man) printf '.TH tributary 1\\n.SH NAME\\ntributary \\\\- serves\\n' >\"$2/tributary.1\" ;; \
    *) echo \"$@\" ;; esac\n";

/// Builds the package of a small stand-in for the binary.
async fn small(folder: &Path, version: &str) -> Result<String> {
    built(folder, version, &[]).await
}

async fn built(folder: &Path, version: &str, env: &[&str]) -> Result<String> {
    let binary = folder.join("tributary");
    std::fs::write(&binary, STAND_IN)?;
    std::fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
    let (binary, out) = (binary.display().to_string(), folder.display().to_string());
    let (script, maintainer) = (path("debian/build").display().to_string(), "Operators <ops@debian.org>");
    let args =
        [&script, "--binary", &binary, "--out", &out, "--version", version, "--maintainer", maintainer];
    Ok(succeed("env", env.iter().chain(&args)).await?.trim().to_owned())
}

/// A system without packages, for dpkg.
struct System(TempDir);

impl System {
    fn new() -> Result<Self> {
        let system = Self(TempDir::new()?);
        for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc"] {
            std::fs::create_dir_all(system.path(folder))?;
        }
        std::fs::write(system.path("var/lib/dpkg/status"), "")?;
        std::fs::write(system.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
        std::fs::write(system.path("etc/group"), "root:x:0:\n")?;
        Ok(system)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Result<String> {
        std::fs::read_to_string(self.path(name)).with_context(|| format!("read {name}"))
    }

    /// Runs dpkg on it. The scripts of packages run on this machine, and change the system that dpkg names.
    async fn dpkg(&self, args: &[&str]) -> Result<String> {
        let root = format!("--root={}", self.0.path().display());
        let own = [root.as_str(), "--force-depends", "--force-confold", "--force-script-chrootless"];
        succeed("dpkg", own.iter().chain(args)).await
    }
}

#[tokio::test]
async fn package_of_the_release_has_everything_and_its_dependencies() -> Result<()> {
    let package = Release::shared().await?.file("tributary_0.1.0_amd64.deb").display().to_string();
    let listed = succeed("dpkg-deb", ["-c", &package]).await?;
    for line in [
        "-rwxr-xr-x root/root",
        "./usr/bin/tributary",
        "./usr/lib/systemd/system/tributary.service",
        "./usr/lib/sysusers.d/tributary.conf",
        "./etc/tributary/tributary.yaml",
        "./usr/share/bash-completion/completions/tributary",
        "./usr/share/man/man1/tributary-serve.1.gz",
        "./usr/share/doc/tributary/copyright",
    ] {
        ensure!(listed.contains(line), "{line} is not in {listed}");
    }
    let secret =
        listed.lines().find(|line| line.ends_with("./etc/tributary/credentials/")).unwrap_or_default();
    ensure!(secret.starts_with("drwx------ root/root"), "{secret}");
    ensure!(succeed("dpkg-deb", ["-f", &package, "Depends"]).await?.starts_with("libc6 (>= 2."), "no libc");
    let folder = TempDir::new()?;
    succeed("dpkg-deb", ["-x".as_ref(), package.as_ref(), folder.path().as_os_str()]).await?;
    let config = folder.path().join("etc/tributary/tributary.yaml").display().to_string();
    let binary = folder.path().join("usr/bin/tributary");
    succeed(binary, ["config", "validate", &config]).await?;
    Ok(())
}

#[tokio::test]
async fn package_has_equal_bytes_for_equal_input() -> Result<()> {
    let (a, b) = (TempDir::new()?, TempDir::new()?);
    let (a_file, b_file) = (small(a.path(), "1").await?, small(b.path(), "1").await?);
    ensure!(std::fs::read(a_file)? == std::fs::read(b_file)?, "the packages differ");
    Ok(())
}

#[tokio::test]
async fn package_is_installed_upgraded_removed_and_purged() -> Result<()> {
    let (folder, system) = (TempDir::new()?, System::new()?);
    let config = "etc/tributary/tributary.yaml";
    system.dpkg(&["--install", &small(folder.path(), "1").await?]).await?;
    ensure!(
        system.read("var/lib/dpkg/status")?.contains("Status: install ok installed"),
        "it is not configured"
    );
    let secrets = std::fs::metadata(system.path("etc/tributary/credentials"))?.permissions().mode();
    assert_eq!(secrets & 0o777, 0o700);
    let users = system.read("etc/passwd")?;
    ensure!(
        users.lines().any(|line| line.starts_with("tributary:x:") && line.ends_with("nologin")),
        "{users}"
    );

    let changed = system.read(config)? + "# changed\n";
    std::fs::write(system.path(config), &changed)?;
    std::fs::create_dir_all(system.path("var/lib/tributary"))?;
    let (token, entry) = ("etc/tributary/credentials/consul-token", "etc/tributary/services/hello.yaml");
    for file in [token, entry] {
        std::fs::write(system.path(file), "of the operator")?;
    }
    system.dpkg(&["--install", &small(folder.path(), "2").await?]).await?;
    assert_eq!(system.read(config)?, changed, "an upgrade keeps the operator's changes");
    assert_eq!(system.read("etc/passwd")?, users, "the user is created once");

    system.dpkg(&["--remove", "tributary"]).await?;
    ensure!(!system.path("usr/bin/tributary").exists(), "the binary stays");
    ensure!(
        system.path(config).exists() && system.path("var/lib/tributary").exists(),
        "state or configuration is gone"
    );
    ensure!(system.path(token).exists(), "a removal takes no tokens away");
    system.dpkg(&["--purge", "tributary"]).await?;
    for gone in [config, "var/lib/tributary", "etc/tributary/credentials"] {
        ensure!(!system.path(gone).exists(), "a purge left {gone}");
    }
    ensure!(system.path(entry).exists(), "a purge took a file of the operator away");
    Ok(())
}

#[tokio::test]
async fn lintian_finds_nothing_in_the_package() -> Result<()> {
    if output("lintian", ["--version"]).await.is_err() {
        eprintln!("lintian is absent, so the package is not checked by it");
        return Ok(());
    }
    let folder = TempDir::new()?;
    let package = built(folder.path(), "1", &["SOURCE_DATE_EPOCH=1790000000"]).await?;
    let checked = output("lintian", ["--allow-root", "--fail-on", "error,warning", &package]).await?;
    let found = String::from_utf8_lossy(&checked.stdout);
    ensure!(checked.status.success() && found.trim().is_empty(), "{found}");
    Ok(())
}
