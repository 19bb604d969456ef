//! Watch as a pure state machine: inputs go in, requests and events come out.
//!
//! Owned by `watch_loop`, which performs the requests. `InitDone` follows only after every object of a complete list; then
//! events keep the server's order. Failures are retried forever with one backoff, and by resuming where the server
//! allows it: the list is read again only when the version is lost.

mod beside;
mod main_line;
#[cfg(test)]
mod properties;

use std::time::Duration;

use tributary_model::{Mono, WithheldCause};
use tributary_registry_api::{Backoff, RandomSource, SplitMix};

use super::Timing;
use super::api_failure::ApiFailure;
use super::audit::Audit;
use super::head::Head;
use super::health::{Health, Trouble};
use super::protocol::{Action, WatchInput};
use super::version_table::{Mark, VersionTable};
use crate::event::Event;
use crate::resource::Resource;

/// Purpose of the main request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// No request: the next attempt comes later.
    Pause { until: Mono, then: Then },
    /// A list, streamed or in pages; `begun` once the server answered. Last progress at `at`.
    Listing { streamed: bool, begun: bool, at: Mono },
    /// A watch without an answer so far.
    Opening { at: Mono },
    /// An open watch.
    Following { since: Mono },
    /// Discovery of the served versions.
    Discovering { at: Mono },
}

/// Next step after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    List,
    Watch,
    Discover,
}

/// Small list beside the watch.
#[derive(Debug, Default)]
struct Probe {
    due: Mono,
    asked: Option<Mono>,
    /// Consecutive failures.
    failures: u32,
}

/// State machine of one kind.
pub(crate) struct Machine {
    resource: Resource,
    timing: Timing,
    random: SplitMix,
    table: VersionTable,
    phase: Phase,
    /// Index of the version in use, in the resource's versions.
    version: usize,
    /// Resource version up to which events are known.
    at: String,
    /// Whether lists are streamed.
    streams: bool,
    page: u32,
    /// Cause for which the kind is unavailable, as last reported.
    withheld: Option<WithheldCause>,
    /// Whether objects of the kind are held from earlier runs.
    held: bool,
    /// Time of the first unconfirmed answer that the kind is not served.
    missing: Option<Mono>,
    /// Whether discovery found the kind, and no watch has delivered anything since.
    claimed: bool,
    /// Whether a lost version was listed again at once, and no watch has delivered anything since.
    relisted: bool,
    /// Whether the consumer received `NotServed`.
    absent: bool,
    backoff: Backoff,
    health: Health,
    /// Time of the last input from the watch.
    last_event: Mono,
    probe: Probe,
    audit: Option<Audit>,
    audit_due: Mono,
}

impl Machine {
    /// Creates a machine that lists at the first tick.
    pub(crate) fn new(resource: Resource, timing: Timing, random: SplitMix) -> Self {
        Self {
            health: Health::new(resource.plural),
            page: timing.page.max(1),
            backoff: Backoff::new(timing.backoff),
            resource,
            timing,
            random,
            table: VersionTable::default(),
            phase: Phase::Pause { until: Mono(0), then: Then::List },
            version: 0,
            at: String::new(),
            streams: true,
            withheld: None,
            held: false,
            missing: None,
            claimed: false,
            relisted: false,
            absent: false,
            last_event: Mono(0),
            probe: Probe::default(),
            audit: None,
            audit_due: Mono(0),
        }
    }

    /// Marks that objects of the kind are held from earlier runs.
    pub(crate) const fn hold(&mut self) {
        self.held = true;
    }

    /// Applies an input and appends the resulting actions to `out`.
    pub(crate) fn step(&mut self, input: WatchInput<'_>, now: Mono, out: &mut Vec<Action>) {
        match input {
            WatchInput::Tick => self.tick(now, out),
            WatchInput::ListAgain => self.list_again(now, out),
            WatchInput::Opened => self.opened(now, out),
            WatchInput::Item(head) => return self.listed_item(&head, now, out),
            WatchInput::Page { next, version } => self.page_ended(next, version, now, out),
            WatchInput::Object(head) => self.object(&head, now, out),
            WatchInput::Deleted(head) => self.deleted(&head, now, out),
            WatchInput::Bookmark { version, complete } => self.bookmark(version, complete, now, out),
            WatchInput::Ended => self.ended(now, out),
            WatchInput::Failed(failure) => self.failed(failure, now, out),
            WatchInput::Served(version) => self.served(version, now, out),
            WatchInput::Probed(result) => self.probed(result, now, out),
            WatchInput::Audited(head) => return self.audited(&head, now),
            WatchInput::AuditPage { next, version } => self.audit_page(next, &version, now, out),
            WatchInput::AuditFailed(_) => self.audit_failed(now),
        }
        if self.withheld.is_some() && self.health.is_well() && matches!(self.phase, Phase::Following { .. }) {
            self.withheld = None;
            out.push(Action::Emit(Event::Resumed));
        }
        if let Some(part) = self.health.changed(now) {
            out.push(Action::Emit(Event::Status(part)));
        }
    }

    /// Returns the time at which the machine needs the next tick.
    pub(crate) fn deadline(&self) -> Mono {
        let main = match &self.phase {
            Phase::Pause { until, .. } => *until,
            Phase::Listing { at, .. } | Phase::Opening { at } | Phase::Discovering { at } => {
                at.plus(self.timing.answer)
            }
            Phase::Following { since } => (*since).max(self.last_event).plus(self.timing.live),
        };
        self.deadline_beside().map_or(main, |beside| main.min(beside))
    }

    fn tick(&mut self, now: Mono, out: &mut Vec<Action>) {
        match self.phase.clone() {
            Phase::Pause { until, then } if now >= until => self.start(then, now, out),
            Phase::Listing { at, .. } | Phase::Opening { at } | Phase::Discovering { at }
                if now.since(at) >= self.timing.answer =>
            {
                out.push(Action::StopMain);
                let waited = format!("nothing came for {} s", self.timing.answer.as_secs());
                self.failed(ApiFailure::Unreachable(waited), now, out);
            }
            Phase::Following { since } if now.since(since.max(self.last_event)) >= self.timing.live => {
                self.fell_silent(now, out);
            }
            _ => {}
        }
        self.tick_beside(now, out);
    }

    fn start(&mut self, then: Then, now: Mono, out: &mut Vec<Action>) {
        match then {
            Then::List => self.list(now, out),
            Then::Watch => self.watch(now, out),
            Then::Discover => self.discover(now, out),
        }
    }

    fn served_version(&self) -> &'static str {
        self.resource.versions.get(self.version).copied().unwrap_or("v1")
    }

    /// Randomizes an interval by 25 %, so that watches do not act in step.
    fn spread(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(0.75 + 0.5 * self.random.unit())
    }

    fn trouble(&self, asked: &str, failure: &ApiFailure, retry: Mono, until_event: bool) -> Trouble {
        let reason = failure.reason(&format!("{asked} of {}", self.resource.plural));
        Trouble { state: failure.state(), reason, retry, until_event }
    }

    /// Whether the open stream belongs to an incomplete list.
    const fn lists(&self) -> bool {
        matches!(self.phase, Phase::Listing { .. })
    }

    /// Notes that the watch delivered something.
    fn note_event(&mut self, now: Mono) {
        self.last_event = now;
        if let Phase::Listing { at, .. } = &mut self.phase {
            *at = now;
        } else {
            self.backoff.reset();
            (self.claimed, self.relisted) = (false, false);
            if self.health.awaits_event() {
                self.health.event_came();
            }
        }
    }

    fn report_mark(head: &Head<'_>, table: &mut VersionTable, out: &mut Vec<Action>) {
        let report = match table.put(head.key(), head.stamp()) {
            Mark::Changed => Event::Apply(()),
            Mark::Same => Event::Unchanged(()),
        };
        out.push(Action::Emit(report));
    }
}
