//! `tributary state accept` on real servers: a cluster whose identity is not the pinned one, and credentials
//! with fewer permissions. Until an operator accepts, the served facts stay; then the new run decides.

mod consul_support;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use consul_support::at;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::ads::{EDS, node};
use tributary_suites::consul::{ConsulOptions, PORT, Served};
use tributary_suites::kube::{ApiServerOptions, Login, Watched};
use tributary_suites::{
    ApiServer, Consul, Entry, Etcd, Follower, TestServer, Variant, eventually, nowhere, outbound,
};

const SOON: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(20);
const ANOTHER: &str = "the source's identity changed to ";
const NOTHING: i32 = 4;
const REGISTRIES: [&str; 2] = ["kubernetes", "kubernetes-entries"];

/// A client that follows the endpoints of a host.
struct Recorder {
    client: Follower,
    name: String,
}

impl Recorder {
    /// Starts when these are the endpoints.
    async fn start(server: &TestServer, host: &str, port: u16, hosts: &[&str]) -> Result<Self> {
        let name = outbound(port, host);
        let mut client = Follower::connect(server.xds(), Variant::Delta, node("recorder")).await?;
        client.subscribe(EDS, &[&name])?;
        let mut recorder = Self { client, name };
        recorder.has(hosts).await?;
        recorder.client.forget();
        Ok(recorder)
    }
    async fn has(&mut self, hosts: &[&str]) -> Result<()> {
        let hosts = hosts.iter().map(|host| Ok(host.parse()?)).collect::<Result<Vec<_>>>()?;
        self.client.has_endpoints(&self.name, &hosts, LATER).await
    }
    /// Asserts that its host changed in one response, and was never without endpoints.
    fn moved_once(&self) -> Result<()> {
        let answers = self.client.answers();
        ensure!(answers.len() == 1 && answers[0].removed.is_empty(), "{answers:?}");
        Ok(())
    }
}

/// Returns the text output of `state show`.
async fn shown(server: &TestServer) -> Result<String> {
    let (exit, out, err) = server.command(&["state", "show"]).await?;
    ensure!(exit.success(), "{exit}: {out}{err}");
    Ok(out)
}

/// Waits until the rows of a registry in `state show` contain this text.
async fn is_shown(server: &TestServer, registry: &str, text: &str) -> Result<()> {
    eventually(&format!("state show to report {text:?}"), LATER, || async {
        let state = server.debug("state").await?;
        let all = state["registries"].as_array().context("no registries")?;
        let own = all.iter().find(|one| one["name"] == registry).context("no such registry")?;
        ensure!(own["waitsFor"].as_str().is_some_and(|waits| waits.contains(text)), "{own}");
        Ok(())
    })
    .await?;
    let out = shown(server).await?;
    let rows = out.lines().filter(|row| row.split_whitespace().next() == Some(registry));
    ensure!(rows.clone().count() > 0 && rows.clone().all(|row| row.contains(text)), "{out}");
    Ok(())
}

async fn accept(server: &TestServer, registry: &str) -> Result<Option<i32>> {
    let (exit, out, err) = server.command(&["state", "accept", registry]).await?;
    ensure!(!exit.success() || out.contains("accepted"), "{out}{err}");
    Ok(exit.code())
}

async fn remembers_all(server: &TestServer) -> Result<()> {
    eventually("everything to be written", SOON, || async {
        let state = server.debug("state").await?;
        ensure!(state["journal"]["pendingKeys"] == 0, "{state}");
        Ok(())
    })
    .await
}

async fn identity(server: &TestServer) -> Result<Value> {
    Ok(server.registry(REGISTRIES[0]).await?["identity"].clone())
}

/// Starts a cluster with `pay` at these addresses, and with this entry.
async fn cluster(etcd: &Arc<Etcd>, prefix: &str, pay: &[&str], entry: Option<Entry>) -> Result<ApiServer> {
    let cluster = ApiServer::start_with(ApiServerOptions::default().on(etcd, prefix)).await?;
    cluster.api().fill_shop(PORT, pay, entry).await?;
    Ok(cluster)
}

/// If the first cluster has no entry, the registry of entries has nothing to lose, and still waits.
#[tokio::test]
async fn cluster_of_another_identity_waits_until_it_is_accepted() -> Result<()> {
    let etcd = Arc::new(Etcd::start().await?);
    let entry = |host: &str, last| Entry::http(host, PORT).at(nowhere(last));
    let second = cluster(&etcd, "second", &["10.77.0.20"], Some(entry("new.test", 2))).await?;
    for (prefix, old) in [("first", Some(entry("old.test", 1))), ("without", None)] {
        let first = cluster(&etcd, prefix, &["10.77.0.10"], old).await?;
        is_replaced(&first, &second).await.with_context(|| format!("in place of {prefix}"))?;
    }
    Ok(())
}

async fn is_replaced(first: &ApiServer, second: &ApiServer) -> Result<()> {
    let state = tempfile::tempdir()?;
    let folder = state.path().join("state");
    let watched = Watched::by_admin(first)?.arg("--state-dir").arg(&folder.display().to_string());
    let (server, _config) = watched.start().await?;
    for registry in REGISTRIES {
        server.registry_is(registry, "Live", &[], LATER).await?;
    }
    let pinned = identity(&server).await?;
    remembers_all(&server).await?;
    let fresh = second.kubeconfig(&Login::user("admin"))?;
    let server = server.restart_after(|| Ok(std::fs::rename(&fresh, watched.kubeconfig())?)).await?;
    let pay = "pay.shop.svc.cluster.local";
    let mut recorder = Recorder::start(&server, pay, PORT, &["10.77.0.10:8080"]).await?;
    for registry in REGISTRIES {
        is_shown(&server, registry, ANOTHER).await?;
    }
    ensure!(identity(&server).await? == pinned, "another identity is pinned already");
    ensure!(recorder.client.answers().is_empty(), "{:?}", recorder.client.answers());
    for registry in REGISTRIES {
        ensure!(accept(&server, registry).await? == Some(0), "{registry} has nothing to accept");
    }
    recorder.has(&["10.77.0.20:8080"]).await?;
    recorder.moved_once()?;
    serves_the_second(&server).await?;
    ensure!(identity(&server).await? != pinned, "the identity that was accepted is not pinned");
    ensure!(accept(&server, REGISTRIES[0]).await? == Some(NOTHING), "there is more to accept");
    remembers_all(&server).await?;
    let server = server.restart().await?;
    serves_the_second(&server).await
}

/// Asserts that everything of the second cluster is served and nothing of the first, live and without waiting
/// runs.
async fn serves_the_second(server: &TestServer) -> Result<()> {
    for registry in REGISTRIES {
        server.registry_is(registry, "Live", &[], LATER).await?;
    }
    let hosts = |all: &[Value], host: &str| all.iter().any(|one| one["host"] == host);
    server.shows("services", LATER, |all| hosts(all, "new.test") && !hosts(all, "old.test")).await?;
    let out = shown(server).await?;
    ensure!(!out.contains("does not serve"), "{out}");
    Ok(())
}

const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;
const WEB: &str = r#"service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }"#;
const LESS: &str = "the new run can read less of";

fn config(consul: &Consul, home: &TempDir, token: &str) -> Value {
    let token = home.path().join(token);
    json!({"registries": [{"kind": "consul", "name": "consul", "addresses": [consul.url()], "tokenFile": token}]})
}

#[tokio::test]
async fn narrower_token_serves_only_once_it_is_accepted() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
    for (service, last) in [("web", 1), ("pay", 3)] {
        consul.instance(service, &format!("{service}-1"), "n1", at(last)).await?;
    }
    let home = tempfile::tempdir()?;
    for (name, rules) in [("wide", ALL), ("narrow", WEB)] {
        std::fs::write(home.path().join(name), consul.token(name, rules).await?.1)?;
    }
    let served = Served::start(&config(&consul, &home, "wide")).await?;
    let server = &served.server;
    consul_support::served(server, "pay", &[3], LATER).await?;
    consul_support::served(server, "web", &[1], LATER).await?;
    served.reload(&config(&consul, &home, "narrow"))?;
    is_shown(server, "consul", LESS).await?;
    let before = server.registry("consul").await?;
    ensure!(accept(server, "consul").await? == Some(0), "there is nothing to accept");
    let after = eventually("the new run to serve", LATER, || async {
        let now = server.registry("consul").await?;
        ensure!(now["generation"] == before["nextGeneration"] && now["waitsFor"] == Value::Null, "{now}");
        Ok(now)
    })
    .await?;
    ensure!(after["state"] == "Stale", "what the token may not read counts as confirmed: {after}");
    consul.deregister("n1", "web-1").await?;
    consul.instance("web", "web-2", "n1", at(2)).await?;
    consul_support::served(server, "web", &[2], LATER).await?;
    consul_support::served(server, "pay", &[3], SOON).await?;
    ensure!(accept(server, "consul").await? == Some(NOTHING), "there is more to accept");
    Ok(())
}
