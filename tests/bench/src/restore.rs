//! Restore bench: a server without any source opens a journal from disk; measures the time until its catalog is
//! published.
//!
//! One process writes the journal and another one restores it, so time and memory are those of a start. The
//! baseline reads and decodes a snapshot of plain records: one per endpoint and port.

mod snapshot;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use tributary_journal::{RestoredRegistry, Restoring};
use tributary_model::{CollectionKind, Record};
use tributary_runtime::Handle;

use crate::intake::{filled, spec};
use crate::kept::{self, Timed};
use crate::report::Table;
use crate::usage;
use crate::world::{Size, World};

/// Argument that selects one of these processes.
pub(crate) const PART: &str = "restore-part";
/// Seconds per endpoint-port: 400,000 of them take 54 ms.
const EACH: f64 = 0.054 / 400_000.0;

/// Runs once at each size.
pub(crate) fn run(sizes: &[usize], table: &mut Table) -> Result<()> {
    for &services in sizes {
        let directory = tempfile::tempdir()?;
        for part in ["fill", "serve", "baseline"] {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(PART).arg(part).arg(directory.path()).arg(services.to_string());
            let output = command.output()?;
            table.read(&String::from_utf8_lossy(&output.stdout));
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{part} of {services} services failed: {errors}");
        }
    }
    Ok(())
}

/// Runs one of the processes.
pub(crate) fn part(arguments: &[&str]) -> Result<()> {
    let begun = Instant::now();
    let [part, directory, services] = arguments else {
        bail!("usage: {PART} fill|serve|baseline DIR SERVICES")
    };
    let size = Size { services: services.parse()?, ports: 2, addresses: 100, pods: false };
    let mut table = Table::new(*part);
    let directory = Path::new(directory);
    let outcome = match *part {
        "fill" => fill(directory, size, &mut table),
        "serve" => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(serve(begun, directory, size, &mut table))
        }
        _ => baseline(begun, directory, size, &mut table),
    };
    print!("{}", table.write());
    outcome
}

/// Writes the records of a server, as a journal and as a plain snapshot.
fn fill(directory: &Path, size: Size, table: &mut Table) -> Result<()> {
    let world = World::new(size)?;
    let (_, records) = filled(world.listing()?)?;
    let (journal, _) = kept::open(&directory.join("state"))?;
    journal.record(records);
    journal.ready();
    journal.membership_synced();
    journal.flush();
    let stats = journal.stats();
    ensure!(stats.is_whole(), "the journal lacks something: {stats:?}");
    let each = |bytes: u64| bytes as f64 / (size.services * size.addresses) as f64;
    table.add(named(size, "on disk per address"), "B", each(stats.bytes));
    table.add(named(size, "on disk per address, live"), "B", each(stats.live_bytes));
    let snapshot = snapshot::write(&crate::intake::plain(size, &world));
    table.add(named(size, "baseline: on disk per address"), "B", each(snapshot.len() as u64));
    Ok(std::fs::write(directory.join("snapshot"), snapshot)?)
}

/// Serves the records of a journal.
async fn serve(begun: Instant, directory: &Path, size: Size, table: &mut Table) -> Result<()> {
    let (journal, restoring) = kept::open(&directory.join("state"))?;
    let runtime = kept::runtime(Arc::new(()), Box::new(Timed { journal, nanos: Arc::default() }));
    let handle = runtime.handle();
    let mut generation = handle.generation();
    let (pieces, facts) = give_back(restoring, &handle).await?;
    handle.restored(true).await?;
    let decoded = begun.elapsed();
    while kept::addresses(&handle.catalog()) < size.services * size.addresses {
        generation.changed().await?;
    }
    let took = begun.elapsed();
    table.add(named(size, "start of the process to the last piece"), "ms", decoded.as_secs_f64() * 1e3);
    table.add(named(size, "start of the process to published"), "ms", took.as_secs_f64() * 1e3);
    table.add(named(size, "CPU"), "ms", usage::cpu().as_secs_f64() * 1e3);
    table.add(named(size, "peak resident"), "MB", usage::peak() as f64 / 1e6);
    table.add(named(size, "pieces"), "", pieces as f64);
    check(&handle, size, pieces, facts, table).await?;
    let deadline = 10.0 * EACH * endpoint_ports(size) as f64;
    ensure!(took.as_secs_f64() <= deadline, "restored after {took:?}: over ten times the figure");
    Ok(())
}

/// Hands the records to the runtime. Returns the numbers of pieces and of facts.
async fn give_back(mut restoring: Restoring, handle: &Handle) -> Result<(usize, u64)> {
    let (mut pieces, mut facts) = (0, 0);
    loop {
        let next = tokio::task::spawn_blocking(move || (restoring.next(), restoring)).await?;
        restoring = next.1;
        let Some(RestoredRegistry { records, refused, absent, .. }) = next.0 else { break };
        ensure!(refused.is_empty() && absent.is_none(), "not everything is restored: {refused:?} {absent:?}");
        pieces += 1;
        facts += records.iter().filter(|record| matches!(record, Record::Put(..))).count() as u64;
        handle.restore(spec()?, records, false).await?;
    }
    Ok((pieces, facts))
}

/// Asserts that every fact is served, each service is built once, and nothing is written back.
async fn check(handle: &Handle, size: Size, pieces: usize, facts: u64, table: &mut Table) -> Result<()> {
    let name = spec()?.id.name.clone();
    let (plan, views) =
        handle.inspect(move |core| (core.end_plan(&name, None, None), core.counters().views)).await?;
    let of = |kind| plan.iter().filter(|plan| plan.kind == kind).map(|plan| plan.facts).sum::<u64>();
    let (services, groups) = (of(CollectionKind::Services), of(CollectionKind::Groups));
    let written = handle.stats().records;
    table.add(named(size, "facts restored"), "", (services + groups) as f64);
    table.add(named(size, "views built"), "", views as f64);
    table.add(named(size, "records written back"), "", written as f64);
    let expected = size.services as u64;
    ensure!(services == expected && groups == expected, "{services} services, {groups} groups are restored");
    ensure!(facts == services + groups, "{facts} facts were kept, {} are served", services + groups);
    ensure!(written == 0, "{written} records were written back");
    // a declaration and its endpoints may be in two pieces
    let most = if pieces == 1 { expected } else { 2 * expected };
    ensure!(views <= most, "{views} views were built for {expected} services in {pieces} pieces");
    Ok(())
}

/// Measures reading and decoding a whole snapshot.
fn baseline(begun: Instant, directory: &Path, size: Size, table: &mut Table) -> Result<()> {
    let records = snapshot::read(&std::fs::read(directory.join("snapshot"))?)?;
    let took = begun.elapsed();
    ensure!(records.len() == endpoint_ports(size), "the snapshot has {} records", records.len());
    let name = |what: &str| named(size, &format!("baseline, plain records decoded: {what}"));
    table.add(name("time"), "ms", took.as_secs_f64() * 1e3);
    table.add(name("CPU"), "ms", usage::cpu().as_secs_f64() * 1e3);
    table.add(name("peak resident"), "MB", usage::peak() as f64 / 1e6);
    Ok(())
}

fn endpoint_ports(size: Size) -> usize {
    size.services * size.addresses * usize::from(size.ports)
}

fn named(size: Size, what: &str) -> String {
    format!("{} endpoint-ports: {what}", endpoint_ports(size))
}
