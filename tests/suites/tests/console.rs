//! The console in a real headless Chromium: every view, changes, keys, hostile texts, many services, outages. A script
//! drives the browser; this suite starts the server and what it serves.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::consul::{Consul, ConsulOptions};
use tributary_suites::{
    AdsClient, Files, Follower, Process, ServerOptions, TestServer, Variant, eventually, http_client, tools,
};

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(120);
const SERVICES: usize = 10_000;
const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;
const WEB: &str = r#"service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }"#;
const HOSTILE_CLIENT: &str = "<img src=x onerror=window.hacked=1>";
const HOSTILE_NACK: &str = "<script>window.hacked=2</script> & \"no\"";
const HOSTILE_HOST: &str = "<svg onload=window.hacked=3>";

/// A server whose documents have something to show in every view.
struct World {
    server: TestServer,
    files: Files,
    _west: Files,
    consul: Option<Consul>,
    home: TempDir,
    clients: Vec<JoinHandle<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        for client in &self.clients {
            client.abort();
        }
    }
}

impl World {
    /// Starts with files, a cluster whose kubeconfig is refused, and two clients, of which one rejects what it is sent.
    async fn start() -> Result<Self> {
        Self::start_over(None).await
    }

    /// As [`World::start`], with removals that are held: the token of a Consul sees less than before.
    async fn start_with_held() -> Result<Self> {
        let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
        consul.instance("web", "web-1", "n1", ([10, 0, 0, 1], 8080).into()).await?;
        consul.instance("pay", "pay-1", "n1", ([10, 0, 0, 3], 8080).into()).await?;
        let mut world = Self::start_over(Some(consul)).await?;
        world.narrow_token().await?;
        Ok(world)
    }

    async fn start_over(consul: Option<Consul>) -> Result<Self> {
        let (files, west, home) = (Files::new()?, Files::new()?, tempfile::tempdir()?);
        files.put("shop.yaml", &shop())?;
        west.put("pay.yaml", WEST)?;
        let remotes = home.path().join("remotes");
        std::fs::create_dir(&remotes)?;
        std::fs::write(remotes.join("south.kubeconfig"), REFUSED)?;
        let config = home.path().join("tributary.yaml");
        std::fs::write(&config, config_of(files.path(), west.path(), &remotes, consul.as_ref()))?;
        let mut options = ServerOptions::default().config(&config);
        if let Some(consul) = &consul {
            std::fs::write(home.path().join("token"), consul.token("first", ALL).await?.1)?;
            let file = home.path().join("token").display().to_string();
            options = options.env("CONSUL_HTTP_TOKEN_FILE", &file);
        }
        let server = TestServer::start(options).await?;
        let clients = vec![follow(&server).await?, reject(&server).await?];
        let world = Self { server, files, _west: west, consul, home, clients };
        world.server.shows("clients", SOON, |clients| clients.len() == 2).await?;
        Ok(world)
    }

    async fn narrow_token(&mut self) -> Result<()> {
        let Some(consul) = &self.consul else { return Ok(()) };
        self.server.shows("endpoints?host=pay.service.consul", SOON, |found| !found.is_empty()).await?;
        std::fs::write(self.home.path().join("token"), consul.token("narrow", WEB).await?.1)?;
        self.server.shows("guard", LATER, |held| held.len() == 2).await?;
        Ok(())
    }

    /// Runs one part of the script and prints what it measured.
    async fn check(&self, part: &str, more: Value) -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut world = json!({
            "url": format!("http://{}", self.server.admin()),
            "files": self.files.path(),
            "outlines": folder.join("console"),
            "artefacts": artefacts(),
            "hostile": {"client": HOSTILE_CLIENT, "nack": HOSTILE_NACK, "host": HOSTILE_HOST},
        });
        if let (Some(world), Some(more)) = (world.as_object_mut(), more.as_object()) {
            world.extend(more.clone());
        }
        let (status, output) = run(part, &world).await?;
        println!("{output}");
        ensure!(status.success(), "console_check.js {part} ended with {status}:\n{output}");
        Ok(())
    }
}

/// Returns the folder of the screenshots: that of `TRIBUTARY_ARTEFACTS`, else one beside the test's other output.
fn artefacts() -> PathBuf {
    let named = std::env::var_os("TRIBUTARY_ARTEFACTS").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).join("console")
}

async fn run(part: &str, world: &Value) -> Result<(ExitStatus, String)> {
    let mut command = Command::new("node");
    command.arg(tools::script("console_check.js")?).arg(part);
    command.env("NODE_PATH", tools::node_modules()?).env("CONSOLE_WORLD", world.to_string());
    let mut process = Process::spawn("console", command)?;
    let status = process.ended(LATER * 3).await?;
    Ok((status, process.output()))
}

/// Connects a client that acknowledges everything.
async fn follow(server: &TestServer) -> Result<JoinHandle<()>> {
    let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("web-1")).await?;
    client.next(SOON).await?;
    Ok(tokio::spawn(async move { while client.next(LATER * 10).await.is_ok() {} }))
}

/// Connects a client that rejects the xDS clusters, with a name and a text that are markup.
async fn reject(server: &TestServer) -> Result<JoinHandle<()>> {
    let mut client = AdsClient::connect(server.xds(), Variant::Sotw, node(HOSTILE_CLIENT)).await?;
    client.subscribe(CDS, &[])?;
    let answer = client.next(SOON).await?;
    client.nack(&answer, HOSTILE_NACK)?;
    client.subscribe(EDS, &["outbound|8080||pay.shop.example"])?;
    Ok(tokio::spawn(async move {
        while let Ok(answer) = client.next(LATER * 10).await {
            let sent =
                if answer.type_url == CDS { client.nack(&answer, HOSTILE_NACK) } else { client.ack(&answer) };
            if sent.is_err() {
                return;
            }
        }
    }))
}

const WEST: &str = "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pay-west, namespace: shop}
spec:
  hosts: [pay.shop.example]
  ports: [{number: 8080, name: tcp, protocol: TCP}, {number: 7070, name: admin, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 10.9.7.21, locality: us/us-1a, network: far}]
";

/// Kubeconfig that runs a program, which is refused.
const REFUSED: &str = "apiVersion: v1
kind: Config
current-context: south
clusters: [{name: south, cluster: {server: 'https://192.0.2.9:6443'}}]
contexts: [{name: south, context: {cluster: south, user: u}}]
users: [{name: u, user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}}]
";

/// Services with a conflict, policies of which one has no destination, and an object that is not valid and holds markup.
fn shop() -> String {
    format!(
        "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: pay, namespace: shop}}
spec:
  hosts: [pay.shop.example]
  ports: [{{number: 8080, name: http, protocol: HTTP}}, {{number: 9090, name: grpc, protocol: GRPC}}]
  resolution: STATIC
  endpoints: [{{address: 10.4.7.21, locality: eu/eu-1a}}, {{address: 10.4.7.22, locality: eu/eu-1b, weight: 3}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: stock, namespace: shop}}
spec:
  hosts: [stock.shop.example]
  ports: [{{number: 8080, name: http, protocol: HTTP}}]
  resolution: STATIC
  endpoints: [{{address: 10.4.7.31}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: pay, namespace: shop}}
spec: {{host: pay.shop.example, subsets: [{{name: v1, labels: {{version: v1}}}}]}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: pay, namespace: shop}}
spec: {{hosts: [pay.shop.example], http: [{{route: [{{destination: {{host: pay.shop.example, subset: v2}}}}]}}]}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: broken, namespace: shop}}
spec:
  hosts: [\"{HOSTILE_HOST}\"]
  ports: [{{number: 8080, name: http, protocol: HTTP}}]
"
    )
}

fn config_of(files: &Path, west: &Path, remotes: &Path, consul: Option<&Consul>) -> String {
    let mut registries = vec![
        json!({"kind": "file", "name": "files", "path": files}),
        json!({"kind": "file", "name": "west", "path": west, "clusterId": "west"}),
    ];
    if let Some(consul) = consul {
        registries.push(json!({"kind": "consul", "addresses": [consul.url()]}));
    }
    let config = json!({
        "apiVersion": "tributary.dev/v1alpha1",
        "kind": "Config",
        "remotes": {"directory": remotes},
        // The cluster that is refused is never read.
        "start": {"firstSyncTimeout": "1s"},
        "registries": registries,
    });
    config.to_string()
}

#[tokio::test]
async fn console_views_load_and_are_accessible_in_dark_and_light() -> Result<()> {
    World::start_with_held().await?.check("views", json!({})).await
}

#[tokio::test]
async fn console_follows_changes_and_releases_a_held_removal() -> Result<()> {
    World::start_with_held().await?.check("follow", json!({})).await
}

#[tokio::test]
async fn console_is_used_by_keys_alone() -> Result<()> {
    World::start().await?.check("keys", json!({})).await
}

#[tokio::test]
async fn console_shows_hostile_texts_as_text() -> Result<()> {
    World::start().await?.check("hostile", json!({})).await
}

#[tokio::test]
async fn console_shows_an_outage_and_takes_a_token() -> Result<()> {
    World::start().await?.check("outage", json!({})).await
}

#[tokio::test]
async fn console_lists_and_filters_ten_thousand_services() -> Result<()> {
    let world = World::start().await?;
    for (i, text) in many().iter().enumerate() {
        world.files.put(&format!("many-{i}.yaml"), text)?;
    }
    eventually("all services", LATER, || async {
        let found = world.server.debug("services?limit=1&search=svc-").await?;
        ensure!(found["metadata"]["total"] == SERVICES, "{}", found["metadata"]);
        Ok(())
    })
    .await?;
    world.check("many", json!({"services": SERVICES + 2})).await
}

/// Returns files with many services.
fn many() -> Vec<String> {
    let entry = |i: usize| {
        format!(
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: svc-{i}, namespace: many}}\nspec:\n  \
             hosts: [svc-{i:05}.many.example]\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  resolution: STATIC\n  \
             endpoints: [{{address: 10.6.{}.{}}}]\n",
            i / 250,
            i % 250 + 1
        )
    };
    (0..SERVICES)
        .collect::<Vec<_>>()
        .chunks(500)
        .map(|part| part.iter().map(|i| entry(*i)).collect())
        .collect()
}

#[tokio::test]
async fn console_paths_that_are_no_asset_are_denied() -> Result<()> {
    let server = TestServer::start(ServerOptions::files(Files::new()?.path())).await?;
    let admin = server.admin();
    for path in [
        "/consol",
        "/console/absent.js",
        "/console/../Cargo.toml",
        "/console/..%2f..%2fCargo.toml",
        "/console/%2e%2e/debug/config",
        "/console/%61pp.js",
        "/console//app.js",
        "/console/app.js/",
        "/console/APP.JS",
        "/console/app.js%00.css",
        "/console/./app.js",
        "/index.html",
        "/console/index.html",
    ] {
        let (status, body) = http_client::get(admin, path).await?;
        ensure!(status == StatusCode::NOT_FOUND && body == "not found\n", "{path} answered {status}: {body}");
    }
    let (status, page) = http_client::get(admin, "/console/").await?;
    ensure!(status == StatusCode::OK && page.contains("app.js"), "{status}: {page}");
    let (status, _) = http_client::request(admin, Method::POST, "/console/").await?;
    ensure!(status == StatusCode::METHOD_NOT_ALLOWED, "POST answered {status}");
    let (status, _) = http_client::get(admin, "/").await?;
    ensure!(status == StatusCode::TEMPORARY_REDIRECT, "/ answered {status}");
    let (status, _) = http_client::get(admin, "/console").await?;
    ensure!(status == StatusCode::PERMANENT_REDIRECT, "/console answered {status}");
    Ok(())
}
