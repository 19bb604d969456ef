//! Traffic through real Envoy to instances of a real Consul: while they move, fail their checks, change their
//! port, and while the agent restarts. No request may fail.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::consul::{ConsulOptions, PORT, Served, mk_instance, mk_numbered};
use tributary_suites::{
    Backend, Consul, Envoy, EnvoyConfig, LoadPlan, Variant, eventually, moves, outbound, ports,
};

const SOON: Duration = Duration::from_secs(30);
const MOVES: usize = 12;
const HOST: &str = "pay.service.consul";

async fn backend(name: &str) -> Result<Backend> {
    Backend::start_on(name, ports::own_ip()?).await
}

#[tokio::test]
async fn envoy_follows_instances_under_load() -> Result<()> {
    let (consul, first) = (Consul::start().await?, backend("first").await?);
    consul.set("pay", "n1", &[first.addr()]).await?;
    let served = Served::by(&[consul.url()]).await?;
    let name = outbound(PORT, HOST);
    let config = EnvoyConfig::new(served.server.xds(), Variant::Delta).listen_for(&name);
    let envoy = Envoy::start(&config).await?;
    envoy.live(SOON).await?;
    let plan = LoadPlan::to(envoy.listener(0)?);
    let put = async |hosts: &[SocketAddr]| consul.set("pay", "n1", hosts).await;
    let moved = moves::through_listener(&envoy, &plan, &name, first, MOVES, put).await?;
    moved.tally.check_clean()?;
    ensure!(moved.slowest() < Duration::from_secs(10), "a move took {:?}", moved.slowest());
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

/// A check's result applies at once: traffic leaves a critical instance and one in maintenance, and returns.
#[tokio::test]
async fn traffic_leaves_critical_instances_and_returns() -> Result<()> {
    let (consul, first, second) = (Consul::start().await?, backend("first").await?, backend("second").await?);
    consul.set("pay", "n1", &[first.addr(), second.addr()]).await?;
    let served = Served::by(&[consul.url()]).await?;
    let (_envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 5, SOON).await?;
    load.reaches("second", 5, SOON).await?;
    let id = first.addr().to_string();
    for ill in [true, false] {
        if ill {
            consul.check(&id, "n1", "http", "critical").await?;
        } else {
            consul.check(&id, "n1", "http", "passing").await?;
            load.reaches("first", 5, SOON).await?;
            consul.maintenance(&id, "n1", true).await?;
        }
        eventually("traffic to leave", SOON, || async {
            let (before, all) = (load.tally().of("first"), load.tally().answered());
            load.reaches("second", 50, SOON).await?;
            let more = load.tally().of("first") - before;
            ensure!(more == 0, "{more} of {} went there", load.tally().answered() - all);
            Ok(())
        })
        .await?;
    }
    consul.maintenance(&id, "n1", false).await?;
    load.reaches("first", 5, SOON).await?;
    load.finish().await.check_clean()
}

/// Instances are replaced by ones at another port: clients of the old and the new port number reach both.
#[tokio::test]
async fn rolling_change_of_port_loses_no_request() -> Result<()> {
    let (consul, old, new) = (Consul::start().await?, backend("old").await?, backend("new").await?);
    consul.instance("pay", "pay-1", "n1", old.addr()).await?;
    let served = Served::by(&[consul.url()]).await?;
    let (_envoy, before) = served.traffic(HOST, old.addr().port()).await?;
    before.reaches("old", 20, SOON).await?;
    consul.instance("pay", "pay-2", "n2", new.addr()).await?;
    before.reaches("new", 20, SOON).await?;
    let (_other, after) = served.traffic(HOST, new.addr().port()).await?;
    after.reaches("old", 20, SOON).await?;
    after.reaches("new", 20, SOON).await?;
    before.finish().await.check_clean()?;
    consul.deregister("n1", "pay-1").await?;
    eventually("the old one to go", SOON, || async {
        let count = after.tally().of("old");
        after.reaches("new", 50, SOON).await?;
        ensure!(after.tally().of("old") == count, "it is still served");
        Ok(())
    })
    .await?;
    after.finish().await.check_clean()
}

#[tokio::test]
async fn calls_outlive_a_restart_of_the_agent() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
    let (first, second) = (backend("first").await?, backend("second").await?);
    consul.set("pay", "n1", &[first.addr()]).await?;
    let served = Served::by(&[consul.url()]).await?;
    let (envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 20, SOON).await?;
    consul.daemon().kill();
    served.server.registry_is("consul", "Unreachable", &[], SOON).await?;
    load.reaches("first", 300, SOON).await?;
    consul.restart().await?;
    served.server.registry_is("consul", "Live", &[], Duration::from_secs(90)).await?;
    consul.set("pay", "n1", &[first.addr(), second.addr()]).await?;
    load.reaches("second", 20, Duration::from_secs(90)).await?;
    consul.set("pay", "n1", &[second.addr()]).await?;
    envoy.has_hosts(&outbound(PORT, HOST), &[second.addr()], SOON).await?;
    load.finish().await.check_clean()
}

/// Instances of one id on two nodes are separate.
#[tokio::test]
async fn one_id_on_two_nodes_is_two_instances() -> Result<()> {
    let (consul, first, second) = (Consul::start().await?, backend("first").await?, backend("second").await?);
    for (node, at) in [("n1", first.addr()), ("n2", second.addr())] {
        let mut instance = mk_numbered("pay", node, at);
        instance["Service"]["ID"] = mk_instance("pay", "pay-1", node, at)["Service"]["ID"].clone();
        consul.register(&instance).await?;
    }
    let served = Served::by(&[consul.url()]).await?;
    let (_envoy, load) = served.traffic(HOST, PORT).await?;
    load.reaches("first", 20, SOON).await?;
    load.reaches("second", 20, SOON).await?;
    load.finish().await.check_clean()
}
