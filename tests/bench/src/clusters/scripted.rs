//! The scripted clusters of a bench, in a separate process: a config cluster with a Secret for each of the others, all behind
//! one TLS port, each under a path of its own.
//!
//! Started as `tributary-bench scripted-clusters CLUSTERS SERVICES ADDRESSES`. It prints the config cluster's kubeconfig on
//! standard output and executes the commands on standard input: `rotate`, `break`, `heal`. It ends when its input ends.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use axum::Router;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt as _;
use tributary_scripted_api::{Answer, ApiServer, Kind};
use tributary_suites::kube::{Login, mk_namespace, mk_service, mk_slice};
use tributary_suites::tls::Authority;

/// Role of the process.
pub(crate) const SOURCE: &str = "scripted-clusters";
/// Port of every service.
pub(super) const PORT: u16 = 80;
const NAMESPACE: &str = "bench";
const SYSTEM: &str = "tributary-system";

/// Returns the host of a service, which every remote cluster has.
pub(super) fn host(service: usize) -> String {
    format!("{}.{NAMESPACE}.svc.cluster.local", name(service))
}

fn name(service: usize) -> String {
    format!("svc-{service:04}")
}

/// Runs until standard input ends.
pub(crate) fn main(args: &[&str]) -> Result<()> {
    let [clusters, services, addresses] = args else {
        return Err(anyhow!("usage: {SOURCE} CLUSTERS SERVICES ADDRESSES"));
    };
    let (services, addresses) = (services.parse()?, addresses.parse()?);
    let remotes = (0..clusters.parse()?).map(|at| remote(at, services, addresses)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(remotes))
}

/// Builds a cluster of services with one slice each.
fn remote(at: usize, services: usize, addresses: usize) -> ApiServer {
    let server = cluster(&format!("uid-{at}"));
    server.put("namespaces", mk_namespace(NAMESPACE));
    for service in 0..services {
        let name = name(service);
        server.put("services", mk_service(NAMESPACE, &name, &[("http", PORT, 8080)]));
        let ip =
            |n: usize| Ipv4Addr::from((10 << 24) + ((at * services + service) * addresses + n) as u32 + 1);
        let ips: Vec<String> = (0..addresses).map(|n| ip(n).to_string()).collect();
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        server
            .put("endpointslices", mk_slice(NAMESPACE, &name, &format!("{name}-x"), &ips, &[("http", 8080)]));
    }
    server
}

fn cluster(uid: &str) -> ApiServer {
    let server = ApiServer::new(&Kind::OF_A_CLUSTER);
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": uid}}));
    server
}

/// The clusters, and how they are reached.
struct Clusters {
    config: ApiServer,
    remotes: Vec<ApiServer>,
    url: String,
    certificate: String,
    /// Credentials so far.
    rotations: usize,
}

async fn serve(remotes: Vec<ApiServer>) -> Result<()> {
    let config = cluster("uid-config");
    let routes = remotes
        .iter()
        .enumerate()
        .fold(Router::new().nest("/config", config.router()), |routes, (at, remote)| {
            routes.nest(&format!("/{at}"), remote.router())
        });
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let backend = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
    let authority = Authority::new()?;
    let front = authority.http2_front(&authority.server("clusters")?, backend).await?;
    let (url, certificate) = (format!("https://{}", front.addr()), authority.certificate().to_owned());
    let mut clusters = Clusters { config, remotes, url, certificate, rotations: 0 };
    clusters.declare()?;
    let file = clusters.config_file(authority.path())?;
    report(&json!({"event": "serving", "kubeconfig": file.display().to_string()}));
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        clusters.execute(&line)?;
        report(&json!({"event": line}));
    }
    serving.abort();
    Ok(())
}

fn report(event: &Value) {
    println!("{event}");
}

impl Clusters {
    fn execute(&mut self, line: &str) -> Result<()> {
        let first = self.remotes.first().context("there is no cluster")?;
        match line {
            "rotate" => return self.declare(),
            "break" => {
                first.answer("", None, usize::MAX, Answer::Reset);
                first.disconnect();
            }
            "heal" => first.heal(),
            _ => return Err(anyhow!("unknown command {line:?}")),
        }
        Ok(())
    }
    /// Writes a Secret for each remote cluster, with another token each time.
    fn declare(&mut self) -> Result<()> {
        self.rotations += 1;
        for at in 0..self.remotes.len() {
            let kubeconfig = self.kubeconfig(&at.to_string());
            let name = format!("remote-{at}");
            let object = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "namespace": SYSTEM, "name": name, "uid": format!("secret-{at}"),
                    "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"istio/multiCluster": "true"},
                },
                "data": {name.as_str(): ByteString(kubeconfig.into_bytes())},
            });
            self.config.put("secrets", object);
        }
        Ok(())
    }
    fn kubeconfig(&self, path: &str) -> String {
        let login = Login::Token(format!("token-{}", self.rotations));
        login.kubeconfig(&format!("{}/{path}", self.url), &self.certificate, "test")
    }
    fn config_file(&self, folder: &Path) -> Result<PathBuf> {
        let file = folder.join("config.kubeconfig");
        std::fs::write(&file, self.kubeconfig("config"))?;
        Ok(file)
    }
}
