//! Two real datacenters that are peers: the other's registry finds an exported service, serves it under the
//! peer's host, follows it, and keeps serving it when the peer is removed. A new leader of the registry's own
//! servers, which lists no service of the peer until the peer sends them again, removes nothing.

mod consul_support;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use consul_support::{Recorder, at, none_held};
use serde_json::json;
use tributary_suites::consul::{ConsulOptions, PORT, Served, Servers};
use tributary_suites::{Backend, Consul, eventually, ports};

const SOON: Duration = Duration::from_secs(60);
const HOST: &str = "pay.service.east.peer.consul";

fn options(datacenter: &str) -> ConsulOptions {
    ConsulOptions::default().server_of(1).grpc_tls().datacenter(datacenter).hcl("connect { enabled = true }")
}

async fn start(datacenter: &str) -> Result<Consul> {
    Consul::start_with(options(datacenter)).await
}

/// Lets `here` see the service `pay` of `there`, under the peer name `east`.
async fn peer(here: &Consul, there: &Consul) -> Result<()> {
    let exported = json!([{"Name": "pay", "Consumers": [{"Peer": "west"}]}]);
    let export = json!({"Kind": "exported-services", "Name": "default", "Services": exported});
    there.rest().put("/v1/config", &export).await?;
    // the authority that signs the token becomes available a moment after the leader
    eventually("the peering to be made", SOON, || async {
        let token = there.rest().post("/v1/peering/token", &json!({"PeerName": "west"})).await?;
        let token = token["PeeringToken"].as_str().context("no token")?.to_owned();
        let establish = json!({"PeerName": "east", "PeeringToken": token});
        here.rest().post("/v1/peering/establish", &establish).await.map(drop)
    })
    .await?;
    eventually("the service to be imported", SOON, || async {
        let found = here.rest().get("/v1/health/service/pay?peer=east").await?;
        ensure!(found.as_array().is_some_and(|all| !all.is_empty()), "the result is empty");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn exported_service_of_a_peer_is_served_and_outlives_the_peer() -> Result<()> {
    let (here, there) = (start("dc1").await?, start("dc2").await?);
    let ip = ports::own_ip()?;
    let (far, more) = (Backend::start_on("far", ip).await?, Backend::start_on("more", ip).await?);
    there.set("pay", "n9", &[far.addr()]).await?;
    peer(&here, &there).await?;
    let registry = json!({"kind": "consul", "name": "consul", "addresses": [here.url()], "peers": ["all"],
        "namespaces": ["all"]});
    let served = Served::start(&json!({"registries": [registry]})).await?;
    served.server.registry_is("consul", "Live", &["dc1@east", "not in this Consul"], SOON).await?;
    let (_envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("far", 20, SOON).await?;
    there.set("pay", "n9", &[far.addr(), more.addr()]).await?;
    load.reaches("more", 20, SOON).await?;
    there.set("pay", "n9", &[more.addr()]).await?;
    load.reaches("more", 20, SOON).await?;
    there.daemon().kill();
    load.reaches("more", 500, SOON).await?;
    load.finish().await.check_clean()
}

/// The peer is paused while the leader changes, so the new leader cannot learn the imported services.
#[tokio::test]
async fn new_leader_without_the_names_of_a_peer_shrinks_nothing() -> Result<()> {
    let servers = Servers::start_with(|| options("dc1")).await?;
    let there = start("dc2").await?;
    let (leader, others) = servers.leader().await?;
    there.set("pay", "n9", &[at(1), at(2)]).await?;
    peer(leader, &there).await?;
    let addresses: Vec<&str> = [&leader].into_iter().chain(&others).map(|server| server.url()).collect();
    let registry = json!({"kind": "consul", "name": "consul", "addresses": addresses, "peers": ["all"]});
    let served = Served::start(&json!({"registries": [registry]})).await?;
    served.server.registry_is("consul", "Live", &["dc1@east"], SOON).await?;
    let recorder = Recorder::start(&served.server, HOST).await?;

    there.daemon().pause().await?;
    leader.daemon().kill();
    let names = eventually("a new leader to answer", SOON, || async {
        ensure!(others[0].leader().await?.len() > 2, "the result is empty");
        others[0].rest().get("/v1/peering/east?stale").await
    })
    .await?;
    let imported = names["StreamStatus"]["ImportedServices"].as_array().map_or(0, Vec::len);
    ensure!(imported == 0, "the new leader knows the names, and proves nothing here: {names}");
    eventually("another server to be asked", SOON, || async {
        let sources = served.server.registry("consul").await?["sources"].clone();
        let mut sources = sources.as_array().into_iter().flatten();
        let east = sources.find(|source| source["scope"] == "dc1@east").context("no scope")?;
        let report = east.to_string();
        ensure!(east["state"] == "Live" && !report.contains(&addresses[0][7..]), "{report}");
        Ok(())
    })
    .await?;
    still_served(&served, 2).await?;
    there.daemon().resume()?;

    eventually("the peer to be followed again", SOON, || async {
        there.set("pay", "n9", &[at(1), at(2), at(3)]).await?;
        still_served(&served, 3).await
    })
    .await?;
    recorder.has_seen_no_loss().await?;
    there.set("pay", "n9", &[at(3)]).await?;
    eventually("what has gone to go", SOON, || still_served(&served, 1)).await?;
    none_held(&served.server, SOON).await
}

async fn still_served(served: &Served, count: usize) -> Result<()> {
    let found = served.server.items(&format!("endpoints?host={HOST}")).await?;
    ensure!(found.len() == count, "there are {found:?}");
    Ok(())
}
