//! One agent's process: its flags and lifecycle.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Authority, Daemon, Identity, Rest, eventually, ports, tools};

const STARTS_WITHIN: Duration = Duration::from_secs(40);
/// Token with all permissions, if ACLs are on.
pub const MANAGEMENT: &str = "11111111-1111-1111-1111-111111111111";

/// Start options; the default is a dev agent, which loses its data at a restart.
#[derive(Debug, Default)]
pub struct ConsulOptions {
    datacenter: Option<String>,
    servers: Option<usize>,
    join: Vec<u16>,
    acl: bool,
    tls: Option<(Identity, PathBuf, String)>,
    known: Option<Identity>,
    wan: bool,
    grpc_tls: bool,
    hcl: Vec<String>,
}

impl ConsulOptions {
    /// Sets a datacenter other than `dc1`.
    pub fn datacenter(mut self, name: &str) -> Self {
        self.datacenter = Some(name.to_owned());
        self
    }

    /// Makes it a server that keeps its data over restarts, one of `count` servers.
    pub fn server_of(mut self, count: usize) -> Self {
        self.servers = Some(count);
        self
    }

    /// Joins other servers at these serf ports.
    pub fn join(mut self, serf: &[u16]) -> Self {
        self.join = serf.to_vec();
        self
    }

    /// Enables ACLs that deny by default; [`MANAGEMENT`] has all permissions.
    pub fn acl(mut self) -> Self {
        self.acl = true;
        self
    }

    /// Replaces HTTP by HTTPS, with a certificate of this authority.
    pub fn tls(mut self, authority: &Authority) -> Result<Self> {
        let identity = authority.server("consul")?;
        self.tls = Some((identity, authority.file(), authority.certificate().to_owned()));
        Ok(self)
    }

    /// Accepts only clients with a certificate of the authority in its file; the harness uses this one.
    pub fn only_known(mut self, ours: Identity) -> Self {
        self.known = Some(ours);
        self.hcl("tls { https { verify_incoming = true } }")
    }

    /// Opens a port for servers of other datacenters.
    pub fn wan(mut self) -> Self {
        self.wan = true;
        self
    }

    /// Opens the port for peering.
    pub fn grpc_tls(mut self) -> Self {
        self.grpc_tls = true;
        self
    }

    /// Limits the connections from one address; further ones are answered with 429.
    pub fn connections(self, most: usize) -> Self {
        self.hcl(&format!("limits {{ http_max_conns_per_client = {most} }}"))
    }

    /// Adds configuration.
    pub fn hcl(mut self, text: &str) -> Self {
        self.hcl.push(text.to_owned());
        self
    }
}

/// The ports of an agent.
#[derive(Debug, Clone, Copy)]
struct Ports {
    http: u16,
    serf: u16,
    wan: u16,
    server: u16,
    grpc_tls: u16,
}

/// A running agent; its data are removed with it.
#[derive(Debug)]
pub struct Consul {
    daemon: Daemon,
    ports: Ports,
    url: String,
    rest: Rest,
    authority: Option<String>,
    _data: TempDir,
}

impl Consul {
    /// Starts a dev agent and waits until it has a leader.
    pub async fn start() -> Result<Self> {
        Self::start_with(ConsulOptions::default()).await
    }

    /// Starts an agent and waits until it has a leader.
    pub async fn start_with(options: ConsulOptions) -> Result<Self> {
        let consul = Self::launch(options)?;
        consul.ready().await?;
        Ok(consul)
    }

    /// Starts an agent without waiting.
    pub fn launch(options: ConsulOptions) -> Result<Self> {
        let port = |wanted| if wanted { ports::free_port() } else { Ok(0) };
        let ports = Ports {
            http: ports::free_port()?,
            serf: ports::free_port()?,
            wan: port(options.wan)?,
            server: ports::free_port()?,
            grpc_tls: port(options.grpc_tls)?,
        };
        let data = tempfile::tempdir().context("make a folder for Consul")?;
        let args = flags(&options, ports, &data);
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}", ports.http);
        let authority = options.tls.map(|(_, _, certificate)| certificate);
        let token = options.acl.then_some(MANAGEMENT);
        let rest = client(&url, authority.as_deref(), options.known.as_ref(), token)?;
        let daemon = Daemon::start("consul", tools::consul()?, args)?;
        Ok(Self { daemon, ports, url, rest, authority, _data: data })
    }

    /// Returns the base URL of its API: `http://127.0.0.1:PORT`, or https.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a client of its API; with ACLs, one with all permissions.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Returns a client of its API with this token, or none.
    pub fn rest_as(&self, token: Option<&str>) -> Result<Rest> {
        client(&self.url, self.authority.as_deref(), None, token)
    }

    /// Returns a client of its API with this certificate and new connections.
    pub fn rest_showing(&self, ours: &Identity) -> Result<Rest> {
        client(&self.url, self.authority.as_deref(), Some(ours), None)
    }

    /// Sets the certificate of the harness's client.
    pub fn show(&mut self, ours: &Identity) -> Result<()> {
        self.rest = self.rest_showing(ours)?;
        Ok(())
    }

    /// Returns the process, to be killed and paused.
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Its port of serf, for [`ConsulOptions::join`].
    pub fn serf(&self) -> u16 {
        self.ports.serf
    }

    /// Its port of serf for other datacenters.
    pub fn serf_wan(&self) -> u16 {
        self.ports.wan
    }

    /// Its port for peers.
    pub fn grpc_tls(&self) -> u16 {
        self.ports.grpc_tls
    }

    /// Restarts it on the same ports and waits until it has a leader; a dev agent has lost its data.
    pub async fn restart(&self) -> Result<()> {
        self.daemon.start_again()?;
        self.ready().await
    }

    /// Waits until a leader answers.
    pub async fn ready(&self) -> Result<()> {
        eventually("Consul to have a leader", STARTS_WITHIN, || async {
            self.daemon.check_running()?;
            let leader = self.leader().await?;
            ensure!(!leader.is_empty(), "no leader is elected");
            let nodes = self.rest.get("/v1/catalog/nodes").await?;
            ensure!(nodes.as_array().is_some_and(|nodes| !nodes.is_empty()), "it knows no node: {nodes}");
            Ok(())
        })
        .await
    }

    /// Returns the leader's address as this agent sees it; empty if no leader is elected.
    pub async fn leader(&self) -> Result<String> {
        Ok(self.rest.get("/v1/status/leader").await?.as_str().unwrap_or_default().to_owned())
    }

    /// Returns true if this server is the leader.
    pub async fn leads(&self) -> Result<bool> {
        Ok(self.leader().await? == format!("127.0.0.1:{}", self.ports.server))
    }

    /// Reloads its certificate and key after a rotation.
    pub async fn reload(&self) -> Result<()> {
        self.rest.put("/v1/agent/reload", &Value::Null).await.map(drop)
    }

    /// Returns a snapshot of its state.
    pub async fn snapshot(&self) -> Result<Vec<u8>> {
        let (status, bytes) = self.rest.exchange(Method::GET, "/v1/snapshot", None).await?;
        ensure!(status == StatusCode::OK, "snapshot answered {status}");
        Ok(bytes)
    }

    /// Restores that state: later changes are lost, and indexes go back.
    pub async fn restore(&self, snapshot: Vec<u8>) -> Result<()> {
        // A newly elected leader rejects the snapshot.
        eventually("the snapshot to be taken", STARTS_WITHIN, || async {
            let body = Some(("application/octet-stream", snapshot.clone()));
            let (status, why) = self.rest.send(Method::PUT, "/v1/snapshot", body).await?;
            ensure!(status == StatusCode::OK, "restore answered {status}: {why}");
            Ok(())
        })
        .await
    }

    /// Creates a token with these rules; returns its accessor and secret. The rules are in Consul's syntax,
    /// such as `service_prefix "" { policy = "read" }`.
    pub async fn token(&self, name: &str, rules: &str) -> Result<(String, String)> {
        let policy = self.rest.put("/v1/acl/policy", &json!({"Name": name, "Rules": rules})).await?;
        let token = json!({"Description": name, "Policies": [{"ID": policy["ID"]}]});
        let token = self.rest.put("/v1/acl/token", &token).await?;
        let text = |name: &str| token[name].as_str().map(str::to_owned).with_context(|| format!("{token}"));
        Ok((text("AccessorID")?, text("SecretID")?))
    }

    /// Replaces the rules of a token's policy; the policy keeps its id.
    pub async fn allow(&self, name: &str, rules: &str) -> Result<()> {
        let policy = self.rest.get(&format!("/v1/acl/policy/name/{name}")).await?;
        let id = policy["ID"].as_str().with_context(|| format!("no policy {name}: {policy}"))?;
        let changed = json!({"ID": id, "Name": name, "Rules": rules});
        self.rest.put(&format!("/v1/acl/policy/{id}"), &changed).await.map(drop)
    }

    /// Deletes the token with this accessor.
    pub async fn revoke(&self, accessor: &str) -> Result<()> {
        self.rest.done(Method::DELETE, &format!("/v1/acl/token/{accessor}"), None).await.map(drop)
    }
}

fn client(url: &str, authority: Option<&str>, ours: Option<&Identity>, token: Option<&str>) -> Result<Rest> {
    let rest = match authority {
        Some(certificate) => Rest::tls(url, certificate, ours)?,
        None => Rest::plain(url)?,
    };
    Ok(match token {
        Some(token) => rest.header("x-consul-token", token),
        None => rest,
    })
}

fn flags(options: &ConsulOptions, ports: Ports, data: &TempDir) -> Vec<String> {
    let mut args = vec!["agent".to_owned()];
    let mut arg = |flags: &[&str]| args.extend(flags.iter().map(|&flag| flag.to_owned()));
    let port = |port: u16| if port == 0 { "-1".to_owned() } else { port.to_string() };
    match options.servers {
        None => arg(&["-dev"]),
        Some(count) => {
            let folder = data.path().display().to_string();
            arg(&["-server", "-bootstrap-expect", &count.to_string(), "-data-dir", &folder]);
        }
    }
    let (https, http) = if options.tls.is_some() { (ports.http, 0) } else { (0, ports.http) };
    // The node is named after its port, which is unique in this test run.
    let node = format!("agent-{}", ports.http);
    arg(&["-node", &node, "-bind", "127.0.0.1", "-client", "127.0.0.1", "-log-level", "warn"]);
    arg(&["-http-port", &port(http), "-https-port", &port(https), "-dns-port", "-1", "-grpc-port", "-1"]);
    arg(&["-grpc-tls-port", &port(ports.grpc_tls), "-serf-lan-port", &port(ports.serf)]);
    arg(&["-serf-wan-port", &port(ports.wan), "-server-port", &port(ports.server), "-disable-host-node-id"]);
    for serf in &options.join {
        arg(&["-retry-join", &format!("127.0.0.1:{serf}")]);
    }
    if let Some(name) = &options.datacenter {
        arg(&["-datacenter", name]);
    }
    if options.acl {
        let tokens = format!("initial_management = \"{MANAGEMENT}\" agent = \"{MANAGEMENT}\"");
        arg(&["-hcl", &format!("acl {{ enabled = true default_policy = \"deny\" tokens {{ {tokens} }} }}")]);
    }
    if let Some((identity, authority, _)) = &options.tls {
        let (certificate, key) = (identity.certificate_file.display(), identity.key_file.display());
        let files = format!(
            "ca_file = \"{}\" cert_file = \"{certificate}\" key_file = \"{key}\"",
            authority.display()
        );
        arg(&["-hcl", &format!("tls {{ https {{ {files} }} }}")]);
    }
    // Three servers on one machine then elect a leader in about a second, not ten.
    arg(&["-hcl", "performance { raft_multiplier = 1 }", "-hcl", "leave_on_terminate = false"]);
    for text in &options.hcl {
        arg(&["-hcl", text]);
    }
    args
}
