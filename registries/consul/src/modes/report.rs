//! How a scope is doing, for people.

use std::time::Duration;

use tributary_model::{Mono, SourceState};

use super::{Machine, Mode};
use crate::answer::{Doubt, RequestFailure};
use crate::watch::State;

/// How a scope is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In one word.
    pub state: SourceState,
    /// Why; empty where there is nothing to say.
    pub reason: &'static str,
    /// How services are followed.
    pub mode: Mode,
    /// Why the doorbell is used, where it was not asked for.
    pub mode_reason: &'static str,
    /// The catalog's index.
    pub index: Option<u64>,
    /// When the source answered last.
    pub last_success: Option<Mono>,
    /// Services that are followed.
    pub services: usize,
    /// Services whose last read came to nothing.
    pub failing: usize,
    /// Services whose absences are not believed.
    pub doubtful: usize,
    /// Whether the token sees all, as far as the answers say.
    pub filtered: bool,
    /// How long the server that answered last had not heard from its leader.
    pub lag: Duration,
    /// Answers that said it was too much.
    pub overloads: u64,
    /// How many requests are under way.
    pub under_way: usize,
    /// Which of the addresses is asked.
    pub server: usize,
}

impl Machine {
    /// How it is doing now.
    #[must_use]
    pub fn report(&self, now: Mono) -> Report {
        let (state, reason) = self.standing();
        let count =
            |want: fn(State) -> bool| self.slots.values().filter(|slot| want(slot.watch.state())).count();
        let spared = self.spared_until.is_some_and(|until| until > now);
        let mode_reason = match self.mode {
            Mode::Precise => "",
            Mode::Doorbell if spared => "the server answered that it had too many requests",
            Mode::Doorbell if self.listed.len() > self.settings.polls => {
                "more services than connections allow"
            }
            Mode::Doorbell => "",
        };
        Report {
            state,
            reason,
            mode: self.mode,
            mode_reason,
            index: self.names.last_index(),
            last_success: self.last_success,
            services: self.slots.len(),
            failing: count(|state| matches!(state, State::Failing(_))),
            doubtful: count(|state| matches!(state, State::Doubtful(_))),
            filtered: self.is_filtered(),
            lag: self.lag,
            overloads: self.overloads,
            under_way: self.gate.under_way(),
            server: self.server,
        }
    }
    /// Its state, without counting anything.
    #[must_use]
    pub fn state(&self) -> SourceState {
        self.standing().0
    }
    /// When the list of names is read next, where it failed.
    #[must_use]
    pub fn retry_in(&self, now: Mono) -> Option<Duration> {
        let failing = matches!(self.names.state(), State::Failing(_));
        failing.then(|| self.due(now)).flatten().map(|due| due.since(now))
    }

    fn standing(&self) -> (SourceState, &'static str) {
        match self.names.state() {
            State::Starting => (SourceState::Syncing, "the list of services has not been answered yet"),
            State::Live if !self.is_listed() => (SourceState::Syncing, "not every service has been read yet"),
            State::Live if self.hides() => (SourceState::Live, doubt_reason(Doubt::Filtered)),
            State::Live => (SourceState::Live, self.blindness()),
            State::Doubtful(doubt) => (SourceState::Live, doubt_reason(doubt)),
            State::Failing(failure) => failure_reason(failure),
            State::Ended => (SourceState::Forbidden, "the server has no such endpoint"),
        }
    }

    /// Why a catalog that is followed may show less than there is, where nobody would guess it from what is served.
    fn blindness(&self) -> &'static str {
        match (self.names.is_filtered(), self.settings.has_token) {
            (true, false) => {
                "no token is given and the policy is to deny; give one that may read services and nodes"
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
            (SourceState::AuthFailed, "refuses the token; give it one that may read services and nodes")
        }
        RequestFailure::Config => {
            (SourceState::Forbidden, "refuses the request; check datacenter, namespace and partition")
        }
        RequestFailure::Unsupported => {
            (SourceState::Forbidden, "has no such endpoint; check its version and edition")
        }
        RequestFailure::Broken => (SourceState::Broken, "answers what is not Consul's; check the address"),
    }
}
