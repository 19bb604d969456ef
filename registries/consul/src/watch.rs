//! One blocking query followed for good, as a pure step from state and event to state and actions.
//!
//! Owned by whoever makes the requests: it carries out the [`Action`]s in order and reports what becomes of them.
//! There is at most one read under way; every read has a ticket, and what comes back under an older one is dropped.
//!
//! What is told to the core: an answer that may be short adds and changes, and takes nothing away
//! ([`answer::Doubt`](crate::answer::Doubt)); an answer that looks sound is told as [`Basis::Unsure`], so that the
//! core's gate judges what it lacks; only a read that the leader itself answered is [`Basis::Authoritative`].

mod accept;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_model::{Basis, Mono};

use crate::answer::{Doubt, Failure, Headers};
use crate::bucket::Bucket;

/// Which read an event is about. Higher is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// How a loop asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long a blocking read waits.
    pub wait: Duration,
    /// Over how long the first reads of many loops are spread.
    pub spread: Duration,
    /// What a read may take beyond its wait.
    pub grace: Duration,
    /// The longest first pause after a failure; it doubles up to `pause_most`.
    pub pause_first: Duration,
    /// The longest pause after a failure.
    pub pause_most: Duration,
    /// The shortest pause after a refused token.
    pub pause_auth: Duration,
    /// The pause after a refused request.
    pub pause_config: Duration,
    /// How many reads may follow each other at once.
    pub burst: u32,
    /// After how long another one may.
    pub refill: Duration,
    /// The longest silence between a server and its leader that is believed.
    pub max_contact: Duration,
    /// The oldest cached answer that is believed.
    pub max_age: Duration,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// Whether a server may lack this endpoint; then the loop ends there, else it asks again.
    pub optional: bool,
}

impl Default for Policy {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            wait: seconds(60),
            spread: seconds(60),
            grace: seconds(10),
            pause_first: seconds(1),
            pause_most: seconds(60),
            pause_auth: seconds(30),
            pause_config: seconds(300),
            burst: 2,
            refill: seconds(15),
            max_contact: seconds(10),
            max_age: Duration::ZERO,
            has_token: true,
            optional: false,
        }
    }
}

/// How a read is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any server answers, at once.
    Any,
    /// Any server answers when this index has passed, or the wait is over.
    Blocking {
        /// `index=`.
        index: u64,
        /// `wait=`.
        wait: Duration,
    },
    /// The leader answers, at once: neither `stale` nor `index`.
    Leader,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<K: Ord, V> {
    /// The loop may begin.
    Started,
    /// A read was answered with 200 and its body could be read.
    Answered(Ticket, Headers, BTreeMap<K, V>),
    /// A read came to nothing.
    Failed(Ticket, Failure),
    /// Whether the token is still the one, with the same policies, with which what is known was read.
    TokenChecked(Ticket, bool),
    /// The core wants to know whether something is really gone.
    Asked,
    /// From now on another server, or another token, is asked.
    Switched {
        /// Whether the token is another one.
        token: bool,
    },
    /// The loop ends.
    Stopped,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<K: Ord, V> {
    /// Give up this read, whether it waits to begin or is under way.
    Cancel(Ticket),
    /// Read.
    Read {
        /// Under this ticket.
        ticket: Ticket,
        /// After this pause.
        after: Duration,
        /// In this way.
        mode: Mode,
        /// And give up after this long.
        timeout: Duration,
    },
    /// Ask whether the token is still the same, with the same policies.
    CheckToken(Ticket),
    /// Read the token anew from where it comes from.
    RereadToken,
    /// Ask for less at a time, or another server.
    Ease,
    /// Tell the core that this is what there is.
    Say(BTreeMap<K, V>, Basis),
    /// The loop is doing like this from now on.
    State(State),
}

/// How a loop is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing has been answered yet.
    #[default]
    Starting,
    /// Followed, and the last answer looked sound.
    Live,
    /// Followed, and what is missing is not believed.
    Doubtful(Doubt),
    /// The last read came to nothing.
    Failing(Failure),
    /// Ended, or the server has no such endpoint.
    Ended,
}

/// What was asked last and has not been answered.
#[derive(Debug, Clone, PartialEq)]
enum Pending<K: Ord, V> {
    Nothing,
    Read { confirming: bool },
    Token { content: BTreeMap<K, V> },
}

/// One loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch<K: Ord, V> {
    policy: Policy,
    state: State,
    /// What was told last; `None` while nothing is known, which is not the same as nothing there.
    told: Option<BTreeMap<K, V>>,
    /// Where the next blocking read begins.
    index: Option<u64>,
    /// The highest index since the last reset.
    floor: Option<u64>,
    always_filtered: Option<bool>,
    doubt: Option<Doubt>,
    /// When the leader is asked next, and how often it was without clearing the doubt.
    confirm_at: Option<Mono>,
    tries: u32,
    failures: u32,
    bucket: Bucket,
    ticket: Ticket,
    pending: Pending<K, V>,
}

type Actions<K, V> = Vec<Action<K, V>>;

impl<K: Ord + Clone, V: Clone + PartialEq> Watch<K, V> {
    /// A loop that has not begun.
    #[must_use]
    pub const fn new(policy: Policy) -> Self {
        let bucket = Bucket::new(policy.burst, policy.refill);
        Self {
            policy,
            state: State::Starting,
            told: None,
            index: None,
            floor: None,
            always_filtered: None,
            doubt: None,
            confirm_at: None,
            tries: 0,
            failures: 0,
            bucket,
            ticket: Ticket(0),
            pending: Pending::Nothing,
        }
    }
    /// How the loop is doing.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }
    /// One step. `chance` is from 0 up to, not including, 1.
    #[must_use]
    pub fn step(mut self, now: Mono, chance: f64, event: Event<K, V>) -> (Self, Actions<K, V>) {
        let mut out = Vec::new();
        if self.state != State::Ended {
            self.on(now, chance.clamp(0.0, 1.0), event, &mut out);
        }
        (self, out)
    }

    fn on(&mut self, now: Mono, chance: f64, event: Event<K, V>, out: &mut Actions<K, V>) {
        match event {
            Event::Started if self.pending == Pending::Nothing => {
                let spread = self.policy.spread.mul_f64(chance);
                self.read(spread, Mode::Any, out);
            }
            Event::Started => {}
            Event::Answered(ticket, headers, content) if ticket == self.ticket => {
                if let Pending::Read { confirming } = self.pending {
                    self.answered(now, chance, &headers, content, confirming, out);
                }
            }
            Event::Failed(ticket, failure) if ticket == self.ticket => self.failed(now, chance, failure, out),
            Event::TokenChecked(ticket, same) if ticket == self.ticket => {
                self.checked(now, chance, same, out)
            }
            Event::Answered(..) | Event::Failed(..) | Event::TokenChecked(..) => {}
            Event::Asked => self.asked(now, out),
            Event::Switched { token } => self.switched(chance, token, out),
            Event::Stopped => {
                self.cancel(out);
                self.become_state(State::Ended, out);
            }
        }
    }

    /// A question overtakes a blocking read, but not the pause after a failure: the leader is asked when it ends.
    fn asked(&mut self, now: Mono, out: &mut Actions<K, V>) {
        self.confirm_at = Some(now);
        let waits = matches!(self.pending, Pending::Read { confirming: false });
        if waits && self.failures == 0 && self.told.is_some() {
            self.cancel(out);
            self.read(Duration::ZERO, Mode::Leader, out);
        }
    }

    /// Indexes mean nothing to another server, and may show or hide other things with another token.
    fn switched(&mut self, chance: f64, token: bool, out: &mut Actions<K, V>) {
        if self.pending == Pending::Nothing {
            return;
        }
        self.cancel(out);
        (self.index, self.floor, self.failures) = (None, None, 0);
        if token {
            self.always_filtered = None;
        }
        let soon = self.policy.pause_first.mul_f64(chance);
        self.read(soon, Mode::Any, out);
    }

    fn failed(&mut self, now: Mono, chance: f64, failure: Failure, out: &mut Actions<K, V>) {
        self.pending = Pending::Nothing;
        if failure == Failure::Unsupported && self.policy.optional {
            self.become_state(State::Ended, out);
            return;
        }
        self.become_state(State::Failing(failure), out);
        match failure {
            Failure::Auth => out.push(Action::RereadToken),
            Failure::Overload => out.push(Action::Ease),
            _ => {}
        }
        let pause = doubling(self.policy.pause_first, self.policy.pause_most, self.failures).mul_f64(chance);
        let after = match failure {
            Failure::Auth => self.policy.pause_auth + pause,
            Failure::Config | Failure::Unsupported => self.policy.pause_config,
            _ => pause,
        };
        self.failures = self.failures.saturating_add(1);
        let mode = self.mode(now.plus(after));
        self.read(after, mode, out);
    }

    /// What to ask at that time: the leader if a question is open, else what follows the last index.
    fn mode(&self, at: Mono) -> Mode {
        let until = self.confirm_at.filter(|_| self.told.is_some()).map(|due| due.since(at));
        match (until, self.index) {
            (Some(Duration::ZERO), _) => Mode::Leader,
            (_, None) => Mode::Any,
            (until, Some(index)) => {
                let wait = until.map_or(self.policy.wait, |until| until.min(self.policy.wait));
                Mode::Blocking { index, wait: wait.max(Duration::from_secs(1)) }
            }
        }
    }

    fn next_read(&mut self, now: Mono, out: &mut Actions<K, V>) {
        let mode = self.mode(now);
        let after = if mode == Mode::Leader { Duration::ZERO } else { self.bucket.take(now) };
        self.read(after, mode, out);
    }

    fn read(&mut self, after: Duration, mode: Mode, out: &mut Actions<K, V>) {
        let wait = if let Mode::Blocking { wait, .. } = mode { wait } else { Duration::ZERO };
        let timeout = wait + wait / 16 + self.policy.grace;
        self.ticket = Ticket(self.ticket.0 + 1);
        self.pending = Pending::Read { confirming: mode == Mode::Leader };
        out.push(Action::Read { ticket: self.ticket, after, mode, timeout });
    }

    fn cancel(&mut self, out: &mut Actions<K, V>) {
        if self.pending != Pending::Nothing {
            out.push(Action::Cancel(self.ticket));
            self.pending = Pending::Nothing;
        }
    }

    fn become_state(&mut self, state: State, out: &mut Actions<K, V>) {
        if self.state != state {
            self.state = state;
            out.push(Action::State(state));
        }
    }
}

fn doubling(first: Duration, most: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32 << times.min(20)).min(most)
}
