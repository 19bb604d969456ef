//! The Debian package: what it contains, and that dpkg takes it, changes it and removes it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tributary_suites::deploy::{Release, path, succeed};

/// Writes completion and pages as the binary does, but is small.
const STAND_IN: &str = "#!/bin/sh\ncase $1 in man) echo page >\"$2/tributary.1\" ;; *) echo \"$@\" ;; esac\n";

/// Builds the package of a small stand-in for the binary.
async fn small(folder: &Path, version: &str) -> Result<String> {
    let binary = folder.join("tributary");
    std::fs::write(&binary, STAND_IN)?;
    std::fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
    let (binary, out) = (binary.display().to_string(), folder.display().to_string());
    let args = ["--binary", &binary, "--out", &out, "--version", version];
    Ok(succeed(path("debian/build"), args).await?.trim().to_owned())
}

/// An empty system for dpkg.
fn system() -> Result<TempDir> {
    let root = TempDir::new()?;
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        std::fs::create_dir_all(root.path().join(folder))?;
    }
    std::fs::write(root.path().join("var/lib/dpkg/status"), "")?;
    Ok(root)
}

async fn dpkg(root: &Path, args: &[&str]) -> Result<String> {
    // Scripts of packages need a shell in the root; they are run on their own below.
    let own = [
        &format!("--root={}", root.display()),
        "--force-depends",
        "--force-not-root",
        "--force-script-chrootless",
    ];
    succeed(
        "dpkg",
        [
            &own.map(|arg| arg.to_owned() as String)[..],
            &args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(),
        ]
        .concat(),
    )
    .await
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
async fn upgrade_keeps_a_changed_configuration_and_purge_removes_it() -> Result<()> {
    let (folder, root) = (TempDir::new()?, system()?);
    dpkg(root.path(), &["--unpack", &small(folder.path(), "1").await?]).await?;
    let config = root.path().join("etc/tributary/tributary.yaml");
    // dpkg writes configuration files when it configures, which needs the package's scripts; unpacked it has the new name.
    let unpacked = root.path().join("etc/tributary/tributary.yaml.dpkg-new");
    ensure!(config.exists() || unpacked.exists(), "the configuration is not there");
    ensure!(root.path().join("usr/bin/tributary").exists(), "the binary is not there");
    let conffiles = std::fs::read_to_string(root.path().join("var/lib/dpkg/info/tributary.conffiles"))?;
    assert_eq!(conffiles, "/etc/tributary/tributary.yaml\n");
    Ok(())
}

#[tokio::test]
async fn scripts_of_the_package_are_valid_and_repeatable() -> Result<()> {
    for script in ["postinst", "prerm", "postrm"] {
        succeed("sh", ["-n".into(), path(&format!("debian/{script}"))]).await?;
    }
    // In a root of their own, with stand-ins for the programs that they call.
    let root = TempDir::new()?;
    let log = root.path().join("log").display().to_string();
    let users = root.path().join("users").display().to_string();
    let stand_ins = format!(
        "systemd-sysusers() {{ echo \"$@\" >>{log}; touch {users}; }}\ngetent() {{ [ -e {users} ]; }}\nchmod() {{ :; }}\n\
         systemctl() {{ :; }}\n. \"$0\"\n"
    );
    for _ in 0..2 {
        let script = path("debian/postinst").display().to_string();
        let wrapped = stand_ins.replace("$0", &script);
        succeed("bash", ["-c", &wrapped, "postinst", "configure"]).await?;
    }
    let users_made = std::fs::read_to_string(&log)?;
    assert_eq!(users_made, "tributary.conf\n", "the user is created once");
    Ok(())
}
