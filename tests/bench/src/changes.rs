//! Benches of changes on the wire: one change to many streams, a rolling replacement, a relist without changes,
//! and a slow reader among many.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};

use crate::children::Clients;
use crate::report::{Table, quantile};
use crate::rig::Rig;
use crate::usage;
use crate::world::Size;

/// Replacements per second.
const RATE: u32 = 100;

/// Changes one endpoint ten times a second, each time after every client has seen the previous change.
pub(crate) async fn fan_out(
    size: Size,
    streams: usize,
    changes: usize,
    stalled: usize,
    table: &mut Table,
) -> Result<()> {
    let rig = Rig::start(size).await?;
    let mut clients = Clients::ads(&rig.addr, streams, "delta", 0, stalled)?;
    clients.event("ready").await?;
    rig.quiet().await?;
    let (cpu, encodes, sends, idle) =
        (usage::cpu(), rig.encodes(), rig.count("sends"), rig.count("wakeups_for_nothing"));
    let (mut first, mut p99, mut last) = (Vec::new(), Vec::new(), Vec::new());
    // Far enough apart to be lone events: the pace of publications delays changes that follow closely.
    let mut apart = tokio::time::interval(Duration::from_millis(100));
    for n in 1..=changes {
        apart.tick().await;
        let at = unix_nanos();
        rig.replace(n % size.services, n)?;
        let seen = clients.event("seen").await?;
        let since = |key: &str| seen[key].as_u64().map_or(f64::NAN, |t| t.saturating_sub(at) as f64 / 1e6);
        first.push(since("first"));
        p99.push(since("p99"));
        last.push(since("last"));
    }
    let name = if stalled > 0 {
        format!("{streams} streams beside {stalled} that never read")
    } else {
        format!("{streams} streams")
    };
    table.add(format!("{name}: change to first client"), "ms", quantile(&mut first, 0.5));
    table.add(format!("{name}: change to 99 % of clients"), "ms", quantile(&mut p99, 0.5));
    table.add(format!("{name}: change to last client"), "ms", quantile(&mut last, 0.5));
    let per_change = |total: u64| total as f64 / changes as f64;
    table.add(
        format!("{name}: CPU per change"),
        "ms",
        (usage::cpu() - cpu).as_secs_f64() * 1e3 / changes as f64,
    );
    let encodes = per_change(rig.encodes() - encodes);
    let sends = per_change(rig.count("sends") - sends);
    table.add(format!("{name}: encodes per change"), "", encodes);
    table.add(format!("{name}: sends per change"), "", sends);
    table.add(
        format!("{name}: wake-ups for nothing per change"),
        "",
        per_change(rig.count("wakeups_for_nothing") - idle),
    );
    let soonest = quantile(&mut first, 0.5);
    ensure!(soonest <= 100.0, "a change was on the wire after {soonest:.0} ms: ten times the aim");
    let most = f64::from(size.ports);
    ensure!(encodes <= most, "{encodes} encodes for one change of {most} ports");
    ensure!(sends <= (streams + stalled) as f64 * 1.01, "{sends} sends for {streams} streams");
    Ok(())
}

/// Replaces the addresses of services of ten addresses each, one address at a time, at a steady rate.
pub(crate) async fn rolling(size: Size, clients: usize, replaced: usize, table: &mut Table) -> Result<()> {
    let rig = Rig::start(size).await?;
    let samples = clients.min(20);
    let mut following = Clients::ads(&rig.addr, clients, "delta", samples, 0)?;
    following.event("ready").await?;
    rig.quiet().await?;
    let (cpu, sends) = (usage::cpu(), rig.count("sends"));
    let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE);
    let rolled = replaced.div_ceil(size.addresses);
    let mut gone: BTreeMap<String, u64> = BTreeMap::new();
    for n in 0..replaced {
        tick.tick().await;
        let (service, moved) = (n % rolled, n / rolled + 1);
        gone.insert(rig.world.ip(service, moved - 1, false).to_string(), unix_nanos());
        rig.replace(service, moved)?;
    }
    let mut late = wait_for_all(&mut following, &gone, samples).await?;
    let spent = (usage::cpu() - cpu).as_secs_f64();
    table.add("removal to client, p50", "ms", quantile(&mut late, 0.5));
    let p99 = quantile(&mut late, 0.99);
    table.add("removal to client, p99", "ms", p99);
    table.add("removal to client, worst", "ms", quantile(&mut late, 1.0));
    table.add(
        format!("CPU for {replaced} replacements in {rolled} services to {clients} clients"),
        "s",
        spent,
    );
    table.add("sends per client", "", (rig.count("sends") - sends) as f64 / clients as f64);
    ensure!(p99 <= 1000.0, "removals took {p99:.0} ms at p99: ten times the aim");
    Ok(())
}

async fn wait_for_all(
    clients: &mut Clients,
    gone: &BTreeMap<String, u64>,
    samples: usize,
) -> Result<Vec<f64>> {
    for _ in 0..200 {
        let lost = clients.lost().await?;
        if lost.len() >= gone.len() && lost.iter().all(|(_, times)| times.len() >= samples) {
            return Ok(lost.iter().flat_map(|(address, times)| late(gone, address, times)).collect());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("not every client received every removal")
}

fn late(gone: &BTreeMap<String, u64>, address: &str, times: &[u64]) -> Vec<f64> {
    let Some(&at) = gone.get(address) else { return Vec::new() };
    times.iter().map(|t| t.saturating_sub(at) as f64 / 1e6).collect()
}

/// Lists everything again without changes: the first list is decoded, the later ones cost nothing.
pub(crate) async fn relist(size: Size, clients: usize, table: &mut Table) -> Result<()> {
    let rig = Rig::start(size).await?;
    let mut following = Clients::ads(&rig.addr, clients, "delta", 0, 0)?;
    following.event("ready").await?;
    rig.quiet().await?;
    let (cpu, encodes, sends) = (usage::cpu(), rig.encodes(), rig.count("sends"));
    let views = rig.views().await?;
    rig.relist().await?;
    let endpoints = (size.services * size.addresses) as f64;
    table.add(
        format!("{endpoints} endpoints listed again: CPU"),
        "ms",
        (usage::cpu() - cpu).as_secs_f64() * 1e3,
    );
    table.add("views rebuilt", "", (rig.views().await? - views) as f64);
    table.add("encodes", "", (rig.encodes() - encodes) as f64);
    table.add("sends", "", (rig.count("sends") - sends) as f64);
    ensure!(rig.encodes() == encodes, "a relist without news encoded something");
    ensure!(rig.count("sends") == sends, "a relist without news sent something");
    ensure!(rig.views().await? == views, "a relist without news rebuilt a view");
    Ok(())
}

/// Returns the time in nanoseconds since the Unix epoch, which all processes of the machine share.
pub(crate) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
