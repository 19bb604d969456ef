//! Admission of a scope's reads: after their pauses, with limited concurrency and rate, and only the list of names
//! while the scope cannot be reached. It also limits the number of long polls.
//!
//! The machine owns it. Every read of a loop passes through it and gets a number when it starts; an answer to an
//! aborted number is dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tributary_model::Mono;

use super::poll_limit::PollLimit;
use super::{LoopId, Settings};
use crate::token_bucket::TokenBucket;
use crate::watch::{Mode, Read, Ticket};

/// Read that has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) id: LoopId,
    pub(super) ticket: Ticket,
    /// Whether it counts against the concurrency limit; long polls do not.
    short: bool,
}

/// Request limiter of one scope.
#[derive(Debug, Clone)]
pub(super) struct RequestLimiter {
    timers: BTreeSet<(Mono, LoopId, Ticket)>,
    wanted: BTreeMap<LoopId, Read>,
    urgent: VecDeque<(LoopId, Ticket)>,
    queue: VecDeque<(LoopId, Ticket)>,
    begun: BTreeMap<u64, Begun>,
    by_loop: BTreeMap<LoopId, u64>,
    short: usize,
    concurrency: usize,
    concurrency_now: usize,
    well: usize,
    rate: u32,
    rate_now: u32,
    bucket: TokenBucket,
    polls: PollLimit,
    /// Longest wait of a read that is not a long poll.
    short_wait: Duration,
    last: u64,
}

impl RequestLimiter {
    pub(super) fn new(settings: &Settings) -> Self {
        let limits = &settings.limits;
        let rate = limits.rate.max(1);
        Self {
            timers: BTreeSet::new(),
            wanted: BTreeMap::new(),
            urgent: VecDeque::new(),
            queue: VecDeque::new(),
            begun: BTreeMap::new(),
            by_loop: BTreeMap::new(),
            short: 0,
            concurrency: limits.concurrency.max(1),
            concurrency_now: limits.concurrency.max(1),
            well: 0,
            rate,
            rate_now: rate,
            bucket: TokenBucket::new(rate, Duration::from_secs(1) / rate),
            polls: PollLimit::new(settings.polls, settings.timing.pause_first * 5),
            short_wait: settings.timing.catch_up,
            last: 0,
        }
    }

    /// Queues a read; it replaces the loop's previous one.
    pub(super) fn want(&mut self, now: Mono, id: LoopId, read: Read) {
        self.wanted.insert(id, read);
        if read.after.is_zero() {
            self.enqueue(id, read);
        } else {
            self.timers.insert((now.plus(read.after), id, read.ticket));
        }
    }

    /// Withdraws a read; returns its number if it had started.
    pub(super) fn cancel(&mut self, id: LoopId, ticket: Ticket) -> Option<u64> {
        if self.wanted.get(&id).is_some_and(|read| read.ticket == ticket) {
            self.wanted.remove(&id);
        }
        let number = *self.by_loop.get(&id)?;
        (self.begun.get(&number)?.ticket == ticket).then(|| self.end(number)).flatten()?;
        Some(number)
    }

    /// Starts a request that is not a loop's read, such as a token check.
    pub(super) fn begin(&mut self, id: LoopId, ticket: Ticket, short: bool) -> u64 {
        self.last += 1;
        self.begun.insert(self.last, Begun { id, ticket, short });
        self.by_loop.insert(id, self.last);
        self.short += usize::from(short);
        self.last
    }

    /// Ends a request; `None` if it was aborted.
    pub(super) fn done(&mut self, number: u64) -> Option<Begun> {
        self.end(number)
    }

    fn end(&mut self, number: u64) -> Option<Begun> {
        let begun = self.begun.remove(&number)?;
        self.by_loop.remove(&begun.id);
        self.short -= usize::from(begun.short);
        Some(begun)
    }

    /// Halves concurrency and rate, and the number of long polls if overloads repeat.
    pub(super) fn ease(&mut self, now: Mono, polls_held: usize) {
        (self.concurrency_now, self.well) = ((self.concurrency_now / 2).max(1), 0);
        self.set_rate(self.rate_now / 2);
        self.polls.overloaded(now, polls_held);
    }

    /// Returns the limit of long polls.
    pub(super) const fn polls(&self) -> &PollLimit {
        &self.polls
    }

    /// Changes the maximum number of long polls.
    pub(super) fn share_polls(&mut self, max: usize) {
        self.polls.set_max(max);
    }

    fn set_rate(&mut self, rate: u32) {
        self.rate_now = rate.clamp(1, self.rate);
        self.bucket.set(self.rate_now, Duration::from_secs(1) / self.rate_now);
    }

    /// Records a good answer: after as many as may run at once, one more may, at a slightly higher rate.
    pub(super) fn went_well(&mut self) {
        self.well += 1;
        let eased = self.concurrency_now < self.concurrency || self.rate_now < self.rate;
        if eased && self.well >= self.concurrency_now {
            (self.concurrency_now, self.well) = ((self.concurrency_now + 1).min(self.concurrency), 0);
            self.set_rate(self.rate_now + (self.rate / 16).max(1));
        }
    }

    /// Returns the current limit of requests per second.
    pub(super) const fn current_rate(&self) -> u32 {
        self.rate_now
    }

    /// Returns the number of reads under way.
    pub(super) fn under_way(&self) -> usize {
        self.begun.len()
    }

    /// Raises the limit of long polls if that is due.
    pub(super) fn raise_polls(&mut self, now: Mono) {
        self.polls.tick(now);
    }

    /// Queues the reads whose pause has ended.
    pub(super) fn tick(&mut self, now: Mono) {
        while let Some((at, id, ticket)) = self.timers.first().copied() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(read) = self.wanted.get(&id).filter(|read| read.ticket == ticket) {
                let read = *read;
                self.enqueue(id, read);
            }
        }
    }

    fn enqueue(&mut self, id: LoopId, read: Read) {
        let place = match (id, read.mode) {
            (LoopId::Names | LoopId::Checks, _) | (_, Mode::Leader) => &mut self.urgent,
            _ => &mut self.queue,
        };
        place.push_back((id, read.ticket));
    }

    /// Starts the next read and returns it with its number. While the scope is not `open`, only the list of names is
    /// read, to find out whether the scope can be reached.
    pub(super) fn next(&mut self, now: Mono, open: bool) -> Option<(u64, LoopId, Read)> {
        let (id, read) = self.admit(now, open)?;
        self.wanted.remove(&id);
        if id != LoopId::Names {
            self.bucket.take(now);
        }
        let number = self.begin(id, read.ticket, self.takes_place(id, &read));
        Some((number, id, read))
    }

    fn admit(&mut self, now: Mono, open: bool) -> Option<(LoopId, Read)> {
        self.forget_cancelled();
        if let Some(at) = self.urgent.iter().position(|(id, _)| *id == LoopId::Names) {
            let (id, _) = self.urgent.remove(at)?;
            return Some((id, *self.wanted.get(&id)?));
        }
        if !open || !self.bucket.wait(now).is_zero() {
            return None;
        }
        let id = self.urgent.front().or_else(|| self.queue.front())?.0;
        let read = *self.wanted.get(&id)?;
        if self.takes_place(id, &read) && self.short >= self.concurrency_now {
            return None;
        }
        let _ = self.urgent.pop_front().or_else(|| self.queue.pop_front());
        Some((id, read))
    }

    fn forget_cancelled(&mut self) {
        for queue in [&mut self.urgent, &mut self.queue] {
            while let Some((id, ticket)) = queue.front() {
                if self.wanted.get(id).is_some_and(|read| read.ticket == *ticket) {
                    break;
                }
                queue.pop_front();
            }
        }
        let wanted = &self.wanted;
        let lives =
            |(id, ticket): &(LoopId, Ticket)| wanted.get(id).is_some_and(|read| read.ticket == *ticket);
        self.urgent.retain(lives);
    }

    /// Returns when the limiter must be polled again without an answer; now, if something may start.
    pub(super) fn due(&self, now: Mono, open: bool) -> Option<Mono> {
        let timer = self.timers.first().map(|(at, ..)| *at);
        let waits =
            open && !(self.urgent.is_empty() && self.queue.is_empty()) && self.short < self.concurrency_now;
        let bucket = waits.then(|| match self.bucket.wait(now) {
            Duration::ZERO => now,
            wait => now.plus(wait.max(Duration::from_millis(1))),
        });
        [timer, bucket, self.polls.due()].into_iter().flatten().min()
    }

    /// Returns whether a read is answered at once, or after a short wait.
    fn takes_place(&self, id: LoopId, read: &Read) -> bool {
        let long = matches!(read.mode, Mode::Blocking { wait, .. } if wait > self.short_wait);
        matches!(id, LoopId::Service(_)) && !long
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::machine::tests::world::mk_settings;

    const SECOND: Duration = Duration::from_secs(1);

    fn mk_read(ticket: u64, mode: Mode, after: Duration) -> Read {
        Read { ticket: Ticket(ticket), after, mode, timeout: 10 * SECOND, skip: None }
    }

    fn mk_limiter(concurrency: usize, rate: u32) -> RequestLimiter {
        let limits = Limits { concurrency, rate, ..Limits::default() };
        RequestLimiter::new(&Settings { limits, ..mk_settings(0) })
    }

    fn begun(limiter: &mut RequestLimiter, now: Mono, open: bool) -> Vec<LoopId> {
        std::iter::from_fn(|| limiter.next(now, open).map(|(_, id, _)| id)).collect()
    }

    #[test]
    fn concurrency_is_limited_and_leader_reads_go_first() {
        let mut limiter = mk_limiter(2, 100);
        for id in 0..3 {
            limiter.want(Mono(0), LoopId::Service(id), mk_read(1, Mode::Any, Duration::ZERO));
        }
        limiter.want(Mono(0), LoopId::Service(9), mk_read(1, Mode::Leader, Duration::ZERO));
        assert_eq!(begun(&mut limiter, Mono(0), true), [LoopId::Service(9), LoopId::Service(0)]);
        assert_eq!(limiter.due(Mono(0), true), None, "the next start needs an answer");
        assert_eq!(limiter.done(1).map(|begun| begun.id), Some(LoopId::Service(9)));
        assert_eq!(begun(&mut limiter, Mono(0), true), [LoopId::Service(1)]);
    }

    #[test]
    fn long_polls_count_for_the_rate_but_not_for_concurrency() {
        let mut limiter = mk_limiter(1, 4);
        let long = Mode::Blocking { index: 5, wait: 60 * SECOND };
        for id in 0..6 {
            limiter.want(Mono(0), LoopId::Service(id), mk_read(1, long, Duration::ZERO));
        }
        assert_eq!(begun(&mut limiter, Mono(0), true).len(), 4);
        let due = limiter.due(Mono(0), true).unwrap();
        assert_eq!(due, Mono(250));
        assert_eq!(limiter.due(due, true), Some(due), "at that time the read may start");
        assert_eq!(begun(&mut limiter, due, true).len(), 1);
    }

    #[test]
    fn closed_scope_reads_only_names() {
        let mut limiter = mk_limiter(2, 100);
        limiter.want(Mono(0), LoopId::Service(1), mk_read(1, Mode::Leader, Duration::ZERO));
        limiter.want(Mono(0), LoopId::Checks, mk_read(1, Mode::Any, Duration::ZERO));
        limiter.want(Mono(0), LoopId::Names, mk_read(1, Mode::Any, Duration::ZERO));
        assert_eq!(begun(&mut limiter, Mono(0), false), [LoopId::Names]);
        assert_eq!(begun(&mut limiter, Mono(0), true), [LoopId::Service(1), LoopId::Checks]);
    }

    #[test]
    fn cancelled_read_does_not_start_and_its_answer_is_dropped() {
        let mut limiter = mk_limiter(2, 100);
        limiter.want(Mono(0), LoopId::Service(1), mk_read(1, Mode::Any, SECOND));
        assert_eq!(limiter.cancel(LoopId::Service(1), Ticket(1)), None);
        limiter.tick(Mono(2_000));
        assert_eq!(begun(&mut limiter, Mono(2_000), true), []);
        limiter.want(Mono(0), LoopId::Service(1), mk_read(2, Mode::Any, Duration::ZERO));
        let (number, ..) = limiter.next(Mono(2_000), true).unwrap();
        assert_eq!(limiter.cancel(LoopId::Service(1), Ticket(1)), None, "the ticket is older");
        assert_eq!(limiter.cancel(LoopId::Service(1), Ticket(2)), Some(number));
        assert_eq!((limiter.done(number), limiter.under_way(), limiter.short), (None, 0, 0));
    }

    #[test]
    fn paused_reads_start_when_due() {
        let mut limiter = mk_limiter(2, 100);
        limiter.want(Mono(0), LoopId::Names, mk_read(1, Mode::Any, SECOND));
        limiter.tick(Mono(999));
        assert_eq!(
            (begun(&mut limiter, Mono(999), true), limiter.due(Mono(999), true)),
            (vec![], Some(Mono(1_000)))
        );
        limiter.tick(Mono(1_000));
        assert_eq!(begun(&mut limiter, Mono(1_000), true), [LoopId::Names]);
    }

    #[test]
    fn overload_halves_concurrency_and_success_restores_it() {
        let mut limiter = mk_limiter(8, 100);
        limiter.ease(Mono(0), 0);
        limiter.ease(Mono(0), 0);
        assert_eq!((limiter.concurrency_now, limiter.current_rate()), (2, 25));
        for _ in 0..5 {
            limiter.went_well();
        }
        assert_eq!(limiter.concurrency_now, 4, "after two, then after three");
        (0..100).for_each(|_| limiter.went_well());
        assert_eq!((limiter.concurrency_now, limiter.current_rate()), (8, 100));
    }
}
