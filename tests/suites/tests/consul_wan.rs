//! Two real joined datacenters: one is cut off, and the other is served and followed as before, also across a
//! reload of the configuration.

mod consul_support;

use std::time::Duration;

use anyhow::Result;
use consul_support::{Recorder, reports};
use serde_json::{Value, json};
use tributary_suites::consul::{ConsulOptions, PORT, Served, join_wan};
use tributary_suites::{Backend, Consul, ports};

const SOON: Duration = Duration::from_secs(60);

/// The agent's datacenter has `near`, the other one `far`.
struct World {
    here: Consul,
    there: Consul,
    near: Backend,
    far: Backend,
    more: Backend,
    served: Served,
}

impl World {
    async fn start() -> Result<Self> {
        let options = || ConsulOptions::default().server_of(1).wan();
        let here = Consul::start_with(options()).await?;
        let there = Consul::start_with(options().datacenter("dc2")).await?;
        join_wan(&here, &there).await?;
        let ip = ports::own_ip()?;
        let near = Backend::start_on("near", ip).await?;
        let (far, more) = (Backend::start_on("far", ip).await?, Backend::start_on("more", ip).await?);
        here.set("pay", "n1", &[near.addr()]).await?;
        there.set("pay", "n9", &[far.addr()]).await?;
        let served = Served::start(&config(&here, MANY)).await?;
        Ok(Self { here, there, near, far, more, served })
    }
}

/// Connections that give each service a long poll, and connections that give none.
const MANY: u32 = 150;
const FEW: u32 = 20;

fn config(here: &Consul, connections: u32) -> Value {
    json!({"registries": [{"kind": "consul", "name": "consul", "addresses": [here.url()],
        "datacenters": ["all"], "connections": connections}]})
}

#[tokio::test]
async fn only_the_datacenter_that_is_cut_off_becomes_stale() -> Result<()> {
    let world = World::start().await?;
    let (_envoy, own) = world.served.traffic("pay.service.consul", PORT).await?;
    let (_other, remote) = world.served.traffic("pay.service.dc2.dc.consul", PORT).await?;
    own.reaches("near", 20, SOON).await?;
    remote.reaches("far", 20, SOON).await?;
    world.there.daemon().kill();
    remote.reaches("far", 500, SOON).await?;
    world.here.set("pay", "n1", &[world.near.addr(), world.more.addr()]).await?;
    own.reaches("more", 20, SOON).await?;
    own.finish().await.check_clean()?;
    remote.finish().await.check_clean()
}

#[tokio::test]
async fn reload_during_a_cut_keeps_its_facts_and_follows_the_rest() -> Result<()> {
    let world = World::start().await?;
    let (_envoy, own) = world.served.traffic("pay.service.consul", PORT).await?;
    let (_other, remote) = world.served.traffic("pay.service.dc2.dc.consul", PORT).await?;
    own.reaches("near", 20, SOON).await?;
    remote.reaches("far", 20, SOON).await?;
    let recorder = Recorder::start(&world.served.server, "pay.service.dc2.dc.consul").await?;
    world.there.daemon().kill();
    world.served.reload(&config(&world.here, FEW))?;
    reports(&world.served.server, "notifyAndFetch", SOON).await?;
    world.here.set("pay", "n1", &[world.near.addr(), world.more.addr()]).await?;
    own.reaches("more", 20, SOON).await?;
    remote.reaches("far", 100, SOON).await?;
    world.there.restart().await?;
    world.there.set("pay", "n9", &[world.far.addr(), world.more.addr()]).await?;
    remote.reaches("more", 20, SOON * 2).await?;
    recorder.has_seen_no_loss().await?;
    own.finish().await.check_clean()?;
    remote.finish().await.check_clean()
}
