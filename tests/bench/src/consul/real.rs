//! A real Consul: time and cost of reading it completely.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tributary_consul::ConsulConfig;
use tributary_consul::config::Address;
use tributary_suites::consul::{Consul, mk_check, mk_instance};

use super::budget::Budgets;
use super::catalog::{Shape, name};
use super::follower::Follower;
use crate::report::Table;
use crate::usage;

/// Concurrent registrations.
const WRITERS: usize = 16;
/// Instances per node.
const PER_NODE: usize = 50;
/// Time limit until everything is read, in milliseconds.
const READY: f64 = 3_000.0;

/// Runs the bench once.
pub(super) async fn run(shape: Shape, table: &mut Table) -> Result<()> {
    let consul = Consul::start().await?;
    let all = (0..shape.all()).map(|n| register(&consul, shape, n));
    stream::iter(all).buffer_unordered(WRITERS).try_collect::<()>().await?;
    let cpu = usage::cpu();
    let config = ConsulConfig::new(vec![Address::parse(consul.url())?])?;
    let within = Duration::from_secs_f64(READY / 100.0);
    let (follower, took) = Follower::start(config, within).await?;
    let what = format!("{} x {}", shape.services, shape.instances);
    let took = took.as_secs_f64() * 1e3;
    table.add(format!("{what}: until ready (aim {READY:.0})"), "ms", took);
    table.add(format!("{what}: CPU until ready"), "ms", (usage::cpu() - cpu).as_secs_f64() * 1e3);
    let mut budgets = Budgets::default();
    budgets.at_most("until ready", took, READY * 10.0);
    budgets.equal("endpoints", follower.served().0 as u64, shape.all() as u64);
    budgets.verdict()
}

async fn register(consul: &Consul, shape: Shape, n: usize) -> Result<()> {
    let (service, node) = (name(n % shape.services), format!("node-{:04}", n / PER_NODE));
    let id = format!("{service}-{}", n / shape.services);
    let ip = Ipv4Addr::new(10, (n >> 16) as u8, (n >> 8) as u8, n as u8);
    let mut instance = mk_instance(&service, &id, &node, SocketAddr::from((ip, 8080)));
    // the node's own address is the same for each of its instances
    instance["Address"] = json!(format!("10.200.0.{}", n / PER_NODE % 250 + 1));
    instance["Check"] = mk_check(&id, &node, &format!("service:{id}"), "passing");
    consul.register(&instance).await
}
