//! Network namespaces without a name: they exist while a thread, a process or a socket of the test uses them, so
//! the kernel removes their addresses and rules with the test, however it ends. The captured suite and kube_networks make them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpStream;

const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// Reports that it is inside, and ends with its input, which is with the test at the latest.
const HOLD: &str = "echo inside; exec cat";

/// A network namespace.
#[derive(Debug)]
pub struct NetworkNamespace {
    file: File,
    // Lets `ip` name the namespace by a process id.
    holder: Child,
}

impl NetworkNamespace {
    /// Creates a namespace; this needs CAP_SYS_ADMIN.
    pub fn new() -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", HOLD]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().context("start unshare")?;
        let mut line = String::new();
        let output = holder.stdout.take().context("unshare without output")?;
        BufReader::new(output).read_line(&mut line).context("read from unshare")?;
        if line.trim() != "inside" {
            let _ = holder.wait();
            bail!("unshare --net failed: run as root, or leave the suite out with TRIBUTARY_SKIP_CAPTURE=1");
        }
        let path = format!("/proc/{}/ns/net", holder.id());
        let file = File::open(&path).context("open the network namespace");
        file.map(|file| Self { file, holder })
    }

    /// Returns the id of a process in the namespace.
    pub fn process(&self) -> u32 {
        self.holder.id()
    }

    /// Runs `work` on a thread inside the namespace. The sockets and processes that it makes stay inside.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let inside = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                .context("enter the network namespace")?;
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Connects from inside, without blocking the caller's runtime.
    pub async fn connect(self: &Arc<Self>, to: SocketAddr) -> Result<TcpStream> {
        let own = Arc::clone(self);
        let connect = move || {
            own.run(|| {
                let stream = std::net::TcpStream::connect_timeout(&to, CONNECTS_WITHIN)?;
                stream.set_nonblocking(true)?;
                Ok(stream)
            })
        };
        let stream = tokio::task::spawn_blocking(connect).await.context("connect inside")?;
        Ok(TcpStream::from_std(stream.with_context(|| format!("connect to {to}"))?)?)
    }

    /// Runs a command inside, with `input`; fails with its error output.
    pub fn command(&self, program: &str, args: &[&str], input: &str) -> Result<()> {
        self.run(|| run(program, args, input))
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn run(program: &str, args: &[&str], input: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| anyhow!("start {program}: {error}; run ./test captured, which installs it"))?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{program} {args:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
