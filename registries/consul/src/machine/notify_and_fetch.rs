//! Notify and fetch, for services without a long poll: which of them changed according to the lists of names and
//! checks, and the full pass that finds other changes.
//!
//! The list of checks does not show instances without a check, nor changes of an address or of meta: those move only
//! the catalog's index, without a name. If the index moved and no name or check explains the move, each such service
//! is read once, at a quarter of the allowed rate; if the move only may hide an edit, within seconds at most at that
//! rate. A check that only changes its status does not move the index. Each is also read once per full pass. Without a
//! usable list of checks the full pass runs at that rate all the time.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tributary_model::Mono;

use super::catalog_moves::{CatalogMoves, Edit};
use super::{LoopId, Machine, StepContext};
use crate::answer::RequestFailure;
use crate::config::Timing;
use crate::content::{CheckStates, newest};
use crate::watch::{Event, Follow, Policy, ReadReason, State, Watch};

/// Maximum reads of a full pass that start in one step.
const AT_ONCE: usize = 64;

/// Pending notifications, and progress of the full pass.
#[derive(Debug, Clone, Default)]
pub(super) struct NotifyAndFetch {
    marks: Option<CheckStates>,
    /// Services by the hash of a node that they run on.
    on_node: HashMap<u64, BTreeSet<u32>>,
    dirty: BTreeSet<u32>,
    due: Option<Mono>,
    pub(super) moves: CatalogMoves,
    full_pass_at: Option<Mono>,
    cursor: u32,
    /// Full pass that runs ahead of time, and the services left in it.
    running: Option<(Edit, usize)>,
    wanted: Option<Edit>,
}

/// Returns the policy of the list of checks: about one read per second, because each answer lists every check.
pub(super) const fn policy(base: Policy) -> Policy {
    let timing = Timing { burst: 4, refill: base.timing.checks_refill, ..base.timing };
    Policy { timing, ..base }
}

impl NotifyAndFetch {
    fn mark_changed(&mut self, now: Mono, id: u32, timing: &Timing) {
        self.dirty.insert(id);
        self.due.get_or_insert_with(|| now.plus(timing.coalesce));
    }
    /// Requests a fast full pass.
    pub(super) fn full_pass_soon(&mut self) {
        self.wanted = Some(Edit::Certain);
    }
    pub(super) fn clear(&mut self) {
        let on_node = std::mem::take(&mut self.on_node);
        *self = Self { on_node, ..Self::default() };
    }
    pub(super) fn set_nodes(&mut self, id: u32, before: &[u64], now: &[u64]) {
        self.forget(id, before);
        for node in now {
            self.on_node.entry(*node).or_default().insert(id);
        }
    }
    pub(super) fn forget(&mut self, id: u32, nodes: &[u64]) {
        for node in nodes {
            if let Some(ids) = self.on_node.get_mut(node) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.on_node.remove(node);
                }
            }
        }
    }
}

impl Machine {
    /// Follows the list of checks while a service has no long poll. A peer has no such list.
    pub(super) fn follow_checks(&mut self, cx: &mut StepContext) {
        let needed = self.budget.notified() > 0 && !self.settings.peer;
        if needed && self.checks.is_none() {
            self.checks = Some(Watch::new(policy(*self.policy), Follow::Poll));
            self.drive_checks(Event::Started, cx);
        } else if !needed && self.checks.is_some() {
            self.drive_checks(Event::Stopped, cx);
            self.checks = None;
            self.notify.clear();
        }
    }

    pub(super) fn drive_checks(&mut self, event: Event<CheckStates>, cx: &mut StepContext) {
        let Some(checks) = &mut self.checks else { return };
        let actions = checks.step(cx.now, cx.random, event);
        for (marks, _) in self.perform(LoopId::Checks, actions, cx) {
            self.compare_checks(marks, cx.now);
        }
    }

    /// Records a change of a service, unless its own long poll reports it.
    pub(super) fn mark_changed(&mut self, id: u32, now: Mono) {
        if self.budget.is_notified(id) {
            self.notify.mark_changed(now, id, &self.settings.timing);
        }
    }

    /// Compares the list of checks with the previous one and marks the services that differ, however far the answer
    /// is trusted. Changes between a service's last read and the first list show in neither, so a full pass follows.
    fn compare_checks(&mut self, marks: CheckStates, now: Mono) {
        let Some(before) = self.notify.marks.replace(marks.clone()) else {
            self.notify.full_pass_soon();
            return;
        };
        let mut changed = BTreeSet::new();
        for mark in marks.differing(&before) {
            match mark.service {
                Some(service) => changed.extend(self.by_key.get(&service)),
                None => changed.extend(self.notify.on_node.get(&mark.node).into_iter().flatten()),
            }
        }
        let statuses = newest(marks.changed_since(&before));
        self.notify.moves.checks(now, &marks.created, &statuses, marks.removed_since(&before));
        for id in changed {
            self.mark_changed(id, now);
        }
    }

    pub(super) fn tick_notify(&mut self, cx: &mut StepContext) {
        if self.budget.notified() == 0 {
            self.notify.moves.forget();
            return;
        }
        if self.notify.due.is_some_and(|due| due <= cx.now) {
            self.notify.due = None;
            for id in std::mem::take(&mut self.notify.dirty) {
                self.drive_service(id, Event::ReadNow(ReadReason::Changed), cx);
            }
        }
        let edit = self.notify.moves.take_edit(cx.now, self.settings.timing.explain);
        self.notify.wanted = self.notify.wanted.max(edit);
        self.full_pass(cx);
    }

    /// Reads the next services of the full pass that are due.
    fn full_pass(&mut self, cx: &mut StepContext) {
        if self.notify.wanted > self.notify.running.map(|(edit, _)| edit) {
            let wanted = self.notify.wanted.take();
            self.notify.running = wanted.map(|edit| (edit, self.budget.notified()));
            self.notify.full_pass_at = Some(cx.now);
        }
        let pace = self.pace();
        let next = cx.now.plus(pace);
        let mut at = self.notify.full_pass_at.map_or(next, |at| at.min(next));
        for _ in 0..AT_ONCE {
            if at > cx.now {
                break;
            }
            self.full_pass_one(cx);
            at = at.plus(pace);
            if self.notify.running.is_some_and(|(_, left)| left == 0) {
                self.notify.running = None;
                at = cx.now.plus(self.pace());
            }
        }
        self.notify.full_pass_at = Some(at);
    }

    fn full_pass_one(&mut self, cx: &mut StepContext) {
        let Some(id) = self.budget.next_notified(self.notify.cursor) else {
            self.notify.running = self.notify.running.map(|(edit, _)| (edit, 0));
            return;
        };
        self.notify.cursor = id.wrapping_add(1);
        self.notify.running = self.notify.running.map(|(edit, left)| (edit, left.saturating_sub(1)));
        self.drive_service(id, Event::ReadNow(ReadReason::Recheck), cx);
    }

    /// Returns the time between two reads of the full pass.
    fn pace(&self) -> Duration {
        let all = u32::try_from(self.budget.notified().max(1)).unwrap_or(u32::MAX);
        let slow = self.settings.timing.full_pass / all;
        let fast = Duration::from_secs(4) / self.settings.limits.rate.max(1);
        let in_turn = fast.max(self.settings.timing.in_turn / all);
        let pace = match self.notify.running {
            _ if self.reads_in_turn().is_some() => in_turn,
            Some((Edit::Certain, _)) => fast.min(slow),
            Some((Edit::Possible, _)) => in_turn.min(slow),
            None => slow,
        };
        pace.max(Duration::from_millis(1))
    }

    /// Returns why services without a long poll are read in turn: no list of checks shows what changed.
    pub(super) fn reads_in_turn(&self) -> Option<&'static str> {
        if self.budget.notified() == 0 {
            return None;
        }
        if self.settings.peer {
            return Some("checks of a peer cannot be listed; services without a long poll are read in turn");
        }
        match self.checks.as_ref().map(Watch::state) {
            Some(State::Failing(RequestFailure::TooLarge)) => {
                Some("the list of checks exceeds a limit; services without a long poll are read in turn")
            }
            Some(State::Failing(failure)) if !failure.is_temporary() => {
                Some("the list of checks cannot be read; services without a long poll are read in turn")
            }
            _ => None,
        }
    }

    pub(super) fn notify_due(&self) -> Option<Mono> {
        if self.budget.notified() == 0 {
            return None;
        }
        let moved = self.notify.moves.due(self.settings.timing.explain);
        [self.notify.due, moved, self.notify.full_pass_at].into_iter().flatten().min()
    }
}
