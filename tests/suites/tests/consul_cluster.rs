//! Three real servers: the leader stopped, no quorum for a minute, a snapshot restored, connections limited.
//! Served endpoints stay, and changes are followed when the servers answer again.

use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::consul::{ConsulOptions, PORT, Served, Servers};
use tributary_suites::{Backend, Consul, Envoy, Load, eventually, nowhere, outbound, ports};

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(120);
const HOST: &str = "pay.service.consul";

/// Traffic to the instances of a Consul: only to `first` at the beginning.
struct World {
    served: Served,
    envoy: Envoy,
    load: Load,
    first: Backend,
    second: Backend,
}

impl World {
    /// Starts a server that reads these addresses; the test writes to this agent.
    async fn over(addresses: &[&str], consul: &Consul) -> Result<Self> {
        let ip = ports::own_ip()?;
        let (first, second) = (Backend::start_on("first", ip).await?, Backend::start_on("second", ip).await?);
        consul.set("pay", "n1", &[first.addr()]).await?;
        let served = Served::by(addresses).await?;
        let (envoy, load) = served.traffic(HOST, PORT).await?;
        load.reaches("first", 20, LATER).await?;
        Ok(Self { served, envoy, load, first, second })
    }
    async fn of(servers: &Servers, leader: &Consul) -> Result<Self> {
        let all: Vec<&str> = servers.all().iter().map(Consul::url).collect();
        Self::over(&all, leader).await
    }
    /// Adds an instance and waits until traffic reaches both.
    async fn becomes_both(&self, consul: &Consul) -> Result<()> {
        eventually("a server to take a change", LATER, || async {
            consul.set("pay", "n1", &[self.first.addr(), self.second.addr()]).await
        })
        .await?;
        self.load.reaches("second", 20, LATER).await
    }
    /// Removes all instances but this one and waits until Envoy has only this one.
    async fn becomes(&self, one: &Backend) -> Result<()> {
        self.envoy.has_hosts(&outbound(PORT, HOST), &[one.addr()], LATER).await
    }
}

#[tokio::test]
async fn an_election_costs_no_request() -> Result<()> {
    let servers = Servers::start().await?;
    let (leader, others) = servers.leader().await?;
    let world = World::of(&servers, leader).await?;
    leader.daemon().kill();
    world.load.reaches("first", 300, SOON).await?;
    world.becomes_both(others[0]).await?;
    others[0].set("pay", "n1", &[world.second.addr()]).await?;
    world.becomes(&world.second).await?;
    world.load.finish().await.check_clean()
}

#[tokio::test]
async fn one_minute_without_quorum_removes_nothing() -> Result<()> {
    let servers = Servers::start().await?;
    let (leader, others) = servers.leader().await?;
    let world = World::of(&servers, leader).await?;
    leader.daemon().kill();
    others[0].daemon().kill();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let held = world.served.server.items("registries").await?;
    ensure!(held.iter().any(|r| r["name"] == "consul" && r["endpoints"] != 0), "{held:?}");
    world.load.reaches("first", 100, SOON).await?;
    leader.restart().await?;
    others[0].restart().await?;
    world.becomes_both(leader).await?;
    world.load.finish().await.check_clean()
}

/// The indexes go back. Instances in the snapshot stay served throughout, the others are removed.
#[tokio::test]
async fn restored_snapshot_is_followed_and_empties_nothing() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().server_of(1)).await?;
    let world = World::over(&[consul.url()], &consul).await?;
    let snapshot = consul.snapshot().await?;
    world.becomes_both(&consul).await?;
    consul.restore(snapshot).await?;
    world.becomes(&world.first).await?;
    world.becomes_both(&consul).await?;
    world.load.finish().await.check_clean()
}

/// There are more services than allowed connections: all are served, and changes are still followed.
#[tokio::test]
async fn more_services_than_connections_are_all_served() -> Result<()> {
    let consul = Consul::start_with(ConsulOptions::default().connections(16)).await?;
    for at in 0..40 {
        consul.set(&format!("other-{at}"), "n1", &[nowhere(1)]).await?;
    }
    let world = World::over(&[consul.url()], &consul).await?;
    world.served.server.registry_is("consul", "Live", &[], LATER).await?;
    world.becomes_both(&consul).await?;
    world.load.finish().await.check_clean()
}
