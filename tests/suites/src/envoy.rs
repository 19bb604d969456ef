//! Real Envoy: started from a bootstrap that a test describes, observed through its admin port, and killed with
//! its handle. Every suite that proves how a proxy handles the server's responses uses it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::capture::{PROXY_USER, give_to_proxy};
use crate::{CapturedPod, Process, eventually, http_client, tools};

mod bootstrap;
mod workload;
pub use bootstrap::{EnvoyConfig, sidecar_id, sidecar_metadata};
pub use workload::Workload;

/// Socket for redirected connections of a captured sidecar.
const CAPTURE: &str = "capture.sock";
/// Ends connections of replaced listeners soon, so that suites need not wait for it.
const DRAINS_SOON: &[&str] = &["--drain-time-s", "1"];
/// Istio's options: HTTP connections end with their next answer, and no request is cut on a busy machine.
const DRAINS_IN_ORDER: &[&str] = &["--drain-time-s", "45", "--drain-strategy", "immediate"];
const STARTS_WITHIN: Duration = Duration::from_secs(20);
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    admin: SocketAddr,
    listeners: Vec<SocketAddr>,
    // Holds the bootstrap file and the socket for redirected connections.
    folder: TempDir,
}

impl Envoy {
    /// Starts Envoy and returns when its admin port answers; [`Envoy::live`] waits for its first responses.
    pub async fn start(config: &EnvoyConfig) -> Result<Self> {
        let admin = crate::ports::free_addr()?;
        let mut listeners = Vec::new();
        for _ in config.clusters_with_listener() {
            listeners.push(crate::ports::free_addr()?);
        }
        let (folder, path) = folder_with_bootstrap(config, admin, &listeners)?;
        let process = Process::spawn("envoy", command(&tools::envoy()?, &path, DRAINS_SOON))?;
        Self { process, admin, listeners, folder }.answering().await
    }

    /// Starts Envoy inside a pod, as the user whose connections are not redirected.
    pub async fn start_in(pod: &CapturedPod, config: &EnvoyConfig) -> Result<Self> {
        let admin = pod.admin();
        let (folder, path) = folder_with_bootstrap(config, admin, &[])?;
        give_to_proxy(&path)?;
        // The user may not be able to enter the cache: the open file stands for the path.
        let binary = std::fs::File::open(tools::envoy()?)?;
        let program = format!("/proc/self/fd/{}", binary.as_raw_fd());
        let process = pod.in_pod(|| {
            let mut command = command(Path::new(&program), &path, DRAINS_IN_ORDER);
            Process::spawn("envoy", {
                command.uid(PROXY_USER);
                command
            })
        })?;
        Self { process, admin, listeners: Vec::new(), folder }.answering().await
    }

    async fn answering(mut self) -> Result<Self> {
        self.answers().await?;
        Ok(self)
    }

    async fn answers(&mut self) -> Result<()> {
        let admin = self.admin;
        let ask = async || http_client::get_text(admin, "/server_info").await.map(drop);
        self.process.until("the admin port of envoy", STARTS_WITHIN, ask).await
    }

    /// Returns the address of its admin port.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns the address of the static listener of the nth [`EnvoyConfig::listen_for`].
    pub fn listener(&self, nth: usize) -> Result<SocketAddr> {
        self.listeners.get(nth).copied().with_context(|| format!("the bootstrap has no listener {nth}"))
    }

    /// Sends an HTTP request over a connection that was redirected on its way to `to`, and returns the body.
    pub async fn redirected(&self, to: SocketAddr, host: &str) -> Result<String> {
        let mut stream = UnixStream::connect(self.folder.path().join(CAPTURE)).await?;
        let family = if to.is_ipv4() { "TCP4 127.0.0.1" } else { "TCP6 ::1" };
        let head = format!("PROXY {family} {} 40000 {}\r\n", to.ip(), to.port());
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all((head + &request).as_bytes()).await?;
        let mut answer = String::new();
        timeout(ANSWERS_WITHIN, stream.read_to_string(&mut answer)).await.context("no answer")??;
        let (_, body) = answer.split_once("\r\n\r\n").with_context(|| format!("answered {answer:?}"))?;
        Ok(body.to_owned())
    }

    /// Returns its process, for its log and for signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns a document of the admin port.
    pub async fn json(&self, path: &str) -> Result<Value> {
        http_client::get_json(self.admin, path).await
    }

    /// Returns `/config_dump` with endpoints.
    pub async fn config_dump(&self) -> Result<Value> {
        self.json("/config_dump?include_eds").await
    }

    /// Waits until Envoy has everything it needs to serve.
    pub async fn live(&self, within: Duration) -> Result<()> {
        eventually("envoy to be live", within, || async {
            let state = self.json("/server_info").await?["state"].clone();
            ensure!(state == "LIVE", "its state is {state}");
            Ok(())
        })
        .await
    }

    /// Returns one counter or gauge; absent counts as 0.
    pub async fn stat(&self, name: &str) -> Result<u64> {
        let pattern = name.replace('.', "\\.").replace('|', "\\|");
        let text = http_client::get_text(self.admin, &format!("/stats?filter=^{pattern}$")).await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(Ok(0), |value| value.parse().with_context(|| format!("{name} is {value}")))
    }

    /// Waits until a counter or gauge satisfies `holds`.
    pub async fn stat_is(&self, name: &str, within: Duration, holds: impl Fn(u64) -> bool) -> Result<u64> {
        eventually(name, within, || async {
            let value = self.stat(name).await?;
            ensure!(holds(value), "{name} is {value}");
            Ok(value)
        })
        .await
    }

    /// Returns how many updates of any type Envoy has rejected.
    pub async fn refused(&self) -> Result<u64> {
        let text = http_client::get_text(self.admin, "/stats?filter=update_rejected$").await?;
        let values = text.lines().filter_map(|line| line.rsplit_once(": "));
        values.map(|(name, value)| value.parse::<u64>().with_context(|| format!("{name} is {value}"))).sum()
    }

    /// Returns the names of the active listeners from discovery.
    pub async fn listeners(&self) -> Result<BTreeSet<String>> {
        let dump = self.json("/config_dump?resource=dynamic_listeners").await?;
        let listeners = dump["configs"].as_array().into_iter().flatten();
        let active = listeners.filter(|one| one["active_state"].is_object());
        Ok(active.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
    }

    /// Returns one active xDS cluster; an error if Envoy has none of that name.
    pub async fn active_cluster(&self, name: &str) -> Result<Value> {
        let dump = self.json("/config_dump?resource=dynamic_active_clusters").await?;
        let mut clusters = dump["configs"].as_array().into_iter().flatten();
        let found = clusters.find(|one| one["cluster"]["name"] == name);
        found.cloned().with_context(|| format!("envoy does not use a cluster {name}"))
    }

    /// Returns the number of clusters that wait for their endpoints.
    pub async fn warming_clusters(&self) -> Result<u64> {
        self.stat("cluster_manager.warming_clusters").await
    }

    /// Returns the hosts of one cluster, as `ip:port` or the path of a pipe; fails while Envoy lacks the
    /// cluster.
    pub async fn hosts(&self, cluster: &str) -> Result<BTreeSet<String>> {
        let clusters = self.json("/clusters?format=json").await?;
        let statuses = clusters["cluster_statuses"].as_array().cloned().unwrap_or_default();
        let Some(status) = statuses.iter().find(|status| status["name"] == cluster) else {
            bail!("envoy has no cluster {cluster}");
        };
        Ok(status["host_statuses"].as_array().into_iter().flatten().filter_map(host_name).collect())
    }

    /// Waits until a cluster has exactly these hosts.
    pub async fn has_hosts(&self, cluster: &str, hosts: &[SocketAddr], within: Duration) -> Result<()> {
        let wanted: BTreeSet<String> = hosts.iter().map(ToString::to_string).collect();
        eventually(&format!("{cluster} to have {wanted:?}"), within, || async {
            let now = self.hosts(cluster).await?;
            ensure!(now == wanted, "it has {now:?}");
            Ok(())
        })
        .await
    }

    /// Returns the names of all clusters that Envoy uses.
    pub async fn clusters(&self) -> Result<BTreeSet<String>> {
        let clusters = self.json("/clusters?format=json").await?;
        let statuses = clusters["cluster_statuses"].as_array().cloned().unwrap_or_default();
        Ok(statuses.iter().filter_map(|status| status["name"].as_str().map(str::to_owned)).collect())
    }
}

/// Writes the bootstrap to a new folder.
fn folder_with_bootstrap(
    config: &EnvoyConfig,
    admin: SocketAddr,
    listeners: &[SocketAddr],
) -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().context("make a folder for the bootstrap")?;
    let path = folder.path().join("bootstrap.json");
    std::fs::write(&path, config.bootstrap(admin, listeners, &folder.path().join(CAPTURE)).to_string())?;
    Ok((folder, path))
}

fn command(program: &Path, bootstrap: &Path, drain: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("-c").arg(bootstrap).args(["--concurrency", "1", "--disable-hot-restart"]);
    command.args(drain).args(["--log-level", "warning", "--parent-shutdown-time-s", "2"]);
    command
}

fn host_name(status: &Value) -> Option<String> {
    let address = &status["address"];
    if let Some(path) = address["pipe"]["path"].as_str() {
        return Some(path.to_owned());
    }
    let socket = &address["socket_address"];
    let ip: std::net::IpAddr = socket["address"].as_str()?.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(socket["port_value"].as_u64()?).ok()?).to_string())
}
