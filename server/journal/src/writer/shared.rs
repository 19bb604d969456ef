//! State shared by core task and writer: recorded changes, missing slices, counters.
//!
//! The core task only adds to a map under a lock that the thread holds while it swaps the map; it never
//! waits for the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;
use tributary_model::{FactKey, Mono, Record, RegistryName};

use super::pending::Pending;
use crate::codec::Member;
use crate::store::Meta;

/// Facts of a registry that the writer lost and needs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Name of the registry.
    pub registry: RegistryName,
    /// Last fact of the previous slice; `None` for the first one.
    pub after: Option<FactKey>,
    /// Most records of the slice.
    pub most: usize,
}

/// State of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalStats {
    /// Whether the file is open; if not, `last_error` has the reason.
    pub open: bool,
    /// Commits of this process.
    pub commits: u64,
    /// Copies that compacted the file.
    pub compactions: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of keys and values in it.
    pub live_bytes: u64,
    /// Changed values that are not on disk yet, including those of a commit in progress.
    pub pending_keys: usize,
    /// Time of the last commit.
    pub last_commit: Option<Mono>,
    /// Last error; cleared by a commit.
    pub last_error: Option<String>,
    /// Excluded registries, with the reason.
    pub dropped: Vec<(RegistryName, Arc<str>)>,
    /// Registries with missing content in the journal, apart from the last changes of a working journal.
    pub incomplete: Vec<RegistryName>,
    /// Registries with changes that are not on disk yet.
    pub unwritten: Vec<RegistryName>,
}

impl JournalStats {
    /// Whether a restart now would restore every registry.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.open && self.dropped.is_empty() && self.incomplete.is_empty()
    }
}

/// Most records of a slice.
const SLICE: usize = 16_384;

#[derive(Debug, Default)]
struct Refill {
    after: Option<FactKey>,
    asked: bool,
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    /// Number of values and registries that the commit in progress writes.
    writing: (usize, BTreeSet<RegistryName>),
    refill: BTreeMap<RegistryName, Refill>,
    left_out: BTreeMap<RegistryName, Arc<str>>,
    names: BTreeSet<RegistryName>,
    members: BTreeMap<RegistryName, Member>,
    ready: bool,
    membership_synced: bool,
    remotes_known: Option<bool>,
    closing: bool,
    asked: u64,
    done: u64,
}

/// State shared by core task and writer.
#[derive(Debug)]
pub(crate) struct Shared {
    most_keys: usize,
    state: Mutex<State>,
    stats: Mutex<JournalStats>,
    /// Last error, for waiting readers; set with the counters.
    error: watch::Sender<Option<String>>,
    wake: Condvar,
    finished: Condvar,
}

impl Shared {
    /// Creates an empty state.
    pub(crate) fn new(most_keys: usize) -> Self {
        Self {
            most_keys,
            state: Mutex::default(),
            stats: Mutex::new(JournalStats { open: true, ..JournalStats::default() }),
            error: watch::Sender::default(),
            wake: Condvar::new(),
            finished: Condvar::new(),
        }
    }
    /// Stores the content of a journal, in case its file proves unreadable.
    pub(crate) fn remember(&self, meta: Meta, members: &[Member]) {
        let mut state = self.state.lock();
        (state.ready, state.membership_synced) = (meta.ready_once, meta.membership_synced);
        state.remotes_known = Some(meta.remotes_known);
        state.members = members.iter().map(|member| (member.id.name.clone(), member.clone())).collect();
    }
    /// Adds a member.
    pub(crate) fn member(&self, member: Member) {
        let mut state = self.state.lock();
        state.pending.members.insert(member.id.name.clone(), Some(Box::new(member.clone())));
        state.members.insert(member.id.name.clone(), member);
    }
    /// Records that the process was ready.
    pub(crate) fn ready(&self) {
        let mut state = self.state.lock();
        (state.ready, state.pending.ready) = (true, true);
    }
    /// Records that all registries were known.
    pub(crate) fn membership_synced(&self) {
        let mut state = self.state.lock();
        (state.membership_synced, state.pending.membership_synced) = (true, true);
    }
    /// Records whether the remote clusters that are declared outside the configuration are known.
    pub(crate) fn remotes_known(&self, known: bool) {
        let mut state = self.state.lock();
        if state.remotes_known.replace(known) != Some(known) {
            state.pending.remotes_known = Some(known);
        }
    }
    /// Adds records; one commit contains all of them.
    pub(crate) fn record(&self, records: Vec<Record>) {
        let mut state = self.state.lock();
        for record in records {
            state.add(record);
        }
        let dropped = state.overflow(self.most_keys);
        drop(state);
        drop(dropped);
    }
    /// Returns the next missing slice, if there is room for one.
    pub(crate) fn wanted(&self) -> Option<SnapshotRequest> {
        let mut state = self.state.lock();
        if state.pending.keys() + SLICE > self.most_keys.max(SLICE * 2) / 2 {
            return None;
        }
        let most = SLICE.min(self.most_keys / 2).max(1);
        let (registry, refill) = state.refill.iter_mut().next()?;
        refill.asked = true;
        Some(SnapshotRequest { registry: registry.clone(), after: refill.after.clone(), most })
    }
    /// Adds a requested slice. Ignores one that was requested before the registry started over.
    pub(crate) fn slice(&self, registry: &RegistryName, records: Vec<Record>, end: bool) {
        let mut state = self.state.lock();
        let Some(refill) = state.refill.get_mut(registry).filter(|refill| refill.asked) else { return };
        refill.asked = false;
        let last = records.iter().rev().find_map(|record| match record {
            Record::Put(_, scope, fact) => Some(FactKey { scope: scope.clone(), item: fact.item() }),
            _ => None,
        });
        refill.after = last.or_else(|| refill.after.take());
        for record in records {
            state.add(record);
        }
        let dropped = state.overflow(self.most_keys);
        if end && dropped.is_none() {
            state.refill.remove(registry);
            state.pending.of(registry.clone()).whole = Some(true);
        }
        drop(state);
        drop(dropped);
    }
    /// Takes all recorded changes, for a commit.
    pub(crate) fn take(&self) -> Pending {
        let mut state = self.state.lock();
        state.writing = (state.pending.values(), state.pending.names().cloned().collect());
        std::mem::take(&mut state.pending)
    }
    /// Records that the taken changes are on disk.
    pub(crate) fn written(&self) {
        self.state.lock().writing = Default::default();
    }
    /// Returns changes to the front of those recorded since.
    pub(crate) fn put_back(&self, changes: Pending) {
        let mut state = self.state.lock();
        let later = std::mem::take(&mut state.pending);
        state.pending = changes.then(later);
        state.writing = Default::default();
        let dropped = state.overflow(self.most_keys);
        drop(state);
        drop(dropped);
    }
    /// Inserts changes before all that were recorded so far.
    pub(crate) fn begin_with(&self, changes: Pending) {
        if !changes.is_empty() {
            self.put_back(changes);
        }
    }
    /// Requests everything again, because the file is new.
    pub(crate) fn refill(&self, names: BTreeSet<RegistryName>) {
        let mut state = self.state.lock();
        (state.pending.ready, state.pending.membership_synced) = (state.ready, state.membership_synced);
        state.pending.remotes_known = state.remotes_known;
        for (name, member) in state.members.clone() {
            state.pending.members.insert(name, Some(Box::new(member)));
        }
        for name in names {
            state.begin_again(name);
        }
    }
    /// Excludes a registry until it is removed.
    pub(crate) fn exclude(&self, name: RegistryName, why: &str) {
        let mut state = self.state.lock();
        state.refill.remove(&name);
        state.pending.clear(name.clone()).whole = Some(false);
        state.left_out.insert(name, why.into());
    }
    /// Returns the names of the registries with recorded changes.
    pub(crate) fn names(&self) -> BTreeSet<RegistryName> {
        let state = self.state.lock();
        state.names.iter().chain(state.pending.registries.keys()).cloned().collect()
    }
    /// Records the names of registries on disk.
    pub(crate) fn know<'n>(&self, names: impl Iterator<Item = &'n RegistryName>) {
        self.state.lock().names = names.cloned().collect();
    }
    /// Returns the counters.
    pub(crate) fn stats(&self) -> JournalStats {
        let mut stats = self.stats.lock().clone();
        let state = self.state.lock();
        stats.pending_keys = state.pending.values() + state.writing.0;
        stats.dropped = state.left_out.iter().map(|(name, why)| (name.clone(), why.clone())).collect();
        stats.unwritten = state.unwritten().into_iter().collect();
        stats.incomplete = state.incomplete(&stats).into_iter().collect();
        stats
    }
    /// Changes the counters, and wakes readers of the error if it changed.
    pub(crate) fn with_stats(&self, change: impl FnOnce(&mut JournalStats)) {
        let mut stats = self.stats.lock();
        change(&mut stats);
        self.error.send_if_modified(|known| {
            let is_changed = *known != stats.last_error;
            known.clone_from(&stats.last_error);
            is_changed
        });
    }
    /// Returns the last error and its changes.
    pub(crate) fn errors(&self) -> watch::Receiver<Option<String>> {
        self.error.subscribe()
    }
    /// Requests a pass now and waits until it ends.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        state.asked += 1;
        let pass = state.asked;
        self.wake.notify_one();
        while state.done < pass && !state.closing {
            self.finished.wait(&mut state);
        }
    }
    /// Requests the end of the thread after one more pass.
    pub(crate) fn close(&self) {
        self.state.lock().closing = true;
        self.wake.notify_one();
        self.finished.notify_all();
    }
    /// Waits until the interval ends, a pass is requested or the thread is to end. Returns the number of the requested
    /// pass, and whether it is the last one.
    pub(crate) fn wait(&self, interval: Duration) -> (u64, bool) {
        let mut state = self.state.lock();
        if state.asked == state.done && !state.closing {
            let _ = self.wake.wait_for(&mut state, interval);
        }
        (state.asked, state.closing)
    }
    /// Records that the pass with this number has ended.
    pub(crate) fn done(&self, pass: u64) {
        self.state.lock().done = pass;
        self.finished.notify_all();
    }
}

impl State {
    /// Returns the registries with changes that are not on disk yet.
    fn unwritten(&self) -> BTreeSet<RegistryName> {
        self.pending.names().chain(&self.writing.1).cloned().collect()
    }
    /// Returns the registries that miss more on disk than the next commit adds.
    fn incomplete(&self, stats: &JournalStats) -> BTreeSet<RegistryName> {
        let mut names: BTreeSet<RegistryName> = self.refill.keys().cloned().collect();
        if !stats.open || stats.last_error.is_some() {
            names.extend(stats.unwritten.iter().cloned());
        }
        if !stats.open {
            names.extend(self.names.iter().cloned());
        }
        names.retain(|name| !self.left_out.contains_key(name));
        names
    }
    fn add(&mut self, record: Record) {
        if let Record::Left(name) = &record {
            self.left_out.remove(name);
            self.refill.remove(name);
            self.members.remove(name);
        } else if self.left_out.contains_key(record.registry()) {
            return;
        }
        self.pending.add(record);
    }
    /// Drops everything if it exceeds the bound: the registries concerned start over.
    fn overflow(&mut self, most: usize) -> Option<Pending> {
        if self.pending.keys() <= most {
            return None;
        }
        let mut dropped = std::mem::take(&mut self.pending);
        self.pending.members = std::mem::take(&mut dropped.members);
        (self.pending.ready, self.pending.membership_synced) = (dropped.ready, dropped.membership_synced);
        self.pending.remotes_known = dropped.remotes_known;
        for (name, changes) in &mut dropped.registries {
            if changes.left {
                let again = self.pending.clear(name.clone());
                (again.left, again.forget) = (true, true);
            } else if !self.left_out.contains_key(name) {
                let again = self.pending.of(name.clone());
                (again.identity, again.forget) = (changes.identity.take(), changes.forget);
                self.begin_again(name.clone());
            }
        }
        Some(dropped)
    }
    fn begin_again(&mut self, name: RegistryName) {
        self.pending.clear(name.clone()).whole = Some(false);
        self.refill.insert(name, Refill::default());
    }
}
