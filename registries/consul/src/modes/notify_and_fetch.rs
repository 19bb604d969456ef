//! The doorbell: which services what it says has changed, and the sweep that finds what it does not say.
//!
//! It is deaf to instances without any check, and to a change of an address or of meta: those move the catalog's index
//! without a name. So when the index moved and nothing rang, every service is read once, at a quarter of the allowed
//! rate; and each is read once in a while anyway.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tributary_model::Mono;

use super::{LoopId, Machine, Mode, Turn};
use crate::config::Timing;
use crate::content::Marks;
use crate::watch::{Event, Look, Policy};

/// How long after the catalog moved the checks may still say why.
const SETTLE: Duration = Duration::from_millis(1_500);
/// How many reads of a sweep are begun in one step at most.
const AT_ONCE: usize = 64;

/// What has rung, and how far the sweep is.
#[derive(Debug, Clone, Default)]
pub(super) struct NotifyAndFetch {
    marks: Option<Marks>,
    /// Services by the hash of a node that they run on.
    on_node: HashMap<u64, BTreeSet<u32>>,
    dirty: BTreeSet<u32>,
    due: Option<Mono>,
    rang_at: Option<Mono>,
    moved_at: Option<Mono>,
    sweep_at: Option<Mono>,
    cursor: u32,
    /// How many services a hastened round still has to read; `None` until it has begun.
    quick: Option<usize>,
    hasten: bool,
}

/// Doorbells ring about once a second at most; what they say is the state of everything.
pub(super) const fn policy(base: Policy) -> Policy {
    let timing = Timing { burst: 4, refill: Duration::from_secs(1), ..base.timing };
    Policy { timing, ..base }
}

impl NotifyAndFetch {
    pub(super) fn ring(&mut self, now: Mono, slot: u32, timing: &Timing) {
        self.dirty.insert(slot);
        self.due.get_or_insert_with(|| now.plus(timing.coalesce));
        self.rang_at = Some(now);
    }
    pub(super) fn catalog_moved(&mut self, now: Mono) {
        self.moved_at.get_or_insert(now);
    }
    /// Every service is read once, soon.
    pub(super) fn sweep_soon(&mut self) {
        self.hasten = true;
    }
    pub(super) fn clear(&mut self) {
        let on_node = std::mem::take(&mut self.on_node);
        *self = Self { on_node, ..Self::default() };
    }
    pub(super) fn stands_on(&mut self, slot: u32, before: &[u64], now: &[u64]) {
        self.forget(slot, before);
        for node in now {
            self.on_node.entry(*node).or_default().insert(slot);
        }
    }
    pub(super) fn forget(&mut self, slot: u32, nodes: &[u64]) {
        for node in nodes {
            if let Some(slots) = self.on_node.get_mut(node) {
                slots.remove(&slot);
                if slots.is_empty() {
                    self.on_node.remove(node);
                }
            }
        }
    }
    /// Whether the catalog moved and nothing has said why.
    fn unexplained(&mut self, now: Mono) -> bool {
        let Some(moved) = self.moved_at.filter(|moved| moved.plus(SETTLE) <= now) else { return false };
        self.moved_at = None;
        self.rang_at.is_none_or(|rang| rang.plus(SETTLE) < moved)
    }
}

impl Machine {
    pub(super) fn drive_checks(&mut self, event: Event<Marks>, turn: &mut Turn) {
        if self.mode != Mode::Doorbell && !matches!(event, Event::Stopped) {
            return;
        }
        let actions = self.checks.step(turn.now, turn.chance, event);
        for (marks, _) in self.carry(LoopId::Checks, actions, turn) {
            self.said_checks(marks, turn.now);
        }
    }

    /// Whatever an answer is worth, what differs in it is worth a read.
    fn said_checks(&mut self, marks: Marks, now: Mono) {
        let Some(before) = self.doorbell.marks.replace(marks.clone()) else { return };
        let mut rung = BTreeSet::new();
        for mark in marks.differing(&before) {
            match mark.service {
                Some(service) => rung.extend(self.by_key.get(&service)),
                None => rung.extend(self.doorbell.on_node.get(&mark.node).into_iter().flatten()),
            }
        }
        for slot in rung {
            self.doorbell.ring(now, slot, &self.settings.timing);
        }
    }

    pub(super) fn tick_doorbell(&mut self, turn: &mut Turn) {
        if self.mode != Mode::Doorbell {
            self.doorbell.moved_at = None;
            return;
        }
        if self.doorbell.due.is_some_and(|due| due <= turn.now) {
            self.doorbell.due = None;
            for slot in std::mem::take(&mut self.doorbell.dirty) {
                self.drive_service(slot, Event::Look(Look::Changed), turn);
            }
        }
        if self.doorbell.unexplained(turn.now) {
            self.doorbell.hasten = true;
        }
        self.sweep(turn);
    }

    /// Reads the next services whose turn has come.
    fn sweep(&mut self, turn: &mut Turn) {
        if self.doorbell.quick.is_none() && std::mem::take(&mut self.doorbell.hasten) {
            self.doorbell.quick = Some(self.slots.len());
            self.doorbell.sweep_at = Some(turn.now);
        }
        let pace = self.pace();
        let mut at = *self.doorbell.sweep_at.get_or_insert_with(|| turn.now.plus(pace));
        for _ in 0..AT_ONCE {
            if at > turn.now {
                break;
            }
            self.sweep_one(turn);
            at = at.plus(pace);
            if self.doorbell.quick == Some(0) {
                self.doorbell.quick = None;
                at = turn.now.plus(self.pace());
            }
        }
        self.doorbell.sweep_at = Some(at);
    }

    fn sweep_one(&mut self, turn: &mut Turn) {
        let after = self.slots.range(self.doorbell.cursor..).next().or_else(|| self.slots.iter().next());
        let Some(slot) = after.map(|(slot, _)| *slot) else {
            self.doorbell.quick = self.doorbell.quick.map(|_| 0);
            return;
        };
        self.doorbell.cursor = slot.wrapping_add(1);
        self.doorbell.quick = self.doorbell.quick.map(|left| left.saturating_sub(1));
        self.drive_service(slot, Event::Look(Look::Again), turn);
    }

    /// How long from one read of the sweep to the next.
    fn pace(&self) -> Duration {
        let all = u32::try_from(self.slots.len().max(1)).unwrap_or(u32::MAX);
        let slow = self.settings.timing.sweep / all;
        let quick = Duration::from_secs(4) / self.settings.limits.rate.max(1);
        if self.doorbell.quick.is_some() { quick.min(slow) } else { slow }.max(Duration::from_millis(1))
    }

    pub(super) fn doorbell_due(&self) -> Option<Mono> {
        if self.mode != Mode::Doorbell {
            return None;
        }
        let moved = self.doorbell.moved_at.map(|moved| moved.plus(SETTLE));
        [self.doorbell.due, moved, self.doorbell.sweep_at].into_iter().flatten().min()
    }
}
