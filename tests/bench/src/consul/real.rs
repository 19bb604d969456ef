//! A real Consul: time and cost of reading it completely, and of the removal of many services.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

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
/// Reads per second, as the registry limits them by default.
const READS: f64 = 500.0;

/// Runs the bench once.
pub(super) async fn run(shape: Shape, table: &mut Table) -> Result<()> {
    let consul = Consul::start().await?;
    let all = (0..shape.all()).map(|n| register(&consul, shape, n));
    stream::iter(all).buffer_unordered(WRITERS).try_collect::<()>().await?;
    let cpu = usage::cpu();
    let config = ConsulConfig::new(vec![Address::parse(consul.url())?])?;
    // every service is read once, with seconds for the rest
    let aim = (shape.services as f64 / READS + 2.0) * 1e3;
    let (follower, took) = Follower::start(config, Duration::from_secs_f64(aim / 100.0)).await?;
    let what = format!("{} x {}", shape.services, shape.instances);
    let took = took.as_secs_f64() * 1e3;
    table.add(format!("{what}: until ready (aim {aim:.0})"), "ms", took);
    table.add(format!("{what}: CPU until ready"), "ms", (usage::cpu() - cpu).as_secs_f64() * 1e3);
    let mut budgets = Budgets::default();
    budgets.at_most("until ready", took, aim * 10.0);
    budgets.equal("endpoints", follower.served().0 as u64, shape.all() as u64);
    remove(&consul, &follower, shape, table, &mut budgets).await?;
    budgets.verdict()
}

/// Removes about two fifths of the services, with the nodes that only their instances run on.
async fn remove(
    consul: &Consul,
    follower: &Follower,
    shape: Shape,
    table: &mut Table,
    budgets: &mut Budgets,
) -> Result<()> {
    let services = shape.services * 2 / 5 / PER_NODE * PER_NODE;
    let of_layer = |layer: usize| (layer * shape.services..).step_by(PER_NODE).take(services / PER_NODE);
    let nodes: Vec<String> = (0..shape.instances).flat_map(of_layer).map(node).collect();
    let (begun, cpu) = (Instant::now(), usage::cpu());
    let removals = nodes.iter().map(|node| consul.deregister_node(node));
    stream::iter(removals).buffer_unordered(WRITERS).try_collect::<()>().await?;
    let (removed, aim) = (Instant::now(), services as f64 / READS + 5.0);
    let left = (shape.services - services) * shape.instances;
    follower.serves(left, Duration::from_secs_f64(aim * 10.0)).await?;
    let what = format!("removal of {services}");
    table.add(format!("{what}: at the source"), "s", (removed - begun).as_secs_f64());
    table.add(format!("{what}: until none is served (aim {aim:.1})"), "s", removed.elapsed().as_secs_f64());
    let cpu = (usage::cpu() - cpu).as_secs_f64() * 1e6 / services as f64;
    table.add(format!("{what}: CPU per service"), "us", cpu);
    let core = follower.counters().await?;
    budgets.equal("hosts that lost their endpoints without evidence", core.unexplained_empty, 0);
    Ok(())
}

/// Returns the name of the node of an instance.
fn node(n: usize) -> String {
    format!("node-{:04}", n / PER_NODE)
}

async fn register(consul: &Consul, shape: Shape, n: usize) -> Result<()> {
    let (service, node) = (name(n % shape.services), node(n));
    let id = format!("{service}-{}", n / shape.services);
    let ip = Ipv4Addr::new(10, (n >> 16) as u8, (n >> 8) as u8, n as u8);
    let mut instance = mk_instance(&service, &id, &node, SocketAddr::from((ip, 8080)));
    // the node's own address is the same for each of its instances
    instance["Address"] = json!(format!("10.200.0.{}", n / PER_NODE % 250 + 1));
    instance["Check"] = mk_check(&id, &node, &format!("service:{id}"), "passing");
    consul.register(&instance).await
}
