//! Remote clusters bench: many scripted clusters that Secrets declare, read by the product's process.
//!
//! It measures the join of all at once, rest, the rotation of all credentials, and a cluster that fails every second. The
//! scripted API servers are in a separate process, behind TLS.

mod scripted;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::{Follower, ServerOptions, TestServer, Variant, outbound};

use crate::children::Helper;
use crate::process::{Usage, count, forget_peak, release_binary, sockets};
use crate::report::Table;
pub(crate) use scripted::{SOURCE, main as source};

/// Time limit of a step: ten times the longest aim, which is a minute for the rotation of all credentials.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time without a message after which a client has all.
const QUIET: Duration = Duration::from_millis(500);
/// Most sockets that are no connection to a remote cluster: listeners, the config cluster, clients, the runtime's own.
const OTHER_SOCKETS: usize = 12;

/// Work for one number of clusters.
#[derive(Debug, Clone, Copy)]
struct Plan {
    clusters: usize,
    services: usize,
    addresses: usize,
    /// Seconds of rest, and of failures.
    seconds: u64,
    /// Maximum memory at rest without the pages of the binary, in MB.
    resident: u64,
}

/// Runs the plans once.
pub(crate) async fn run(full: bool, table: &mut Table) -> Result<()> {
    let plan = |clusters, services, addresses, seconds, resident| Plan {
        clusters,
        services,
        addresses,
        seconds,
        resident,
    };
    let plans = if full {
        vec![plan(20, 500, 20, 5, 300), plan(100, 100, 5, 10, 130)]
    } else {
        vec![plan(10, 20, 5, 3, 60)]
    };
    for plan in plans {
        run_one(plan, table).await?;
    }
    Ok(())
}

async fn run_one(plan: Plan, table: &mut Table) -> Result<()> {
    let mut lab = Lab::start(plan).await?;
    lab.join(table).await?;
    let mut client = Follower::like_envoy(lab.server.xds(), Variant::Delta, node("recorder")).await?;
    let name = outbound(scripted::PORT, &scripted::host(0));
    client.subscribe(EDS, &[&name])?;
    while client.settle(QUIET).await? > 0 {}
    ensure!(
        !client.names(CDS).is_empty() && !client.endpoints(&name)?.is_empty(),
        "the client was sent nothing"
    );
    lab.rest(table).await?;
    lab.rotate(table).await?;
    lab.flap(table).await
}

/// Scripted clusters, and the product that reads them.
struct Lab {
    plan: Plan,
    source: Helper,
    server: TestServer,
    begun: Instant,
    _config: TempDir,
}

impl Lab {
    async fn start(plan: Plan) -> Result<Self> {
        let args = [plan.clusters, plan.services, plan.addresses].map(|number| number.to_string());
        let mut source = Helper::start(SOURCE, &args, None)?;
        let serving = source.event("serving").await?;
        let config = tempfile::tempdir()?;
        let file = config.path().join("config.yaml");
        let text = format!(
            "apiVersion: tributary.dev/v1alpha1\nkind: Config\nremotes: {{secrets: on, allowServerCidrs: [127.0.0.0/8]}}\n\
             registries:\n- kind: kubernetes\n  kubeconfig: {}\n",
            serving["kubeconfig"].as_str().unwrap_or_default()
        );
        std::fs::write(&file, text)?;
        let begun = Instant::now();
        let server = TestServer::launch(ServerOptions::default().bin(&release_binary()?).config(&file))?;
        Ok(Self { plan, source, server, begun, _config: config })
    }
    /// Formats the name of a figure.
    fn name(&self, figure: &str) -> String {
        let Plan { clusters, services, addresses, .. } = self.plan;
        format!("{clusters} clusters x {services} x {addresses}: {figure}")
    }
    fn usage(&mut self) -> Result<Usage> {
        Usage::of(self.server.process().id())
    }
    /// Waits until all clusters are live and all endpoints are served.
    async fn join(&mut self, table: &mut Table) -> Result<()> {
        self.server.ready(PATIENCE).await?;
        self.generations(|_, _| true).await?;
        let Plan { clusters, services, addresses, .. } = self.plan;
        let endpoints = (clusters * services * addresses) as f64;
        let served = count(self.server.admin(), "tributary_endpoints{").await?;
        ensure!((served - endpoints).abs() < 0.5, "{served} endpoints of {endpoints} are served");
        table.add(self.name("from start until all are live"), "s", self.begun.elapsed().as_secs_f64());
        let usage = self.usage()?;
        table.add(self.name("CPU until then"), "ms", usage.cpu.as_secs_f64() * 1e3);
        Ok(())
    }
    /// Measures a server to which nothing happens.
    async fn rest(&mut self, table: &mut Table) -> Result<()> {
        let before = self.usage()?.cpu;
        let span = Duration::from_secs(self.plan.seconds);
        tokio::time::sleep(span).await;
        let after = self.usage()?;
        let share = (after.cpu - before).as_secs_f64() / span.as_secs_f64() * 100.0;
        table.add(self.name("at rest: CPU of a core"), "%", share);
        table.add(self.name("at rest: resident"), "MB", after.resident as f64 / 1e6);
        let sockets = sockets(self.server.process().id())?;
        table.add(self.name("at rest: sockets"), "", sockets as f64);
        // one connection to each cluster: the watches and probes of both registries share it
        ensure!(
            sockets <= self.plan.clusters + OTHER_SOCKETS,
            "{sockets} sockets for {} clusters",
            self.plan.clusters
        );
        ensure!(share <= 20.0, "{share} % of a core at rest: ten times the aim");
        let (own, limit) = (after.resident.saturating_sub(after.code), self.plan.resident);
        ensure!(own <= limit * 1_000_000, "{own} bytes at rest beside the binary, over {limit} MB");
        Ok(())
    }
    /// Gives every cluster another credential. The content is the same, so clients are sent nothing.
    async fn rotate(&mut self, table: &mut Table) -> Result<()> {
        let first = self.generations(|_, _| true).await?;
        let rest = self.usage()?.resident;
        forget_peak(self.server.process().id())?;
        let (sent, begun) = (self.counts().await?, Instant::now());
        self.source.send("rotate").await?;
        self.generations(|name, generation| first.get(name) != Some(&generation)).await?;
        table.add(self.name("rotation of all credentials"), "s", begun.elapsed().as_secs_f64());
        let peak = self.usage()?.peak;
        table.add(self.name("rotation: peak over rest"), "%", peak as f64 / rest as f64 * 100.0);
        ensure!(peak <= 2 * rest, "a peak of {peak} bytes while all rotate, over twice {rest}");
        self.sends_nothing(sent, "rotations without other content").await
    }
    /// Lets a cluster fail and return every second.
    async fn flap(&mut self, table: &mut Table) -> Result<()> {
        let (sent, before) = (self.counts().await?, self.usage()?.cpu);
        for _ in 0..self.plan.seconds {
            for command in ["break", "heal"] {
                self.source.send(command).await?;
                self.source.event(command).await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        let cost = (self.usage()?.cpu - before).as_secs_f64() * 1e3 / self.plan.seconds as f64;
        table.add(self.name("a cluster fails every second: CPU a second"), "ms", cost);
        self.generations(|_, _| true).await?;
        self.sends_nothing(sent, "a cluster that fails and returns").await
    }
    /// Returns the responses to clients and the views that the core has built.
    async fn counts(&self) -> Result<[f64; 2]> {
        let admin = self.server.admin();
        let sends = count(admin, "tributary_xds_events_total{event=\"sends\"}").await?;
        Ok([sends, count(admin, "tributary_core_events_total{event=\"views\"}").await?])
    }
    async fn sends_nothing(&self, before: [f64; 2], cause: &str) -> Result<()> {
        tokio::time::sleep(QUIET).await;
        let after = self.counts().await?;
        ensure!(after == before, "responses and views of {before:?} became {after:?} by {cause}");
        Ok(())
    }
    /// Waits until every registry of every remote cluster is live with a generation that fits. Returns the generations.
    async fn generations(&self, fits: impl Fn(&str, u64) -> bool) -> Result<BTreeMap<String, u64>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = self.server.items("registries").await?;
            let remote =
                all.iter().filter(|one| one["name"].as_str().is_some_and(|name| name.starts_with("remote-")));
            let live = remote
                .filter(|one| one["state"] == "Live")
                .filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["generation"].as_u64()?)));
            let live: BTreeMap<String, u64> =
                live.filter(|(name, generation)| fits(name, *generation)).collect();
            // one registry of services and one of entries
            if live.len() == self.plan.clusters * 2 {
                return Ok(live);
            }
            if Instant::now() > deadline {
                bail!("{} of {} registries are as expected: {all:#?}", live.len(), self.plan.clusters * 2);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
