//! Status of a scope.

use std::time::Duration;

use tributary_model::{Mono, SourceState};

use super::Machine;
use crate::answer::{Doubt, RequestFailure};
use crate::watch::State;

/// How the services of a scope are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each by a long poll of its own.
    PerService,
    /// Some by a long poll, the others by notify and fetch.
    Mixed,
    /// All by notify and fetch.
    NotifyAndFetch,
}

/// Status of a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// State.
    pub state: SourceState,
    /// Reason; empty if there is nothing to add.
    pub reason: &'static str,
    /// How the services are followed.
    pub mode: Mode,
    /// Why services lack a long poll, or why they are read in turn.
    pub mode_reason: &'static str,
    /// Services with a long poll.
    pub polled: usize,
    /// Services that are read when the lists of names and checks report a change.
    pub notified: usize,
    /// Index of the catalog.
    pub index: Option<u64>,
    /// Time of the last answer.
    pub last_success: Option<Mono>,
    /// Followed services.
    pub services: usize,
    /// Services whose last read failed.
    pub failing: usize,
    /// Services whose absences are not trusted.
    pub doubtful: usize,
    /// Whether the token sees less than everything, as far as the answers show.
    pub filtered: bool,
    /// Age of the last answering server's contact with its leader.
    pub lag: Duration,
    /// Answers that reported too many requests.
    pub overloads: u64,
    /// Requests under way.
    pub under_way: usize,
    /// Current limit of requests per second.
    pub rate: u32,
    /// Index of the address in use.
    pub server: usize,
}

impl Machine {
    /// Returns the current status.
    #[must_use]
    pub fn report(&self) -> Report {
        let (state, reason) = self.state_and_reason();
        let count = |want: fn(State) -> bool| {
            self.services.values().filter(|service| want(service.watch.state())).count()
        };
        Report {
            state,
            reason,
            mode: self.mode(),
            mode_reason: self.mode_reason(),
            polled: self.budget.polled(),
            notified: self.budget.notified(),
            index: self.names.last_index(),
            last_success: self.last_success,
            services: self.services.len(),
            failing: count(|state| matches!(state, State::Failing(_))),
            doubtful: count(|state| matches!(state, State::Doubtful(_))),
            filtered: self.is_filtered(),
            lag: self.lag,
            overloads: self.overloads,
            under_way: self.limiter.under_way(),
            rate: self.limiter.current_rate(),
            server: self.server,
        }
    }
    /// Returns how the services are followed.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match (self.budget.polled(), self.budget.notified()) {
            (_, 0) => Mode::PerService,
            (0, _) => Mode::NotifyAndFetch,
            _ => Mode::Mixed,
        }
    }
    /// Returns the state without counting services.
    #[must_use]
    pub fn state(&self) -> SourceState {
        self.state_and_reason().0
    }
    /// Returns the time until the list of names is read again after a failure.
    #[must_use]
    pub fn retry_in(&self, now: Mono) -> Option<Duration> {
        let failing = matches!(self.names.state(), State::Failing(_));
        failing.then(|| self.due(now)).flatten().map(|due| due.since(now))
    }

    fn mode_reason(&self) -> &'static str {
        match self.reads_in_turn() {
            Some(reason) => reason,
            None if self.budget.notified() == 0 => "",
            None if self.limiter.polls().is_lowered() => "the server reported too many requests",
            None => "more services than connections allow",
        }
    }

    fn state_and_reason(&self) -> (SourceState, &'static str) {
        match self.names.state() {
            State::Starting => (SourceState::Syncing, "the list of services has not been answered yet"),
            State::Live if !self.is_listed() => (SourceState::Syncing, "not every service has been read yet"),
            State::Live if self.hides() => (SourceState::Live, doubt_reason(Doubt::Filtered)),
            State::Live => (SourceState::Live, self.hidden_reason()),
            State::Doubtful(doubt) => (SourceState::Live, doubt_reason(doubt)),
            State::Failing(failure) => failure_reason(failure),
            State::Ended => (SourceState::Forbidden, "the server has no such endpoint"),
        }
    }

    /// Returns why a followed catalog may show less than exists, if what is served does not reveal it.
    fn hidden_reason(&self) -> &'static str {
        match (self.names.is_filtered(), self.settings.has_token) {
            (true, false) => {
                "no token is configured and the default policy is deny; configure one that may read services and nodes"
            }
            (true, true) if self.listed.is_empty() => {
                "the token sees no service; give it policies that may read services and nodes"
            }
            _ => "",
        }
    }
}

const fn doubt_reason(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Reset => "indexes went backwards; removals wait for the leader",
        Doubt::Stale => "the servers have no leader or lag behind it; removals wait",
        Doubt::Filtered => "the token sees less than before; removals wait, check its policies",
    }
}

const fn failure_reason(failure: RequestFailure) -> (SourceState, &'static str) {
    match failure {
        RequestFailure::Transient => {
            (SourceState::Unreachable, "cannot be reached, or has no path to this datacenter")
        }
        RequestFailure::Overload => (SourceState::Unreachable, "has too many requests or connections"),
        RequestFailure::Auth => {
            (SourceState::AuthFailed, "refuses the token; configure one that may read services and nodes")
        }
        RequestFailure::Config => {
            (SourceState::Forbidden, "refuses the request; check datacenter, namespace and partition")
        }
        RequestFailure::Unsupported => {
            (SourceState::Forbidden, "has no such endpoint; check its version and edition")
        }
        RequestFailure::TooLarge => {
            (SourceState::Broken, "the answer exceeds a limit; select fewer services or read fewer scopes")
        }
        RequestFailure::Broken => (SourceState::Broken, "the answers are not Consul's; check the address"),
    }
}
