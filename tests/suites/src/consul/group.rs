//! Several agents: three servers that elect a leader, and two joined datacenters.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Consul, ConsulOptions};
use crate::eventually;

const SOON: Duration = Duration::from_secs(40);
const COUNT: usize = 3;

/// Three servers of one datacenter, each with its own data.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Consul>,
}

impl Servers {
    /// Starts them and waits until they have elected a leader.
    pub async fn start() -> Result<Self> {
        Self::start_with(ConsulOptions::default).await
    }

    /// Starts them with these options, and waits until they have elected a leader.
    pub async fn start_with(options: impl Fn() -> ConsulOptions) -> Result<Self> {
        let mut all: Vec<Consul> = Vec::new();
        for _ in 0..COUNT {
            let serf: Vec<u16> = all.iter().map(Consul::serf).collect();
            all.push(Consul::launch(options().server_of(COUNT).join(&serf))?);
        }
        let servers = Self { all };
        for server in &servers.all {
            server.ready().await?;
        }
        Ok(servers)
    }

    /// Returns all three.
    pub fn all(&self) -> &[Consul] {
        &self.all
    }

    /// Returns the server that reports itself as leader, and the others.
    pub async fn leader(&self) -> Result<(&Consul, Vec<&Consul>)> {
        eventually("one of the servers to lead", SOON, || async {
            for (at, server) in self.all.iter().enumerate() {
                if server.leads().await.unwrap_or(false) {
                    let others = self.all.iter().enumerate().filter(|(other, _)| *other != at);
                    return Ok((server, others.map(|(_, other)| other).collect()));
                }
            }
            bail!("none does")
        })
        .await
    }
}

/// Joins two datacenters (each with [`ConsulOptions::wan`]).
pub async fn join_wan(one: &Consul, other: &Consul) -> Result<()> {
    let path = format!("/v1/agent/join/127.0.0.1:{}?wan=1", other.serf_wan());
    one.rest().put(&path, &Value::Null).await.context("join the other datacenter")?;
    for consul in [one, other] {
        eventually("both datacenters to be known", SOON, || async {
            let known = consul.rest().get("/v1/catalog/datacenters").await?;
            ensure!(known.as_array().is_some_and(|known| known.len() == 2), "known are {known}");
            // a known member may not be reachable yet
            for name in known.as_array().into_iter().flatten().filter_map(Value::as_str) {
                consul.rest().get(&format!("/v1/catalog/nodes?dc={name}")).await?;
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}
