//! Public interface of the journal.
//!
//! The runtime uses it beside the core. Only [`Journal::flush`] and [`Journal::close`] wait for the disk.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;
use tributary_model::{Record, RegistryName};

use crate::codec::{Decoder, Member, Now, decode_member, unseal};
use crate::restore::Restoring;
use crate::restore::handover::Handover;
use crate::store::directory::StateDirectory;
use crate::store::{Opened, StoreError, open_or_copy};
use crate::writer::shared::{JournalStats, Shared, SnapshotRequest};
use crate::writer::{JournalOptions, Writer};

/// Reads both clocks.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// An open journal. Dropping it ends its thread after a last commit, like [`Journal::close`].
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    pieces: Arc<Handover>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens the journal of a directory and starts its thread, which first decodes the existing content. An unreadable file is set
    /// aside, with a notice. While the disk fails, the content comes from a copy in memory, and the file is opened again later; an
    /// error is returned only if it cannot be read either.
    pub fn open(
        directory: StateDirectory,
        options: JournalOptions,
        clock: Clock,
    ) -> Result<(Self, Restoring), StoreError> {
        let pieces = Handover::new();
        let (mut journal, restoring, mut steps) = Self::prepare(directory, options, clock, pieces)?;
        let run = move || {
            steps.restore();
            loop {
                let (pass, last) = steps.ending.shared.wait(options.interval);
                steps.commit();
                steps.ending.shared.done(pass);
                if last {
                    return;
                }
            }
        };
        journal.thread = Some(std::thread::Builder::new().name("journal".to_owned()).spawn(run)?);
        Ok((journal, restoring))
    }
    /// Opens the journal like [`Journal::open`], but without a thread: the caller takes the steps, so that a simulation decides when.
    /// [`Journal::flush`] must not be called, and what no step committed is lost.
    pub fn open_stepped(
        directory: StateDirectory,
        options: JournalOptions,
        clock: Clock,
    ) -> Result<(Self, Restoring, JournalSteps), StoreError> {
        Self::prepare(directory, options, clock, Handover::unbounded())
    }

    fn prepare(
        directory: StateDirectory,
        options: JournalOptions,
        clock: Clock,
        pieces: Arc<Handover>,
    ) -> Result<(Self, Restoring, JournalSteps), StoreError> {
        let (opened, failing) = open_or_copy(&directory.files(), options.most_file())?;
        let Opened { store, meta, notice, .. } = opened;
        let mut members = Vec::new();
        let mut decoder = Decoder::new(clock());
        store.members(|name, sealed| {
            // An unreadable member counts as never configured: its registry is not restored either.
            let record = unseal(name.as_bytes(), sealed);
            members.extend(record.and_then(|record| decode_member(&mut decoder, record)));
        })?;
        let shared = Arc::new(Shared::new(options.most_keys));
        shared.remember(meta, &members);
        let writer = Writer::new(shared.clone(), directory, options, (store, failing));
        let ending = Ending { shared: shared.clone(), pieces: pieces.clone() };
        let journal = Self { shared, pieces: pieces.clone(), thread: None };
        let restoring = Restoring { meta, members, notice, pieces };
        Ok((journal, restoring, JournalSteps { writer, ending, clock }))
    }
    /// Records the changes of one batch of the core; one commit contains all of them. Never waits.
    pub fn record(&self, records: Vec<Record>) {
        if !records.is_empty() {
            self.shared.record(records);
        }
    }
    /// Returns the facts of a registry that the journal lost and needs again; call it between batches. Cheap.
    #[must_use]
    pub fn wanted(&self) -> Option<SnapshotRequest> {
        self.shared.wanted()
    }
    /// Answers [`Journal::wanted`]: all records of the registry after the given fact, up to the limit. With `end` the
    /// registry is whole again. The records must be current at the time of the call.
    pub fn slice(&self, registry: &RegistryName, records: Vec<Record>, end: bool) {
        self.shared.slice(registry, records, end);
    }
    /// Records a registry that was added or whose configuration changed. A removed registry is an ordinary record.
    pub fn member(&self, member: Member) {
        self.shared.member(member);
    }
    /// Records that the process was ready.
    pub fn ready(&self) {
        self.shared.ready();
    }
    /// Records that all registries were known.
    pub fn membership_synced(&self) {
        self.shared.membership_synced();
    }
    /// Records whether the remote clusters that are declared outside the configuration are known.
    pub fn remotes_known(&self, known: bool) {
        self.shared.remotes_known(known);
    }
    /// Returns the state of the journal.
    #[must_use]
    pub fn stats(&self) -> JournalStats {
        self.shared.stats()
    }
    /// Returns the last error, `None` after a commit, and its changes.
    #[must_use]
    pub fn errors(&self) -> watch::Receiver<Option<String>> {
        self.shared.errors()
    }
    /// Commits all recorded changes, and waits for it.
    pub fn flush(&self) {
        self.shared.flush();
    }
    /// Commits all recorded changes, closes the file and unlocks the directory.
    pub fn close(self) {
        drop(self);
    }
}

/// Work of the journal's thread, in steps.
pub struct JournalSteps {
    writer: Writer,
    ending: Ending,
    clock: Clock,
}

impl JournalSteps {
    /// Decodes the existing content; call it once, before the first commit.
    pub fn restore(&mut self) {
        let pieces = &self.ending.pieces;
        self.writer.restore((self.clock)(), |piece| pieces.send(piece));
        pieces.end();
    }
    /// Commits all recorded changes, if the disk permits it.
    pub fn commit(&mut self) {
        self.writer.pass((self.clock)());
    }
}

impl std::fmt::Debug for JournalSteps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalSteps").finish_non_exhaustive()
    }
}

/// Held by the journal's thread: when it ends for any reason, waiting callers return.
struct Ending {
    shared: Arc<Shared>,
    pieces: Arc<Handover>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Publish the end before waiting callers continue.
        self.shared.with_stats(|stats| {
            stats.open = false;
            if std::thread::panicking() {
                stats.last_error = Some("the journal's thread panicked; restart the server".to_owned());
            }
        });
        self.pieces.end();
        self.shared.close();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.pieces.refuse();
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to write.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tributary_model::{Mono, Timestamp};

    use super::*;

    /// Returns a journal whose clock panics after this many readings.
    fn mk_journal(readings: usize) -> (tempfile::TempDir, Journal, Restoring) {
        let base = tempfile::tempdir().unwrap();
        let left = AtomicUsize::new(readings);
        let clock = move || {
            let spent = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            spent.expect("the test requests a panic here");
            Now { mono: Mono(1), wall: Timestamp::UNIX_EPOCH }
        };
        let directory = StateDirectory::open(base.path()).unwrap();
        let (journal, restoring) =
            Journal::open(directory, JournalOptions::default(), Arc::new(clock)).unwrap();
        (base, journal, restoring)
    }

    /// Whether the function returns.
    fn ends(run: impl FnOnce() + Send + 'static) -> bool {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            run();
            let _ = done.send(());
        });
        is_done.recv_timeout(Duration::from_secs(60)).is_ok()
    }

    #[test]
    fn panicked_thread_ends_every_wait_and_is_shown() {
        // The core reads the clock first, the restore second.
        for readings in [1, 2] {
            let (_base, journal, mut restoring) = mk_journal(readings);
            let journal = Arc::new(journal);
            let for_thread = Arc::clone(&journal);
            assert!(ends(move || while restoring.next().is_some() {}), "restoring, {readings}");
            assert!(ends(move || for_thread.flush()), "writing, {readings}");
            assert!(journal.errors().borrow().as_ref().is_some_and(|why| why.contains("panicked")));
            let stats = journal.stats();
            assert!(!stats.is_whole() && stats.last_error.is_some_and(|why| why.contains("panicked")));
        }
    }
}
