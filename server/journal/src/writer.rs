//! The thread that owns the database: at every interval one synced commit of all recorded changes.
//!
//! [`crate::Journal`] starts it. It takes the recorded changes between two calls of the core task, so each
//! commit is a state that the core had. A failed commit is kept and retried; changes beyond the memory
//! bound are dropped and requested again in slices.

pub(crate) mod pending;
pub(crate) mod shared;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Mono, RegistryName};

use crate::codec::Now;
use crate::restore::{Outcome, Reader, RestoredRegistry};
use crate::store::directory::StateDirectory;
use crate::store::{Opened, Store, StoreError, guarded, open_or_start, set_aside};
use pending::Pending;
use shared::Shared;

/// Bounds of a journal.
#[derive(Debug, Clone, Copy)]
pub struct JournalOptions {
    /// Time between two commits.
    pub interval: Duration,
    /// Most changed keys in memory. Beyond it they are dropped and requested again.
    pub most_keys: usize,
    /// Most bytes on disk. Beyond it the largest registry is excluded.
    pub most_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { interval: Duration::from_millis(500), most_keys: 1 << 18, most_bytes: 1 << 30 }
    }
}

impl JournalOptions {
    /// Returns the largest file that these bounds allow, in bytes.
    pub(crate) const fn most_file(&self) -> u64 {
        self.most_bytes.saturating_mul(2).saturating_add(SLACK)
    }
}

/// Bytes by which the file may exceed twice its live content, so that a small journal is not compacted all the time.
pub(crate) const SLACK: u64 = 4 << 20;
/// Delay before the first retry after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const BETWEEN_COPIES: Duration = Duration::from_secs(300);

/// State of the writer's thread.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    directory: StateDirectory,
    options: JournalOptions,
    store: Option<Store>,
    /// Why the store is a copy in memory, which ends once it is decoded.
    failing: Option<String>,
    wait: Duration,
    retry_at: Mono,
    /// Earliest time of the next compaction, after a failed one.
    compact_at: Mono,
    /// Length of the file after compaction: growth below a half is not worth another one.
    compacted: u64,
    /// Whether the file contains entries that belong to no registry.
    stray: bool,
}

impl Writer {
    /// Creates a writer of an open journal, or of a copy in memory, with the failure of the disk.
    pub(crate) fn new(
        shared: Arc<Shared>,
        directory: StateDirectory,
        options: JournalOptions,
        (store, failing): (Store, Option<String>),
    ) -> Self {
        let (wait, retry_at) = (FIRST_WAIT, Mono(0));
        let compact_at = retry_at;
        let store = Some(store);
        let (compacted, stray) = (0, false);
        Self { shared, directory, options, store, failing, wait, retry_at, compact_at, compacted, stray }
    }
    /// Decodes the content of the journal; call it once, before the first pass.
    pub(crate) fn restore(&mut self, now: Now, send: impl FnMut(RestoredRegistry)) {
        let Some(store) = &mut self.store else { return };
        let mut reader = Reader::new(now, send);
        let result = guarded(|| store.scan(|piece| reader.take(piece)));
        let outcome = match &result {
            Ok(()) => reader.finish(),
            Err(error) => reader.abort(&error.to_string()),
        };
        store.learn(outcome.known.clone());
        self.stray = outcome.stray;
        match result {
            Ok(()) => {
                self.shared.begin_with(clearing(&outcome));
                if let Some(why) = self.failing.take() {
                    self.fail(StoreError::Disk(why), now.mono);
                }
            }
            Err(error) => self.fail(error, now.mono),
        }
    }
    /// Commits the recorded changes, and compacts the file if needed.
    pub(crate) fn pass(&mut self, now: Now) {
        if self.store.is_none() && now.mono >= self.retry_at {
            self.reopen(now.mono);
        }
        if self.store.is_some() {
            self.commit(now);
            self.bound();
            self.compact(now.mono);
        }
        self.publish();
    }

    fn commit(&mut self, now: Now) {
        let Some(store) = &mut self.store else { return };
        let changes = self.shared.take();
        if changes.is_empty() {
            return;
        }
        match store.commit(&changes, now) {
            Ok(()) => {
                self.shared.written();
                self.wait = FIRST_WAIT;
                self.shared.with_stats(|stats| {
                    stats.commits += 1;
                    stats.last_commit = Some(now.mono);
                    stats.last_error = None;
                });
            }
            Err(error) => {
                self.shared.put_back(changes);
                self.fail(error, now.mono);
            }
        }
    }
    /// Excludes the largest registry if all of them exceed the bound.
    fn bound(&mut self) {
        let Some(store) = &self.store else { return };
        if store.live() <= self.options.most_bytes {
            return;
        }
        if let Some((name, _)) = store.known().iter().max_by_key(|(_, known)| known.bytes) {
            self.shared.exclude(
                name.clone(),
                "the journal exceeds its size limit, and this registry is the largest",
            );
        }
    }
    fn compact(&mut self, now: Mono) {
        let Some(length) = self.store.as_ref().and_then(|store| store.length().ok()) else { return };
        let live = self.store.as_ref().map_or(0, Store::live);
        let worth = length > live.saturating_mul(2) + SLACK && length > self.compacted + self.compacted / 2;
        if !(worth || self.stray) || now < self.compact_at {
            return;
        }
        let Some(store) = self.store.take() else { return };
        match store.compact() {
            Ok(store) => {
                self.compacted = store.length().unwrap_or(0);
                self.stray = false;
                self.store = Some(store);
                self.shared.with_stats(|stats| stats.compactions += 1);
            }
            Err(error) => {
                self.compact_at = now.plus(BETWEEN_COPIES);
                self.fail(error, now);
            }
        }
    }
    /// Closes the file for now. An unreadable file is set aside, and its content requested again.
    fn fail(&mut self, error: StoreError, now: Mono) {
        let known: BTreeSet<RegistryName> = self.known();
        if let StoreError::TooLarge(Some(name)) = &error {
            self.shared.exclude(name.clone(), "one of its records is too large");
            return self.shared.with_stats(|stats| stats.last_error = Some(error.to_string()));
        }
        // Closing a damaged database may panic too; its file is no longer needed.
        let store = self.store.take();
        let _ = guarded(|| {
            drop(store);
            Ok(())
        });
        self.retry_at = now.plus(self.wait);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        let mut text = error.to_string();
        if matches!(error, StoreError::Unreadable(_)) {
            match set_aside(&self.directory.files()) {
                Ok(kept) => text = format!("{text}; it was set aside as {kept}"),
                Err(error) => text = format!("{text}; it cannot be set aside: {error}"),
            }
            self.shared.refill(known);
            self.retry_at = now;
        }
        self.shared.with_stats(|stats| stats.last_error = Some(text));
    }
    fn reopen(&mut self, now: Mono) {
        let before = self.known();
        let opened = open_or_start(&self.directory.files()).and_then(|mut opened| {
            guarded(|| opened.store.survey())?;
            Ok(opened)
        });
        match opened {
            Ok(Opened { store, fresh, notice, .. }) => {
                self.store = Some(store);
                if fresh {
                    self.shared.refill(before);
                }
                if let Some(notice) = notice {
                    self.shared.with_stats(|stats| stats.last_error = Some(notice));
                }
            }
            Err(error) => self.fail(error, now),
        }
    }
    /// Returns the names of all registries that were ever recorded.
    fn known(&self) -> BTreeSet<RegistryName> {
        let mut names = self.shared.names();
        if let Some(store) = &self.store {
            names.extend(store.known().keys().cloned());
        }
        names
    }
    fn publish(&self) {
        let (bytes, live) =
            self.store.as_ref().map_or((0, 0), |store| (store.length().unwrap_or(0), store.live()));
        let open = self.store.is_some();
        if let Some(store) = &self.store {
            self.shared.know(store.known().keys());
        }
        self.shared.with_stats(|stats| (stats.bytes, stats.live_bytes, stats.open) = (bytes, live, open));
    }
}

/// Builds the removal of facts that the core does not have.
fn clearing(outcome: &Outcome) -> Pending {
    let mut changes = Pending::default();
    for (name, scope) in &outcome.refused {
        match scope {
            Some(scope) => changes.clear_scope(name.clone(), scope.clone()),
            None => changes.clear(name.clone()).whole = Some(true),
        }
    }
    changes
}
