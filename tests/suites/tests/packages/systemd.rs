//! The systemd unit: what systemd-analyze finds, and a server that runs by its command line, as an unprivileged user, with the
//! file system that it leaves writable.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use tempfile::TempDir;
use tokio::process::Command;
use tributary_suites::deploy::{Release, output, path, succeed};
use tributary_suites::{Process, http_client, ports};

const SOON: Duration = Duration::from_secs(60);
const USER: u32 = 64_000;

/// Returns the value of a setting of the unit.
fn setting(unit: &str, name: &str) -> Result<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    Ok(line.with_context(|| format!("the unit has no {name}"))?.to_owned())
}

#[tokio::test]
async fn unit_is_valid_and_hardened() -> Result<()> {
    if output("systemd-analyze", ["--version"]).await.is_err() {
        eprintln!("systemd-analyze is absent, so the unit is not analyzed");
        return Ok(());
    }
    // `verify` looks for the program of the unit in the root.
    let root = TempDir::new()?;
    let units = root.path().join("usr/lib/systemd/system");
    std::fs::create_dir_all(&units)?;
    std::fs::create_dir_all(root.path().join("usr/bin"))?;
    let unit = std::fs::read_to_string(path("systemd/tributary.service"))?;
    let program = root.path().join("usr/bin/tributary");
    std::fs::write(&program, "")?;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let here = unit.replace("/usr/bin/tributary", &program.display().to_string());
    let file = root.path().join("tributary.service");
    std::fs::write(&file, here.replace("Documentation=man:tributary(1)\n", ""))?;
    let file = file.display().to_string();
    let verified = output("systemd-analyze", ["verify", "--man=no", &file]).await?;
    let complaints = String::from_utf8_lossy(&verified.stderr);
    ensure!(verified.status.success() && !complaints.contains("tributary.service"), "{complaints}");
    succeed("systemd-analyze", ["security", "--offline=true", "--threshold=15", &file]).await?;
    Ok(())
}

/// A machine with the unit's files: its root, and the folder of its state.
fn machine(folder: &Path, health: u16) -> Result<Vec<String>> {
    let (etc, state) = (folder.join("etc"), folder.join("state"));
    std::fs::create_dir_all(etc.join("services"))?;
    std::fs::create_dir_all(&state)?;
    std::fs::set_permissions(&state, Permissions::from_mode(0o700))?;
    chown(&state, Some(USER), Some(USER))?;
    let config = std::fs::read_to_string(path("debian/tributary.yaml"))?;
    let admin = ports::free_port()?;
    let xds = ports::free_port()?;
    let more = format!(
        "health: {{listen: '127.0.0.1:{health}'}}\nadmin: {{listen: '127.0.0.1:{admin}'}}\nxds: {{listen: '127.0.0.1:{xds}'}}\n"
    );
    std::fs::write(etc.join("tributary.yaml"), config + &more)?;
    Ok(vec![
        format!("{}:/etc/tributary", etc.display()),
        format!("{}:/var/lib/tributary:rw", state.display()),
    ])
}

#[tokio::test]
async fn command_of_the_unit_serves_as_an_unprivileged_user() -> Result<()> {
    let unit = std::fs::read_to_string(path("systemd/tributary.service"))?;
    ensure!(
        setting(&unit, "ProtectSystem")? == "strict" && setting(&unit, "StateDirectory")? == "tributary",
        "{unit}"
    );
    let command = setting(&unit, "ExecStart")?;
    let (folder, health) = (TempDir::new()?, ports::free_port()?);
    let mut sandbox = Command::new(path("image/sandbox"));
    let user = USER.to_string();
    sandbox.args(["--user", &user, "--root"]).arg(Release::shared().await?.root());
    for mount in machine(folder.path(), health)? {
        sandbox.args(["--mount", &mount]);
    }
    sandbox.args(["--env", "STATE_DIRECTORY=/var/lib/tributary", "--"]);
    // In the image, the binary lies in the root.
    sandbox.args(command.replace("/usr/bin/tributary", "/tributary").split_whitespace());
    let mut process = Process::spawn("the unit", sandbox)?;
    let ready = async || {
        let (status, body) = http_client::get(([127, 0, 0, 1], health).into(), "/readyz").await?;
        ensure!(status == StatusCode::OK, "readyz answered {status}: {body}");
        Ok(())
    };
    process.until("the unit to be ready", SOON, ready).await?;
    ensure!(folder.path().join("state/journal.redb").exists(), "no state is written: {}", process.output());
    let timeout = setting(&unit, "TimeoutStopSec")?;
    ensure!(timeout == "30s", "the drain takes 10 s: {timeout}");
    ensure!(process.terminate(SOON).await?.success(), "{}", process.tail());
    Ok(())
}
