//! Consul benches: requests, delay and memory of the registry against a scripted Consul.
//!
//! The scripted Consul is a separate process that counts requests, bytes, connections and the streams on them;
//! the registry, with core and catalog behind it, is this process. Counts are asserted exactly as promised,
//! times at ten times the promise. The baseline, in the same run and of the same source, is a consumer that
//! reads everything again on every wake. Each connection budget has a bench of its own, because memory is counted
//! per process.

mod budget;
mod catalog;
mod counts;
mod follower;
mod memory;
mod plain;
mod process;
mod real;
mod removal;
mod server;

use std::time::{Duration, Instant};

use anyhow::Result;
use tributary_consul::ConsulConfig;
use tributary_consul::config::{Address, Limits, Timing};
use tributary_suites::tls::Authority;

use crate::intake::allocated;
use crate::report::{Table, quantile};
use crate::usage;
use budget::Budgets;
use catalog::Shape;
use follower::Follower;
use memory::Alone;
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

/// One shape and the connections with which it is followed.
#[derive(Debug, Clone, Copy)]
struct Plan {
    shape: Shape,
    /// Uses TLS, so requests share connections.
    shared: bool,
    /// Maximum connections over TLS, of 250 requests each.
    connections: usize,
    /// Allowed requests per second.
    rate: u32,
    /// Part of the default waits for which the bench measures what is sent while nothing changes.
    waits: u32,
    /// Services that are removed at once.
    removed: usize,
    flips: usize,
    flips_a_second: f64,
    /// Maximum time until a flip is published, in milliseconds, at the 99th percentile.
    aim: f64,
}

/// Runs one long poll per service over shared connections; then the baseline.
pub(crate) async fn polled(full: bool, table: &mut Table) -> Result<()> {
    let (authority, plan) = (Authority::new()?, plan(full));
    let (source, verdict) = follow(plan, &authority, table).await?;
    baseline(&plan, source, &authority, table).await?;
    verdict
}

/// Runs a shared connection that carries fewer long polls than there are services.
pub(crate) async fn budget(full: bool, table: &mut Table) -> Result<()> {
    let plan = Plan { connections: 1, aim: 2_000.0, ..plan(full) };
    follow(plan, &Authority::new()?, table).await?.1
}

/// Runs plain HTTP, of which each long poll needs a connection, with more services than connections.
pub(crate) async fn plain_http(full: bool, table: &mut Table) -> Result<()> {
    let plan = Plan { shared: false, aim: 2_000.0, ..plan(full) };
    follow(plan, &Authority::new()?, table).await?.1
}

/// Runs against a real Consul.
pub(crate) async fn real(full: bool, table: &mut Table) -> Result<()> {
    real::run(Shape { services: if full { 5_000 } else { 200 }, instances: 10 }, table).await
}

fn plan(full: bool) -> Plan {
    let (services, instances) = if full { (5_000, 10) } else { (500, 5) };
    Plan {
        shape: Shape { services, instances },
        shared: true,
        connections: Limits::default().shared_connections,
        rate: if full { 500 } else { 250 },
        waits: if full { 1 } else { 10 },
        removed: if full { 2_000 } else { 200 },
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
    /// Requests per second that are sent while nothing changes.
    idle_rate: f64,
    /// Bytes of an answer about one service.
    service_bytes: f64,
    table: &'a mut Table,
    budgets: Budgets,
}

/// Runs one plan. Returns exceeded budgets separately, so the table is complete even if a budget is exceeded.
async fn follow(plan: Plan, authority: &Authority, table: &mut Table) -> Result<(Source, Result<()>)> {
    let mut source = Source::start(plan.shape, plan.shared.then_some(authority)).await?;
    let config = plan.config(&source, authority)?;
    let (before, timing) = (allocated(), plan.timing());
    let brisk = ConsulConfig { timing, ..config.clone() };
    let rest = (plan.polls(), (plan.idle_rate(plan.polls(), timing) * 2.0 + 5.0) as u64);
    let alone = memory::alone(brisk, &mut source, rest, timing.wait + timing.wait / 16).await?;
    memory::given_back(before).await?;
    let polls = memory::of_a_long_poll(&config, &mut source).await?;
    memory::given_back(before).await?;
    source.reset().await?;
    // a read of each service at the allowed rate, and a second for the rest
    let aim = plan.shape.services as f64 / f64::from(plan.rate) + 1.0;
    let (follower, took) = Follower::start(config, Duration::from_secs_f64(aim * 10.0)).await?;
    let first = source.counts().await?;
    let idle_rate = plan.idle_rate(alone.polls, Timing::default());
    let service_bytes = first.service_bytes as f64 / plan.shape.services as f64;
    let budgets = Budgets::default();
    let mut bench = Bench { plan, source, follower, idle_rate, service_bytes, table, budgets };
    bench.add("until ready", "ms", took.as_secs_f64() * 1e3);
    bench.add("requests until ready", "", first.requests as f64);
    bench.idle(&alone);
    bench.at_rest(0).await?;
    bench.memory(&alone, polls, allocated() - before);
    bench.alone().await?;
    bench.steadily().await?;
    bench.at_once().await?;
    bench.verify().await?;
    bench.removals().await?;
    bench.verify().await?;
    Ok((bench.source, bench.budgets.verdict()))
}

impl Plan {
    fn config(&self, source: &Source, authority: &Authority) -> Result<ConsulConfig> {
        let mut config = ConsulConfig::new(vec![Address::parse(&url(self, source))?])?;
        config.tls.ca = self.shared.then(|| authority.file());
        config.limits.shared_connections = self.connections;
        config.limits.rate = self.rate;
        Ok(config)
    }
    /// Returns whether each service has a long poll of its own; some requests stay free for other reads.
    fn is_polled(&self) -> bool {
        let limits = Limits::default();
        self.shared && self.shape.services < self.connections * limits.streams - 2 * limits.concurrency
    }
    /// Returns the long polls that wait at least while nothing changes.
    fn polls(&self) -> u64 {
        if self.is_polled() { self.shape.services as u64 + 1 } else { 2 }
    }
    /// Returns the waits with which the bench measures what is sent while nothing changes.
    fn timing(&self) -> Timing {
        let timing = Timing::default();
        Timing { wait: timing.wait / self.waits, full_pass: timing.full_pass / self.waits, ..timing }
    }
    /// Returns the requests per second that are sent while nothing changes: each long poll when its wait has ended,
    /// and a read of every service in each full pass, if not every service has a long poll.
    fn idle_rate(&self, polls: u64, timing: Timing) -> f64 {
        let wait = (timing.wait + timing.wait / 16).as_secs_f64();
        polls as f64 / wait + if self.is_polled() { 0.0 } else { self.swept(timing.full_pass) }
    }
    /// Returns the reads per second that read every service once within this time.
    fn swept(&self, full_pass: Duration) -> f64 {
        self.shape.services as f64 / full_pass.as_secs_f64()
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

    /// Adds what is sent and computed while nothing changes, as the default waits have it.
    fn idle(&mut self, alone: &Alone) {
        let timing = self.plan.timing();
        let time = (timing.wait + timing.wait / 16).as_secs_f64() * f64::from(self.plan.waits);
        let most = self.idle_rate * 1.2 + 1.0;
        self.add("long polls that wait", "", alone.polls as f64);
        self.promise("idle: requests per second", "", alone.idle.requests as f64 / time, most);
        self.add("idle: bytes per second", "B", alone.idle.bytes as f64 / time);
        self.add("idle: CPU per second", "us", alone.cpu.as_secs_f64() * 1e6 / time);
    }

    /// Adds the memory of the registry alone, with the given size of a long poll, and of the whole process.
    fn memory(&mut self, alone: &Alone, poll: f64, whole: i64) {
        let all = self.plan.shape.all() as f64;
        let kept = alone.kept - poll * alone.polls as f64;
        self.promise("registry without polls: per instance", "B", kept / all, BYTES + FIXED / all);
        self.add("registry without polls: whole", "MB", kept / 1e6);
        self.add("a long poll", "B", poll);
        self.add("with polls, core and catalog: per instance", "B", whole as f64 / all);
        self.add("resident, whole process", "MB", usage::resident() as f64 / 1e6);
    }

    /// Waits until every expected long poll waits, while this many services are absent.
    async fn at_rest(&mut self, absent: usize) -> Result<()> {
        let idle = self.idle_rate * 2.0 + 5.0;
        let polls = self.plan.polls().saturating_sub(absent as u64).max(2);
        self.source.settled(polls, idle as u64, PATIENCE).await
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
        // the first waits end later than this
        let sweep = if self.plan.is_polled() { 0.0 } else { self.plan.swept(Timing::default().full_pass) };
        self.add("a change alone: until published", "ms", late.first().copied().unwrap_or(f64::NAN));
        let most = REQUESTS + (sweep * begun.elapsed().as_secs_f64()).ceil() + 1.0;
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
        let most = (REQUESTS + 1.0) * self.service_bytes;
        self.promise("bytes of services per change", "B", counted.service_bytes as f64 / changes, most);
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
        self.at_rest(0).await?;
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
