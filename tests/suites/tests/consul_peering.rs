//! Two real datacenters that are peers: what one exports is found by the other's registry, served under the peer's host,
//! followed, and served on when the peer is taken away.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tributary_suites::consul::{ConsulOptions, PORT, Served};
use tributary_suites::{Backend, Consul, eventually, ports};

const SOON: Duration = Duration::from_secs(60);
const HOST: &str = "pay.service.east.peer.consul";

async fn start(datacenter: &str) -> Result<Consul> {
    let options = ConsulOptions::default().server_of(1).grpc_tls().datacenter(datacenter);
    Consul::start_with(options.hcl("connect { enabled = true }")).await
}

/// Lets `here` see the services `pay` of `there`, which it calls `east`.
async fn peer(here: &Consul, there: &Consul) -> Result<()> {
    let exported = json!([{"Name": "pay", "Consumers": [{"Peer": "west"}]}]);
    let export = json!({"Kind": "exported-services", "Name": "default", "Services": exported});
    there.rest().put("/v1/config", &export).await?;
    // the authority that signs the token comes a moment after the leader
    eventually("the peering to be made", SOON, || async {
        let token = there.rest().post("/v1/peering/token", &json!({"PeerName": "west"})).await?;
        let token = token["PeeringToken"].as_str().context("no token")?.to_owned();
        let establish = json!({"PeerName": "east", "PeeringToken": token});
        here.rest().post("/v1/peering/establish", &establish).await.map(drop)
    })
    .await?;
    eventually("the service to be imported", SOON, || async {
        let found = here.rest().get("/v1/health/service/pay?peer=east").await?;
        ensure!(found.as_array().is_some_and(|all| !all.is_empty()), "there is none");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_a_peer_exports_is_found_served_and_outlives_it() -> Result<()> {
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
