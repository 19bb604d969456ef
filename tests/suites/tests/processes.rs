//! Tests the harness's guarantees for ports, child processes, certificates and the server under test, with
//! small scripts: nothing outlives its handle, and an early end reports its cause.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tokio::process::Command;
use tributary_suites::{Authority, Files, Process, ServerOptions, TestServer, eventually, ports};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn ports_are_given_once() -> Result<()> {
    let given = [ports::free_port()?, ports::free_port()?, ports::free_port()?];
    assert!(given[0] != given[1] && given[1] != given[2]);
    assert!(given.iter().all(|port| *port < 32_768), "{given:?} reach into the kernel's own range");
    Ok(())
}

#[tokio::test]
async fn dropping_a_process_ends_its_children() -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "tail -f /dev/null & echo child $!; wait"]);
    let process = Process::spawn("shell", command)?;
    let child = eventually("the shell to name its child", SOON, || async {
        let output = process.output();
        let Some(child) = output.trim().strip_prefix("child ") else { bail!("the output is {output:?}") };
        Ok(child.parse::<u32>()?)
    })
    .await?;
    ensure!(alive(child), "the child runs");
    let parent = process.id();
    drop(process);
    ensure!(!alive(parent), "the shell outlived its handle");
    eventually("the child to be gone", SOON, || async {
        if alive(child) { bail!("it runs") } else { Ok(()) }
    })
    .await
}

/// Returns true if a process runs; a zombie does not.
fn alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn process_that_ends_reports_why() -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "echo no such flag >&2; exit 3"]);
    let mut process = Process::spawn("shell", command)?;
    assert_eq!(process.ended(SOON).await?.code(), Some(3));
    let error = process.check_running().map_err(|error| error.to_string());
    assert!(error.as_ref().is_err_and(|message| message.contains("no such flag")), "{error:?}");
    Ok(())
}

/// Returns a script in place of the server. The scripts are committed: a file that was open for writing while
/// another test started a child cannot be executed for a moment.
fn stand_in(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stand-ins").join(name)
}

#[tokio::test]
async fn server_that_ends_at_start_fails_at_once_with_its_output() -> Result<()> {
    let bin = stand_in("ends");
    let files = Files::new()?;
    let started = TestServer::start(ServerOptions::files(files.path()).bin(&bin)).await;
    let message = started.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(message.contains("port in use") && message.contains("exit status: 4"), "{message}");
    let args = ["serve --registry file=", "--xds-listen 127.0.0.1:", "--admin-listen 127.0.0.1:"];
    ensure!(args.iter().all(|arg| message.contains(arg)), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_server_is_stopped_by_its_signal() -> Result<()> {
    let bin = stand_in("drains");
    let files = Files::new()?;
    let mut server = TestServer::launch(ServerOptions::files(files.path()).bin(&bin))?;
    eventually("the server to be up", SOON, || {
        let output = server.process().output();
        async move { if output.contains("up") { Ok(()) } else { bail!("the output is {output:?}") } }
    })
    .await?;
    assert_eq!(server.stop(SOON).await?.code(), Some(7));
    Ok(())
}

#[test]
fn a_rotated_certificate_replaces_its_files() -> Result<()> {
    let authority = Authority::new()?;
    let (first, second) = (authority.server("xds")?, authority.server("xds")?);
    assert_eq!(first.certificate_file, second.certificate_file);
    assert_ne!(first.certificate, second.certificate);
    assert_eq!(std::fs::read_to_string(&second.certificate_file)?, second.certificate);
    authority.client("web", "spiffe://cluster.local/ns/default/sa/web")?;
    Ok(())
}
