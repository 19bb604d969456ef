//! What the owner and the writer's thread share: recorded changes, slices that are missing, counters.
//!
//! The owner only ever adds to a map under a lock that the thread holds for as long as it takes to
//! swap the map; it never waits for the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tributary_model::{FactKey, Mono, Record, RegistryName};

use super::pending::Pending;
use crate::codec::Member;
use crate::store::Meta;

/// What the writer needs of a registry that it lost track of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The registry.
    pub registry: RegistryName,
    /// The last fact of the previous slice; the first slice has none.
    pub after: Option<FactKey>,
    /// How many records the slice may hold.
    pub most: usize,
}

/// How the journal is doing.
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
    /// Values that changed and are not on disk yet, those of a commit that is under way included.
    pub pending_keys: usize,
    /// When the last commit was.
    pub last_commit: Option<Mono>,
    /// What went wrong last; cleared by a commit.
    pub last_error: Option<String>,
    /// Registries that are not kept, with the reason.
    pub dropped: Vec<(RegistryName, Arc<str>)>,
    /// Registries of which not everything is in the journal, other than the last changes of a journal that works.
    pub incomplete: Vec<RegistryName>,
    /// Registries with changes that are not on disk yet.
    pub unwritten: Vec<RegistryName>,
}

impl JournalStats {
    /// Whether a restart now would find every registry.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.open && self.dropped.is_empty() && self.incomplete.is_empty()
    }
}

/// How many records a slice may hold.
const SLICE: usize = 16_384;

#[derive(Debug, Default)]
struct Refill {
    after: Option<FactKey>,
    asked: bool,
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    /// How many values the commit that is under way writes, and of which registries.
    writing: (usize, BTreeSet<RegistryName>),
    refill: BTreeMap<RegistryName, Refill>,
    left_out: BTreeMap<RegistryName, Arc<str>>,
    names: BTreeSet<RegistryName>,
    members: BTreeMap<RegistryName, Member>,
    ready: bool,
    membership_synced: bool,
    closing: bool,
    asked: u64,
    done: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    most_keys: usize,
    state: Mutex<State>,
    stats: Mutex<JournalStats>,
    wake: Condvar,
    finished: Condvar,
}

impl Shared {
    /// Nothing is recorded yet.
    pub(crate) fn new(most_keys: usize) -> Self {
        Self {
            most_keys,
            state: Mutex::default(),
            stats: Mutex::new(JournalStats { open: true, ..JournalStats::default() }),
            wake: Condvar::new(),
            finished: Condvar::new(),
        }
    }
    /// Takes note of what a journal holds, in case that its file turns out to be unreadable.
    pub(crate) fn remember(&self, meta: Meta, members: &[Member]) {
        let mut state = self.state.lock();
        (state.ready, state.membership_synced) = (meta.ready_once, meta.membership_synced);
        state.members = members.iter().map(|member| (member.id.name.clone(), member.clone())).collect();
    }
    /// Adds a member.
    pub(crate) fn member(&self, member: Member) {
        let mut state = self.state.lock();
        state.pending.members.insert(member.id.name.clone(), Some(Box::new(member.clone())));
        state.members.insert(member.id.name.clone(), member);
    }
    /// The process was ready.
    pub(crate) fn ready(&self) {
        let mut state = self.state.lock();
        (state.ready, state.pending.ready) = (true, true);
    }
    /// The membership was complete.
    pub(crate) fn membership_synced(&self) {
        let mut state = self.state.lock();
        (state.membership_synced, state.pending.membership_synced) = (true, true);
    }
    /// Adds records; all of them are in one commit.
    pub(crate) fn record(&self, records: Vec<Record>) {
        let mut state = self.state.lock();
        for record in records {
            state.add(record);
        }
        let dropped = state.overflow(self.most_keys);
        drop(state);
        drop(dropped);
    }
    /// The next slice that is missing, where there is room for one.
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
    /// Adds a slice that was asked for. One that was asked for before the registry had to begin again is not used.
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
    /// Takes everything that was recorded, to be committed.
    pub(crate) fn take(&self) -> Pending {
        let mut state = self.state.lock();
        state.writing = (state.pending.values(), state.pending.names().cloned().collect());
        std::mem::take(&mut state.pending)
    }
    /// What was taken is on disk.
    pub(crate) fn written(&self) {
        self.state.lock().writing = Default::default();
    }
    /// Puts changes back before those that were recorded since.
    pub(crate) fn put_back(&self, changes: Pending) {
        let mut state = self.state.lock();
        let later = std::mem::take(&mut state.pending);
        state.pending = changes.then(later);
        state.writing = Default::default();
        let dropped = state.overflow(self.most_keys);
        drop(state);
        drop(dropped);
    }
    /// Puts changes before everything that was recorded so far.
    pub(crate) fn begin_with(&self, changes: Pending) {
        if !changes.is_empty() {
            self.put_back(changes);
        }
    }
    /// The file is new: everything has to be recorded from the start.
    pub(crate) fn refill(&self, names: BTreeSet<RegistryName>) {
        let mut state = self.state.lock();
        (state.pending.ready, state.pending.membership_synced) = (state.ready, state.membership_synced);
        for (name, member) in state.members.clone() {
            state.pending.members.insert(name, Some(Box::new(member)));
        }
        for name in names {
            state.begin_again(name);
        }
    }
    /// Keeps a registry no longer, until it leaves.
    pub(crate) fn leave_out(&self, name: RegistryName, why: &str) {
        let mut state = self.state.lock();
        state.refill.remove(&name);
        state.pending.clear(name.clone()).whole = Some(false);
        state.left_out.insert(name, why.into());
    }
    /// Names of the registries of which something was recorded.
    pub(crate) fn names(&self) -> BTreeSet<RegistryName> {
        let state = self.state.lock();
        state.names.iter().chain(state.pending.registries.keys()).cloned().collect()
    }
    /// Remembers the names of what is on disk.
    pub(crate) fn know<'n>(&self, names: impl Iterator<Item = &'n RegistryName>) {
        self.state.lock().names = names.cloned().collect();
    }
    /// Counters.
    pub(crate) fn stats(&self) -> JournalStats {
        let mut stats = self.stats.lock().clone();
        let state = self.state.lock();
        stats.pending_keys = state.pending.values() + state.writing.0;
        stats.dropped = state.left_out.iter().map(|(name, why)| (name.clone(), why.clone())).collect();
        stats.unwritten = state.unwritten().into_iter().collect();
        stats.incomplete = state.incomplete(&stats).into_iter().collect();
        stats
    }
    /// Changes the counters.
    pub(crate) fn with_stats(&self, change: impl FnOnce(&mut JournalStats)) {
        change(&mut self.stats.lock());
    }
    /// Asks for a turn now and waits until it is over.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        state.asked += 1;
        let turn = state.asked;
        self.wake.notify_one();
        while state.done < turn && !state.closing {
            self.finished.wait(&mut state);
        }
    }
    /// Asks the thread to end after one more turn.
    pub(crate) fn close(&self) {
        self.state.lock().closing = true;
        self.wake.notify_one();
        self.finished.notify_all();
    }
    /// Waits until the interval is over, a turn is asked for or the thread is to end. Gives the number of the turn
    /// that was asked for, and whether it is the last one.
    pub(crate) fn wait(&self, interval: Duration) -> (u64, bool) {
        let mut state = self.state.lock();
        if state.asked == state.done && !state.closing {
            let _ = self.wake.wait_for(&mut state, interval);
        }
        (state.asked, state.closing)
    }
    /// The turn with that number is over.
    pub(crate) fn done(&self, turn: u64) {
        self.state.lock().done = turn;
        self.finished.notify_all();
    }
}

impl State {
    /// Registries with changes that are not on disk yet.
    fn unwritten(&self) -> BTreeSet<RegistryName> {
        self.pending.names().chain(&self.writing.1).cloned().collect()
    }
    /// Registries of which more is missing on disk than what the next commit brings.
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
    /// Drops everything where it exceeds the bound: the registries concerned begin again.
    fn overflow(&mut self, most: usize) -> Option<Pending> {
        if self.pending.keys() <= most {
            return None;
        }
        let mut dropped = std::mem::take(&mut self.pending);
        self.pending.members = std::mem::take(&mut dropped.members);
        (self.pending.ready, self.pending.membership_synced) = (dropped.ready, dropped.membership_synced);
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
