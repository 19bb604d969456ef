//! Journal bench: cost of writing a steady stream of changes to disk, beside the same stream without a journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tributary_journal::{Journal, JournalStats};
use tributary_runtime::{JournalSink, NoJournal};

use crate::intake::spec;
use crate::kept::{self, Timed};
use crate::report::Table;
use crate::usage;
use crate::world::{Size, World};

/// Changes per second.
const RATE: u32 = 1_000;
/// The journal's own bound on its file: twice the live size plus this much.
const SLACK: u64 = 4 << 20;
/// Name of the journal's thread.
const THREAD: &str = "journal";
/// Time between two commits.
const INTERVAL: Duration = Duration::from_millis(500);

/// Target in percent of a CPU at that rate: five times the cost of changes of ten addresses.
const AIM: f64 = 5.0;
/// Ten times the time that a change takes of its owner, in microseconds.
const OWNER_US: f64 = 26.0;
/// Ten times the bytes that a change writes for each address of its service.
const WRITTEN: f64 = 680.0;

/// Cost of a stream of changes.
struct Spent {
    cpu: Duration,
    wall: Duration,
    /// CPU time of the journal's thread.
    thread: Duration,
    /// Bytes written.
    written: u64,
    /// Records that the journal received.
    records: u64,
    /// The owner's time with the journal.
    owner: Duration,
    commits: u64,
    /// Statistics of the journal afterwards.
    stats: JournalStats,
}

/// Runs the same changes once without a journal and once with one.
pub(crate) async fn run(size: Size, changes: usize, table: &mut Table) -> Result<()> {
    let plain = stream(size, changes, None).await?;
    let directory = tempfile::tempdir()?;
    let (journal, restoring) = kept::open(&directory.path().join("state"))?;
    drop(restoring);
    let kept = stream(size, changes, Some(&journal)).await?;
    let name = |what: &str| format!("{} x {} at {RATE} a second: {what}", size.services, size.addresses);
    let share = |spent: &Spent| spent.cpu.as_secs_f64() / spent.wall.as_secs_f64() * 100.0;
    table.add(name("CPU with a journal"), "%", share(&kept));
    table.add(name("baseline, CPU without a journal"), "%", share(&plain));
    table.add(name("CPU of the journal"), "%", own_share(&kept));
    let each = Each::of(&kept, &plain, changes);
    table.add(name("owner's time in the journal per change"), "us", each.owner);
    table.add(name("written per change"), "B", each.written);
    table.add(name("commits"), "", kept.commits as f64);
    table.add(name("compactions"), "", kept.stats.compactions as f64);
    table.add(name("file"), "MB", kept.stats.bytes as f64 / 1e6);
    table.add(name("live"), "MB", kept.stats.live_bytes as f64 / 1e6);
    check(&kept, size, changes, &each)
}

/// Returns the CPU that the journal's thread and the owner spend on the journal, in percent.
fn own_share(kept: &Spent) -> f64 {
    (kept.thread + kept.owner).as_secs_f64() / kept.wall.as_secs_f64() * 100.0
}

/// Cost of one change.
struct Each {
    /// Microseconds of the owner.
    owner: f64,
    /// Bytes.
    written: f64,
}

impl Each {
    fn of(kept: &Spent, plain: &Spent, changes: usize) -> Self {
        let owner = kept.owner.as_secs_f64() * 1e6 / changes as f64;
        let written = kept.written.saturating_sub(plain.written) as f64 / changes as f64;
        Self { owner, written }
    }
}

/// Fills a server, then changes one endpoint of one service at a time.
async fn stream(size: Size, changes: usize, journal: Option<&Arc<Journal>>) -> Result<Spent> {
    let nanos = Arc::<AtomicU64>::default();
    let sink: Box<dyn JournalSink> = match journal {
        Some(journal) => Box::new(Timed { journal: Arc::clone(journal), nanos: Arc::clone(&nanos) }),
        None => Box::new(NoJournal),
    };
    let stats = || {
        let journal = journal.inspect(|journal| journal.flush());
        journal.map(|journal| journal.stats()).unwrap_or_default()
    };
    let runtime = kept::runtime(Arc::new(()), sink);
    let handle = runtime.handle();
    let source = handle.source(spec()?).await?;
    let world = World::new(size)?;
    source.updates.send_all(world.listing()?);
    kept::applied(&handle, &[&source]).await?;
    let (commits, records) = (stats().commits, handle.stats().records);
    let (owner, cpu, begun) = (nanos.load(Ordering::Relaxed), usage::cpu(), Instant::now());
    let (thread, written) = (usage::thread_cpu(THREAD), usage::written());
    let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE);
    for n in 0..changes {
        tick.tick().await;
        source.updates.send(world.group(n % size.services, n / size.services + 1)?);
    }
    kept::applied(&handle, &[&source]).await?;
    let stats = stats();
    Ok(Spent {
        cpu: usage::cpu() - cpu,
        wall: begun.elapsed(),
        thread: usage::thread_cpu(THREAD).saturating_sub(thread),
        written: usage::written() - written,
        records: handle.stats().records - records,
        owner: Duration::from_nanos(nanos.load(Ordering::Relaxed) - owner),
        commits: stats.commits - commits,
        stats,
    })
}

/// Asserts that every change is kept, in few commits, in a bounded file, for a small share of a CPU.
fn check(kept: &Spent, size: Size, changes: usize, each: &Each) -> Result<()> {
    let Spent { records, commits, stats, .. } = kept;
    ensure!(stats.is_whole() && stats.pending_keys == 0, "the journal lacks something: {stats:?}");
    ensure!(*records == changes as u64, "{records} records of {changes} changes");
    let most = (kept.wall.as_secs_f64() / INTERVAL.as_secs_f64()) as u64 + 2;
    ensure!((1..=most).contains(commits), "{commits} commits in {:?}", kept.wall);
    let bound = 2 * stats.live_bytes + SLACK;
    ensure!(stats.bytes <= bound, "the file has {} bytes, and {bound} is its bound", stats.bytes);
    let Each { owner, written } = each;
    ensure!(*owner <= OWNER_US, "a change costs its owner {owner:.0} us in the journal");
    let most = WRITTEN * size.addresses as f64;
    ensure!((1.0..=most).contains(written), "{written:.0} bytes are written for a change, {most:.0} at most");
    ensure!(kept.thread > Duration::ZERO, "no thread {THREAD:?} is seen");
    // ten times as many addresses are four times the work
    let (share, most) = (own_share(kept), if size.addresses > 10 { 2.0 * AIM } else { AIM });
    ensure!(share <= most, "the journal takes {share:.1} % of a CPU at {RATE} changes a second");
    Ok(())
}
