//! Three real servers: the leader stopped, no quorum for a minute, a snapshot restored, connections limited. What is
//! served stays, and what changed is followed when the servers can say so again.

use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::consul::{ConsulOptions, PORT, Served, Servers};
use tributary_suites::{Backend, Consul, eventually, outbound, ports};

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(120);
const HOST: &str = "pay.service.consul";

async fn backend(name: &str) -> Result<Backend> {
    Backend::start_on(name, ports::own_ip()?).await
}
fn urls(servers: &Servers) -> Vec<&str> {
    servers.all().iter().map(Consul::url).collect()
}

#[tokio::test]
async fn an_election_costs_no_request() -> Result<()> {
    let (servers, first, second) =
        (Servers::start().await?, backend("first").await?, backend("second").await?);
    let (leader, others) = servers.leader().await?;
    leader.set("pay", "n1", &[first.addr()]).await?;
    let served = Served::by(&urls(&servers)).await?;
    let (envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 20, SOON).await?;
    leader.daemon().kill();
    load.reaches("first", 300, SOON).await?;
    let other = others[0];
    eventually("a server to take a change", LATER, || async {
        other.set("pay", "n1", &[first.addr(), second.addr()]).await
    })
    .await?;
    load.reaches("second", 20, LATER).await?;
    other.set("pay", "n1", &[second.addr()]).await?;
    envoy.has_hosts(&outbound(PORT, HOST), &[second.addr()], LATER).await?;
    load.finish().await.check_clean()
}

#[tokio::test]
async fn a_minute_without_quorum_removes_nothing() -> Result<()> {
    let (servers, first, second) =
        (Servers::start().await?, backend("first").await?, backend("second").await?);
    let (leader, others) = servers.leader().await?;
    leader.set("pay", "n1", &[first.addr()]).await?;
    let served = Served::by(&urls(&servers)).await?;
    let (_envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 20, SOON).await?;
    leader.daemon().kill();
    others[0].daemon().kill();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let held = served.server.items("registries").await?;
    ensure!(held.iter().any(|r| r["name"] == "consul" && r["endpoints"] != 0), "{held:?}");
    load.reaches("first", 100, SOON).await?;
    leader.restart().await?;
    others[0].restart().await?;
    eventually("a server to take a change", LATER, || async {
        leader.set("pay", "n1", &[first.addr(), second.addr()]).await
    })
    .await?;
    load.reaches("second", 20, LATER).await?;
    load.finish().await.check_clean()
}

/// Its indexes go backwards. What the snapshot has stays served throughout, what it has not goes.
#[tokio::test]
async fn a_restored_snapshot_is_followed_and_empties_nothing() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
    let (first, second) = (backend("first").await?, backend("second").await?);
    consul.set("pay", "n1", &[first.addr()]).await?;
    let snapshot = consul.snapshot().await?;
    consul.set("pay", "n1", &[first.addr(), second.addr()]).await?;
    let served = Served::by(&[consul.url()]).await?;
    let (envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 20, SOON).await?;
    load.reaches("second", 20, SOON).await?;
    consul.restore(snapshot).await?;
    envoy.has_hosts(&outbound(PORT, HOST), &[first.addr()], LATER).await?;
    consul.set("pay", "n1", &[first.addr(), second.addr()]).await?;
    load.reaches("second", 20, LATER).await?;
    load.finish().await.check_clean()
}

/// More services than connections are allowed: all are served, and changes are still followed.
#[tokio::test]
async fn a_limit_of_connections_is_lived_with() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().connections(16)).await?;
    let (first, second) = (backend("first").await?, backend("second").await?);
    for at in 0..40 {
        consul.set(&format!("other-{at}"), "n1", &[first.addr()]).await?;
    }
    consul.set("pay", "n1", &[first.addr()]).await?;
    let served = Served::by(&[consul.url()]).await?;
    served.registry_is("consul", "Live", &[], LATER).await?;
    let (_envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 20, LATER).await?;
    consul.set("pay", "n1", &[first.addr(), second.addr()]).await?;
    load.reaches("second", 20, LATER).await?;
    load.finish().await.check_clean()
}
