//! Main request: list, watch, resume, and recovery from their failures.

use tributary_model::{Mono, Withheld, WithheldCause};

use super::super::api_failure::ApiFailure;
use super::super::head::Head;
use super::super::protocol::{Action, WatchRequest};
use super::{Machine, Phase, Then};
use crate::event::Event;

/// Largest page size; pages grow when a list outlives its version on the server.
const LARGEST_PAGE: u32 = 5_000;

/// Consecutive failures, other than refusals, after which a kind counts as unavailable.
const PATIENCE: u32 = 3;

impl Machine {
    /// Starts the list from its beginning.
    pub(super) fn list(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.stop_beside(out);
        self.phase = Phase::Listing { streamed: self.streams, begun: false, at: now };
        let ask = if self.streams { self.watch_request(None) } else { self.page_request(None) };
        out.push(Action::Main(ask));
    }

    /// Opens a watch from the last known version.
    pub(super) fn watch(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.phase = Phase::Opening { at: now };
        let ask = self.watch_request(Some(self.at.clone()));
        out.push(Action::Main(ask));
    }

    pub(super) fn discover(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.phase = Phase::Discovering { at: now };
        out.push(Action::Main(WatchRequest::Served));
    }

    fn watch_request(&mut self, from: Option<String>) -> WatchRequest {
        let lasting = self.spread(self.timing.session);
        WatchRequest::Watch { version: self.served_version(), from, lasting }
    }

    fn page_request(&self, next: Option<String>) -> WatchRequest {
        WatchRequest::Page { version: self.served_version(), limit: self.page, next }
    }

    /// Handles the server's answer to a watch.
    pub(super) fn opened(&mut self, now: Mono, out: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Listing { begun, at, .. } => {
                *at = now;
                if !std::mem::replace(begun, true) {
                    self.list_begins(out);
                }
            }
            Phase::Opening { .. } => {
                self.phase = Phase::Following { since: now };
                self.health.answered();
            }
            _ => {}
        }
    }

    fn list_begins(&mut self, out: &mut Vec<Action>) {
        self.health.lists();
        self.absent = false;
        self.missing = None;
        self.table.open();
        out.push(Action::Emit(Event::Init));
    }

    /// Handles an object in a page.
    pub(super) fn listed_item(&mut self, head: &Head<'_>, now: Mono, out: &mut Vec<Action>) {
        if let Phase::Listing { begun, at, .. } = &mut self.phase {
            *at = now;
            if !std::mem::replace(begun, true) {
                self.list_begins(out);
            }
            Self::report_mark(head, &mut self.table, out);
        }
    }

    pub(super) fn page_ended(
        &mut self,
        next: Option<String>,
        version: String,
        now: Mono,
        out: &mut Vec<Action>,
    ) {
        let Phase::Listing { begun, at, .. } = &mut self.phase else { return };
        *at = now;
        if !std::mem::replace(begun, true) {
            self.list_begins(out);
        }
        match next {
            Some(next) => out.push(Action::Main(self.page_request(Some(next)))),
            None => {
                self.list_ends(version, now, out);
                self.watch(now, out);
            }
        }
    }

    fn list_ends(&mut self, version: String, now: Mono, out: &mut Vec<Action>) {
        self.table.close();
        self.at = version;
        self.last_event = now;
        self.withheld = None;
        self.page = self.timing.page.max(1);
        self.health.listed();
        self.schedule_beside(now);
        out.push(Action::Emit(Event::InitDone));
    }

    pub(super) fn object(&mut self, head: &Head<'_>, now: Mono, out: &mut Vec<Action>) {
        self.note_event(now);
        if self.lists() {
            return Self::report_mark(head, &mut self.table, out);
        }
        self.at = head.version.to_string();
        self.touch(head.key());
        self.table.put(head.key(), head.stamp());
        out.push(Action::Emit(Event::Apply(())));
        self.judge_audit(now, out);
    }

    pub(super) fn deleted(&mut self, head: &Head<'_>, now: Mono, out: &mut Vec<Action>) {
        self.note_event(now);
        self.table.remove(head.key());
        out.push(Action::Emit(Event::Delete(())));
        if !self.lists() {
            self.at = head.version.to_string();
            self.touch(head.key());
            self.judge_audit(now, out);
        }
    }

    pub(super) fn bookmark(&mut self, version: String, complete: bool, now: Mono, out: &mut Vec<Action>) {
        self.note_event(now);
        match (self.lists(), complete) {
            (true, true) => {
                self.list_ends(version, now, out);
                self.phase = Phase::Following { since: now };
            }
            // the version of an incomplete list cannot be resumed from
            (true, false) => {}
            (false, _) => {
                self.at = version;
                out.push(Action::Emit(Event::Confirmed));
                self.judge_audit(now, out);
            }
        }
    }

    /// Handles the regular end of a stream.
    pub(super) fn ended(&mut self, now: Mono, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Following { since } if now.since(since).as_secs() >= 1 => self.watch(now, out),
            _ => self.failed(ApiFailure::Torn("it ended early".to_owned()), now, out),
        }
    }

    /// Handles a failure of the main request.
    pub(super) fn failed(&mut self, failure: ApiFailure, now: Mono, out: &mut Vec<Action>) {
        match (&self.phase, &failure) {
            (Phase::Pause { .. }, _) => {}
            (Phase::Listing { streamed: true, begun: false, .. }, ApiFailure::Invalid(..)) => {
                self.streams = false;
                self.list(now, out);
            }
            (Phase::Discovering { .. }, _) => self.retry("discovery", failure, Then::Discover, now, out),
            (_, ApiFailure::NotFound(_)) => self.not_found(failure, now, out),
            (Phase::Listing { streamed, begun, .. }, _) => {
                if *streamed && *begun && matches!(failure, ApiFailure::Unreachable(_)) {
                    self.streams = false;
                }
                if matches!(failure, ApiFailure::Gone(_)) && *begun {
                    self.page = self.page.saturating_mul(4).min(LARGEST_PAGE);
                }
                self.retry("list", failure, Then::List, now, out);
            }
            // a server that restarted answers so: it has not failed, and the pause of earlier failures is over
            (_, ApiFailure::Gone(_)) if !self.relisted => {
                self.relisted = true;
                self.list(now, out);
            }
            _ => {
                let then = self.after_a_watch(&failure);
                self.retry("watch", failure, then, now, out);
            }
        }
    }

    /// Returns the step after a failed watch: resume, or list again when the version cannot be followed because it is lost,
    /// it is unreadable, or the server fails at it repeatedly (as a server does that was restored to an older state).
    fn after_a_watch(&self, failure: &ApiFailure) -> Then {
        match failure {
            ApiFailure::Gone(_) | ApiFailure::Invalid(..) | ApiFailure::Garbled(_) => Then::List,
            ApiFailure::Server(..) if self.backoff.failures() >= PATIENCE => Then::List,
            _ => Then::Watch,
        }
    }

    fn retry(&mut self, asked: &str, failure: ApiFailure, then: Then, now: Mono, out: &mut Vec<Action>) {
        let lasted = match self.phase {
            Phase::Following { since } => now.since(since),
            _ => std::time::Duration::ZERO,
        };
        let pause = self.backoff.next_after(lasted, &mut self.random);
        let until = now.plus(failure.pause().map_or(pause, |asked| asked + pause.mul_f64(0.1)));
        let broke_off = matches!(failure, ApiFailure::Torn(_) | ApiFailure::Gone(_));
        // a single lost version or broken watch is a regular end
        let ordinary = broke_off && !(self.lists() && matches!(failure, ApiFailure::Torn(_)));
        if !ordinary || self.backoff.failures() > 1 {
            self.health.failed(self.trouble(asked, &failure, until, broke_off));
        }
        if matches!(self.phase, Phase::Discovering { .. }) {
            self.missing = None;
        }
        self.withhold(asked, &failure, self.backoff.failures(), out);
        self.phase = Phase::Pause { until, then };
    }

    /// Reports a kind that is refused or that fails repeatedly. The consumer, which sees all kinds, judges whether the
    /// whole server fails.
    pub(super) fn withhold(
        &mut self,
        asked: &str,
        failure: &ApiFailure,
        failures: u32,
        out: &mut Vec<Action>,
    ) {
        let cause = match failure {
            ApiFailure::Forbidden(_) => WithheldCause::Forbidden,
            ApiFailure::Server(..)
            | ApiFailure::Invalid(..)
            | ApiFailure::Garbled(_)
            | ApiFailure::NotFound(_)
            | ApiFailure::Unreachable(_)
                if failures >= PATIENCE =>
            {
                WithheldCause::Failing
            }
            _ => return,
        };
        let why = failure.reason(&format!("{asked} of {}", self.resource.plural));
        self.report_withheld(Withheld { cause, why }, out);
    }

    fn report_withheld(&mut self, withheld: Withheld, out: &mut Vec<Action>) {
        if self.withheld.replace(withheld.cause) != Some(withheld.cause) {
            out.push(Action::Emit(Event::Unavailable(withheld)));
        }
    }

    /// Handles an unserved version: tries the next one, then discovers the served ones.
    fn not_found(&mut self, failure: ApiFailure, now: Mono, out: &mut Vec<Action>) {
        if self.version + 1 < self.resource.versions.len() {
            self.version += 1;
            return self.list(now, out);
        }
        if self.claimed {
            self.version = 0;
            return self.retry("list", failure, Then::Discover, now, out);
        }
        self.stop_beside(out);
        self.discover(now, out);
    }

    /// Handles the result of discovery.
    pub(super) fn served(&mut self, version: Option<usize>, now: Mono, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Discovering { .. }) {
            return;
        }
        if let Some(version) = version {
            self.version = version;
            self.missing = None;
            self.claimed = true;
            // a path that is not found although it is served is retried with pauses
            self.backoff.next(&mut self.random);
            return self.list(now, out);
        }
        self.not_served(now, out);
    }

    fn not_served(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.version = 0;
        self.claimed = false;
        self.backoff.reset();
        let until = now.plus(self.timing.probe);
        self.phase = Phase::Pause { until, then: Then::Discover };
        let known = self.resource.versions.join(", ");
        let what = if self.resource.group.is_empty() { "the core group" } else { &*self.resource.group };
        let reason = format!("not served: {what} has no {} in {known}", self.resource.plural);
        if !self.resource.optional {
            let failure = ApiFailure::NotFound(reason);
            self.withhold("list", &failure, PATIENCE, out);
            return self.health.failed(self.trouble("list", &failure, until, false));
        }
        if !self.absent && !self.is_confirmed(now) {
            return self.await_second_answer(&reason, now, out);
        }
        let every = self.timing.probe.as_secs();
        self.health.absent(format!("{reason}; looked for every {every} s").into());
        let was_withheld = self.withheld.take().is_some();
        if std::mem::replace(&mut self.absent, true) {
            return out.push(Action::Emit(if was_withheld { Event::Resumed } else { Event::Confirmed }));
        }
        self.missing = None;
        self.table.clear();
        out.push(Action::Emit(Event::NotServed));
    }

    /// Whether one answer is enough to prove that the kind is not installed, or the second one arrived.
    fn is_confirmed(&self, now: Mono) -> bool {
        let is_held = self.held || !self.table.is_empty();
        !is_held || self.missing.is_some_and(|since| now.since(since) >= self.timing.uninstalled)
    }

    fn await_second_answer(&mut self, reason: &str, now: Mono, out: &mut Vec<Action>) {
        let since = *self.missing.get_or_insert(now);
        let until = since.plus(self.timing.uninstalled);
        self.phase = Phase::Pause { until, then: Then::Discover };
        let failure = ApiFailure::NotFound(format!("{reason}; a second answer has to confirm it"));
        self.withhold("discovery", &failure, PATIENCE, out);
        self.health.failed(self.trouble("discovery", &failure, until, false));
    }

    /// Handles a silent watch: opens it again and audits what it missed.
    pub(super) fn fell_silent(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.health.silent(self.timing.live, now.plus(self.timing.live));
        self.watch(now, out);
        self.audit_due = now;
    }

    /// Begins a list at the consumer's request, or lets the next attempt be one.
    pub(super) fn list_again(&mut self, now: Mono, out: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Pause { then: then @ Then::Watch, .. } => *then = Then::List,
            // a list follows anyhow
            Phase::Pause { .. } | Phase::Discovering { .. } => {}
            Phase::Listing { .. } | Phase::Opening { .. } | Phase::Following { .. } => self.relist(now, out),
        }
    }

    /// Lists again after lost events.
    pub(super) fn relist(&mut self, now: Mono, out: &mut Vec<Action>) {
        out.push(Action::StopMain);
        self.list(now, out);
    }

    /// Handles a kind that disappears while its watch runs.
    pub(super) fn vanished(&mut self, failure: ApiFailure, now: Mono, out: &mut Vec<Action>) {
        out.push(Action::StopMain);
        self.failed(failure, now, out);
    }
}
