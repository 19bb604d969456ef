//! Delay bench: time until a removal of one registry is published while another registry lists everything
//! again.
//!
//! The baseline is the same removal on the same server while nothing else happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tributary_model::{Catalog, CatalogChanges, Hostname, ObservedSince, RegistryUpdate};
use tributary_runtime::{Fanout, Handle, NoJournal, Runtime, Source};

use crate::intake::{spec, spec_of};
use crate::kept;
use crate::report::{Table, quantile};
use crate::world::{Size, World};

/// Number of the service whose addresses are removed; the large registry does not have it.
const OTHER: usize = 900_000;
/// Time between two removals: the interval that the pace of publications gives each.
const APART: Duration = Duration::from_millis(20);
/// Maximum updates of one registry in a batch.
const SLICE: u64 = 4096;
/// Ten times the figure for a million endpoints that are listed without changes.
const UNCHANGED_MS: f64 = 200.0;
/// The same, beside a list that changes every service: everything that a take changes is published at once.
const CHANGED_MS: f64 = 1_000.0;

/// Sends a notification when a host's change is published.
struct Published {
    host: Hostname,
    seen: watch::Sender<Instant>,
}

impl Fanout for Published {
    fn published(&self, _: &Arc<Catalog>, changed: &CatalogChanges, _: ObservedSince) {
        if changed.hosts.contains(&self.host) {
            self.seen.send_replace(Instant::now());
        }
    }
}

/// A server with a large and a small registry.
struct Bench {
    world: World,
    size: Size,
    handle: Handle,
    large: Source,
    small: Source,
    seen: watch::Receiver<Instant>,
    /// Replaced addresses of the small registry: none or one.
    moved: usize,
    _runtime: Runtime,
}

/// Counters of the server.
#[derive(Clone, Copy)]
struct Counts {
    /// Views built.
    views: u64,
    /// Facts that were reported unchanged.
    unchanged: u64,
    /// Batches applied.
    turns: u64,
}

/// Runs once, with this many lists of each kind.
pub(crate) async fn run(size: Size, lists: usize, table: &mut Table) -> Result<()> {
    let mut bench = Bench::start(size).await?;
    let mut idle = Vec::new();
    for _ in 0..50 {
        tokio::time::sleep(APART).await;
        idle.push(bench.removal().await?);
    }
    let endpoints = size.services * size.addresses;
    report("baseline, nothing else happens", &mut idle, table);
    let before = bench.counts().await?;
    let mut same = bench.during(lists, |_| 0).await?;
    let p99 = report(&format!("while {endpoints} are listed again, unchanged"), &mut same, table);
    let after = bench.counts().await?;
    check(size, lists as u64, same.len() as u64, before, after)?;
    ensure!(p99 <= UNCHANGED_MS, "a removal took {p99:.0} ms beside a list: over ten times the figure");
    let mut other = bench.during(lists, |list| 1 - list % 2).await?;
    let name = format!("while {endpoints} are listed, one in {} new", size.addresses);
    let p99 = report(&name, &mut other, table);
    ensure!(p99 <= CHANGED_MS, "a removal took {p99:.0} ms beside a list that changes every service");
    Ok(())
}

/// Asserts that lists without changes are compared slice by slice, with batches between, and build no view.
fn check(size: Size, lists: u64, removals: u64, before: Counts, after: Counts) -> Result<()> {
    let views = after.views - before.views;
    ensure!(views == removals, "{views} views were built for {removals} removals");
    let (unchanged, facts) = (after.unchanged - before.unchanged, 2 * size.services as u64 * lists);
    ensure!(unchanged == facts, "{unchanged} of {facts} facts that were listed again count as unchanged");
    let (turns, slices) = (after.turns - before.turns, lists * (2 * size.services as u64).div_ceil(SLICE));
    ensure!(turns >= slices + removals, "{turns} turns for {slices} slices and {removals} removals");
    Ok(())
}

impl Bench {
    /// Starts the server and waits until both registries are published.
    async fn start(size: Size) -> Result<Self> {
        let world = World::new(size)?;
        let (sender, seen) = watch::channel(Instant::now());
        let published = Published { host: world.key(OTHER)?.host, seen: sender };
        let runtime = kept::runtime(Arc::new(published), Box::new(NoJournal));
        let handle = runtime.handle();
        let (large, small) = (handle.source(spec()?).await?, handle.source(spec_of("small")?).await?);
        large.updates.send_all(world.listing()?);
        small.updates.send_all(world.list(OTHER..OTHER + 1, 0)?);
        kept::applied(&handle, &[&large, &small]).await?;
        let all = (size.services + 1) * size.addresses;
        let mut generation = handle.generation();
        while kept::addresses(&handle.catalog()) < all {
            generation.changed().await?;
        }
        Ok(Self { world, size, handle, large, small, seen, moved: 0, _runtime: runtime })
    }

    /// Replaces an address. Returns the milliseconds until the removal is published.
    async fn removal(&mut self) -> Result<f64> {
        self.seen.mark_unchanged();
        self.moved = 1 - self.moved;
        let group = self.world.group(OTHER, self.moved)?;
        let begun = Instant::now();
        ensure!(self.small.updates.send(group), "the updates is closed");
        self.seen.changed().await?;
        let at = *self.seen.borrow();
        Ok(at.duration_since(begun).as_secs_f64() * 1e3)
    }

    /// Makes removals while the large registry lists everything several times, with this many new addresses of
    /// each service.
    async fn during(&mut self, lists: usize, moved: impl Fn(usize) -> usize) -> Result<Vec<f64>> {
        let mut took = Vec::new();
        for list in 0..lists {
            let deltas = self.world.list(0..self.size.services, moved(list))?;
            took.extend(self.during_one(deltas).await?);
        }
        Ok(took)
    }

    async fn during_one(&mut self, deltas: Vec<RegistryUpdate>) -> Result<Vec<f64>> {
        let updates = self.large.updates.clone();
        let sending = tokio::task::spawn_blocking(move || updates.send_all(deltas));
        let mut apart = tokio::time::interval(APART);
        apart.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut took, mut over) = (Vec::new(), false);
        while !over {
            apart.tick().await;
            // the last removal is sent while the last slice may still be applied
            over = sending.is_finished() && kept::is_taken(&self.handle, &[&self.large, &self.small]);
            took.push(self.removal().await?);
        }
        ensure!(sending.await?, "the updates is closed");
        Ok(took)
    }

    async fn counts(&self) -> Result<Counts> {
        let counters = self.handle.inspect(|core| core.counters()).await?;
        let batches = self.handle.stats().batches;
        Ok(Counts { views: counters.views, unchanged: counters.unchanged, turns: batches })
    }
}

/// Adds the figures to the table. Returns the 99 % quantile.
fn report(name: &str, took: &mut [f64], table: &mut Table) -> f64 {
    let p99 = quantile(took, 0.99);
    table.add(format!("{name}: removal to published, p50"), "ms", quantile(took, 0.5));
    table.add(format!("{name}: p99"), "ms", p99);
    table.add(format!("{name}: worst"), "ms", quantile(took, 1.0));
    table.add(format!("{name}: removals"), "", took.len() as f64);
    p99
}
