//! The product's process, from outside: CPU and memory from `/proc`, and its metrics.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tributary_suites::http_client;

/// CPU and memory of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Resident bytes now.
    pub(crate) resident: u64,
    /// Maximum of resident bytes so far.
    pub(crate) peak: u64,
    /// Resident bytes of files, which are the binary's: how many depends on the system's cache of files.
    pub(crate) code: u64,
}

impl Usage {
    /// Reads the usage of the process with this id.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        let stat = read("stat").context("the server ended")?;
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        let status = read("status")?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024
        };
        // Linux counts in USER_HZ, which is 100 on every supported machine.
        Ok(Self {
            cpu: Duration::from_millis(ticks * 10),
            resident: of("VmRSS:"),
            peak: of("VmHWM:"),
            code: of("RssFile:"),
        })
    }
}

/// Begins a new maximum of resident bytes of the process with this id.
pub(crate) fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").context("reset the maximum of resident bytes")
}

/// Returns the number of open sockets of the process with this id.
pub(crate) fn sockets(pid: u32) -> Result<usize> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).context("the server ended")?;
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count())
}

/// Returns the path of the optimised binary, which cargo puts beside this one.
pub(crate) fn release_binary() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("tributary");
    ensure!(path.exists(), "{} is not there: run cargo build --release --bin tributary", path.display());
    Ok(path)
}

/// Returns a counter of the server's metrics: the sum over all labels with this prefix.
pub(crate) async fn count(admin: SocketAddr, name: &str) -> Result<f64> {
    let text = http_client::get_text(admin, "/metrics").await?;
    let values = text.lines().filter(|line| line.starts_with(name));
    Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Returns the number of views that the core has built so far.
pub(crate) async fn views(admin: SocketAddr) -> Result<f64> {
    count(admin, "tributary_core_events_total{event=\"views\"}").await
}

/// Returns the served addresses of a host.
pub(crate) async fn addresses(admin: SocketAddr, host: &str) -> Result<Vec<String>> {
    let list = http_client::get_json(admin, &format!("/debug/endpoints?host={host}")).await?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(|item| Some(item["endpoint"].as_str()?.rsplit_once(':')?.0.to_owned())).collect())
}
