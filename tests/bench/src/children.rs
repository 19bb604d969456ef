//! Starts this program again as a separate process, and exchanges lines with it: the clients of a bench, or the
//! source that it reads.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Time limit of any step of a bench: ten times the slowest.
const PATIENCE: Duration = Duration::from_secs(120);

/// A child process of this program; ends when dropped.
pub(crate) struct Helper {
    _child: Child,
    what: &'static str,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    /// Starts the child in the role that the first argument names.
    pub(crate) fn start(what: &'static str, args: &[String], ca: Option<&Path>) -> Result<Self> {
        Self::run(Command::new(std::env::current_exe()?), what, args, ca)
    }

    /// As [`Helper::start`], at the lowest priority.
    fn start_behind(what: &'static str, args: &[String]) -> Result<Self> {
        let mut command = Command::new("nice");
        command.arg("-n19").arg(std::env::current_exe()?);
        Self::run(command, what, args, None)
    }

    fn run(mut command: Command, what: &'static str, args: &[String], ca: Option<&Path>) -> Result<Self> {
        command.arg(what).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(ca) = ca {
            command.env(crate::client::CA, ca);
        }
        let mut child = command.spawn().with_context(|| format!("start {what}"))?;
        let input = child.stdin.take().ok_or_else(|| anyhow!("{what} has no input"))?;
        let output = child.stdout.take().ok_or_else(|| anyhow!("{what} has no output"))?;
        Ok(Self { _child: child, what, input, lines: BufReader::new(output).lines() })
    }

    /// Sends a command line to the child.
    pub(crate) async fn send(&mut self, line: &str) -> Result<()> {
        Ok(self.input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Returns the next event of this name; an error event ends the wait.
    pub(crate) async fn event(&mut self, name: &str) -> Result<Value> {
        loop {
            let value = self.next().await.with_context(|| format!("waiting for {name:?}"))?;
            match value["event"].as_str() {
                Some(found) if found == name => return Ok(value),
                Some("failed") => bail!("{} failed: {value}", self.what),
                _ => {}
            }
        }
    }

    async fn next(&mut self) -> Result<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line())
            .await
            .with_context(|| format!("{} is silent", self.what))??;
        let line = line.ok_or_else(|| anyhow!("{} ended", self.what))?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// The clients' process; ends when dropped.
pub(crate) struct Clients(Helper);

impl Clients {
    /// Starts this program again as clients.
    pub(crate) fn start(args: &[String], ca: Option<&Path>) -> Result<Self> {
        Ok(Self(Helper::start("client", args, ca)?))
    }

    /// Starts ADS clients: their number, the protocol variant, how many decode, how many never read.
    pub(crate) fn ads(addr: &str, count: usize, mode: &str, samples: usize, stalled: usize) -> Result<Self> {
        let numbers = [count.to_string(), mode.to_owned(), samples.to_string(), stalled.to_string()];
        Self::start(&[&[addr.to_owned()][..], &numbers].concat(), None)
    }

    /// Starts delta clients that leave the CPU to the server, as clients on other machines do.
    pub(crate) fn behind(addr: &str, count: usize, mode: &str) -> Result<Self> {
        let arguments = [addr, &count.to_string(), mode, "0", "0"].map(str::to_owned);
        Ok(Self(Helper::start_behind("client", &arguments)?))
    }

    /// As [`Clients::ads`], over TLS to a server whose certificate this authority signed.
    pub(crate) fn over_tls(addr: &str, count: usize, mode: &str, ca: &Path) -> Result<Self> {
        let arguments = [addr, &count.to_string(), mode, "0", "0"].map(str::to_owned);
        Self::start(&arguments, Some(ca))
    }

    /// Returns the next event of this name; an error of any client ends the wait.
    pub(crate) async fn event(&mut self, name: &str) -> Result<Value> {
        self.0.event(name).await
    }

    /// Returns all `lost` events so far, as (address, times).
    pub(crate) async fn lost(&mut self) -> Result<Vec<(String, Vec<u64>)>> {
        self.0.send("report").await?;
        let mut all = Vec::new();
        loop {
            let value = self.0.next().await?;
            match value["event"].as_str() {
                Some("lost") => {
                    let times = value["at"].as_array().map(|a| a.iter().filter_map(Value::as_u64).collect());
                    all.push((
                        value["address"].as_str().unwrap_or_default().to_owned(),
                        times.unwrap_or_default(),
                    ));
                }
                Some("reported") => return Ok(all),
                _ => {}
            }
        }
    }
}
