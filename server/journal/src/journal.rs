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
        let (for_thread, handover) = (shared.clone(), pieces.clone());
        let run = move || {
            writer.restore(clock(), |piece| handover.send(piece));
            handover.end();
            loop {
                let (turn, last) = for_thread.wait(options.interval);
                writer.turn(clock());
                for_thread.done(turn);
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
