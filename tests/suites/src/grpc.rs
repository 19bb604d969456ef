//! Real gRPC clients that resolve `xds:///` targets: gRPC's C core under Python, and gRPC for JavaScript. Each
//! runs a small script of `tests/tools` that reads a command per line and answers each with a line of JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::tls::{Authority, Identity};
use crate::{Process, eventually, tools};

const LINE_WITHIN: Duration = Duration::from_secs(30);

/// Implementation of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// gRPC's C core (grpcio).
    Python,
    /// grpc-js with grpc-js-xds.
    JavaScript,
}

/// Bootstrap of the client.
#[derive(Debug, Clone)]
pub struct GrpcConfig {
    ads: SocketAddr,
    node_id: String,
    metadata: Value,
    locality: (String, String, String),
    certificates: Option<Value>,
    token: Option<(PathBuf, PathBuf)>,
}

impl GrpcConfig {
    /// Returns a client of `ads` with metadata GENERATOR=grpc.
    pub fn new(ads: SocketAddr) -> Self {
        Self {
            ads,
            node_id: "grpc-under-test".to_owned(),
            metadata: json!({"GENERATOR": "grpc"}),
            locality: <_>::default(),
            certificates: None,
            token: None,
        }
    }

    /// Connects by TLS, and presents the token of this file; only for Python.
    pub fn token(mut self, authority: &Authority, file: &Path) -> Self {
        self.token = Some((authority.file(), file.to_owned()));
        self
    }

    /// Sets the node id.
    pub fn node_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.node_id);
        self
    }

    /// Sets the metadata.
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the locality.
    pub fn locality(mut self, region: &str, zone: &str, sub_zone: &str) -> Self {
        self.locality = (region.to_owned(), zone.to_owned(), sub_zone.to_owned());
        self
    }

    /// Adds the certificate provider `default`, which reads this identity and this authority from files; only for Python. The
    /// control plane then decides whether channels are secure.
    pub fn certificates(mut self, authority: &Authority, identity: &Identity) -> Self {
        self.certificates = Some(json!({"default": {"plugin_name": "file_watcher", "config": {
            "certificate_file": identity.certificate_file,
            "private_key_file": identity.key_file,
            "ca_certificate_file": authority.file(),
            "refresh_interval": "1s",
        }}}));
        self
    }

    /// Returns the value of GRPC_XDS_BOOTSTRAP_CONFIG.
    pub fn bootstrap(&self) -> String {
        let (region, zone, sub_zone) = &self.locality;
        let mut server = json!({
            "server_uri": self.ads.to_string(),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        });
        if let Some((authority, token)) = &self.token {
            server["server_uri"] = json!(format!("localhost:{}", self.ads.port()));
            server["channel_creds"] = json!([{"type": "tls", "config": {"ca_certificate_file": authority}}]);
            server["call_creds"] = json!([{"type": "jwt_token_file", "config": {"jwt_token_file": token}}]);
        }
        let locality = json!({"region": region, "zone": zone, "sub_zone": sub_zone});
        let node =
            json!({"id": self.node_id, "cluster": "tests", "metadata": self.metadata, "locality": locality});
        let mut bootstrap = json!({"xds_servers": [server], "node": node});
        bootstrap["server_listener_resource_name_template"] = json!("xds.istio.io/grpc/lds/inbound/%s");
        if let Some(providers) = &self.certificates {
            bootstrap["certificate_providers"] = providers.clone();
        }
        bootstrap.to_string()
    }
}

/// Outcome of one call.
#[derive(Debug, Clone, Deserialize)]
pub struct Called {
    /// Whether it succeeded.
    pub ok: bool,
    /// The backend that answered.
    #[serde(default)]
    pub backend: String,
    /// The status code's name, if it failed.
    #[serde(default)]
    pub code: String,
    /// The status message, if it failed.
    #[serde(default)]
    pub details: String,
}

/// Outcome of a load of calls.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Calls {
    /// Answers by backend.
    pub answers: BTreeMap<String, u64>,
    /// Calls that failed.
    pub failed: u64,
    /// The first failures, as text.
    pub failures: Vec<String>,
}

impl Calls {
    /// Answers of one backend.
    pub fn of(&self, backend: &str) -> u64 {
        self.answers.get(backend).copied().unwrap_or(0)
    }

    /// Fails if any call failed, or if none was answered.
    pub fn check_clean(&self) -> Result<()> {
        ensure!(self.failed == 0, "{} calls failed, such as: {:#?}", self.failed, self.failures);
        ensure!(!self.answers.is_empty(), "no call was answered at all");
        Ok(())
    }
}

/// A running client process.
#[derive(Debug)]
pub struct GrpcClient {
    process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl GrpcClient {
    /// Starts a client and returns when it accepts commands.
    pub async fn start(language: Language, config: &GrpcConfig) -> Result<Self> {
        let mut command = match language {
            Language::Python => python("grpc_client.py")?,
            Language::JavaScript => javascript()?,
        };
        command.env("GRPC_XDS_BOOTSTRAP_CONFIG", config.bootstrap());
        command.env("GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS", "true");
        command
            .env_remove("http_proxy")
            .env_remove("https_proxy")
            .env_remove("HTTP_PROXY")
            .env_remove("HTTPS_PROXY");
        let mut process = Process::spawn_piped(&format!("grpc {language:?}"), command)?;
        let (input, output) = process.pipes()?;
        let mut client = Self { process, input, output: BufReader::new(output).lines() };
        client.line().await.context("wait for the client to start")?;
        Ok(client)
    }

    /// Calls `xds:///target` once; waits for the channel to be ready if `wait`.
    pub async fn call(&mut self, target: &str, within: Duration, wait: bool) -> Result<Called> {
        let seconds = within.as_secs_f64();
        let answer =
            self.ask(json!({"do": "call", "target": target, "timeout": seconds, "wait": wait})).await?;
        serde_json::from_value(answer).context("read the outcome of a call")
    }

    /// Calls a method of `xds:///target` once with these headers, by retry policies if `retries`; waits for the channel.
    pub async fn call_as(
        &mut self,
        target: &str,
        path: &str,
        headers: &[(&str, &str)],
        retries: bool,
    ) -> Result<Called> {
        let command = json!({"do": "call", "target": target, "timeout": 10, "wait": true, "path": path,
            "headers": headers, "retries": retries});
        serde_json::from_value(self.ask(command).await?).context("read the outcome of a call")
    }

    /// Calls a method of `xds:///target` once with these headers; fails where the channel has no endpoint.
    pub async fn call_at_once(
        &mut self,
        target: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Called> {
        let command = json!({"do": "call", "target": target, "timeout": 10, "wait": false, "path": path,
            "headers": headers});
        serde_json::from_value(self.ask(command).await?).context("read the outcome of a call")
    }

    /// Starts calling `xds:///target` at that rate, until [`GrpcClient::stop_load`].
    pub async fn start_load(&mut self, target: &str, per_second: u32, workers: u32) -> Result<()> {
        self.ask(json!({"do": "start", "target": target, "rate": per_second, "workers": workers})).await?;
        Ok(())
    }

    /// Returns the outcome of the load so far.
    pub async fn calls(&mut self) -> Result<Calls> {
        serde_json::from_value(self.ask(json!({"do": "report"})).await?).context("read a report")
    }

    /// Stops the load, lets calls in flight end, and returns the final count.
    pub async fn stop_load(&mut self) -> Result<Calls> {
        serde_json::from_value(self.ask(json!({"do": "stop"})).await?).context("read a report")
    }

    /// Waits until `backend` has answered `more` further calls of the load.
    pub async fn reaches(&mut self, backend: &str, more: u64, within: Duration) -> Result<()> {
        let goal = self.calls().await?.of(backend) + more;
        let client = tokio::sync::Mutex::new(self);
        eventually(&format!("{more} further answers of {backend}"), within, || async {
            let now = client.lock().await.calls().await?;
            if now.of(backend) >= goal { Ok(()) } else { bail!("answers so far: {now:?}") }
        })
        .await
    }

    /// Waits until `backend` stops receiving requests: two consecutive reports whose count is equal while others grow.
    pub async fn avoids(&mut self, backend: &str, others: u64, within: Duration) -> Result<()> {
        let client = tokio::sync::Mutex::new((self, u64::MAX, 0));
        eventually(&format!("{backend} to be out of use"), within, || async {
            let mut state = client.lock().await;
            let now = state.0.calls().await?;
            let (mine, rest) = (now.of(backend), now.answers.values().sum::<u64>() - now.of(backend));
            if mine != state.1 {
                (state.1, state.2) = (mine, rest);
            }
            ensure!(rest >= state.2 + others, "answers so far: {now:?}");
            Ok(())
        })
        .await
    }

    /// Returns its process, for its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn ask(&mut self, command: Value) -> Result<Value> {
        let line = format!("{command}\n");
        self.input.write_all(line.as_bytes()).await.with_context(|| format!("send the client {command}"))?;
        let answer = self.line().await.with_context(|| format!("answer to {command}"))?;
        serde_json::from_str(&answer).with_context(|| format!("the client answered {answer}"))
    }

    async fn line(&mut self) -> Result<String> {
        let next = async { Ok(self.output.next_line().await?) };
        match crate::wait::in_time("a line of the client", LINE_WITHIN, next).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => bail!("the client ended; its last output:\n{}", self.process.tail()),
            Err(error) => Err(error.context(self.process.tail())),
        }
    }
}

/// A gRPC server of the C core under Python, whose listener the control plane configures.
#[derive(Debug)]
pub struct GrpcServer {
    process: Process,
}

impl GrpcServer {
    /// Starts a server that listens on this address and answers with this name. It accepts connections once it has a listener.
    pub async fn start(at: SocketAddr, backend: &str, config: &GrpcConfig) -> Result<Self> {
        let mut command = python("grpc_server.py")?;
        command.arg(at.to_string()).arg(backend).env("GRPC_XDS_BOOTSTRAP_CONFIG", config.bootstrap());
        let process = Process::spawn(&format!("grpc server {backend}"), command)?;
        let mut server = Self { process };
        let log = server.process.log();
        let started = async || {
            let output = std::fs::read_to_string(&log)?;
            ensure!(output.contains("ready"), "it has not started");
            Ok(())
        };
        server.process.until("the start of the server", LINE_WITHIN, started).await?;
        Ok(server)
    }

    /// Returns its process, for its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn python(script: &str) -> Result<Command> {
    let mut command = Command::new(tools::python()?);
    command.arg("-u").arg(tools::script(script)?);
    Ok(command)
}

fn javascript() -> Result<Command> {
    let mut command = Command::new("node");
    command.arg(tools::script("grpc_js_client.js")?).env("NODE_PATH", tools::node_modules()?);
    Ok(command)
}
