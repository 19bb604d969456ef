//! A runtime with a journal and without the wire; the journal, restore and delay benches share it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tributary_journal::{Journal, JournalOptions, Now, Restoring, StateDirectory};
use tributary_model::{Catalog, Mono, Record, RegistryName, Timestamp};
use tributary_registry_api::ProcessClock;
use tributary_runtime::{Fanout, Handle, JournalSink, Runtime, RuntimeConfig, SnapshotRequest, Source};

/// Opens the journal of a directory, as the server does.
pub(crate) fn open(directory: &Path) -> Result<(Arc<Journal>, Restoring)> {
    let begun = Instant::now();
    let now = move || Now { mono: Mono::START.plus(begun.elapsed()), wall: Timestamp::now() };
    let directory = StateDirectory::open(directory)?;
    let (journal, restoring) = Journal::open(directory, JournalOptions::default(), Arc::new(now))?;
    Ok((Arc::new(journal), restoring))
}

/// Returns a runtime that records what it serves in a journal.
pub(crate) fn runtime(fanout: Arc<dyn Fanout>, journal: Box<dyn JournalSink>) -> Runtime {
    Runtime::start(RuntimeConfig::default(), Arc::new(ProcessClock::starting_now()), fanout, journal)
}

/// Returns the number of addresses in a catalog.
pub(crate) fn addresses(catalog: &Catalog) -> usize {
    catalog.services().map(|view| view.addresses as usize).sum()
}

/// Waits until every update of these sources is applied.
pub(crate) async fn applied(handle: &Handle, sources: &[&Source]) -> Result<()> {
    while !is_taken(handle, sources) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // the last batch is counted before it is applied, and a command is handled after it
    Ok(handle.inspect(|_| ()).await?)
}

/// Returns true if the owner has begun to apply the last update of these sources, its only ones.
pub(crate) fn is_taken(handle: &Handle, sources: &[&Source]) -> bool {
    let stats = sources.iter().map(|source| source.updates.stats());
    let sent: u64 = stats.map(|stats| stats.received - stats.conflated).sum();
    handle.stats().updates >= sent
}

/// A journal sink that measures the time its owner spends with it.
pub(crate) struct Timed {
    /// The journal.
    pub(crate) journal: Arc<Journal>,
    /// The measured time in nanoseconds.
    pub(crate) nanos: Arc<AtomicU64>,
}

impl JournalSink for Timed {
    fn record(&mut self, records: Vec<Record>) {
        let begun = Instant::now();
        self.journal.record(records);
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(took, Ordering::Relaxed);
    }
    fn wanted(&mut self) -> Option<SnapshotRequest> {
        let wanted = self.journal.wanted()?;
        Some(SnapshotRequest { registry: wanted.registry, after: wanted.after, most: wanted.most })
    }
    fn slice(&mut self, registry: &RegistryName, records: Vec<Record>, last: bool) {
        self.journal.slice(registry, records, last);
    }
    fn ready(&mut self) {
        self.journal.ready();
    }
}
