//! The journal as its owner sees it.
//!
//! Used by the runtime, next to the core. Nothing here waits for the disk but [`Journal::flush`] and
//! [`Journal::close`].

use std::sync::Arc;
use std::thread::JoinHandle;

use tributary_model::{Record, RegistryName};

use crate::codec::{Decoder, Member, Now, decode_member, unseal};
use crate::restore::Restoring;
use crate::restore::handover::Handover;
use crate::store::directory::StateDirectory;
use crate::store::{Opened, StoreError, open_or_start};
use crate::writer::shared::{JournalStats, Shared, SnapshotRequest};
use crate::writer::{JournalOptions, Writer};

/// Reads both clocks.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// An open journal. Dropping it ends its thread after a last commit, as [`Journal::close`] does.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    pieces: Arc<Handover>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens the journal of a directory and starts its thread, which first decodes what the journal holds. Only a
    /// disk that refuses is an error; a file that cannot be read is set aside and noted.
    pub fn open(
        directory: StateDirectory,
        options: JournalOptions,
        clock: Clock,
    ) -> Result<(Self, Restoring), StoreError> {
        let Opened { store, meta, notice, .. } = open_or_start(&directory.files())?;
        let mut members = Vec::new();
        let mut decoder = Decoder::new(clock());
        store.members(|name, sealed| {
            // A member that cannot be read is as one that was never configured: its registry is not restored either.
            let record = unseal(name.as_bytes(), sealed);
            members.extend(record.and_then(|record| decode_member(&mut decoder, record)));
        })?;
        let shared = Arc::new(Shared::new(options.most_keys));
        shared.remember(meta, &members);
        let pieces = Handover::new();
        let mut writer = Writer::new(shared.clone(), directory, options, store);
        let ending = Ending { shared: shared.clone(), pieces: pieces.clone() };
        let run = move || {
            writer.restore(clock(), |piece| ending.pieces.send(piece));
            ending.pieces.end();
            loop {
                let (turn, last) = ending.shared.wait(options.interval);
                writer.turn(clock());
                ending.shared.done(turn);
                if last {
                    return;
                }
            }
        };
        let handed = pieces.clone();
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(run)?;
        Ok((
            Self { shared, pieces: handed, thread: Some(thread) },
            Restoring { meta, members, notice, pieces },
        ))
    }
    /// Records what was accepted in one turn of the owner; all of it is in one commit. Never waits.
    pub fn record(&self, records: Vec<Record>) {
        if !records.is_empty() {
            self.shared.record(records);
        }
    }
    /// What the journal needs of a registry that it lost track of; asked between turns. Cheap.
    #[must_use]
    pub fn wanted(&self) -> Option<SnapshotRequest> {
        self.shared.wanted()
    }
    /// Answers [`Journal::wanted`]: all records of the registry after the named fact, at most so many. With `end`
    /// the registry is whole again. The state must be that of the moment of the call.
    pub fn slice(&self, registry: &RegistryName, records: Vec<Record>, end: bool) {
        self.shared.slice(registry, records, end);
    }
    /// Records a registry that joined, or whose configuration changed. One that leaves is a record.
    pub fn member(&self, member: Member) {
        self.shared.member(member);
    }
    /// Records that the process was ready.
    pub fn ready(&self) {
        self.shared.ready();
    }
    /// Records that the set of registries was complete.
    pub fn membership_synced(&self) {
        self.shared.membership_synced();
    }
    /// How the journal is doing.
    #[must_use]
    pub fn stats(&self) -> JournalStats {
        self.shared.stats()
    }
    /// Commits what was recorded, and waits for it.
    pub fn flush(&self) {
        self.shared.flush();
    }
    /// Commits what was recorded, closes the file and frees the directory.
    pub fn close(self) {
        drop(self);
    }
}

/// Held by the journal's thread: whatever ends it, nothing waits for it afterwards.
struct Ending {
    shared: Arc<Shared>,
    pieces: Arc<Handover>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // the end is shown before whatever waits goes on
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

    /// A journal whose clock panics after so many readings.
    fn mk_journal(readings: usize) -> (tempfile::TempDir, Journal, Restoring) {
        let base = tempfile::tempdir().unwrap();
        let left = AtomicUsize::new(readings);
        let clock = move || {
            let spent = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            spent.expect("the test wants a panic here");
            Now { mono: Mono(1), wall: Timestamp::UNIX_EPOCH }
        };
        let directory = StateDirectory::open(base.path()).unwrap();
        let (journal, restoring) =
            Journal::open(directory, JournalOptions::default(), Arc::new(clock)).unwrap();
        (base, journal, restoring)
    }

    /// Whether this ends.
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
        // the owner takes the first reading, the restore the second
        for readings in [1, 2] {
            let (_base, journal, mut restoring) = mk_journal(readings);
            let journal = Arc::new(journal);
            let for_thread = Arc::clone(&journal);
            assert!(ends(move || while restoring.next().is_some() {}), "restoring, {readings}");
            assert!(ends(move || for_thread.flush()), "writing, {readings}");
            let stats = journal.stats();
            assert!(!stats.is_whole() && stats.last_error.is_some_and(|why| why.contains("panicked")));
        }
    }
}
