//! Consul benches: requests, delay and memory of the registry against a scripted Consul.
//!
//! The scripted Consul is a separate process that counts requests, bytes, connections and the streams on them;
//! the registry, with core and catalog behind it, is this process. Counts are asserted exactly as promised,
//! times at ten times the promise. The baseline, in the same run and of the same source, is a consumer that
//! reads everything again on every wake. Each mode has a bench of its own, because memory is counted per
//! process.

mod budget;
mod catalog;
mod counts;
mod follower;
mod memory;
mod plain;
mod process;
mod real;
mod server;

use std::time::{Duration, Instant};

use anyhow::Result;
use tributary_consul::ConsulConfig;
use tributary_consul::config::{Address, ModeChoice};
use tributary_suites::tls::Authority;

use crate::intake::allocated;
use crate::report::{Table, quantile};
use crate::usage;
use budget::Budgets;
use catalog::Shape;
use follower::Follower;
use plain::Plain;
use process::{Counted, Flips, Source};
pub(crate) use server::main as server;

/// Maximum bytes per instance.
const BYTES: f64 = 300.0;
/// Cost of a registry before it has read anything: connections, authorities, a runtime's tasks.
const FIXED: f64 = 2_000_000.0;
/// Maximum requests per change.
const REQUESTS: f64 = 3.0;

/// Time limit of steps without a limit of their own.
const PATIENCE: Duration = Duration::from_secs(240);

/// One shape and the way in which it is followed.
#[derive(Debug, Clone, Copy)]
struct Plan {
    shape: Shape,
    /// Uses TLS, so requests share connections.
    shared: bool,
    mode: ModeChoice,
    /// Allowed requests per second.
    rate: u32,
    flips: usize,
    flips_a_second: f64,
    /// Maximum time until a flip is published, in milliseconds, at the 99th percentile.
    aim: f64,
}

/// Runs one long poll per service over shared connections; then the baseline.
pub(crate) async fn precise(full: bool, table: &mut Table) -> Result<()> {
    let (authority, plan) = (Authority::new()?, plan(full));
    let (source, verdict) = follow(plan, &authority, table).await?;
    baseline(&plan, source, &authority, table).await?;
    verdict
}

/// Runs two long polls over a shared connection.
pub(crate) async fn notify_and_fetch(full: bool, table: &mut Table) -> Result<()> {
    let plan = Plan { mode: ModeChoice::NotifyAndFetch, aim: 2_000.0, ..plan(full) };
    follow(plan, &Authority::new()?, table).await?.1
}

/// Runs plain HTTP with more services than connections: the registry switches to notify-and-fetch on its own.
pub(crate) async fn plain_http(full: bool, table: &mut Table) -> Result<()> {
    let plan = Plan { shared: false, mode: ModeChoice::Auto, aim: 2_000.0, ..plan(full) };
    follow(plan, &Authority::new()?, table).await?.1
}

/// Runs against a real Consul.
pub(crate) async fn real(full: bool, table: &mut Table) -> Result<()> {
    real::run(Shape { services: if full { 1_000 } else { 200 }, instances: 10 }, table).await
}

fn plan(full: bool) -> Plan {
    let (services, instances) = if full { (5_000, 15) } else { (500, 5) };
    Plan {
        shape: Shape { services, instances },
        shared: true,
        mode: ModeChoice::PerService,
        rate: if full { 500 } else { 250 },
        flips: if full { 2_000 } else { 40 },
        flips_a_second: if full { 100.0 } else { 20.0 },
        aim: 500.0,
    }
}

/// State of one running plan.
struct Bench<'a> {
    plan: Plan,
    source: Source,
    follower: Follower,
    table: &'a mut Table,
    budgets: Budgets,
}

/// Runs one plan. Returns exceeded budgets separately, so the table is complete even if a budget is exceeded.
async fn follow(plan: Plan, authority: &Authority, table: &mut Table) -> Result<(Source, Result<()>)> {
    let mut source = Source::start(plan.shape, plan.shared.then_some(authority)).await?;
    let mut config = ConsulConfig::new(vec![Address::parse(&url(&plan, &source))?])?;
    config.tls.ca = plan.shared.then(|| authority.file());
    config.mode = plan.mode;
    config.limits.rate = plan.rate;
    let before = allocated();
    let alone = memory::alone(config.clone(), &mut source, plan.polls()).await? as f64;
    memory::given_back(before).await?;
    let polls = if plan.shared { memory::of_a_long_poll(&config, &mut source).await? } else { 0.0 };
    memory::given_back(before).await?;
    source.reset().await?;
    // a read of each service at the allowed rate, and a second for the rest
    let aim = plan.shape.services as f64 / f64::from(plan.rate) + 1.0;
    let (follower, took) = Follower::start(config, Duration::from_secs_f64(aim * 10.0)).await?;
    let first = source.counts().await?;
    let mut bench = Bench { plan, source, follower, table, budgets: Budgets::default() };
    bench.add("until ready", "ms", took.as_secs_f64() * 1e3);
    bench.add("requests until ready", "", first.requests as f64);
    bench.at_rest().await?;
    let all = plan.shape.all() as f64;
    let kept = alone - polls * plan.polls() as f64;
    bench.promise("registry without polls: per instance", "B", kept / all, BYTES + FIXED / all);
    bench.add("registry without polls: whole", "MB", kept / 1e6);
    bench.add("a long poll", "B", polls);
    bench.add("with polls, core and catalog: per instance", "B", (allocated() - before) as f64 / all);
    bench.add("resident, whole process", "MB", usage::resident() as f64 / 1e6);
    bench.alone().await?;
    bench.steadily().await?;
    bench.at_once().await?;
    bench.verify().await?;
    Ok((bench.source, bench.budgets.verdict()))
}

impl Plan {
    /// Returns the number of long polls that wait while nothing changes.
    const fn polls(&self) -> u64 {
        if matches!(self.mode, ModeChoice::PerService) { self.shape.services as u64 + 1 } else { 2 }
    }
}

fn url(plan: &Plan, source: &Source) -> String {
    format!("{}://{}", if plan.shared { "https" } else { "http" }, source.address)
}

impl Bench<'_> {
    fn add(&mut self, figure: &str, unit: &'static str, value: f64) {
        self.table.add(figure, unit, value);
    }
    fn promise(&mut self, figure: &str, unit: &'static str, value: f64, most: f64) {
        self.add(&format!("{figure} (at most {most:.0})"), unit, value);
        self.budgets.at_most(figure, value, most);
    }

    /// Returns the reads of a mode without any change: the periodic full read of notify-and-fetch.
    fn swept(&self, time: Duration) -> f64 {
        let sweep = tributary_consul::config::Timing::default().full_pass.as_secs_f64();
        time.as_secs_f64() * self.plan.shape.services as f64 / sweep
    }

    /// Waits until every expected long poll waits.
    async fn at_rest(&mut self) -> Result<()> {
        let idle = self.swept(Duration::from_secs(1)) * 2.0 + 5.0;
        self.source.settled(self.plan.polls(), idle as u64, PATIENCE).await
    }

    /// Makes one isolated change: no wake reads everything.
    async fn alone(&mut self) -> Result<()> {
        self.follower.forget();
        self.source.reset().await?;
        let begun = Instant::now();
        let flips = self.source.flip(1, 1.0).await?;
        let late = self.latencies(&flips).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let counted = self.source.counts().await?;
        let sweep = if self.plan.mode == ModeChoice::PerService { 0.0 } else { self.swept(begun.elapsed()) };
        self.add("a change alone: until published", "ms", late.first().copied().unwrap_or(f64::NAN));
        let most = REQUESTS + sweep.ceil() + 1.0;
        self.promise("a change alone: requests and sweep", "", counted.requests as f64, most);
        self.add("a change alone: bytes", "B", counted.bytes as f64);
        Ok(())
    }

    async fn latencies(&self, flips: &Flips) -> Result<Vec<f64>> {
        self.follower.latencies(flips, Duration::from_secs(60)).await
    }

    /// Makes changes at a steady rate.
    async fn steadily(&mut self) -> Result<()> {
        self.follower.forget();
        self.source.reset().await?;
        let cpu = usage::cpu();
        let flips = self.source.flip(self.plan.flips, self.plan.flips_a_second).await?;
        let mut late = self.latencies(&flips).await?;
        let cpu = usage::cpu() - cpu;
        let counted = self.source.counts().await?;
        let changes = self.plan.flips as f64;
        let aim = self.plan.aim;
        self.add("a flip until published, p50", "ms", quantile(&mut late, 0.5));
        let p99 = quantile(&mut late, 0.99);
        self.add(&format!("a flip until published, p99 (aim {aim:.0})"), "ms", p99);
        self.budgets.at_most("p99 of a flip", p99, aim * 10.0);
        self.promise("requests per change", "", counted.requests as f64 / changes, REQUESTS);
        self.add("bytes per change", "B", counted.bytes as f64 / changes);
        self.add("CPU per change", "us", cpu.as_secs_f64() * 1e6 / changes);
        Ok(())
    }

    /// Changes everything at once: requests stay within the allowed rate and its burst.
    async fn at_once(&mut self) -> Result<()> {
        self.follower.forget();
        self.source.reset().await?;
        let begun = Instant::now();
        let flips = self.source.flip_all().await?;
        let mut late = self.latencies(&flips).await?;
        self.at_rest().await?;
        let (counted, took) = (self.source.counts().await?, begun.elapsed().as_secs_f64());
        self.add("all at once: until the last is published", "ms", quantile(&mut late, 1.0));
        self.add("all at once: requests", "", counted.requests as f64);
        let rate = f64::from(self.plan.rate);
        let allowed = rate * (1.0 + took) + 5.0;
        self.budgets.at_most("all at once: requests", counted.requests as f64, allowed);
        // the burst and a second's worth; a busy source receives some of them late and together
        let (busiest, aim) = (counted.busiest_second as f64, rate * 2.0);
        self.add(&format!("all at once: requests in a second (aim {aim:.0})"), "", busiest);
        self.budgets.at_most("all at once: requests in a second", busiest, aim * 2.0);
        self.connections(&counted);
        Ok(())
    }

    fn connections(&mut self, counted: &Counted) {
        let most = if self.plan.shared { 24.0 } else { 150.0 };
        self.promise("connections at once", "", counted.most_connections as f64, most);
        self.add("connections made", "", counted.connections_made as f64);
        self.promise("streams on a connection", "", counted.most_streams as f64, 250.0);
    }

    /// Asserts that the served endpoints equal those of the source.
    async fn verify(&mut self) -> Result<()> {
        let want = self.source.counts().await?.critical;
        let (all, ill) = self.follower.served();
        self.budgets.equal("endpoints", all as u64, self.plan.shape.all() as u64);
        self.budgets.equal("endpoints that are ill", ill, want);
        Ok(())
    }
}

/// Applies the same source and changes to the plain consumer.
async fn baseline(plan: &Plan, mut source: Source, authority: &Authority, table: &mut Table) -> Result<()> {
    let plain = Plain::start(url(plan, &source), Some(&authority.file()), PATIENCE).await?;
    let mut add = |figure: &str, unit, value| table.add(format!("baseline: {figure}"), unit, value);
    source.settled(1, 5, PATIENCE).await?;
    source.reset().await?;
    let flips = source.flip(1, 1.0).await?;
    plain.latencies(&flips, PATIENCE).await?;
    plain.idle(PATIENCE).await?;
    let counted = source.counts().await?;
    add("a change alone: requests", "", counted.requests as f64);
    add("a change alone: bytes", "B", counted.bytes as f64);
    source.reset().await?;
    let cpu = usage::cpu();
    let flips = source.flip(plan.flips / 2, plan.flips_a_second).await?;
    let mut late = plain.latencies(&flips, PATIENCE).await?;
    let (counted, cpu) = (source.counts().await?, usage::cpu() - cpu);
    let changes = (plan.flips / 2) as f64;
    add("a flip until seen, p50", "ms", quantile(&mut late, 0.5));
    add("a flip until seen, p99", "ms", quantile(&mut late, 0.99));
    add("requests per change", "", counted.requests as f64 / changes);
    add("bytes per change", "B", counted.bytes as f64 / changes);
    add("CPU per change", "us", cpu.as_secs_f64() * 1e6 / changes);
    Ok(())
}
