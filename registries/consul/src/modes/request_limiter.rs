//! When reads of one scope may begin: after their pauses, a few at a time, no more than so many a second, and none
//! but the first loop's while the scope cannot be reached.
//!
//! Owned by the machine. Every read that a loop wants passes here; each that begins gets a number, and an answer
//! under a number that was given up is dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tributary_model::Mono;

use super::LoopId;
use crate::config::Limits;
use crate::token_bucket::TokenBucket;
use crate::watch::{Mode, Read, Ticket};

/// A read that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) id: LoopId,
    pub(super) ticket: Ticket,
    /// Whether it takes one of the few places: long polls do not.
    short: bool,
}

/// The gate of one scope.
#[derive(Debug, Clone)]
pub(super) struct RequestLimiter {
    timers: BTreeSet<(Mono, LoopId, Ticket)>,
    wanted: BTreeMap<LoopId, Read>,
    urgent: VecDeque<(LoopId, Ticket)>,
    queue: VecDeque<(LoopId, Ticket)>,
    begun: BTreeMap<u64, Begun>,
    by_loop: BTreeMap<LoopId, u64>,
    short: usize,
    most: usize,
    now_most: usize,
    well: usize,
    bucket: TokenBucket,
    last: u64,
}

impl RequestLimiter {
    pub(super) fn new(limits: &Limits) -> Self {
        let rate = limits.rate.max(1);
        Self {
            timers: BTreeSet::new(),
            wanted: BTreeMap::new(),
            urgent: VecDeque::new(),
            queue: VecDeque::new(),
            begun: BTreeMap::new(),
            by_loop: BTreeMap::new(),
            short: 0,
            most: limits.concurrency.max(1),
            now_most: limits.concurrency.max(1),
            well: 0,
            bucket: TokenBucket::new(rate, Duration::from_secs(1) / rate),
            last: 0,
        }
    }

    /// A loop wants this read; it replaces what it wanted before.
    pub(super) fn want(&mut self, now: Mono, id: LoopId, read: Read) {
        self.wanted.insert(id, read);
        if read.after.is_zero() {
            self.enqueue(id, read);
        } else {
            self.timers.insert((now.plus(read.after), id, read.ticket));
        }
    }

    /// A loop gives its read up; the number under which it had begun.
    pub(super) fn cancel(&mut self, id: LoopId, ticket: Ticket) -> Option<u64> {
        if self.wanted.get(&id).is_some_and(|read| read.ticket == ticket) {
            self.wanted.remove(&id);
        }
        let number = *self.by_loop.get(&id)?;
        (self.begun.get(&number)?.ticket == ticket).then(|| self.end(number)).flatten()?;
        Some(number)
    }

    /// Begins something that is not a loop's read, such as a look at the token.
    pub(super) fn begin(&mut self, id: LoopId, ticket: Ticket, short: bool) -> u64 {
        self.last += 1;
        self.begun.insert(self.last, Begun { id, ticket, short });
        self.by_loop.insert(id, self.last);
        self.short += usize::from(short);
        self.last
    }

    /// An answer has come; `None` where nobody waits for it any more.
    pub(super) fn done(&mut self, number: u64) -> Option<Begun> {
        self.end(number)
    }

    fn end(&mut self, number: u64) -> Option<Begun> {
        let begun = self.begun.remove(&number)?;
        self.by_loop.remove(&begun.id);
        self.short -= usize::from(begun.short);
        Some(begun)
    }

    /// The server asks for less.
    pub(super) fn ease(&mut self) {
        (self.now_most, self.well) = ((self.now_most / 2).max(1), 0);
    }

    /// An answer was good: after as many as may be under way at once, one more may.
    pub(super) fn went_well(&mut self) {
        self.well += 1;
        if self.well >= self.now_most && self.now_most < self.most {
            (self.now_most, self.well) = (self.now_most + 1, 0);
        }
    }

    /// How many reads are under way.
    pub(super) fn under_way(&self) -> usize {
        self.begun.len()
    }

    /// Lets pauses end whose time has come.
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

    /// The next read that may begin now, with its number. While the scope is not `open`, only the list of names is
    /// read, by which it is seen whether it can be reached.
    pub(super) fn next(&mut self, now: Mono, open: bool) -> Option<(u64, LoopId, Read)> {
        let (id, read) = self.admit(now, open)?;
        self.wanted.remove(&id);
        if id != LoopId::Names {
            self.bucket.take(now);
        }
        let number = self.begin(id, read.ticket, takes_place(id, &read));
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
        if takes_place(id, &read) && self.short >= self.now_most {
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

    /// When it is worth looking again without an answer having come; now, where something may begin.
    pub(super) fn due(&self, now: Mono, open: bool) -> Option<Mono> {
        let timer = self.timers.first().map(|(at, ..)| *at);
        let waits = open && !(self.urgent.is_empty() && self.queue.is_empty()) && self.short < self.now_most;
        let bucket = waits.then(|| match self.bucket.wait(now) {
            Duration::ZERO => now,
            wait => now.plus(wait.max(Duration::from_millis(1))),
        });
        timer.into_iter().chain(bucket).min()
    }
}

/// Whether a read is answered at once, or nearly.
fn takes_place(id: LoopId, read: &Read) -> bool {
    let long = matches!(read.mode, Mode::Blocking { wait, .. } if wait > Duration::from_secs(2));
    matches!(id, LoopId::Service(_)) && !long
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn mk_read(ticket: u64, mode: Mode, after: Duration) -> Read {
        Read { ticket: Ticket(ticket), after, mode, timeout: 10 * SECOND, skip: None }
    }

    fn mk_gate(concurrency: usize, rate: u32) -> RequestLimiter {
        RequestLimiter::new(&Limits { concurrency, rate, ..Limits::default() })
    }

    fn begun(gate: &mut RequestLimiter, now: Mono, open: bool) -> Vec<LoopId> {
        std::iter::from_fn(|| gate.next(now, open).map(|(_, id, _)| id)).collect()
    }

    #[test]
    fn a_few_at_a_time_and_questions_first() {
        let mut gate = mk_gate(2, 100);
        for slot in 0..3 {
            gate.want(Mono(0), LoopId::Service(slot), mk_read(1, Mode::Any, Duration::ZERO));
        }
        gate.want(Mono(0), LoopId::Service(9), mk_read(1, Mode::Leader, Duration::ZERO));
        assert_eq!(begun(&mut gate, Mono(0), true), [LoopId::Service(9), LoopId::Service(0)]);
        assert_eq!(gate.due(Mono(0), true), None, "an answer must come first");
        assert_eq!(gate.done(1).map(|begun| begun.id), Some(LoopId::Service(9)));
        assert_eq!(begun(&mut gate, Mono(0), true), [LoopId::Service(1)]);
    }

    #[test]
    fn long_polls_take_no_place_but_count_for_the_rate() {
        let mut gate = mk_gate(1, 4);
        let long = Mode::Blocking { index: 5, wait: 60 * SECOND };
        for slot in 0..6 {
            gate.want(Mono(0), LoopId::Service(slot), mk_read(1, long, Duration::ZERO));
        }
        assert_eq!(begun(&mut gate, Mono(0), true).len(), 4);
        let due = gate.due(Mono(0), true).unwrap();
        assert_eq!(due, Mono(250));
        assert_eq!(gate.due(due, true), Some(due), "whoever looks again then has to be told to begin");
        assert_eq!(begun(&mut gate, due, true).len(), 1);
    }

    #[test]
    fn while_a_scope_is_closed_only_its_names_are_read() {
        let mut gate = mk_gate(2, 100);
        gate.want(Mono(0), LoopId::Service(1), mk_read(1, Mode::Leader, Duration::ZERO));
        gate.want(Mono(0), LoopId::Checks, mk_read(1, Mode::Any, Duration::ZERO));
        gate.want(Mono(0), LoopId::Names, mk_read(1, Mode::Any, Duration::ZERO));
        assert_eq!(begun(&mut gate, Mono(0), false), [LoopId::Names]);
        assert_eq!(begun(&mut gate, Mono(0), true), [LoopId::Service(1), LoopId::Checks]);
    }

    #[test]
    fn what_is_given_up_does_not_begin_and_its_answer_is_dropped() {
        let mut gate = mk_gate(2, 100);
        gate.want(Mono(0), LoopId::Service(1), mk_read(1, Mode::Any, SECOND));
        assert_eq!(gate.cancel(LoopId::Service(1), Ticket(1)), None);
        gate.tick(Mono(2_000));
        assert_eq!(begun(&mut gate, Mono(2_000), true), []);
        gate.want(Mono(0), LoopId::Service(1), mk_read(2, Mode::Any, Duration::ZERO));
        let (number, ..) = gate.next(Mono(2_000), true).unwrap();
        assert_eq!(gate.cancel(LoopId::Service(1), Ticket(1)), None, "that was another one");
        assert_eq!(gate.cancel(LoopId::Service(1), Ticket(2)), Some(number));
        assert_eq!((gate.done(number), gate.under_way(), gate.short), (None, 0, 0));
    }

    #[test]
    fn pauses_end_when_their_time_comes() {
        let mut gate = mk_gate(2, 100);
        gate.want(Mono(0), LoopId::Names, mk_read(1, Mode::Any, SECOND));
        gate.tick(Mono(999));
        assert_eq!(
            (begun(&mut gate, Mono(999), true), gate.due(Mono(999), true)),
            (vec![], Some(Mono(1_000)))
        );
        gate.tick(Mono(1_000));
        assert_eq!(begun(&mut gate, Mono(1_000), true), [LoopId::Names]);
    }

    #[test]
    fn a_server_that_has_too_much_is_asked_for_half_and_then_for_more_again() {
        let mut gate = mk_gate(8, 100);
        gate.ease();
        gate.ease();
        assert_eq!(gate.now_most, 2);
        for _ in 0..5 {
            gate.went_well();
        }
        assert_eq!(gate.now_most, 4, "after two, then after three");
        (0..100).for_each(|_| gate.went_well());
        assert_eq!(gate.now_most, 8);
    }
}
