//! When to look for what is due and when to send it, without I/O.
//!
//! Asked by [`super::LeaderWorkQueue`] until it says to wait, and again when that time has come or something has happened.
//! In this order: what was refused is tried again, what was added is sent, what is due is looked for.

use std::collections::VecDeque;

use tributary_model::Mono;
use tributary_registry_api::{Backoff, BackoffPolicy, SplitMix};

use super::QueuePolicy;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueStep<W> {
    /// Look for what is due.
    Plan,
    /// What was refused may be tried again.
    Again,
    /// Send this.
    Send(W),
    /// Nothing before this time; nothing at all before something happens where it is none.
    Wait(Option<Mono>),
}

/// Writes that are due.
#[derive(Debug)]
pub(super) struct Queue<W> {
    pace: QueuePolicy,
    /// Whether writes may be made.
    open: bool,
    waiting: VecDeque<W>,
    /// How many are under way.
    sent: usize,
    /// When to look for what is due; nothing where nothing has changed.
    plan: Option<Mono>,
    /// When to try again what was refused.
    again: Option<Mono>,
    backoff: Backoff,
    chance: SplitMix,
}

impl<W> Queue<W> {
    pub(super) fn new(pace: QueuePolicy, chance: SplitMix) -> Self {
        Self {
            pace,
            open: false,
            waiting: VecDeque::new(),
            sent: 0,
            plan: None,
            again: None,
            backoff: Backoff::new(BackoffPolicy::default()),
            chance,
        }
    }
    /// Whether writes may be made from now on. True where they might before and may not now: then all is forgotten.
    pub(super) fn open(&mut self, open: bool, now: Mono) -> bool {
        let was = std::mem::replace(&mut self.open, open);
        if open && !was {
            self.plan_soon(now);
        }
        let resigned = was && !open;
        if resigned {
            self.waiting.clear();
            (self.sent, self.again) = (0, None);
        }
        resigned
    }
    /// Something may have become due.
    pub(super) fn plan_soon(&mut self, now: Mono) {
        self.plan.get_or_insert_with(|| now.plus(self.pace.gather));
    }
    /// These are due.
    pub(super) fn add(&mut self, writes: impl IntoIterator<Item = W>) {
        self.waiting.extend(writes);
    }
    /// One that was sent was made, or refused.
    pub(super) fn answered(&mut self, made: bool, now: Mono) {
        self.sent = self.sent.saturating_sub(1);
        if made {
            self.backoff.reset();
        } else if self.again.is_none() {
            self.again = Some(now.plus(self.backoff.next(&mut self.chance)));
        }
    }

    /// What to do now; whatever it says counts as done.
    pub(super) fn next(&mut self, now: Mono) -> QueueStep<W> {
        if !self.open {
            return QueueStep::Wait(None);
        }
        if self.again.take_if(|at| *at <= now).is_some() {
            self.plan = Some(now);
            return QueueStep::Again;
        }
        if self.pace.halts && self.again.is_some() {
            return QueueStep::Wait(self.again);
        }
        if self.sent < self.pace.at_once
            && let Some(write) = self.waiting.pop_front()
        {
            self.sent += 1;
            return QueueStep::Send(write);
        }
        let plan = self.plan.filter(|_| self.waiting.len() + self.sent <= self.pace.left);
        if plan.is_some_and(|at| at <= now) {
            self.plan = None;
            return QueueStep::Plan;
        }
        QueueStep::Wait(plan.into_iter().chain(self.again).min())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PACE: QueuePolicy =
        QueuePolicy { gather: Duration::from_millis(50), at_once: 2, left: 1, halts: false };

    fn mk_open(pace: QueuePolicy) -> Queue<u8> {
        let mut queue = Queue::new(pace, SplitMix::seeded(1));
        queue.open(true, Mono(0));
        assert_eq!(queue.next(Mono(50)), QueueStep::Plan);
        queue
    }

    /// What it says to do at this time, until it says to wait.
    fn steps(queue: &mut Queue<u8>, now: u64) -> (Vec<QueueStep<u8>>, Option<Mono>) {
        let mut steps = Vec::new();
        loop {
            match queue.next(Mono(now)) {
                QueueStep::Wait(until) => return (steps, until),
                step => steps.push(step),
            }
        }
    }

    #[test]
    fn nothing_is_done_before_it_is_open_and_what_is_due_is_looked_for_then() {
        let mut queue = Queue::new(PACE, SplitMix::seeded(1));
        queue.add([1]);
        queue.plan_soon(Mono(0));
        assert_eq!(steps(&mut queue, 1_000), (vec![], None));
        assert!(!queue.open(true, Mono(1_000)), "it was not open");
        assert_eq!(steps(&mut queue, 1_000), (vec![QueueStep::Send(1), QueueStep::Plan], None));
    }

    #[test]
    fn changes_are_gathered_and_looked_at_once() {
        let mut queue = mk_open(PACE);
        queue.plan_soon(Mono(100));
        queue.plan_soon(Mono(140));
        assert_eq!(steps(&mut queue, 149), (vec![], Some(Mono(150))), "later changes do not put it off");
        assert_eq!(steps(&mut queue, 150), (vec![QueueStep::Plan], None));
    }

    #[test]
    fn a_few_are_sent_at_once_and_more_is_looked_for_when_few_are_left() {
        let mut queue = mk_open(PACE);
        queue.add([1, 2, 3]);
        queue.plan_soon(Mono(50));
        assert_eq!(steps(&mut queue, 100), (vec![QueueStep::Send(1), QueueStep::Send(2)], None));
        queue.answered(true, Mono(100));
        assert_eq!(steps(&mut queue, 100), (vec![QueueStep::Send(3)], None));
        queue.answered(true, Mono(100));
        assert_eq!(steps(&mut queue, 100), (vec![QueueStep::Plan], None), "one is under way");
    }

    #[test]
    fn what_was_refused_is_tried_again_after_pauses_that_grow_until_something_is_made() {
        let mut queue = mk_open(PACE);
        let mut pause = |made: bool| {
            queue.add([1]);
            assert_eq!(steps(&mut queue, 100).0, [QueueStep::Send(1)]);
            if made {
                queue.answered(true, Mono(100));
                queue.add([1]);
                assert_eq!(steps(&mut queue, 100).0, [QueueStep::Send(1)]);
            }
            queue.answered(false, Mono(100));
            let (nothing, until) = steps(&mut queue, 100);
            let until = until.unwrap();
            assert_eq!((nothing, until > Mono(100)), (vec![], true));
            assert_eq!(steps(&mut queue, until.0), (vec![QueueStep::Again, QueueStep::Plan], None));
            until.0 - 100
        };
        let first: Vec<u64> = (0..4).map(|_| pause(false)).collect();
        assert!(first[0] <= 1_000 && first[3] >= 4_000, "{first:?}");
        assert!(pause(true) <= 1_000);
    }

    #[test]
    fn the_refusals_of_one_pause_count_as_one() {
        let mut queue = mk_open(PACE);
        queue.add([1, 2]);
        assert_eq!(steps(&mut queue, 100).0.len(), 2);
        queue.answered(false, Mono(100));
        let until = steps(&mut queue, 100).1;
        queue.answered(false, Mono(200));
        assert_eq!(steps(&mut queue, 200), (vec![], until));
    }

    #[test]
    fn a_refusal_holds_up_the_others_where_that_is_asked_for() {
        for halts in [false, true] {
            let mut queue = mk_open(QueuePolicy { halts, at_once: 1, ..PACE });
            queue.add([1, 2]);
            assert_eq!(steps(&mut queue, 100).0, [QueueStep::Send(1)]);
            queue.answered(false, Mono(100));
            queue.plan_soon(Mono(100));
            let (others, until) = steps(&mut queue, 150);
            assert_eq!(others.is_empty(), halts, "{others:?}");
            if halts {
                let rest = [QueueStep::Again, QueueStep::Send(2), QueueStep::Plan];
                assert_eq!(steps(&mut queue, until.unwrap().0).0, rest);
            }
        }
    }

    #[test]
    fn who_resigns_forgets_all_and_begins_anew() {
        let mut queue = mk_open(PACE);
        queue.add([1, 2, 3]);
        assert_eq!(steps(&mut queue, 100).0.len(), 2);
        queue.answered(false, Mono(100));
        assert!(queue.open(false, Mono(100)));
        assert!(!queue.open(false, Mono(100)), "once");
        assert_eq!(steps(&mut queue, 9_000), (vec![], None));
        queue.open(true, Mono(9_000));
        assert_eq!(steps(&mut queue, 9_050), (vec![QueueStep::Plan], None));
        queue.add([4, 5]);
        assert_eq!(steps(&mut queue, 9_050).0.len(), 2, "nothing is under way");
    }
}
