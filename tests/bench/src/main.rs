//! The bench report: times and rates beside the counts that explain them, with a baseline in the same run.
//!
//! `tributary-bench small` runs every bench at a small size: CI asserts its counts, and time limits of ten
//! times the figure. `tributary-bench full [BENCH...]` runs the sizes of the report, five times each, and
//! prints median and spread. A bench's clients run in a separate process, so CPU and memory of this process are
//! the server's alone.

mod changes;
mod children;
mod client;
mod clusters;
mod console;
mod consul;
mod crowd;
mod delay;
mod floor;
mod gateways;
mod intake;
mod join;
mod journal;
mod kept;
mod kube;
mod naive;
mod policies;
mod process;
mod report;
mod restore;
mod rig;
mod scopes;
mod storm;
mod usage;
mod wire;
mod world;

use anyhow::{Result, anyhow, bail, ensure};
use report::Table;
use world::Size;

#[global_allocator]
pub(crate) static ALLOCATOR: cap::Cap<tikv_jemallocator::Jemalloc> =
    cap::Cap::new(tikv_jemallocator::Jemalloc, usize::MAX);

/// The benches by name.
const BENCHES: [&str; 23] = [
    "intake",
    "storm",
    "scopes",
    "policies",
    "mesh",
    "policy-load",
    "crowd",
    "fanout",
    "rolling",
    "relist",
    "slow",
    "join",
    "gateways",
    "restore",
    "journal",
    "delay",
    "console",
    "kube",
    "clusters",
    "consul",
    "consul-budget",
    "consul-http",
    "consul-real",
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = args.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["client", rest @ ..] => client::main(rest),
        ["plain", rest @ ..] => kube::plain(rest),
        ["consul-server", rest @ ..] => consul::server(rest),
        [clusters::SOURCE, rest @ ..] => clusters::source(rest),
        [restore::PART, rest @ ..] => restore::part(rest),
        [size @ ("small" | "full"), names @ ..] => {
            let known = |name: &&&str| !BENCHES.contains(name);
            if let Some(unknown) = names.iter().find(known) {
                bail!("bench {unknown:?} not found; use one of {}", BENCHES.join(", "));
            }
            let chosen: &[&str] = if names.is_empty() { &BENCHES } else { names };
            let failed = chosen.iter().filter_map(|name| bench(name, *size == "full").err());
            let failed: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
            ensure!(failed.is_empty(), "{}", failed.join("\n"));
            Ok(())
        }
        // Each run has its own process, so that memory is that run's.
        ["run", size, name] => one(name, *size == "full"),
        _ => bail!("usage: tributary-bench small|full [{}]", BENCHES.join("|")),
    }
}

/// Runs a bench as often as the report requires, each time in a fresh process, and prints its table, also of a
/// run that failed.
fn bench(name: &str, full: bool) -> Result<()> {
    let size = if full { "full" } else { "small" };
    let mut table = Table::new(format!("{name} ({size}): tributary-bench {size} {name}"));
    let mut failed = None;
    for _ in 0..if full { 5 } else { 1 } {
        let me = std::env::current_exe()?;
        let output = std::process::Command::new(me).args(["run", size, name]).output()?;
        table.read(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            failed.get_or_insert_with(|| String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    print!("{}", table.render());
    failed.map_or(Ok(()), |why| Err(anyhow!("bench {name} failed: {why}")))
}

/// Runs a bench once. Prints the figures even if a budget is exceeded: they show by how much, and the other
/// figures.
fn one(name: &str, full: bool) -> Result<()> {
    // as in a server, which has one; without a subscriber every span is offered to the log instead
    tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default())?;
    let mut table = Table::new(name);
    let outcome = run(name, full, &mut table);
    print!("{}", table.write());
    outcome
}

fn run(name: &str, full: bool, table: &mut Table) -> Result<()> {
    if name == "intake" {
        let services = if full { 2_000 } else { 500 };
        for pods in [false, true] {
            intake::run(Size { services, ports: 2, addresses: 100, pods }, table)?;
        }
        intake::workloads(services * 100, table)
    } else if name == "policy-load" {
        policies::loading(if full { 10_000 } else { 2_000 }, table)
    } else if name == "restore" {
        // fewer endpoints would measure the start of a process
        restore::run(if full { &[2_000, 10_000] } else { &[2_000] }, table)
    } else if name == "join" {
        join::run(if full { 2_000 } else { 200 }, if full { 100 } else { 10 }, table)
    } else if name == "gateways" {
        let (services, addresses) = if full { (2_000, 100) } else { (200, 10) };
        gateways::run(Size { services, ports: 1, addresses, pods: true }, table)
    } else {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(wired(name, full, table))
    }
}

async fn wired(name: &str, full: bool, table: &mut Table) -> Result<()> {
    let services = if full { 1_000 } else { 200 };
    let size = Size { services, ports: 2, addresses: 10, pods: true };
    match (name, full) {
        ("storm", true) => {
            storm::run(size, 200, table).await?;
            storm::large(Size { addresses: 100, ..size }, 50, table).await
        }
        ("storm", false) => storm::run(size, 40, table).await,
        ("scopes", true) => scopes::run(1_000, 200, table).await,
        ("scopes", false) => scopes::run(100, 20, table).await,
        ("policies", true) => policies::run(size, policies::Load { storm: 200, streams: 2_000 }, table).await,
        ("policies", false) => policies::run(size, policies::Load { storm: 40, streams: 100 }, table).await,
        ("mesh", full) => policies::meshed(size, if full { 200 } else { 40 }, table).await,
        ("crowd", true) => {
            crowd::run(size, 2_000, table).await?;
            crowd::run(Size { services: 200, ..size }, 10_000, table).await
        }
        ("crowd", false) => crowd::run(size, 100, table).await,
        ("fanout", true) => changes::fan_out(size, 2_000, 50, 0, table).await,
        ("fanout", false) => changes::fan_out(size, 100, 20, 0, table).await,
        ("slow", true) => changes::fan_out(size, 200, 50, 20, table).await,
        ("slow", false) => changes::fan_out(size, 50, 20, 5, table).await,
        ("rolling", true) => changes::rolling(size, 200, 500, table).await,
        ("rolling", false) => changes::rolling(size, 20, 100, table).await,
        ("journal", true) => {
            journal::run(size, 10_000, table).await?;
            journal::run(Size { addresses: 100, ..size }, 10_000, table).await
        }
        ("journal", false) => journal::run(size, 200, table).await,
        ("delay", true) => {
            delay::run(Size { services: 10_000, ports: 1, addresses: 100, pods: false }, 5, table).await
        }
        ("delay", false) => {
            delay::run(Size { services: 5_000, ports: 1, addresses: 10, pods: false }, 2, table).await
        }
        ("console", _) => {
            let size = Size { services: 10_000, ports: 1, addresses: 100, pods: false };
            Box::pin(console::run(size, table)).await
        }
        ("kube", _) => cluster(full, table).await,
        ("clusters", _) => clusters::run(full, table).await,
        ("consul", _) => consul::polled(full, table).await,
        ("consul-budget", _) => consul::budget(full, table).await,
        ("consul-http", _) => consul::plain_http(full, table).await,
        ("consul-real", _) => consul::real(full, table).await,
        ("relist", true) => changes::relist(Size { ports: 1, addresses: 100, ..size }, 50, table).await,
        _ => changes::relist(Size { services: 100, ports: 1, addresses: 100, ..size }, 10, table).await,
    }
}

/// Runs the shapes of the reference; the small size runs one of them at a tenth.
async fn cluster(full: bool, table: &mut Table) -> Result<()> {
    let shape = |name, services, addresses, pods| kube::Shape { name, services, addresses, pods };
    let plans = if full {
        vec![
            kube::Plan { shape: shape("2,000 x 100", 2_000, 100, false), peak: 110, updates: None },
            kube::Plan {
                shape: shape("1,000 x 10", 1_000, 10, false),
                peak: 20,
                updates: Some((5_000, 1_000.0)),
            },
            kube::Plan { shape: shape("1,000 x 10 pods", 1_000, 10, true), peak: 40, updates: None },
        ]
    } else {
        vec![kube::Plan {
            shape: shape("100 x 10 pods", 100, 10, true),
            peak: 24,
            updates: Some((200, 200.0)),
        }]
    };
    // A failed shape does not prevent the measurement of the others.
    let mut outcome = Ok(());
    for plan in plans {
        outcome = outcome.and(kube::run(plan, table).await);
    }
    outcome
}
