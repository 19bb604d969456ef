//! Follows one query as a pure step from state and event to state and actions.
//!
//! A [`machine`](crate::machine) owns it, carries out the [`Action`]s in order, and reports their results. At
//! most one read is under way. Each read has a ticket; an answer with an older ticket is dropped. A loop stores no
//! content, only its [`Digest`]: what it reported, and what of that is missing now.
//!
//! An answer that may be incomplete is [`Confidence::Partial`]: the core holds what it lacks. An answer without signs
//! of that is [`Confidence::Plausible`]: the core judges what it lacks. Only an answer of the leader itself is
//! [`Confidence::Confirmed`].

mod accept;
mod digest;
#[cfg(test)]
mod properties;
mod reads;
#[cfg(test)]
mod tests;
mod token_view;

use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;
use tributary_registry_api::{Backoff, BackoffPolicy};

use crate::absence::Signs;
pub use crate::absence::{Confidence, TokenCheck, TokenView};
use crate::answer::{Doubt, Headers, RequestFailure};
use crate::config::Timing;
use crate::token_bucket::TokenBucket;
use accept::Given;
pub use digest::{Content, Digest, Keys, key_of};
use token_view::Hides;

/// Number of a read. Higher is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// Policy of a loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Waits, pauses and limits of trust.
    pub timing: Timing,
    /// Whether requests carry a token.
    pub has_token: bool,
    /// Whether a server may lack this endpoint; then the loop ends, otherwise it retries.
    pub optional: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { timing: Timing::default(), has_token: true, optional: false }
    }
}

/// Mode of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any server answers at once.
    Any,
    /// Any server answers when it has something later than the index, or after the wait.
    Blocking {
        /// Last index; never 0.
        index: u64,
        /// Wait.
        wait: Duration,
    },
    /// The leader answers at once; such an answer confirms.
    Leader,
}

/// Trigger of a loop's reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    /// Long polls, one after another.
    #[default]
    Poll,
    /// Only [`Event::ReadNow`] and [`Event::ConfirmRequested`].
    Demand,
}

/// Reason of a requested read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadReason {
    /// Check whether something has changed, or whether the server answers.
    Recheck,
    /// Something has changed.
    Changed,
}

/// Input of a loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<C> {
    /// The loop starts.
    Started,
    /// A read was answered with 200. The content is absent if the index shows that it has not changed.
    Answered(Ticket, Headers, Option<C>),
    /// A read failed.
    Failed(Ticket, RequestFailure),
    /// The token's identity and policies were compared with those with which the known content was read.
    TokenChecked(Ticket, TokenCheck),
    /// The core requests confirmation that something is gone.
    ConfirmRequested,
    /// Read the leader, to find out whether the known content still exists.
    ReadLeader,
    /// Read.
    ReadNow(ReadReason),
    /// Change the trigger of reads.
    Follow(Follow),
    /// Use another server or token.
    Switched {
        /// Whether the token changed.
        token: bool,
    },
    /// End the loop.
    Stopped,
}

/// Output of a loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<C> {
    /// Abort this read, whether queued or under way.
    Cancel(Ticket),
    /// Start a read.
    Read(Read),
    /// Check whether the token still has the same identity and policies.
    CheckToken(Ticket),
    /// Read the token from its source again.
    RereadToken,
    /// Lower the load, or use another server.
    Ease,
    /// Report this content to the core.
    Report(C, Confidence),
    /// The state changed.
    State(State),
}

/// Read to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Its ticket.
    pub ticket: Ticket,
    /// Pause before it.
    pub after: Duration,
    /// Its mode.
    pub mode: Mode,
    /// Its time limit.
    pub timeout: Duration,
    /// Index whose answer holds nothing new and need not be decoded.
    pub skip: Option<u64>,
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

/// State of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// No answer yet.
    #[default]
    Starting,
    /// Followed, and the last answer has no sign of a fault.
    Live,
    /// Followed, but absences are not trusted.
    Doubtful(Doubt),
    /// The last read failed.
    Failing(RequestFailure),
    /// Ended, or the server lacks the endpoint.
    Ended,
}

/// Last request without an answer.
#[derive(Debug, Clone, PartialEq)]
enum Pending<C> {
    Nothing,
    Read(Mode),
    Token(C, Signs),
}

/// Last report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastReported {
    hash: tributary_model::Version,
    /// Hashes of everything that the core may hold because of this loop.
    keys: Keys,
    confidence: Confidence,
}

/// One loop.
#[derive(Debug, Clone)]
pub struct Watch<C> {
    /// Shared with the other loops, of which there may be thousands.
    policy: Arc<Policy>,
    follow: Follow,
    state: State,
    /// `None` while nothing is known, which differs from knowing that nothing exists.
    last_reported: Option<LastReported>,
    /// Index of the next blocking read.
    index: Option<u64>,
    /// Highest index since the last reset.
    floor: Option<u64>,
    always_filtered: Option<bool>,
    /// Whether the first answer for this token carried the mark of a filter, which masked answers never do.
    always_marked: Option<bool>,
    /// Whether the last answer without another doubt was filtered.
    filtered: bool,
    /// What the token hides.
    hides: Hides,
    /// Whether a confirm request of the core is open.
    confirm_open: bool,
    doubt: Option<Doubt>,
    /// Time of the next leader read.
    confirm_at: Option<Mono>,
    confirm: Backoff,
    retry: Backoff,
    /// Fraction by which the next long poll is shortened, so that many loops do not synchronize.
    stagger: Option<f64>,
    again: Option<ReadReason>,
    now: Mono,
    /// Time when content was last decoded, whatever the index.
    seen_at: Mono,
    bucket: TokenBucket,
    ticket: Ticket,
    pending: Pending<C>,
}

type Actions<C> = Vec<Action<C>>;

impl<C: Content> Watch<C> {
    /// Creates a loop that has not started.
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
            last_reported: None,
            index: None,
            floor: None,
            always_filtered: None,
            always_marked: None,
            filtered: false,
            hides: Hides::Nothing,
            confirm_open: false,
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
    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }
    /// Returns whether any content is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.last_reported.is_some()
    }
    /// Returns the last index.
    #[must_use]
    pub const fn last_index(&self) -> Option<u64> {
        self.floor
    }
    /// Drops the index: the next read uses another server.
    pub const fn forget_index(&mut self) {
        (self.index, self.floor) = (None, None);
    }
    /// Performs one step. `random` is in the range from 0 to 1, excluding 1.
    #[must_use]
    pub fn step(&mut self, now: Mono, random: f64, event: Event<C>) -> Actions<C> {
        let mut out = Vec::new();
        self.now = now;
        if self.state != State::Ended {
            self.on(now, random.clamp(0.0, 1.0), event, &mut out);
        }
        out
    }

    fn on(&mut self, now: Mono, random: f64, event: Event<C>, out: &mut Actions<C>) {
        match event {
            Event::Started => self.started(random, out),
            Event::Answered(ticket, headers, content) if ticket == self.ticket => {
                if let Pending::Read(mode) = self.pending {
                    self.answered(now, random, &headers, content, mode == Mode::Leader, out);
                }
            }
            Event::Failed(ticket, failure) if ticket == self.ticket => self.failed(now, random, failure, out),
            Event::TokenChecked(ticket, token) if ticket == self.ticket => {
                self.checked(now, random, token, out)
            }
            Event::Answered(..) | Event::Failed(..) | Event::TokenChecked(..) => {}
            Event::ConfirmRequested => {
                self.confirm_open = true;
                self.confirm_soon(now, out);
            }
            Event::ReadLeader => self.confirm_soon(now, out),
            Event::ReadNow(reason) => self.read_now(now, reason, out),
            Event::Follow(follow) => self.set_follow(now, random, follow, out),
            Event::Switched { token } => self.switched(now, random, token, out),
            Event::Stopped => {
                self.cancel(out);
                self.become_state(State::Ended, out);
            }
        }
    }

    fn started(&mut self, random: f64, out: &mut Actions<C>) {
        if matches!(self.pending, Pending::Nothing) {
            self.stagger = Some(random);
            self.read(Duration::ZERO, Mode::Any, out);
        }
    }

    /// Starts a leader read. It replaces a blocking read, but waits for the end of a pause after a failure.
    fn confirm_soon(&mut self, now: Mono, out: &mut Actions<C>) {
        self.confirm_at = Some(now);
        let waits = match self.pending {
            Pending::Nothing => true,
            Pending::Read(mode) => mode != Mode::Leader && self.is_known(),
            Pending::Token(..) => false,
        };
        if waits && self.retry.failures() == 0 {
            self.cancel(out);
            self.read(Duration::ZERO, Mode::Leader, out);
        }
    }

    /// Handles a requested read. A long poll is aborted to check whether the server answers; a read on demand that is
    /// under way may have started too early, so another one follows.
    fn read_now(&mut self, now: Mono, reason: ReadReason, out: &mut Actions<C>) {
        match (&self.pending, self.follow) {
            (Pending::Nothing, _) => {
                let after = self.bucket.take(now);
                self.read(after, self.mode_of(reason), out);
            }
            (_, Follow::Demand) => self.again = self.again.max(Some(reason)),
            (Pending::Read(Mode::Blocking { .. }), Follow::Poll) if self.retry.failures() == 0 => {
                self.cancel(out);
                self.read(Duration::ZERO, Mode::Any, out);
            }
            _ => {}
        }
    }

    fn mode_of(&self, reason: ReadReason) -> Mode {
        match (reason, self.index) {
            (ReadReason::Changed, Some(index)) => Mode::Blocking { index, wait: self.policy.timing.catch_up },
            _ => Mode::Any,
        }
    }

    fn set_follow(&mut self, now: Mono, random: f64, follow: Follow, out: &mut Actions<C>) {
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
                self.stagger = Some(random);
                self.next_read(now, out);
            }
            _ => {}
        }
    }

    /// Restarts reads. Indexes do not apply to another server, and another token may show or hide other things.
    fn switched(&mut self, now: Mono, random: f64, token: bool, out: &mut Actions<C>) {
        (self.index, self.floor) = (None, None);
        if token {
            (self.always_filtered, self.always_marked) = (None, None);
        }
        if matches!(self.pending, Pending::Nothing) {
            return;
        }
        self.cancel(out);
        self.stagger = Some(random);
        let soon = self.policy.timing.pause_first.mul_f64(random);
        let mode = self.mode(now.plus(soon));
        self.read(soon, mode, out);
    }

    fn failed(&mut self, now: Mono, random: f64, failure: RequestFailure, out: &mut Actions<C>) {
        self.pending = Pending::Nothing;
        // a server that returns may have reset its index: a blocking read from a later index would never return
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
        let pause = self.retry.next(&mut Given(random));
        let after = match failure {
            RequestFailure::Auth => auth + pause,
            RequestFailure::Config | RequestFailure::Unsupported | RequestFailure::TooLarge => config,
            _ => pause,
        };
        self.stagger = Some(random);
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
