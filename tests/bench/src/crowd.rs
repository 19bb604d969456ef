//! Many clients at once: what connecting costs, what they hold in memory, and how fast one change reaches them all.

use anyhow::{Result, ensure};

use crate::children::Clients;
use crate::report::Table;
use crate::rig::Rig;
use crate::world::Size;
use crate::{changes, usage};

/// Connects the clients, then changes one endpoint.
pub(crate) async fn run(size: Size, count: usize, table: &mut Table) -> Result<()> {
    let name = format!("{count} clients of {} services", size.services);
    let rig = Rig::start(size).await?;
    let cpu = usage::cpu();
    let mut clients = Clients::ads(&rig.addr, count, "delta", 0, 0)?;
    clients.event("ready").await?;
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / count as f64;
    table.add(format!("{name}: CPU per client"), "ms", spent);
    table.add(format!("{name}: resident"), "MB", usage::resident() as f64 / 1e6);
    rig.quiet().await?;
    let (at, sends) = (changes::unix_nanos(), rig.count("sends"));
    rig.replace(1, 1)?;
    let seen = clients.event("seen").await?;
    let p99 = seen["p99"].as_u64().map_or(f64::NAN, |t| t.saturating_sub(at) as f64 / 1e6);
    table.add(format!("{name}: change to 99 % of clients"), "ms", p99);
    let sends = rig.count("sends") - sends;
    ensure!(sends <= count as u64 + count as u64 / 100, "{sends} sends for {count} streams");
    Ok(())
}
