//! The watch as a pure machine: what happened goes in, what to ask and what to say comes out.
//!
//! Owned by the loop in `follow`, which does the asking. `Listed` is said only after every object of a
//! complete list; after it, events come in the server's order. What fails is tried again for ever, with the
//! one backoff, and by resuming where the server allows it: a list is read again only where a version is lost.

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
use super::protocol::{Action, Say, WatchInput};
use super::version_table::{Mark, VersionTable};
use crate::resource::Resource;

/// What the main request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Nothing: the next try comes later.
    Pause { until: Mono, then: Then },
    /// A list, streamed or in pages; `begun` once the server has answered. Progress was made at `at`.
    Listing { streamed: bool, begun: bool, at: Mono },
    /// A watch that the server has not answered yet.
    Opening { at: Mono },
    /// A watch.
    Following { since: Mono },
    /// In which versions the kind is served.
    Asking { at: Mono },
}

/// What to do after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    List,
    Watch,
    Ask,
}

/// The small list beside the watch.
#[derive(Debug, Default)]
struct Probe {
    due: Mono,
    asked: Option<Mono>,
    /// How often it failed in a row.
    failures: u32,
}

/// The machine of one kind.
pub(crate) struct Machine {
    resource: Resource,
    timing: Timing,
    chance: SplitMix,
    table: VersionTable,
    phase: Phase,
    /// Which of the resource's versions is read.
    version: usize,
    /// The version of the server's state up to which events are known.
    at: String,
    /// Whether the server is asked to stream its lists.
    streams: bool,
    page: u32,
    /// Why the kind cannot be read, as last reported.
    withheld: Option<WithheldCause>,
    /// Whether objects of the kind are held from earlier runs.
    held: bool,
    /// Since when the server answers that it does not serve the kind, while that is not confirmed.
    missing: Option<Mono>,
    /// Whether the server said that it serves the kind, and nothing has come of a watch since.
    claimed: bool,
    /// Whether the consumer was told that the kind is absent.
    absent: bool,
    backoff: Backoff,
    health: Health,
    /// When the watch last brought something.
    heard: Mono,
    probe: Probe,
    audit: Option<Audit>,
    audit_due: Mono,
}

impl Machine {
    /// A machine that lists first, at the first tick.
    pub(crate) fn new(resource: Resource, timing: Timing, chance: SplitMix) -> Self {
        Self {
            health: Health::new(resource.plural),
            page: timing.page.max(1),
            backoff: Backoff::new(timing.backoff),
            resource,
            timing,
            chance,
            table: VersionTable::default(),
            phase: Phase::Pause { until: Mono(0), then: Then::List },
            version: 0,
            at: String::new(),
            streams: true,
            withheld: None,
            held: false,
            missing: None,
            claimed: false,
            absent: false,
            heard: Mono(0),
            probe: Probe::default(),
            audit: None,
            audit_due: Mono(0),
        }
    }

    /// Objects of the kind are held from earlier runs.
    pub(crate) const fn hold(&mut self) {
        self.held = true;
    }

    /// Takes what happened and adds to `out` what follows from it.
    pub(crate) fn step(&mut self, heard: WatchInput<'_>, now: Mono, out: &mut Vec<Action>) {
        match heard {
            WatchInput::Tick => self.tick(now, out),
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
            out.push(Action::Say(Say::Resumed));
        }
        if let Some(part) = self.health.changed(now) {
            out.push(Action::Say(Say::Status(part)));
        }
    }

    /// When it wants to be told that time has passed.
    pub(crate) fn deadline(&self) -> Mono {
        let main = match &self.phase {
            Phase::Pause { until, .. } => *until,
            Phase::Listing { at, .. } | Phase::Opening { at } | Phase::Asking { at } => {
                at.plus(self.timing.answer)
            }
            Phase::Following { since } => (*since).max(self.heard).plus(self.timing.live),
        };
        self.deadline_beside().map_or(main, |beside| main.min(beside))
    }

    fn tick(&mut self, now: Mono, out: &mut Vec<Action>) {
        match self.phase.clone() {
            Phase::Pause { until, then } if now >= until => self.start(then, now, out),
            Phase::Listing { at, .. } | Phase::Opening { at } | Phase::Asking { at }
                if now.since(at) >= self.timing.answer =>
            {
                out.push(Action::StopMain);
                let waited = format!("nothing came for {} s", self.timing.answer.as_secs());
                self.failed(ApiFailure::Unreachable(waited), now, out);
            }
            Phase::Following { since } if now.since(since.max(self.heard)) >= self.timing.live => {
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
            Then::Ask => self.ask_versions(now, out),
        }
    }

    fn served_version(&self) -> &'static str {
        self.resource.versions.get(self.version).copied().unwrap_or("v1")
    }

    /// A time that differs from watch to watch, so that many do not act as one.
    fn spread(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(0.75 + 0.5 * self.chance.unit())
    }

    fn trouble(&self, asked: &str, failure: &ApiFailure, retry: Mono, until_heard: bool) -> Trouble {
        let reason = failure.reason(&format!("{asked} of {}", self.resource.plural));
        Trouble { state: failure.state(), reason, retry, until_heard }
    }

    /// Whether the stream that is read belongs to a list that is not complete.
    const fn lists(&self) -> bool {
        matches!(self.phase, Phase::Listing { .. })
    }

    /// Something came from the watch.
    fn note_heard(&mut self, now: Mono) {
        self.heard = now;
        if let Phase::Listing { at, .. } = &mut self.phase {
            *at = now;
        } else {
            self.backoff.reset();
            self.claimed = false;
            if self.health.waits_to_hear() {
                self.health.heard();
            }
        }
    }

    fn say_mark(head: &Head<'_>, table: &mut VersionTable, out: &mut Vec<Action>) {
        let say = match table.put(head.key(), head.stamp()) {
            Mark::Changed => Say::Apply,
            Mark::Same => Say::Unchanged,
        };
        out.push(Action::Say(say));
    }
}
