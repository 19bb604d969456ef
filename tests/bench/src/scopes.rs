//! Many namespaces and Sidecar scopes: what connecting costs, whom a change wakes, and what route tables hold.
//!
//! Ten services per namespace. A fifth of the namespaces has a Sidecar, which imports five namespaces that no other
//! imports, and five clients.

use anyhow::{Result, ensure};

use crate::children::Clients;
use crate::report::Table;
use crate::rig::Rig;
use crate::usage;
use crate::world::{Size, World};

const CLIENTS_PER_SCOPE: usize = 5;
/// Services per namespace.
const SERVICES: usize = 10;

/// Runs all parts once.
pub(crate) async fn run(namespaces: usize, scopes: usize, table: &mut Table) -> Result<()> {
    let size = Size { services: namespaces * SERVICES, ports: 1, addresses: 2, pods: false };
    let rig = Rig::serve(World::with_sidecars(size, namespaces, scopes)?).await?;
    let content = format!("{} services in {namespaces} namespaces, {scopes} Sidecars", size.services);
    table.add(format!("{content}: server, before clients: resident"), "MB", megabytes(usage::resident()));
    let clients = connect(&rig, scopes, table).await?;
    change(&rig, table).await?;
    drop(clients);
    routes(&rig, namespaces, scopes, table).await
}

/// Connects the clients of all scopes, each with clusters, endpoints, listeners and routes.
async fn connect(rig: &Rig, scopes: usize, table: &mut Table) -> Result<Clients> {
    let (count, cpu) = (scopes * CLIENTS_PER_SCOPE, usage::cpu());
    let mut clients = Clients::ads(&rig.addr, count, &format!("sidecars:0:{scopes}"), 0, 0)?;
    let ready = clients.event("ready").await?;
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / count as f64;
    table.add(format!("{count} clients of Sidecars: CPU per client"), "ms", spent);
    table.add("wall per client", "ms", ready["wall_ms"].as_f64().unwrap_or_default() / count as f64);
    table.add("bytes per client", "B", ready["bytes"].as_f64().unwrap_or_default());
    table.add(format!("resident with {count} clients"), "MB", megabytes(usage::resident()));
    let imported = scopes * SERVICES * 5;
    let encodes = rig.encodes() as f64 / imported as f64;
    table.add("encodes per imported service", "", encodes);
    // a cluster, an assignment, a virtual host for its own namespace and one for others
    ensure!(encodes <= 4.0, "{encodes} encodes per service: scopes do not share them");
    ensure!(spent <= 10.0, "{spent} ms of CPU per client: ten times the aim");
    Ok(clients)
}

/// Replaces an address of a service that one scope imports.
async fn change(rig: &Rig, table: &mut Table) -> Result<()> {
    rig.quiet().await?;
    let counts = || ["sends", "wakeups", "wakeups_for_nothing"].map(|name| rig.count(name));
    let before = counts();
    rig.replace(3, 1)?;
    while rig.count("sends") < before[0] + CLIENTS_PER_SCOPE as u64 {
        tokio::task::yield_now().await;
    }
    rig.quiet().await?;
    let after = counts();
    let [sends, wakeups, idle] = std::array::from_fn(|at| after[at] - before[at]);
    table.add("a change in one scope: responses", "", sends as f64);
    table.add("a change in one scope: clients woken", "", wakeups as f64);
    table.add("a change in one scope: clients woken for nothing", "", idle as f64);
    let expected = CLIENTS_PER_SCOPE as u64;
    ensure!((sends, wakeups, idle) == (expected, expected, 0), "{sends} responses, {wakeups} clients woken");
    Ok(())
}

/// Loads the route table of every namespace without a Sidecar: the whole mesh with short names of its own.
async fn routes(rig: &Rig, namespaces: usize, scopes: usize, table: &mut Table) -> Result<()> {
    let (held, cpu, count) = (rig.held_bytes(), usage::cpu(), namespaces - scopes);
    let mut clients = Clients::ads(&rig.addr, count, &format!("routes:{scopes}:{count}"), 0, 0)?;
    let ready = clients.event("ready").await?;
    let bytes = ready["bytes"].as_f64().unwrap_or_default();
    let more = rig.held_bytes().saturating_sub(held) as f64;
    table.add(format!("route tables of {count} namespaces: sent to each"), "MB", bytes / 1e6);
    table.add("route tables: held in memory for all", "MB", more / 1e6);
    table.add("route tables: CPU per client", "ms", (usage::cpu() - cpu).as_secs_f64() * 1e3 / count as f64);
    // the table itself, its virtual hosts, and two runs of at most 24 KiB for each namespace
    let limit = 3.0 * bytes + count as f64 * 50_000.0;
    ensure!(more <= limit, "{more} bytes for {count} route tables of {bytes}");
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
