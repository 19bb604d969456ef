//! The port-forward of a kubelet, for API servers without nodes: `tests/tools/kubelet.py` with a node and pods that lead to it.
//!
//! Suites and the documents use the same script. [`Kubelet::pod`] declares a pod whose admin port leads to an address of this
//! machine.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::kube::{KubeApi, Named, mk_node};
use crate::{Authority, Process, tools};

/// Port that the pods name `admin`.
pub const ADMIN: u16 = 15014;
/// Name of the node.
const NODE: &str = "forwards";

/// A running kubelet; killed when dropped.
#[derive(Debug)]
pub struct Kubelet {
    _process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _authority: Authority,
}

impl Kubelet {
    /// Starts it, and declares its node.
    pub async fn start(api: &KubeApi) -> Result<Self> {
        let authority = Authority::new()?;
        let identity = authority.server("kubelet")?;
        let mut command = Command::new(tools::python()?);
        command.arg(tools::script("kubelet.py")?).arg("--cert").arg(&identity.certificate_file);
        command.arg("--key").arg(&identity.key_file);
        let mut process = Process::spawn_piped("kubelet", command)?;
        let (input, output) = process.pipes()?;
        let mut output = BufReader::new(output).lines();
        let port = output.next_line().await?.context("the kubelet prints its port")?;
        let port: u16 = port.parse().with_context(|| format!("`{port}` is no port"))?;
        let node = api.apply(&mk_node(NODE, "eu", "eu-1")).await?;
        let status = json!({
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        });
        api.apply_status(&Named::of(&node)?, &status).await?;
        Ok(Self { _process: process, input, output, _authority: authority })
    }

    /// Declares a running pod of Tributary; connections to its admin port lead to `admin`.
    pub async fn pod(&mut self, api: &KubeApi, namespace: &str, name: &str, admin: SocketAddr) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/name": "tributary"}},
            "spec": {"nodeName": NODE, "containers": [
                {"name": "tributary", "image": "none", "ports": [{"name": "admin", "containerPort": ADMIN}]},
            ]},
        });
        let pod = api.apply(&pod).await?;
        self.status(api, &pod, "Running").await?;
        self.send(&format!("{namespace}/{name}:{ADMIN}={admin}")).await
    }

    async fn status(&self, api: &KubeApi, pod: &Value, phase: &str) -> Result<()> {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        api.apply_status(&Named::of(pod)?, &json!({"phase": phase, "conditions": ready})).await.map(drop)
    }

    /// Refuses connections to the admin port of a pod.
    pub async fn refuse(&mut self, namespace: &str, name: &str) -> Result<()> {
        self.send(&format!("-{namespace}/{name}:{ADMIN}")).await
    }

    /// Accepts connections to the admin port of a pod, and sends nothing.
    pub async fn hang(&mut self, namespace: &str, name: &str) -> Result<()> {
        self.send(&format!("hang {namespace}/{name}:{ADMIN}")).await
    }

    async fn send(&mut self, line: &str) -> Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        let answer = self.output.next_line().await?;
        ensure!(answer.as_deref() == Some("ok"), "the kubelet answered {answer:?}");
        Ok(())
    }
}
