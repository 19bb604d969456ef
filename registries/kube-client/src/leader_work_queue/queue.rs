//! Scheduling of plans and writes, without I/O.
//!
//! [`super::LeaderWorkQueue`] calls it until it returns a wait, and again when the wait ends or something happens.
//! Priority: retries of refused writes, then queued writes, then plans.

use std::collections::VecDeque;

use tributary_model::Mono;
use tributary_registry_api::{Backoff, BackoffPolicy, SplitMix};

use super::QueuePolicy;

/// Next step of the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueStep<W> {
    /// Compute what is due.
    Plan,
    /// Refused writes may be retried.
    Again,
    /// Send this write.
    Send(W),
    /// Wait until this time; `None` waits for a change.
    Wait(Option<Mono>),
}

/// Due writes and their schedule.
#[derive(Debug)]
pub(super) struct Queue<W> {
    pace: QueuePolicy,
    /// Whether writes are allowed.
    open: bool,
    waiting: VecDeque<W>,
    /// Number of writes in flight.
    sent: usize,
    /// Time of the next plan; `None` if nothing changed.
    plan: Option<Mono>,
    /// Time of the next retry.
    again: Option<Mono>,
    backoff: Backoff,
    random: SplitMix,
}

impl<W> Queue<W> {
    pub(super) fn new(pace: QueuePolicy, random: SplitMix) -> Self {
        Self {
            pace,
            open: false,
            waiting: VecDeque::new(),
            sent: 0,
            plan: None,
            again: None,
            backoff: Backoff::new(BackoffPolicy::default()),
            random,
        }
    }
    /// Allows or forbids writes. Returns true when this ends a leadership, which clears the queue.
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
    /// Requests a plan after the gather delay.
    pub(super) fn plan_soon(&mut self, now: Mono) {
        self.plan.get_or_insert_with(|| now.plus(self.pace.gather));
    }
    /// Adds due writes.
    pub(super) fn add(&mut self, writes: impl IntoIterator<Item = W>) {
        self.waiting.extend(writes);
    }
    /// Records the end of a write in flight.
    pub(super) fn answered(&mut self, made: bool, now: Mono) {
        self.sent = self.sent.saturating_sub(1);
        if made {
            self.backoff.reset();
        } else if self.again.is_none() {
            self.again = Some(now.plus(self.backoff.next(&mut self.random)));
        }
    }

    /// Returns the next step, which counts as done.
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

    /// Collects the steps at this time, up to the wait.
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
    fn closed_queue_does_nothing_and_plans_when_it_opens() {
        let mut queue = Queue::new(PACE, SplitMix::seeded(1));
        queue.add([1]);
        queue.plan_soon(Mono(0));
        assert_eq!(steps(&mut queue, 1_000), (vec![], None));
        assert!(!queue.open(true, Mono(1_000)), "it was not open");
        assert_eq!(steps(&mut queue, 1_000), (vec![QueueStep::Send(1), QueueStep::Plan], None));
    }

    #[test]
    fn changes_are_gathered_into_one_plan() {
        let mut queue = mk_open(PACE);
        queue.plan_soon(Mono(100));
        queue.plan_soon(Mono(140));
        assert_eq!(steps(&mut queue, 149), (vec![], Some(Mono(150))), "later changes do not delay it");
        assert_eq!(steps(&mut queue, 150), (vec![QueueStep::Plan], None));
    }

    #[test]
    fn writes_are_limited_and_few_left_lead_to_a_plan() {
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
    fn refused_writes_retry_after_pauses_that_a_success_resets() {
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
    fn refusals_during_one_pause_count_once() {
        let mut queue = mk_open(PACE);
        queue.add([1, 2]);
        assert_eq!(steps(&mut queue, 100).0.len(), 2);
        queue.answered(false, Mono(100));
        let until = steps(&mut queue, 100).1;
        queue.answered(false, Mono(200));
        assert_eq!(steps(&mut queue, 200), (vec![], until));
    }

    #[test]
    fn refusal_stops_other_writes_where_configured() {
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
    fn resigning_clears_the_write_queue() {
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
        assert_eq!(steps(&mut queue, 9_050).0.len(), 2, "no write is in flight");
    }
}
