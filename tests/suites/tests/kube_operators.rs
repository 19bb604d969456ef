//! Operators and their servers, on a real API server: replicas that are reached through it, the forwarded console, and the remote
//! admin listener with tokens and certificates.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tributary_suites::ads::{CDS, node};
use tributary_suites::files::service_entry;
use tributary_suites::kube::{KubeApi, Login, Watched, mk_namespace};
use tributary_suites::kubelet::Kubelet;
use tributary_suites::ports::free_addr;
use tributary_suites::{
    AdsClient, ApiServer, Authority, Files, Process, Rest, ServerOptions, TestServer, Variant, eventually,
    http_client, tools,
};

const SOON: Duration = Duration::from_secs(60);
const SYSTEM: &str = "tributary-system";
const PODS: &str = "pods://tributary-system";
const PAY: &str = "pay.example";

/// Two servers of one registry, in the pods `tributary-0` and `tributary-1`.
struct Replicas {
    cluster: ApiServer,
    kubelet: Kubelet,
    servers: [TestServer; 2],
    kubeconfig: String,
    _files: Files,
}

impl Replicas {
    async fn start() -> Result<Self> {
        let cluster = ApiServer::start().await?;
        let api = cluster.api();
        api.apply(&mk_namespace(SYSTEM)).await?;
        api.create_account(SYSTEM, "default").await?;
        let files = Files::new()?;
        files.put("pay.yaml", &service_entry(PAY, "HTTP", 80, &["10.0.0.1:80".parse()?]))?;
        let options = || ServerOptions::files(files.path());
        let servers = [TestServer::start(options()).await?, TestServer::start(options()).await?];
        let mut kubelet = Kubelet::start(api).await?;
        for (i, server) in servers.iter().enumerate() {
            kubelet.pod(api, SYSTEM, &format!("tributary-{i}"), server.admin()).await?;
        }
        let kubeconfig = cluster.admin_kubeconfig()?.display().to_string();
        Ok(Self { cluster, kubelet, servers, kubeconfig, _files: files })
    }
    async fn run(&self, args: &[&str]) -> Result<(i32, String, String)> {
        let env = [("KUBECONFIG", self.kubeconfig.as_str())];
        let (status, out, err) = self.servers[0].run_with(&env, args).await?;
        Ok((code(status)?, out, err))
    }
}

fn code(status: ExitStatus) -> Result<i32> {
    status.code().context("the command was killed")
}

#[tokio::test]
async fn every_replica_is_read_and_a_silent_one_is_named() -> Result<()> {
    let mut replicas = Replicas::start().await?;
    let second = replicas.servers[1].xds();
    let mut client = AdsClient::connect(second, Variant::Delta, node("web-1")).await?;
    client.subscribe(CDS, &[])?;
    client.next(SOON).await?;

    let (exit, out, err) = replicas.run(&["get", "clients", "--server", PODS]).await?;
    ensure!(exit == 0 && out.contains("REPLICAS") && out.contains("web-1"), "{exit} {out} {err}");
    ensure!(out.lines().any(|row| row.starts_with("web-1") && row.ends_with("tributary-1")), "{out}");
    let (exit, out, _) = replicas.run(&["get", "services", "--server", PODS]).await?;
    ensure!(exit == 0 && out.matches(PAY).count() == 1 && !out.contains("REPLICAS"), "{exit} {out}");
    let (exit, out, err) = replicas.run(&["why-not", PAY, "--for-client", "web-1", "--server", PODS]).await?;
    ensure!(exit == 3 && out.contains("for web-1"), "the replica of the client answers: {exit} {out} {err}");
    let (exit, out, _) = replicas.run(&["explain", "10.0.0.1:80", "--server", PODS, "-o", "json"]).await?;
    let explained: Value = serde_json::from_str(&out)?;
    ensure!(exit == 0 && explained["items"].as_array().is_some_and(|all| all.len() == 1), "{exit} {out}");
    let (exit, out, _) = replicas.run(&["why-not", PAY, "--for-client", "none", "--server", PODS]).await?;
    ensure!(exit == 4, "no replica has this client: {exit} {out}");

    replicas.kubelet.refuse(SYSTEM, "tributary-1").await?;
    let (exit, out, err) = replicas.run(&["get", "services", "--server", PODS]).await?;
    ensure!(exit == 7 && out.contains(PAY), "{exit} {out} {err}");
    ensure!(err.contains("no answer of replica tributary-1") && err.contains("connection refused"), "{err}");
    replicas.kubelet.hang(SYSTEM, "tributary-1").await?;
    let hung = ["get", "services", "--server", PODS, "--timeout", "1s", "-o", "json"];
    let (exit, out, err) = replicas.run(&hung).await?;
    let list: Value = serde_json::from_str(&out)?;
    ensure!(exit == 7 && list["metadata"]["partial"] == true, "{exit} {out} {err}");
    ensure!(
        list["metadata"]["silent"][0].as_str().is_some_and(|text| text.contains("no answer within 1s")),
        "{out}"
    );
    Ok(())
}

#[tokio::test]
async fn one_replica_can_be_named_and_followed() -> Result<()> {
    let replicas = Replicas::start().await?;
    let (exit, _, err) = replicas.run(&["get", "services", "-w", "--server", PODS]).await?;
    ensure!(exit == 2 && err.contains("--server pods://tributary-system/tributary-0"), "{exit} {err}");
    let (exit, _, err) = replicas.run(&["state", "show", "--server", PODS]).await?;
    ensure!(exit == 2 && err.contains("describes one server"), "{exit} {err}");
    let named = format!("{PODS}/tributary-1");
    let (exit, out, err) = replicas.run(&["state", "show", "--server", &named]).await?;
    ensure!(exit == 0 && out.contains("file"), "{exit} {out} {err}");
    let (exit, _, err) =
        replicas.run(&["get", "services", "--server", "pods://tributary-system/tributary-9"]).await?;
    ensure!(exit == 4 && err.contains("tributary-9"), "{exit} {err}");
    let (exit, _, err) = replicas.run(&["get", "services", "--server", "pods://default"]).await?;
    ensure!(exit == 4 && err.contains("no server found in namespace `default`"), "{exit} {err}");
    let stranger = replicas.cluster.kubeconfig(&Login::user("reader"))?.display().to_string();
    let env = [("KUBECONFIG", stranger.as_str())];
    let (status, _, err) = replicas.servers[0].run_with(&env, &["get", "services", "--server", PODS]).await?;
    ensure!(status.code() == Some(6) && err.contains("list pods"), "{status} {err}");
    Ok(())
}

#[tokio::test]
async fn console_is_forwarded_to_a_pod() -> Result<()> {
    let replicas = Replicas::start().await?;
    let mut command = Command::new(tools::tributary()?);
    command.args(["console", "--no-open", "--server", PODS]).env("KUBECONFIG", &replicas.kubeconfig);
    let mut process = Process::spawn_piped("console", command)?;
    let (_input, output) = process.pipes()?;
    let url = BufReader::new(output).lines().next_line().await?.context("the command prints an address")?;
    let address = url.trim_start_matches("http://").trim_end_matches("/console/").parse()?;
    let services = http_client::get_json(address, "/debug/services").await?;
    ensure!(services["items"][0]["host"] == PAY, "{services}");
    ensure!(http_client::get_text(address, "/readyz").await?.contains("ok"));
    Ok(())
}

/// The remote admin listener of a server, as one operator reaches it.
async fn status(base: &Rest, method: Method, path: &str) -> Result<StatusCode> {
    Ok(base.send(method, path, None).await?.0)
}

fn remote(address: &str, identity: &tributary_suites::Identity, more: &str) -> String {
    let (cert, key) = (identity.certificate_file.display(), identity.key_file.display());
    format!("admin: {{remote: {{listen: '{address}', tls: {{certFile: {cert}, keyFile: {key}{more}}}")
}

/// Grants a service account verbs on the paths of `/debug`.
async fn grant(api: &KubeApi, name: &str, verbs: &[&str]) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"nonResourceURLs": ["/debug/*"], "verbs": verbs}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM, "name": name}],
    });
    api.create_account(SYSTEM, name).await?;
    api.apply_all([&role, &binding]).await
}

#[tokio::test]
async fn token_opens_the_remote_admin_listener_by_its_rights() -> Result<()> {
    const RELEASE: &str = "/debug/guard/release?id=none";
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.apply(&mk_namespace(SYSTEM)).await?;
    grant(api, "viewer", &["get"]).await?;
    grant(api, "operator", &["get", "post"]).await?;
    api.create_account(SYSTEM, "stranger").await?;
    let authority = Authority::new()?;
    let address = free_addr()?.to_string();
    let config = format!("{}, tokens: {{}}}}}}", remote(&address, &authority.server("admin")?, ""));
    let (server, _config) = Watched::by_admin(&cluster)?.config(&config).arg("--xds-tokens").start().await?;
    let base = Rest::tls(&format!("https://localhost:{}", port(&address)?), authority.certificate(), None)?;
    let with = |token: &str| base.clone().header("authorization", &format!("Bearer {token}"));

    for path in ["/debug", "/debug/services", "/debug/config", "/debug/resources?client=x", "/metrics"] {
        ensure!(
            status(&base, Method::GET, path).await? == StatusCode::UNAUTHORIZED,
            "{path} without a token"
        );
    }
    let of = async |account: &str, audience: &str| api.token_of(SYSTEM, account, &[audience]).await;
    let viewer = of("viewer", "tributary-admin").await?;
    ensure!(status(&with(&viewer), Method::GET, "/debug/services").await? == StatusCode::OK);
    ensure!(status(&with(&viewer), Method::POST, RELEASE).await? == StatusCode::FORBIDDEN);
    let operator = of("operator", "tributary-admin").await?;
    ensure!(
        status(&with(&operator), Method::POST, RELEASE).await? == StatusCode::NOT_FOUND,
        "it may, and nothing is held"
    );
    let stranger = of("stranger", "tributary-admin").await?;
    ensure!(status(&with(&stranger), Method::GET, "/debug/services").await? == StatusCode::FORBIDDEN);
    for (what, token) in [
        ("for xDS", of("operator", "tributary").await?),
        ("for the API server", api.token_of(SYSTEM, "operator", &[]).await?),
        ("forged", format!("{}.{}", operator.rsplit_once('.').context("a token")?.0, "A".repeat(86))),
    ] {
        let refused = status(&with(&token), Method::GET, "/debug/services").await?;
        ensure!(refused == StatusCode::UNAUTHORIZED, "a token {what}: {refused}");
    }
    is_read_by_the_command(&server, &authority, &address, &viewer).await?;
    let fresh = of("viewer", "tributary-admin").await?;
    cluster.daemon().kill();
    ensure!(
        status(&with(&viewer), Method::GET, "/debug/services").await? == StatusCode::OK,
        "it was granted before"
    );
    let refused = status(&with(&fresh), Method::GET, "/debug/services").await?;
    ensure!(
        refused == StatusCode::SERVICE_UNAVAILABLE,
        "a cluster that does not answer grants nothing: {refused}"
    );
    Ok(())
}

fn port(address: &str) -> Result<&str> {
    Ok(address.rsplit_once(':').context("an address has a port")?.1)
}

async fn is_read_by_the_command(
    server: &TestServer,
    authority: &Authority,
    address: &str,
    token: &str,
) -> Result<()> {
    let file = authority.path().join("token");
    std::fs::write(&file, token)?;
    let url = format!("https://localhost:{}", port(address)?);
    let (ca, token) = (authority.file().display().to_string(), file.display().to_string());
    let args = ["get", "services", "--server", &url, "--server-ca", &ca];
    let (status, _, err) = server.run(&args).await?;
    ensure!(status.code() == Some(6) && err.contains("present a token"), "{status} {err}");
    let (status, out, err) = server.run(&[&args[..], &["--server-token", &token]].concat()).await?;
    ensure!(status.success() && out.contains("kubernetes"), "{status} {out} {err}");
    // a command that waits takes the same flags
    let args = ["wait", "--for=ready", "--server", &url, "--server-ca", &ca, "--server-token", &token];
    let (status, out, err) = server.run(&args).await?;
    ensure!(status.success() && out == "ready\n", "{status} {out} {err}");
    Ok(())
}

#[tokio::test]
async fn certificate_opens_the_remote_admin_listener_without_a_cluster() -> Result<()> {
    let (authority, clients) = (Authority::new()?, Authority::new()?);
    let files = Files::new()?;
    files.put("pay.yaml", &service_entry(PAY, "HTTP", 80, &["10.0.0.1:80".parse()?]))?;
    let address = free_addr()?.to_string();
    let identity = authority.server("admin")?;
    let lists = "viewers: ['spiffe://mesh/viewer'], operators: ['spiffe://mesh/operator']";
    let more = format!(", clientCaFile: {}}}, {lists}}}}}", clients.file().display());
    let config = remote(&address, &identity, "").replace("}", &more);
    let file = files.path().join("../config.yaml");
    let file = write_config(&file, &config, files.path())?;
    let mut server = TestServer::start(ServerOptions::default().config(&file)).await?;
    let log = server.process().log();
    let url = format!("https://localhost:{}", port(&address)?);
    let rest = |identity| Rest::tls(&url, authority.certificate(), identity);

    let viewer = clients.client("viewer", "spiffe://mesh/viewer")?;
    ensure!(status(&rest(Some(&viewer))?, Method::GET, "/debug/services").await? == StatusCode::OK);
    ensure!(
        status(&rest(Some(&viewer))?, Method::POST, "/debug/guard/release?id=x").await?
            == StatusCode::FORBIDDEN
    );
    let operator = clients.client("operator", "spiffe://mesh/operator")?;
    ensure!(
        status(&rest(Some(&operator))?, Method::POST, "/debug/guard/release?id=x").await?
            == StatusCode::NOT_FOUND
    );
    let stranger = clients.client("stranger", "spiffe://mesh/stranger")?;
    ensure!(
        status(&rest(Some(&stranger))?, Method::GET, "/debug/services").await? == StatusCode::UNAUTHORIZED
    );
    ensure!(status(&rest(None)?, Method::GET, "/debug/services").await? == StatusCode::UNAUTHORIZED);
    let foreign = authority.client("foreign", "spiffe://mesh/operator")?;
    ensure!(
        status(&rest(Some(&foreign))?, Method::GET, "/debug/services").await.is_err(),
        "a certificate of another authority ends the handshake"
    );
    let cross = rest(Some(&viewer))?.header("sec-fetch-site", "cross-site");
    ensure!(status(&cross, Method::GET, "/debug/services").await? == StatusCode::FORBIDDEN);
    eventually("the log of the change", SOON, || async {
        let log = std::fs::read_to_string(&log)?;
        ensure!(
            log.contains("change requested by a remote operator") && log.contains("spiffe://mesh/operator"),
            "{log}"
        );
        Ok(())
    })
    .await
}

fn write_config(file: &Path, admin: &str, folder: &Path) -> Result<std::path::PathBuf> {
    let registries = format!("registries: [{{kind: file, path: {}}}]", folder.display());
    let text = format!("apiVersion: tributary.dev/v1alpha1\nkind: Config\n{admin}\n{registries}\n");
    let file = file.parent().context("a folder")?.join("remote-admin.yaml");
    std::fs::write(&file, text)?;
    Ok(file)
}
