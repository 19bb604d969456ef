//! Console bench: what the documents of the console and a scrape cost a server with many services and endpoints.
//!
//! The whole server runs in this process, and requests go to its routes without a socket, so that every counted byte is the server's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use clap::Parser as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tributary_app::admin::access::Peer;
use tributary_app::admin::{Shared, Surface, router};
use tributary_app::args::{Cli, Command};
use tributary_app::environment::Environment;
use tributary_app::serve;
use tributary_app::telemetry::LogLevel;
use tributary_app::wiring::Server;
use tributary_runtime::Source;

use crate::ALLOCATOR;
use crate::intake::{allocated, spec};
use crate::report::{Table, quantile};
use crate::usage;
use crate::world::{Size, World};

/// Requests of each path.
const TIMES: usize = 5;
/// Most megabytes that the requests add to the server at any time.
const MEMORY: f64 = 50.0;
/// Largest document that is read.
const MAX_BYTES: usize = 64 << 20;

/// One path, and what a request of it may cost.
struct Page {
    name: &'static str,
    path: String,
    /// Most kilobytes that a repeated request allocates.
    kilobytes: f64,
    /// Most milliseconds of CPU: ten times the figure.
    millis: f64,
    /// Items that it has.
    items: Option<usize>,
}

impl Page {
    fn new(name: &'static str, path: impl Into<String>, (kilobytes, millis): (f64, f64)) -> Self {
        Self { name, path: path.into(), kilobytes, millis, items: None }
    }
    fn with(self, items: usize) -> Self {
        Self { items: Some(items), ..self }
    }
}

/// Runs once.
pub(crate) async fn run(size: Size, table: &mut Table) -> Result<()> {
    let empty = tempfile::tempdir()?;
    let server = Box::pin(start(empty.path())).await?;
    let world = World::new(size)?;
    let _source = fill(&server, size, &world).await?;
    let shared = Shared::new(Arc::clone(server.live()) as _, Surface::Admin);
    let before = allocated();
    let peak = Peak::watch();
    for page in pages(size, &world) {
        measure(&shared, &page, table).await?;
    }
    let grown = (peak.end().await? - before) as f64 / 1e6;
    table.add("most memory that requests add", "MB", grown);
    let kept = (allocated() - before) as f64 / 1e6;
    table.add("memory that stays after them", "MB", kept);
    ensure!(grown <= MEMORY, "{grown:.1} MB more while pages are read, over the budget of {MEMORY} MB");
    server.stop().await;
    Ok(())
}

/// The pages that a reader of the console sees, and a scrape. Costs do not grow with the number of endpoints.
fn pages(size: Size, world: &World) -> Vec<Page> {
    let endpoints = size.services * size.addresses;
    let deep = format!("/debug/endpoints?offset={}&limit=100", endpoints / 2);
    let last = world.host(size.services - 1);
    let text = last.split('.').next().unwrap_or_default();
    vec![
        Page::new("overview", "/debug/overview", (1_000.0, 500.0)),
        Page::new("first page of services", "/debug/services?limit=100", (1_000.0, 200.0)).with(100),
        Page::new(
            "search for a service",
            format!("/debug/services?search={text}&limit=100"),
            (1_000.0, 400.0),
        )
        .with(1),
        Page::new(
            "endpoints of a service",
            format!("/debug/endpoints?host={last}&limit=100"),
            (1_000.0, 200.0),
        )
        .with(100.min(size.addresses)),
        Page::new("endpoints in the middle of all", deep, (1_000.0, 200.0)).with(100),
        Page::new("map", "/debug/map", (500.0, 100.0)),
        Page::new("timeline", "/debug/timeline", (500.0, 100.0)),
        Page::new("metrics", "/metrics", (1_000.0, 500.0)),
    ]
}

/// Starts a server without content.
async fn start(directory: &std::path::Path) -> Result<Server> {
    let registry = format!("file={}", directory.display());
    let flags = ["--xds-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--state-dir", "none"];
    let all = ["tributary", "serve"].into_iter().chain(flags).chain(["--registry", &registry]);
    let Command::Serve(args) = Cli::try_parse_from(all)?.command else { anyhow::bail!("not a server") };
    let env = Environment::default();
    let loaded = serve::load(&args, &env)?;
    Ok(serve::build(&args, &env, loaded, LogLevel::default())?.bind().await?.start().await?)
}

/// Fills the server and waits until all of it is served and counted.
async fn fill(server: &Server, size: Size, world: &World) -> Result<Source> {
    let live = server.live();
    let source = live.handle.source(spec()?).await?;
    ensure!(source.updates.send_all(world.listing()?), "the server has stopped");
    let wanted = (size.services * size.addresses * usize::from(size.ports)) as u64;
    let name = spec()?.id.name.clone();
    while live.sessions.served.sums().endpoints_of(&name) < wanted {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // the timeline compares generations once the clients are served
    let mut last = live.timeline.last();
    let is_noted = || {
        let entries = live.timeline.read((None, None), None, 1_000).items;
        entries.iter().any(|entry| entry.generation == Some(live.handle.catalog().generation))
    };
    while !is_noted() {
        last.changed().await?;
    }
    Ok(source)
}

async fn measure(shared: &Shared, page: &Page, table: &mut Table) -> Result<()> {
    let (mut millis, mut kilobytes, mut bytes, mut cpu) = (Vec::new(), Vec::new(), 0, usage::cpu());
    // the first request compares what services contest, for all later ones of the generation
    for at in 0..=TIMES {
        cpu = if at == 1 { usage::cpu() } else { cpu };
        let (before, begun) = (ALLOCATOR.total_allocated(), Instant::now());
        let body = get(shared, &page.path).await?;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
        kilobytes.push((ALLOCATOR.total_allocated() - before) as f64 / 1e3);
        bytes = body.len();
        if let Some(items) = page.items {
            let list: serde_json::Value = serde_json::from_slice(&body)?;
            let found = list["items"].as_array().map_or(0, Vec::len);
            ensure!(found == items, "{}: {found} items, not {items}", page.name);
        }
    }
    let name = page.name;
    table.add(format!("{name}: first request"), "ms", millis.remove(0));
    let least = kilobytes.iter().skip(1).copied().fold(f64::INFINITY, f64::min);
    table.add(format!("{name}: kilobytes allocated"), "", least);
    table.add(format!("{name}: bytes"), "B", bytes as f64);
    table.add(format!("{name}: time"), "ms", quantile(&mut millis, 0.5));
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / TIMES as f64;
    table.add(format!("{name}: CPU"), "ms", spent);
    ensure!(
        least <= page.kilobytes,
        "{name}: {least:.0} kB allocated, over the budget of {}",
        page.kilobytes
    );
    // time includes what other programs of the machine do
    ensure!(spent <= page.millis, "{name}: {spent:.0} ms of CPU, over ten times the figure");
    Ok(())
}

/// Returns the body of a path.
async fn get(shared: &Shared, path: &str) -> Result<Vec<u8>> {
    let request = Request::builder().uri(path).header("host", "localhost");
    let request = request.extension(Peer("127.0.0.1:9".parse()?)).body(Body::empty())?;
    let response = router(shared.clone()).oneshot(request).await?;
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_BYTES).await.context("the document is too large")?;
    ensure!(status.is_success(), "{path}: {status}");
    Ok(body.to_vec())
}

/// Watches the allocated bytes from a task of its own.
struct Peak {
    is_over: CancellationToken,
    watching: JoinHandle<i64>,
}

impl Peak {
    fn watch() -> Self {
        let is_over = CancellationToken::new();
        let own = is_over.clone();
        let watching = tokio::spawn(async move {
            let mut most = allocated();
            let mut often = tokio::time::interval(Duration::from_millis(1));
            while !own.is_cancelled() {
                often.tick().await;
                most = most.max(allocated());
            }
            most
        });
        Self { is_over, watching }
    }
    /// Returns the most bytes that were allocated.
    async fn end(self) -> Result<i64> {
        self.is_over.cancel();
        Ok(self.watching.await?)
    }
}
