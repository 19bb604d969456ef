//! An external server that a test kills, pauses and restarts with the same arguments: etcd, the Kubernetes API
//! server, Consul. The module that knows its flags owns it; it is killed when dropped.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::process::Command;

use crate::{Process, eventually};

const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// A program with its arguments, running or not.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    program: PathBuf,
    args: Mutex<Vec<String>>,
    process: Mutex<Option<Process>>,
}

impl Daemon {
    /// Starts `program`.
    pub fn start(name: &str, program: PathBuf, args: Vec<String>) -> Result<Self> {
        let args = Mutex::new(args);
        let daemon = Self { name: name.to_owned(), program, args, process: Mutex::new(None) };
        daemon.start_again()?;
        Ok(daemon)
    }

    /// Starts it again with the same arguments; kills it first if it runs.
    pub fn start_again(&self) -> Result<()> {
        let mut process = self.process.lock();
        *process = None;
        let mut command = Command::new(&self.program);
        command.args(&*self.args.lock());
        *process = Some(Process::spawn(&self.name, command)?);
        Ok(())
    }

    /// Kills it, and starts it with these flags in place of its flags of the same names.
    pub fn start_with(&self, flags: Vec<String>) -> Result<()> {
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let mut args = self.args.lock();
        args.retain(|arg| !flags.iter().any(|flag| name(flag) == name(arg)));
        args.extend(flags);
        drop(args);
        self.start_again()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) {
        *self.process.lock() = None;
    }

    /// Stops it with SIGSTOP and waits until it is stopped: its connections stay open and nothing answers.
    pub async fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        eventually("every thread to stand still", STOPS_WITHIN, || async {
            self.process
                .lock()
                .as_ref()
                .with_context(|| format!("{} does not run", self.name))?
                .check_stopped()
        })
        .await
    }

    /// Continues a stopped process.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Fails with its last output if it has ended on its own.
    pub fn check_running(&self) -> Result<()> {
        match self.process.lock().as_mut() {
            Some(process) => process.check_running(),
            None => bail!("{} was killed; start it again first", self.name),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        self.process.lock().as_ref().with_context(|| format!("{} does not run", self.name))?.signal(signal)
    }
}
