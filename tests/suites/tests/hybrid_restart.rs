//! Tributary is killed and restarted with its state directory, while a real API server, a real Consul and a
//! folder are unavailable in turn: it serves the same assignments with the same versions, and none shrinks when
//! the sources return.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tributary_suites::ads::{EDS, node};
use tributary_suites::consul::{ConsulOptions, PORT};
use tributary_suites::files::service_entry;
use tributary_suites::kube::{Login, mk_namespace, mk_service, mk_slices};
use tributary_suites::{
    AdsClient, ApiServer, Consul, Follower, ServerOptions, TestServer, Variant, eventually, outbound, ports,
};

const SOON: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(180);

/// State of the sources while Tributary restarts.
#[derive(Debug, Clone, Copy)]
enum Away {
    /// Unchanged.
    Nothing,
    /// Connections stay open and nothing answers.
    Paused,
    /// The servers are killed and the folder is removed.
    Killed,
    /// The API server answers 403; Consul and the folder are unavailable.
    Forbidden,
}

struct World {
    cluster: ApiServer,
    consul: Consul,
    folder: TempDir,
    files: PathBuf,
    kubeconfig: PathBuf,
}

/// Versions and endpoints of every assignment.
type Assignments = BTreeMap<String, (String, Vec<String>)>;

impl World {
    async fn start() -> Result<Self> {
        let cluster = ApiServer::start().await?;
        let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
        let folder = tempfile::tempdir()?;
        let files = folder.path().join("files");
        std::fs::create_dir(&files)?;
        std::fs::write(files.join("mail.yaml"), service_entry("mail.test", "HTTP", PORT, &[host(30)?]))?;
        cluster.api().apply(&mk_namespace("shop")).await?;
        cluster.api().apply(&mk_service("shop", "pay", &[("http", PORT, PORT)])).await?;
        let slices = mk_slices("shop", "pay", "http", &[host(10)?, host(11)?]);
        cluster.api().set_slices("shop", "pay", &slices).await?;
        consul.set("cart", "n1", &[host(20)?, host(21)?]).await?;
        let token = folder.path().join("token");
        std::fs::write(&token, "admin-token")?;
        let kubeconfig = cluster.kubeconfig(&Login::TokenFile(token))?;
        let world = Self { cluster, consul, folder, files, kubeconfig };
        world.configure()?;
        Ok(world)
    }
    /// Sets the credential that Tributary reads.
    fn login(&self, user: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.path().join("token"), format!("{user}-token"))?)
    }
    fn configure(&self) -> Result<()> {
        let config = json!({
            "apiVersion": "tributary.dev/v1alpha1",
            "kind": "Config",
            "registries": [
                {"kind": "kubernetes", "name": "east", "kubeconfig": self.kubeconfig},
                {"kind": "consul", "name": "consul", "addresses": [self.consul.url()]},
                {"kind": "file", "name": "files", "path": self.files},
            ],
        });
        Ok(std::fs::write(self.folder.path().join("config.json"), config.to_string())?)
    }
    /// Starts a server with the state directory, which must be ready within the time limit.
    async fn serve(&self) -> Result<TestServer> {
        let state = self.folder.path().join("state");
        let options = ServerOptions::default()
            .config(&self.folder.path().join("config.json"))
            .arg("--state-dir")
            .arg(state.to_str().context("a path that is text")?)
            .arg("--first-sync-timeout")
            .arg("0");
        let mut server = TestServer::launch(options)?;
        server.ready(SOON).await?;
        Ok(server)
    }
    async fn take_away(&self, how: Away) -> Result<()> {
        match how {
            Away::Nothing => return Ok(()),
            Away::Paused => {
                self.cluster.daemon().pause().await?;
                return self.consul.daemon().pause().await;
            }
            Away::Killed => self.cluster.daemon().kill(),
            Away::Forbidden => self.login("unprivileged")?,
        }
        self.consul.daemon().kill();
        Ok(std::fs::rename(&self.files, self.folder.path().join("away"))?)
    }
    async fn bring_back(&self, how: Away) -> Result<()> {
        match how {
            Away::Nothing => return Ok(()),
            Away::Paused => {
                self.cluster.daemon().resume()?;
                return self.consul.daemon().resume();
            }
            Away::Killed => self.cluster.restart().await?,
            Away::Forbidden => self.login("admin")?,
        }
        self.consul.restart().await?;
        Ok(std::fs::rename(self.folder.path().join("away"), &self.files)?)
    }
}

/// Returns an address that is never called.
fn host(last: u8) -> Result<SocketAddr> {
    ensure!(ports::own_ip()?.is_ipv4(), "this machine has an IPv4 address");
    Ok(SocketAddr::from(([10, 77, 0, last], PORT)))
}

fn names() -> [String; 3] {
    ["pay.shop.svc.cluster.local", "cart.service.consul", "mail.test"].map(|host| outbound(PORT, host))
}

async fn follow(server: &TestServer) -> Result<Follower> {
    let client = AdsClient::connect(server.xds(), Variant::Delta, node("recorder")).await?;
    let mut follower = Follower::over(client, Variant::Delta);
    let names = names();
    follower.subscribe(EDS, &names.each_ref().map(String::as_str))?;
    Ok(follower)
}

/// Returns the recorder's assignments when it holds all three.
async fn held(follower: &mut Follower) -> Result<Assignments> {
    while follower.versions(EDS).len() < names().len() {
        follower.next(SOON).await?;
    }
    assignments(follower)
}

fn assignments(follower: &Follower) -> Result<Assignments> {
    let one = |(name, version): (String, String)| {
        let endpoints = follower.endpoints(&name)?.into_iter().collect();
        Ok((name, (version, endpoints)))
    };
    follower.versions(EDS).into_iter().map(one).collect()
}

#[tokio::test]
async fn killed_server_then_serves_the_same_whatever_is_away() -> Result<()> {
    let world = World::start().await?;
    let first = world.serve().await?;
    for name in ["east", "consul", "files"] {
        first.registry_is(name, "Live", &[], SOON).await?;
    }
    let before = held(&mut follow(&first).await?).await?;
    let sizes: Vec<usize> = before.values().map(|(_, endpoints)| endpoints.len()).collect();
    ensure!(sizes.iter().sum::<usize>() == 5, "{before:?}");
    remembers_all(&first).await?;
    drop(first);
    for away in [Away::Nothing, Away::Paused, Away::Killed, Away::Forbidden] {
        world.take_away(away).await?;
        let server = world.serve().await.with_context(|| format!("start with {away:?}"))?;
        let mut recorder = follow(&server).await?;
        let again = held(&mut recorder).await.with_context(|| format!("be served with {away:?}"))?;
        ensure!(again == before, "{away:?}: {again:?} instead of {before:?}");
        world.bring_back(away).await?;
        for name in ["east", "consul", "files"] {
            server.registry_is(name, "Live", &[], LATER).await.with_context(|| format!("after {away:?}"))?;
        }
        unmoved(&mut recorder, &before).await.with_context(|| format!("after {away:?}"))?;
        remembers_all(&server).await?;
    }
    Ok(())
}

/// Asserts that every response since the start has the earlier content.
async fn unmoved(recorder: &mut Follower, before: &Assignments) -> Result<()> {
    recorder.settle(Duration::from_secs(2)).await?;
    for answer in recorder.answers() {
        ensure!(answer.removed.is_empty(), "{:?} were taken away", answer.removed);
        for (name, version) in answer.versions() {
            let was = before.get(&name).map(|(version, _)| version);
            ensure!(was == Some(&version), "{name} moved from {was:?} to {version}");
        }
    }
    Ok(())
}

/// The server is killed with SIGKILL: everything it served must be on disk by then.
async fn remembers_all(server: &TestServer) -> Result<()> {
    eventually("everything to be written", SOON, || async {
        let state = server.debug("state").await?;
        let registries = state["registries"].as_array().context("registries")?;
        ensure!(registries.len() >= 3 && registries.iter().all(|one| one["whole"] == true), "{state}");
        ensure!(state["journal"]["pendingKeys"] == 0, "{state}");
        Ok(())
    })
    .await
}
