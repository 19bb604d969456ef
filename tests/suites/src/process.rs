//! Child processes. Envoy, the gRPC clients and the server under test are all started here: each in its own
//! process group, with its output in a file, and killed with all of its children when the handle is dropped.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout_at};

use crate::wait;

const TAIL: usize = 40;

/// A running child; dropping it kills its whole process group and waits until the child is gone.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    group: Pid,
    log: PathBuf,
    // Holds the log; removed with the process.
    _folder: TempDir,
}

impl Process {
    /// Starts `command` with standard output and standard error in a file.
    pub fn spawn(name: &str, command: Command) -> Result<Self> {
        Self::start(name, command, false)
    }

    /// Starts `command` with piped standard input and output, for [`Process::pipes`].
    pub fn spawn_piped(name: &str, command: Command) -> Result<Self> {
        Self::start(name, command, true)
    }

    fn start(name: &str, mut command: Command, piped: bool) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for the log")?;
        let log = folder.path().join("log");
        let file = std::fs::File::create(&log).context("make the log")?;
        command.stderr(file.try_clone()?).process_group(0);
        if piped {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(file);
        }
        let program = command.as_std().get_program().display().to_string();
        let child = command.spawn().with_context(|| format!("start {name} ({program})"))?;
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        let group = group.ok_or_else(|| anyhow!("{name} ended before it could be watched"))?;
        Ok(Self { name: name.to_owned(), child, group, log, _folder: folder })
    }

    /// Returns the piped ends of a process from [`Process::spawn_piped`]; once.
    pub fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout)> {
        match (self.child.stdin.take(), self.child.stdout.take()) {
            (Some(input), Some(output)) => Ok((input, output)),
            _ => bail!("{}: no pipes; start it with spawn_piped and take them once", self.name),
        }
    }

    /// Returns the process id of the child.
    pub fn id(&self) -> u32 {
        self.group.as_raw_nonzero().get() as u32
    }

    /// Returns all output so far.
    pub fn output(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns the file of its output.
    pub fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// Returns the last lines of its output.
    pub fn tail(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// Fails with its last output if the child has ended.
    pub fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait().context("look at the child")? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}; its last output:\n{}", self.name, self.tail()),
        }
    }

    /// Waits until `probe` is `Ok`; fails at once, with the child's last output, if it has ended.
    pub async fn until(
        &mut self,
        what: &str,
        within: Duration,
        mut probe: impl AsyncFnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = wait::deadline(within);
        loop {
            self.check_running()?;
            match probe().await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context(format!("{what}: not within {within:?}\n{}", self.tail())));
                }
                Err(_) => sleep(wait::STEP).await,
            }
        }
    }

    /// Fails while a thread of the child still runs after a [`Signal::STOP`]: the kernel stops each thread when
    /// it is next scheduled, which on a loaded machine is after `kill` returned.
    pub fn check_stopped(&self) -> Result<()> {
        let folder = format!("/proc/{}/task", self.id());
        for task in std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
            let stat = std::fs::read_to_string(task?.path().join("stat")).context("read a thread's state")?;
            // The state follows the name, which is in brackets and may contain brackets.
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            ensure!(state == Some('T'), "a thread of {} is not stopped: {stat}", self.name);
        }
        Ok(())
    }

    /// Sends a signal to the child's group.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process_group(self.group, signal).with_context(|| format!("signal {}", self.name))
    }

    /// Waits until the child ends on its own.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        match timeout_at(wait::deadline(within), self.child.wait()).await {
            Ok(status) => status.context("wait for the child"),
            Err(_) => bail!("{} still runs after {within:?}; its last output:\n{}", self.name, self.tail()),
        }
    }

    /// Terminates the child (SIGTERM) and waits until it ends.
    pub async fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.ended(within).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- last output of {}:\n{}", self.name, self.tail());
        }
        let reaped = self.child.id().is_none();
        // An error means that the group has ended already.
        let _ = kill_process_group(self.group, Signal::KILL);
        if !reaped {
            let _ = waitpid(Some(self.group), WaitOptions::empty());
        }
    }
}
