//! One query followed for good, as a pure step from state and event to state and actions.
//!
//! Owned by a [`modes`](crate::modes) machine, which carries out the [`Action`]s in order and reports what becomes of
//! them. There is at most one read under way; every read has a ticket, and what comes back under an older one is
//! dropped. A loop holds no content, only its [`Digest`]: what it was told and what of that is missing now.
//!
//! What is said on: an answer that may be short is [`Confidence::Partial`], so that the core's gate holds whatever it lacks;
//! an answer that looks sound is [`Confidence::Plausible`], so that the gate judges; only a read that the leader itself answered
//! is [`Confidence::Confirmed`].

mod accept;
mod digest;
#[cfg(test)]
mod properties;
mod reads;
mod sight;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;
use tributary_registry_api::{Backoff, BackoffPolicy};

use crate::answer::{Doubt, Headers, RequestFailure};
use crate::config::Timing;
use crate::token_bucket::TokenBucket;
use accept::Given;
pub use digest::{Content, Digest, Keys, key_of};
use sight::Hides;
pub use sight::Sight;

/// Which read an event is about. Higher is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// How a loop asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Waits, pauses and limits of belief.
    pub timing: Timing,
    /// How long a read waits for a change that was announced and may not have reached the server that answers.
    pub catch_up: Duration,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// Whether a server may lack this endpoint; then the loop ends there, else it asks again.
    pub optional: bool,
}

impl Default for Policy {
    fn default() -> Self {
        let catch_up = Duration::from_secs(1);
        Self { timing: Timing::default(), catch_up, has_token: true, optional: false }
    }
}

/// How a read is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any server answers at once.
    Any,
    /// Any server answers when there is something later than the index, or after the wait.
    Blocking {
        /// The last index seen; never 0.
        index: u64,
        /// How long to wait.
        wait: Duration,
    },
    /// The leader answers at once: this confirms.
    Leader,
}

/// What makes a loop read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    /// One long poll after the other.
    #[default]
    Poll,
    /// Only what it is told to, by [`Event::Look`] and [`Event::Asked`].
    Demand,
}

/// Why a loop is told to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// To see whether something has changed, or whether the server answers.
    Again,
    /// Something has changed.
    Changed,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<C> {
    /// The loop may begin.
    Started,
    /// A read was answered with 200. Its content is left out where the index says that it has not changed.
    Answered(Ticket, Headers, Option<C>),
    /// A read came to nothing.
    Failed(Ticket, RequestFailure),
    /// Whether the token is still the one, with the same policies, with which what is known was read.
    TokenChecked(Ticket, bool),
    /// The core wants to know whether something is really gone.
    Asked,
    /// The leader is to be read, to see whether what this loop knows is still there.
    Confirm,
    /// A read is wanted.
    Look(Look),
    /// From now on it reads like this.
    Follow(Follow),
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
pub enum Action<C> {
    /// Give up this read, whether it waits to begin or is under way.
    Cancel(Ticket),
    /// Read.
    Read(Read),
    /// Ask whether the token is still the same, with the same policies.
    CheckToken(Ticket),
    /// Read the token anew from where it comes from.
    RereadToken,
    /// Ask for less at a time, or another server.
    Ease,
    /// Tell the core that this is what there is.
    Say(C, Confidence),
    /// The loop is doing like this from now on.
    State(State),
}

/// A read that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Under this ticket.
    pub ticket: Ticket,
    /// After this pause.
    pub after: Duration,
    /// In this way.
    pub mode: Mode,
    /// And given up after this long.
    pub timeout: Duration,
    /// An answer with this index holds nothing new and need not be decoded.
    pub skip: Option<u64>,
}

/// What is said of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// What it adds is so, what it lacks stays.
    Partial(Doubt),
    /// Any server may have said it: the gate judges what it lacks.
    Plausible,
    /// The leader said exactly this.
    Confirmed,
}

impl Confidence {
    const fn rank(self) -> u8 {
        match self {
            Self::Partial(_) => 0,
            Self::Plausible => 1,
            Self::Confirmed => 2,
        }
    }
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
    Failing(RequestFailure),
    /// Ended, or the server has no such endpoint.
    Ended,
}

/// What was asked last and has not been answered.
#[derive(Debug, Clone, PartialEq)]
enum Pending<C> {
    Nothing,
    Read(Mode),
    Token(C),
}

/// What was said last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastReported {
    hash: tributary_model::Version,
    /// All that the core may hold by our word.
    keys: Keys,
    word: Confidence,
}

/// One loop.
#[derive(Debug, Clone)]
pub struct Watch<C> {
    /// Shared with the other loops, of which there may be thousands.
    policy: Arc<Policy>,
    follow: Follow,
    state: State,
    /// `None` while nothing is known, which is not the same as nothing there.
    told: Option<LastReported>,
    /// Where the next blocking read begins.
    index: Option<u64>,
    /// The highest index since the last reset.
    floor: Option<u64>,
    always_filtered: Option<bool>,
    /// Whether the last answer that was not doubtful otherwise was filtered.
    filtered: bool,
    /// What the token hides.
    hides: Hides,
    /// Whether a question of the core is open.
    questioned: bool,
    doubt: Option<Doubt>,
    /// When the leader is asked next, and how that is spaced.
    confirm_at: Option<Mono>,
    confirm: Backoff,
    retry: Backoff,
    /// By what part the next long poll is cut short, so that many loops do not march in step.
    stagger: Option<f64>,
    again: Option<Look>,
    now: Mono,
    /// When content was looked at last, whatever the index said.
    seen_at: Mono,
    bucket: TokenBucket,
    ticket: Ticket,
    pending: Pending<C>,
}

type Actions<C> = Vec<Action<C>>;

impl<C: Content> Watch<C> {
    /// A loop that has not begun.
    #[must_use]
    pub fn new(policy: impl Into<Arc<Policy>>, follow: Follow) -> Self {
        let policy = policy.into();
        let Timing { burst, refill, pause_first, pause_most, .. } = policy.timing;
        let pause = |jitter| BackoffPolicy {
            first: pause_first,
            cap: pause_most,
            jitter,
            ..BackoffPolicy::default()
        };
        Self {
            policy,
            follow,
            state: State::Starting,
            told: None,
            index: None,
            floor: None,
            always_filtered: None,
            filtered: false,
            hides: Hides::Nothing,
            questioned: false,
            doubt: None,
            confirm_at: None,
            confirm: Backoff::new(pause(0.5)),
            retry: Backoff::new(pause(1.0)),
            stagger: None,
            again: None,
            now: Mono(0),
            seen_at: Mono(0),
            bucket: TokenBucket::new(burst, refill),
            ticket: Ticket(0),
            pending: Pending::Nothing,
        }
    }
    /// How the loop is doing.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }
    /// Whether anything is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.told.is_some()
    }
    /// The last index seen.
    #[must_use]
    pub const fn last_index(&self) -> Option<u64> {
        self.floor
    }
    /// The next read begins without an index: it will ask another server.
    pub const fn forget_index(&mut self) {
        (self.index, self.floor) = (None, None);
    }
    /// One step. `chance` is from 0 up to, not including, 1.
    #[must_use]
    pub fn step(&mut self, now: Mono, chance: f64, event: Event<C>) -> Actions<C> {
        let mut out = Vec::new();
        self.now = now;
        if self.state != State::Ended {
            self.on(now, chance.clamp(0.0, 1.0), event, &mut out);
        }
        out
    }

    fn on(&mut self, now: Mono, chance: f64, event: Event<C>, out: &mut Actions<C>) {
        match event {
            Event::Started => self.started(chance, out),
            Event::Answered(ticket, headers, content) if ticket == self.ticket => {
                if let Pending::Read(mode) = self.pending {
                    self.answered(now, chance, &headers, content, mode == Mode::Leader, out);
                }
            }
            Event::Failed(ticket, failure) if ticket == self.ticket => self.failed(now, chance, failure, out),
            Event::TokenChecked(ticket, same) if ticket == self.ticket => {
                self.checked(now, chance, same, out)
            }
            Event::Answered(..) | Event::Failed(..) | Event::TokenChecked(..) => {}
            Event::Asked => {
                self.questioned = true;
                self.confirm_soon(now, out);
            }
            Event::Confirm => self.confirm_soon(now, out),
            Event::Look(look) => self.look(now, look, out),
            Event::Follow(follow) => self.turn(now, chance, follow, out),
            Event::Switched { token } => self.switched(now, chance, token, out),
            Event::Stopped => {
                self.cancel(out);
                self.become_state(State::Ended, out);
            }
        }
    }

    fn started(&mut self, chance: f64, out: &mut Actions<C>) {
        if matches!(self.pending, Pending::Nothing) {
            self.stagger = Some(chance);
            self.read(Duration::ZERO, Mode::Any, out);
        }
    }

    /// A question overtakes a blocking read, but not the pause after a failure: the leader is asked when it ends.
    fn confirm_soon(&mut self, now: Mono, out: &mut Actions<C>) {
        self.confirm_at = Some(now);
        let waits = match self.pending {
            Pending::Nothing => true,
            Pending::Read(mode) => mode != Mode::Leader && self.is_known(),
            Pending::Token(_) => false,
        };
        if waits && self.retry.failures() == 0 {
            self.cancel(out);
            self.read(Duration::ZERO, Mode::Leader, out);
        }
    }

    /// A long poll is cut short to see whether the server answers; a read on demand that is under way may have begun
    /// too early, so that another one follows.
    fn look(&mut self, now: Mono, look: Look, out: &mut Actions<C>) {
        match (&self.pending, self.follow) {
            (Pending::Nothing, _) => {
                let after = self.bucket.take(now);
                self.read(after, self.mode_of(look), out);
            }
            (_, Follow::Demand) => self.again = self.again.max(Some(look)),
            (Pending::Read(Mode::Blocking { .. }), Follow::Poll) if self.retry.failures() == 0 => {
                self.cancel(out);
                self.read(Duration::ZERO, Mode::Any, out);
            }
            _ => {}
        }
    }

    fn mode_of(&self, look: Look) -> Mode {
        match (look, self.index) {
            (Look::Changed, Some(index)) => Mode::Blocking { index, wait: self.policy.catch_up },
            _ => Mode::Any,
        }
    }

    fn turn(&mut self, now: Mono, chance: f64, follow: Follow, out: &mut Actions<C>) {
        if self.follow == follow {
            return;
        }
        self.follow = follow;
        match (&self.pending, follow) {
            (Pending::Read(Mode::Blocking { .. }), Follow::Demand) if self.retry.failures() == 0 => {
                self.cancel(out);
                self.next_read(now, out);
            }
            (Pending::Nothing, Follow::Poll) => {
                self.stagger = Some(chance);
                self.next_read(now, out);
            }
            _ => {}
        }
    }

    /// Indexes mean nothing to another server, and may show or hide other things with another token.
    fn switched(&mut self, now: Mono, chance: f64, token: bool, out: &mut Actions<C>) {
        (self.index, self.floor) = (None, None);
        if token {
            self.always_filtered = None;
        }
        if matches!(self.pending, Pending::Nothing) {
            return;
        }
        self.cancel(out);
        self.stagger = Some(chance);
        let soon = self.policy.timing.pause_first.mul_f64(chance);
        let mode = self.mode(now.plus(soon));
        self.read(soon, mode, out);
    }

    fn failed(&mut self, now: Mono, chance: f64, failure: RequestFailure, out: &mut Actions<C>) {
        self.pending = Pending::Nothing;
        // who comes back may have begun anew: a read from a later index than its own would wait for nothing
        self.index = None;
        if failure == RequestFailure::Unsupported && self.policy.optional {
            self.become_state(State::Ended, out);
            return;
        }
        self.become_state(State::Failing(failure), out);
        match failure {
            RequestFailure::Auth => out.push(Action::RereadToken),
            RequestFailure::Overload => out.push(Action::Ease),
            _ => {}
        }
        let timing = &self.policy.timing;
        let (auth, config) = (timing.pause_auth, timing.pause_config);
        let pause = self.retry.next(&mut Given(chance));
        let after = match failure {
            RequestFailure::Auth => auth + pause,
            RequestFailure::Config | RequestFailure::Unsupported => config,
            _ => pause,
        };
        self.stagger = Some(chance);
        let mode = self.mode(now.plus(after));
        self.read(after, mode, out);
    }

    fn become_state(&mut self, state: State, out: &mut Actions<C>) {
        if self.state != state {
            self.state = state;
            out.push(Action::State(state));
        }
    }
}
