//! Kubernetes bench: CPU and memory of the product's process for one real cluster.
//!
//! The bench fills a real API server, then `tributary serve --registry kubernetes` reads it: time and CPU until
//! it is ready, memory at rest and at its peak over the first list, over a relist without changes and under
//! steady updates. The baseline is a consumer that keeps every object whole, in a separate process.

mod plain;
mod world;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tributary_suites::kube::{ApiServer, KubeApi};
use tributary_suites::{ServerOptions, TestServer};

pub(crate) use plain::main as plain;
pub(crate) use world::Shape;

use crate::process::{self, Usage, addresses, count, views};
use crate::report::Table;

/// Time limit of a step: ten times the slowest.
const PATIENCE: Duration = Duration::from_secs(60);
/// The mark is applied, and a service has two ports: any further view was built without a reason.
const VIEWS_OF_THE_MARK: f64 = 4.0;

/// Work for one shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Content of the cluster.
    pub(crate) shape: Shape,
    /// Maximum memory of the process without the pages of its binary, in MB.
    pub(crate) peak: u64,
    /// Updates of slices, and their rate per second.
    pub(crate) updates: Option<(usize, f64)>,
}

/// Runs one shape once.
pub(crate) async fn run(plan: Plan, table: &mut Table) -> Result<()> {
    let Plan { shape, peak, updates } = plan;
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    shape.fill(api).await?;
    let kubeconfig = cluster.admin_kubeconfig()?;
    let begun = Instant::now();
    let mut server = start(&kubeconfig).await?;
    read(&shape, begun.elapsed(), &mut server, table).await?;
    relist(&shape, &cluster, &mut server, table).await?;
    if let Some((updates, rate)) = updates {
        sustained(&shape, api, &mut server, (updates, rate), table).await?;
    }
    let Usage { peak: most, code, .. } = Usage::of(server.process().id())?;
    let own = most.saturating_sub(code);
    let what = shape.name;
    table.add(format!("{what}: peak of all"), "MB", most as f64 / 1e6);
    table.add(format!("{what}: peak without the pages of the binary"), "MB", own as f64 / 1e6);
    table.add(format!("{what}: peak per endpoint"), "B", most as f64 / shape.endpoints());
    drop(server);
    plain::measure(&kubeconfig, what, table)?;
    ensure!(own <= peak * 1_000_000, "{what}: a peak of {own} bytes beside the binary is over {peak} MB");
    Ok(())
}

async fn start(kubeconfig: &Path) -> Result<TestServer> {
    let options = ServerOptions::default().bin(&process::release_binary()?);
    let options = options.arg("--registry").arg("kubernetes");
    let mut server = TestServer::launch(options.arg("--kubeconfig").arg(&kubeconfig.display().to_string()))?;
    server.ready(PATIENCE).await?;
    Ok(server)
}

/// Measures the first list.
async fn read(shape: &Shape, took: Duration, server: &mut TestServer, table: &mut Table) -> Result<()> {
    let usage = Usage::of(server.process().id())?;
    let have = count(server.admin(), "tributary_endpoints{").await?;
    let want = shape.endpoints() + 1.0;
    ensure!((have - want).abs() < 0.5, "the server is ready with {have} endpoints of {want}");
    let what = shape.name;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    table.add(format!("{what}: from start to ready"), "ms", millis(took));
    table.add(format!("{what}: CPU until ready"), "ms", millis(usage.cpu));
    table.add(format!("{what}: CPU per endpoint"), "us", millis(usage.cpu) * 1e3 / shape.endpoints());
    table.add(format!("{what}: CPU per object"), "us", millis(usage.cpu) * 1e3 / shape.objects());
    table.add(format!("{what}: resident"), "MB", usage.resident as f64 / 1e6);
    table.add(format!("{what}: peak of the list"), "MB", usage.peak as f64 / 1e6);
    Ok(())
}

/// Kills the API server, compacts its history and starts it again: every watch begins again, and only the mark
/// has changed.
async fn relist(
    shape: &Shape,
    cluster: &ApiServer,
    server: &mut TestServer,
    table: &mut Table,
) -> Result<()> {
    let (built, spent) = (views(server.admin()).await?, Usage::of(server.process().id())?.cpu);
    cluster.daemon().kill();
    cluster.etcd().compact().await?;
    cluster.restart().await?;
    let mark = shape.mark(cluster.api(), 1).await?;
    served(server, &mark).await?;
    let what = shape.name;
    let built = views(server.admin()).await? - built;
    let cost = Usage::of(server.process().id())?.cpu - spent;
    table.add(format!("{what}: CPU of a relist without news"), "ms", cost.as_secs_f64() * 1e3);
    table.add(format!("{what}: views rebuilt by it and the mark"), "", built);
    ensure!(built <= VIEWS_OF_THE_MARK, "{what}: a relist without news rebuilt {built} views");
    Ok(())
}

/// Changes one slice after another, at most at this rate; the mark after them shows when all are served.
async fn sustained(
    shape: &Shape,
    api: &KubeApi,
    server: &mut TestServer,
    (updates, rate): (usize, f64),
    table: &mut Table,
) -> Result<()> {
    let spent = Usage::of(server.process().id())?.cpu;
    let took = shape.churn(api, updates, rate).await?;
    let begun = Instant::now();
    let mark = shape.mark(api, 2).await?;
    served(server, &mark).await?;
    let lag = begun.elapsed();
    let cost = Usage::of(server.process().id())?.cpu - spent;
    let what = shape.name;
    table.add(format!("{what}: updates a second, sustained"), "", updates as f64 / took.as_secs_f64());
    table.add(format!("{what}: CPU per update"), "us", cost.as_secs_f64() * 1e6 / updates as f64);
    table.add(format!("{what}: a write after them until served"), "ms", lag.as_secs_f64() * 1e3);
    Ok(())
}

/// Waits until the mark has this address.
async fn served(server: &TestServer, mark: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let have = addresses(server.admin(), &world::mark_host()).await?;
        if have == [mark] {
            return Ok(());
        }
        if Instant::now() > deadline {
            let registries = server.debug("registries").await?;
            bail!("the mark at {mark} was not served within {PATIENCE:?} but {have:?}: {registries:#}");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
