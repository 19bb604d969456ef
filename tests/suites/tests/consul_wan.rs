//! Two real datacenters that know each other: one is cut off, and the other is served and followed as before.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tributary_suites::consul::{ConsulOptions, PORT, Served, join_wan};
use tributary_suites::{Backend, Consul, ports};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_datacenter_that_is_cut_off_goes_stale_alone() -> Result<()> {
    let here = Consul::start_with(ConsulOptions::default().server_of(1).wan()).await?;
    let there = Consul::start_with(ConsulOptions::default().server_of(1).wan().datacenter("dc2")).await?;
    join_wan(&here, &there).await?;
    let ip = ports::own_ip()?;
    let near = Backend::start_on("near", ip).await?;
    let (far, more) = (Backend::start_on("far", ip).await?, Backend::start_on("more", ip).await?);
    here.set("pay", "n1", &[near.addr()]).await?;
    there.set("pay", "n9", &[far.addr()]).await?;
    let registry =
        json!({"kind": "consul", "name": "consul", "addresses": [here.url()], "datacenters": ["all"]});
    let served = Served::start(&json!({"registries": [registry]})).await?;
    let (_envoy, own) = served.traffic("pay.service.consul", PORT).await?;
    let (_other, remote) = served.traffic("pay.service.dc2.dc.consul", PORT).await?;
    own.reaches("near", 20, SOON).await?;
    remote.reaches("far", 20, SOON).await?;
    there.daemon().kill();
    remote.reaches("far", 500, SOON).await?;
    here.set("pay", "n1", &[near.addr(), more.addr()]).await?;
    own.reaches("more", 20, SOON).await?;
    own.finish().await.check_clean()?;
    remote.finish().await.check_clean()
}
