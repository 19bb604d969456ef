//! Shared parts of the suites on a real Consul: addresses of instances, and reports of the server about them.

#![allow(dead_code, reason = "each suite uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_suites::ads::{EDS, node};
use tributary_suites::{Follower, TestServer, Variant, eventually};

/// Returns an instance's address.
pub(crate) fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 8080))
}

/// Returns the endpoints of a service of the local datacenter.
pub(crate) async fn serves(server: &TestServer, service: &str) -> Result<Vec<Value>> {
    server.items(&format!("endpoints?host={service}.service.consul")).await
}

/// Waits until exactly these addresses are served.
pub(crate) async fn served(server: &TestServer, service: &str, last: &[u8], within: Duration) -> Result<()> {
    let want: Vec<String> = last.iter().map(|last| at(*last).to_string()).collect();
    eventually(&format!("{service} at {want:?}"), within, || async {
        let have = addresses(server, service).await?;
        ensure!(have == want, "it is at {have:?}");
        Ok(())
    })
    .await
}

/// Returns the addresses under which a service is served now.
pub(crate) async fn addresses(server: &TestServer, service: &str) -> Result<Vec<String>> {
    let found = serves(server, service).await?;
    let mut have: Vec<String> =
        found.iter().filter_map(|one| Some(one["endpoint"].as_str()?.to_owned())).collect();
    have.sort();
    have.dedup();
    Ok(have)
}

/// Waits until these addresses have this health.
pub(crate) async fn states(
    server: &TestServer,
    service: &str,
    want: &[(u8, &str)],
    within: Duration,
) -> Result<()> {
    let want: BTreeMap<String, String> =
        want.iter().map(|(last, health)| (at(*last).to_string(), (*health).to_lowercase())).collect();
    eventually(&format!("{service} as {want:?}"), within, || async {
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let found = serves(server, service).await?;
        let have: BTreeMap<String, String> =
            found.iter().map(|one| (text(one, "endpoint"), text(one, "health").to_lowercase())).collect();
        ensure!(have == want, "it is {have:?}");
        Ok(())
    })
    .await
}

/// Returns the server's report about its only registry.
pub(crate) async fn registry(server: &TestServer) -> Result<Value> {
    server
        .items("registries")
        .await?
        .into_iter()
        .find(|one| one["provider"] == "Consul")
        .context("no Consul registry")
}

/// A client that follows all endpoints, as Envoy does, and records every assignment that lost one.
pub(crate) struct Recorder {
    stop: CancellationToken,
    task: JoinHandle<Result<Vec<String>>>,
}

impl Recorder {
    /// Starts when the client holds the assignment of a host.
    pub(crate) async fn start(server: &TestServer, host: &str) -> Result<Self> {
        let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?;
        let has = |name: &str| name.contains(host);
        let holds = |now: &Follower| now.names(EDS).iter().any(|name| has(name)).then_some(());
        client.until(&format!("endpoints of {host}"), Duration::from_secs(60), holds).await?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(record(client, stop.clone()));
        Ok(Self { stop, task })
    }
    /// Fails if an assignment has lost an endpoint since the start.
    pub(crate) async fn has_seen_no_loss(self) -> Result<()> {
        self.stop.cancel();
        let losses = self.task.await??;
        ensure!(losses.is_empty(), "assignments have shrunk: {losses:?}");
        Ok(())
    }
}

async fn record(mut client: Follower, stop: CancellationToken) -> Result<Vec<String>> {
    let mut losses = Vec::new();
    let mut before = assignments(&client)?;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(losses),
            answer = client.next(Duration::from_secs(3_600)) => drop(answer?),
        }
        let now = assignments(&client)?;
        for (name, had) in &before {
            let has = now.get(name).cloned().unwrap_or_default();
            if !had.is_subset(&has) {
                losses.push(format!("{name}: {had:?}, then {has:?}"));
            }
        }
        before = now;
    }
}

fn assignments(client: &Follower) -> Result<BTreeMap<String, BTreeSet<String>>> {
    client.names(EDS).into_iter().map(|name| Ok((name.clone(), client.endpoints(&name)?))).collect()
}

/// Returns the number of held removals.
pub(crate) async fn held(server: &TestServer) -> Result<usize> {
    Ok(registry(server).await?["held"].as_array().map_or(0, Vec::len))
}

/// Waits until no removal is held.
pub(crate) async fn none_held(server: &TestServer, within: Duration) -> Result<()> {
    eventually("nothing to be held", within, || async {
        let held = held(server).await?;
        ensure!(held == 0, "{held} are");
        Ok(())
    })
    .await
}

/// Waits until the server's report about its registry contains this text.
pub(crate) async fn reports(server: &TestServer, text: &str, within: Duration) -> Result<()> {
    eventually(&format!("the registry to report {text:?}"), within, || async {
        let report = registry(server).await?.to_string();
        ensure!(report.contains(text), "{report}");
        Ok(())
    })
    .await
}
