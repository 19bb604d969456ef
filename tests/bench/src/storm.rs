//! Connect storm: many clients at once, cold or with known versions.
//!
//! Named baselines in the same run: a plain server that encodes for every stream, and a raw TCP writer of the
//! same number of bytes.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;

use crate::children::Clients;
use crate::report::Table;
use crate::rig::Rig;
use crate::usage;
use crate::world::Size;
use crate::{floor, naive};

/// Runs all variants once.
pub(crate) async fn run(size: Size, clients: usize, table: &mut Table) -> Result<()> {
    let before = usage::resident();
    let rig = Rig::start(size).await?;
    let base = usage::resident();
    table.add("server, loaded, before clients: resident", "MB", megabytes(base - before));
    let mut bytes = 0.0;
    for mode in ["sotw", "delta"] {
        let encodes = rig.encodes();
        bytes = storm(&rig.addr, mode, clients, table, &format!("tributary {mode}")).await?;
        let encodes = rig.encodes() - encodes;
        table.add(format!("tributary {mode}: encodes for all clients together"), "", encodes as f64);
        ensure!(
            encodes <= 2 * size.services as u64 * u64::from(size.ports) + 16,
            "{encodes} encodes: not shared"
        );
    }
    ensure!(size.services < 1_000 || bytes >= 4e6, "{bytes} bytes per client: less than the report's 4 MB");
    let known = storm(&rig.addr, "known", clients, table, "tributary, known versions").await?;
    ensure!(known <= bytes / 100.0, "{known} bytes to clients that know everything, of {bytes}");
    table.add("tributary, known versions: bytes of a cold client's", "%", known / bytes * 100.0);
    let tls = Clients::over_tls(&rig.tls_addr, clients, "sotw", &rig.authority.file())?;
    ready(tls, clients, table, "tributary sotw over TLS").await?;
    let content = Arc::new(rig.content()?);
    drop(rig);
    let (addr, task) = naive::serve(content).await?;
    storm(&addr, "sotw", clients, table, "baseline, encodes per stream").await?;
    task.abort();
    raw(bytes as usize, clients, table).await
}

/// Runs with ten times the content, for the figure at 35 MB.
pub(crate) async fn large(size: Size, clients: usize, table: &mut Table) -> Result<()> {
    let rig = Rig::start(size).await?;
    storm(&rig.addr, "sotw", clients, table, "tributary sotw, ten times the addresses").await?;
    Ok(())
}

/// Runs one variant. Returns the bytes per client.
async fn storm(addr: &str, mode: &str, count: usize, table: &mut Table, name: &str) -> Result<f64> {
    ready(Clients::ads(addr, count, mode, 0, 0)?, count, table, name).await
}

async fn ready(mut clients: Clients, count: usize, table: &mut Table, name: &str) -> Result<f64> {
    let cpu = usage::cpu();
    let ready = clients.event("ready").await?;
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / count as f64;
    // Ten times the target, scaled to the sent bytes: a time limit, not a figure.
    ensure!(!name.starts_with("tributary") || spent <= 150.0, "{name}: {spent:.0} ms of CPU per client");
    let bytes = ready["bytes"].as_f64().unwrap_or_default();
    table.add(format!("{name}: CPU per client"), "ms", spent);
    table.add(
        format!("{name}: wall per client"),
        "ms",
        ready["wall_ms"].as_f64().unwrap_or_default() / count as f64,
    );
    table.add(format!("{name}: bytes per client"), "B", bytes);
    table.add(format!("{name}: resident with {count} clients"), "MB", megabytes(usage::resident()));
    Ok(bytes)
}

/// Runs the floor: a process that writes as many bytes to each client as a storm sent, and does nothing else.
pub(crate) async fn raw(bytes: usize, count: usize, table: &mut Table) -> Result<()> {
    let (addr, task) = floor::serve(Bytes::from(vec![0x5a; bytes])).await?;
    let cpu = usage::cpu();
    let mut clients = Clients::start(&["raw".to_owned(), addr, count.to_string(), bytes.to_string()], None)?;
    let ready = clients.event("ready").await?;
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / count as f64;
    table.add("floor, raw TCP writer: CPU per client", "ms", spent);
    table.add("floor: wall per client", "ms", ready["wall_ms"].as_f64().unwrap_or_default() / count as f64);
    task.abort();
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
