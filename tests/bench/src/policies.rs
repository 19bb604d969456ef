//! Traffic policy on every service: a storm of clients, one rule's change on many streams, and what loading the
//! policies costs beside the same services without them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::children::Clients;
use crate::intake::{allocated, filled};
use crate::report::{Table, quantile};
use crate::rig::Rig;
use crate::usage;
use crate::world::{Size, World};

/// Changes of one rule per run.
const CHANGES: u32 = 20;
/// Maximum memory per rule in bytes.
const PER_RULE: f64 = 2_048.0;

/// Clients of each part, and services that are loaded with a rule each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) storm: usize,
    pub(crate) streams: usize,
    pub(crate) rules: usize,
}

/// Runs all parts once.
pub(crate) async fn run(size: Size, load: Load, table: &mut Table) -> Result<()> {
    loading(load.rules, table)?;
    storm(size, load.storm, table).await?;
    changes(size, load.streams, table).await
}

/// Connects clients with clusters, endpoints, listeners and the routes of port 80.
async fn storm(size: Size, clients: usize, table: &mut Table) -> Result<()> {
    let rig = Rig::serve(World::with_rules(size)?).await?;
    let cpu = usage::cpu();
    let mut storm = Clients::ads(&rig.addr, clients, "sidecars:0:1", 0, 0)?;
    let ready = storm.event("ready").await?;
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / clients as f64;
    let name = format!("{} services with a rule each, {clients} clients", size.services);
    table.add(format!("{name}: CPU per client"), "ms", spent);
    table.add("bytes per client", "B", ready["bytes"].as_f64().unwrap_or_default());
    table.add("resident", "MB", usage::resident() as f64 / 1e6);
    let ports = (size.services * usize::from(size.ports)) as f64;
    let encodes = rig.encodes() as f64 / ports;
    table.add("encodes per port", "", encodes);
    // a cluster and an assignment of the port and of its subset, and a virtual host
    ensure!(encodes <= 5.5, "{encodes} encodes per port: clients do not share them");
    ensure!(spent <= 50.0, "{spent} ms of CPU per client: ten times the aim");
    Ok(())
}

/// Changes one rule at a time while many streams hold its clusters.
async fn changes(size: Size, streams: usize, table: &mut Table) -> Result<()> {
    let rig = Rig::serve(World::with_rules(size)?).await?;
    let mut clients = Clients::ads(&rig.addr, streams, "delta", 0, 0)?;
    clients.event("ready").await?;
    rig.quiet().await?;
    let (encodes, idle) = (rig.encodes(), rig.count("wakeups_for_nothing"));
    let mut took = Vec::new();
    for change in 0..CHANGES {
        tokio::time::sleep(Duration::from_millis(100)).await;
        took.push(one_change(&rig, streams, change).await?);
    }
    let name = format!("a rule's change on {streams} streams");
    let p50 = quantile(&mut took, 0.5);
    table.add(format!("{name}: to the last send"), "ms", p50);
    table.add(format!("{name}: worst"), "ms", quantile(&mut took, 1.0));
    let per_change = |total: u64| total as f64 / f64::from(CHANGES);
    let encodes = per_change(rig.encodes() - encodes);
    table.add(format!("{name}: encodes"), "", encodes);
    let idle = per_change(rig.count("wakeups_for_nothing") - idle);
    table.add(format!("{name}: wake-ups for nothing"), "", idle);
    let clusters = f64::from(size.ports) * 2.0;
    ensure!(encodes <= clusters, "{encodes} encodes for {clusters} clusters of one rule");
    ensure!(p50 <= 500.0, "{p50} ms for a rule's change: ten times the aim");
    Ok(())
}

/// Changes the rule of a service. Returns the milliseconds until every stream was sent the clusters.
async fn one_change(rig: &Rig, streams: usize, change: u32) -> Result<f64> {
    let (expected, begun) = (rig.count("sends") + streams as u64, Instant::now());
    rig.change_rule(3, 2_000 + change)?;
    while rig.count("sends") < expected {
        tokio::task::yield_now().await;
    }
    let took = begun.elapsed().as_secs_f64() * 1e3;
    rig.quiet().await?;
    ensure!(rig.count("sends") == expected, "more than one response per stream for one rule");
    Ok(took)
}

/// Loads services with and without rules. The memory and time of the rules is the difference.
fn loading(services: usize, table: &mut Table) -> Result<()> {
    let size = Size { services, ports: 1, addresses: 2, pods: false };
    let (plain, plain_bytes) = load(&World::with_sidecars(size, 1, 0)?)?;
    let (ruled, ruled_bytes) = load(&World::with_rules(size)?)?;
    let bytes = (ruled_bytes - plain_bytes) as f64 / services as f64;
    table.add(format!("baseline, {services} services without rules: loaded in"), "ms", plain);
    table.add(format!("{services} services with a rule each: loaded in"), "ms", ruled);
    table.add("bytes per rule", "B", bytes);
    ensure!(bytes <= PER_RULE, "{bytes} bytes per rule");
    ensure!(
        ruled - plain <= services as f64,
        "{services} rules: loaded in {ruled} ms, without in {plain} ms"
    );
    Ok(())
}

/// Returns milliseconds and bytes of a core that read a world.
fn load(world: &World) -> Result<(f64, i64)> {
    let before = allocated();
    let listing = world.listing()?;
    let begun = Instant::now();
    let core = filled(listing)?.0;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(core.counters().views as usize >= world.services(), "not every service became a view");
    Ok((took, allocated() - before))
}
