//! The server under test: the real `tributary` binary on free ports, ready when it reports so, drained on
//! request or killed with its handle. Suites restart it on the same ports to see what clients keep.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::StatusCode;
use tokio::process::Command;

use crate::{Authority, Identity, Process, http_client, tools};

const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// Start options; the default has no registry.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    bin: Option<PathBuf>,
    /// Limits the size of each file that the server writes, in bytes.
    largest_file: Option<u64>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    xds: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl ServerOptions {
    /// Uses one file registry.
    pub fn files(folder: &Path) -> Self {
        Self::default().arg("--registry").arg(&format!("file={}", folder.display()))
    }

    /// Adds a file registry.
    pub fn and_files(self, folder: &Path) -> Self {
        self.arg("--registry").arg(&format!("file={}", folder.display()))
    }

    /// Enables TLS for xDS; mutual if there is an authority for clients.
    pub fn tls(self, identity: &Identity, clients: Option<&Authority>) -> Self {
        let options = self.arg("--xds-cert").arg(&identity.certificate_file.display().to_string());
        let options = options.arg("--xds-key").arg(&identity.key_file.display().to_string());
        match clients {
            Some(clients) => options.arg("--xds-client-ca").arg(&clients.file().display().to_string()),
            None => options,
        }
    }

    /// Sets an environment variable; it inherits no variable of Tributary.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses another binary than the one that was built.
    pub fn bin(mut self, bin: &Path) -> Self {
        self.bin = Some(bin.to_owned());
        self
    }

    /// Limits the size of each file that the server writes: its later writes fail, and it continues.
    pub fn largest_file(mut self, bytes: u64) -> Self {
        self.largest_file = Some(bytes);
        self
    }

    /// Uses a configuration file.
    pub fn config(self, file: &Path) -> Self {
        self.arg("--config").arg(&file.display().to_string())
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Uses these ports, such as those of a stopped server, in place of free ones.
    pub fn on(mut self, xds: SocketAddr, admin: SocketAddr) -> Self {
        (self.xds, self.admin) = (Some(xds), Some(admin));
        self
    }
}

/// The running server.
#[derive(Debug)]
pub struct TestServer {
    process: Process,
    bin: PathBuf,
    xds: SocketAddr,
    admin: SocketAddr,
    options: ServerOptions,
}

impl TestServer {
    /// Starts the binary and waits until `/readyz` answers 200.
    pub async fn start(options: ServerOptions) -> Result<Self> {
        let mut server = Self::launch(options)?;
        server.ready(STARTS_WITHIN).await?;
        Ok(server)
    }

    /// Starts the binary without waiting for it.
    pub fn launch(options: ServerOptions) -> Result<Self> {
        let bin = options.bin.clone().map_or_else(tools::tributary, Ok)?;
        let xds = options.xds.map_or_else(crate::ports::free_addr, Ok)?;
        let admin = options.admin.map_or_else(crate::ports::free_addr, Ok)?;
        let mut command = options.largest_file.map_or_else(|| clean(&bin), |most| limited(&bin, most));
        command.arg("serve").args(&options.args).envs(options.env.iter().cloned());
        command.args(["--xds-listen", &xds.to_string(), "--admin-listen", &admin.to_string()]);
        if !options.args.iter().any(|arg| arg == "--state-dir") {
            command.args(["--state-dir", "none"]);
        }
        let process = Process::spawn("tributary", command)?;
        Ok(Self { process, bin, xds, admin, options })
    }

    /// Waits until the server reports ready; fails at once if it ends.
    pub async fn ready(&mut self, within: Duration) -> Result<()> {
        let admin = self.admin;
        self.process
            .until("tributary to be ready", within, async || {
                let (status, body) = http_client::get(admin, "/readyz?verbose").await?;
                ensure!(status == StatusCode::OK, "readyz answered {status}: {body}");
                Ok(())
            })
            .await
    }

    /// Returns the address of xDS.
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// Returns the address of its admin port.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns its process, for its log and for signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Drains and ends it (SIGTERM), and waits for the end.
    pub async fn stop(mut self, within: Duration) -> Result<ExitStatus> {
        self.process.terminate(within).await
    }

    /// Kills it with SIGKILL and starts it again on the same ports.
    pub async fn restart(self) -> Result<Self> {
        self.restart_after(|| Ok(())).await
    }

    /// As [`TestServer::restart`], with work done while it is down.
    pub async fn restart_after(self, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let options = self.options.clone().on(self.xds, self.admin);
        drop(self);
        work()?;
        Self::start(options).await
    }

    /// Runs the binary as an operator would, against this server. Returns status, stdout and stderr.
    pub async fn command(&self, args: &[&str]) -> Result<(ExitStatus, String, String)> {
        let server = self.admin.to_string();
        self.run(&[args, &["--server", &server]].concat()).await
    }

    /// Runs the binary as an operator would, for a command that contacts no server.
    pub async fn run(&self, args: &[&str]) -> Result<(ExitStatus, String, String)> {
        self.run_with(&[], args).await
    }

    /// Runs the binary as an operator would, with these variables.
    pub async fn run_with(
        &self,
        env: &[(&str, &str)],
        args: &[&str],
    ) -> Result<(ExitStatus, String, String)> {
        let mut command = clean(&self.bin);
        command.envs(env.iter().copied()).args(args).kill_on_drop(true);
        let work = async { Ok(command.output().await?) };
        let output = crate::wait::in_time(&args.join(" "), Duration::from_secs(20), work).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status, text(&output.stdout), text(&output.stderr)))
    }
}

/// Returns the binary without the variables of the test run, which it would read as its own.
fn clean(bin: &Path) -> Command {
    let mut command = Command::new(bin);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRIBUTARY_"))
    {
        command.env_remove(name);
    }
    command
}

/// Returns the binary with a limit on the size of its files. A script that a test writes would do the same, but
/// cannot be executed while a child that another test starts has it open for writing.
fn limited(bin: &Path, most: u64) -> Command {
    const SCRIPT: &str = r#"trap '' XFSZ; ulimit -f "$1"; shift; exec "$@""#;
    let mut command = clean(Path::new("bash"));
    command.args(["-c", SCRIPT, "limited", &(most / 1024).to_string()]).arg(bin);
    command
}
