//! Requests beside the watch: the probe and the audit.

use tributary_model::Mono;

use super::super::api_failure::ApiFailure;
use super::super::audit::{Audit, Verdict};
use super::super::head::Head;
use super::super::protocol::{Action, WatchRequest};
use super::{Machine, Phase};
use crate::event::Event;

/// Page size of an audit; its items hold names and versions only.
const AUDIT_PAGE: u32 = 500;

impl Machine {
    /// Schedules the first probe and the next audit after a list.
    pub(super) fn schedule_beside(&mut self, now: Mono) {
        let audit = self.spread(self.timing.audit);
        self.audit_due = now.plus(audit);
        self.probe = super::Probe { due: now.plus(self.timing.probe), ..super::Probe::default() };
    }

    /// Stops the probe and the audit.
    pub(super) fn stop_beside(&mut self, out: &mut Vec<Action>) {
        if self.probe.asked.take().is_some() {
            out.push(Action::StopProbe);
        }
        if self.audit.take().is_some() {
            out.push(Action::StopAudit);
        }
    }

    pub(super) fn deadline_beside(&self) -> Option<Mono> {
        if !matches!(self.phase, Phase::Following { .. }) {
            return None;
        }
        let probe = match self.probe.asked {
            Some(asked) => asked.plus(self.probe_patience()),
            None => self.probe.due,
        };
        let audit = match &self.audit {
            Some(audit) => audit.asked.map(|at| at.plus(self.timing.answer)).or_else(|| audit.grace()),
            None => Some(self.audit_due),
        };
        Some(audit.map_or(probe, |audit| audit.min(probe)))
    }

    pub(super) fn tick_beside(&mut self, now: Mono, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Following { .. }) {
            self.tick_probe(now, out);
            self.tick_audit(now, out);
        }
    }

    /// Returns the time limit of a probe, short enough to show a loss within two intervals.
    fn probe_patience(&self) -> std::time::Duration {
        self.timing.answer.min(self.timing.probe / 2)
    }

    fn tick_probe(&mut self, now: Mono, out: &mut Vec<Action>) {
        match self.probe.asked {
            Some(asked) if now.since(asked) >= self.probe_patience() => {
                out.push(Action::StopProbe);
                let waited = format!("nothing came for {:?}", self.probe_patience());
                self.probed(Err(ApiFailure::Unreachable(waited)), now, out);
            }
            None if now >= self.probe.due => {
                self.probe.asked = Some(now);
                out.push(Action::Probe(WatchRequest::Probe { version: self.served_version() }));
            }
            _ => {}
        }
    }

    /// Handles the result of a probe.
    pub(super) fn probed(&mut self, result: Result<(), ApiFailure>, now: Mono, out: &mut Vec<Action>) {
        if self.probe.asked.take().is_none() {
            return;
        }
        self.probe.due = now.plus(self.timing.probe);
        match result {
            Ok(()) => {
                self.probe.failures = 0;
                self.health.probed(None);
            }
            Err(failure @ ApiFailure::NotFound(_)) => self.vanished(failure, now, out),
            // an overloaded server gives no information about credential and right
            Err(ApiFailure::TooMany(pause, _)) => {
                self.probe.due = now.plus(pause.unwrap_or_default().max(self.timing.probe));
            }
            Err(failure) => {
                self.probe.failures = self.probe.failures.saturating_add(1);
                self.withhold("probe", &failure, self.probe.failures, out);
                let trouble = self.trouble("probe", &failure, self.probe.due, false);
                self.health.probed(Some(trouble));
            }
        }
    }

    fn tick_audit(&mut self, now: Mono, out: &mut Vec<Action>) {
        match &self.audit {
            None if now >= self.audit_due => {
                self.audit = Some(Audit::begin(&mut self.table, now));
                out.push(Action::Audit(self.audit_request(None)));
            }
            Some(audit) if audit.asked.is_some_and(|at| now.since(at) >= self.timing.answer) => {
                out.push(Action::StopAudit);
                self.audit_failed(now);
            }
            Some(_) => self.judge_audit(now, out),
            None => {}
        }
    }

    fn audit_request(&self, next: Option<String>) -> WatchRequest {
        WatchRequest::Audit { version: self.served_version(), limit: AUDIT_PAGE, next }
    }

    /// Compares an object of the audit's list.
    pub(super) fn audited(&mut self, head: &Head<'_>, now: Mono) {
        if let Some(audit) = &mut self.audit {
            audit.asked = Some(now);
            audit.item(&mut self.table, head);
        }
    }

    pub(super) fn audit_page(
        &mut self,
        next: Option<String>,
        version: &str,
        now: Mono,
        out: &mut Vec<Action>,
    ) {
        let ask = next.map(|next| self.audit_request(Some(next)));
        let Some(audit) = &mut self.audit else { return };
        if let Some(ask) = ask {
            audit.asked = Some(now);
            return out.push(Action::Audit(ask));
        }
        audit.complete(&self.table, version, now.plus(self.timing.live / 2));
        self.judge_audit(now, out);
    }

    /// Reschedules the audit soon and reports nothing: the probe reports whether the server answers.
    pub(super) fn audit_failed(&mut self, now: Mono) {
        self.audit = None;
        self.audit_due = now.plus(self.timing.probe);
    }

    /// Notes an event of the watch for a name.
    pub(super) fn touch(&mut self, key: u64) {
        if let Some(audit) = &mut self.audit {
            audit.touch(key);
        }
    }

    /// Acts on the audit's result, once it is known.
    pub(super) fn judge_audit(&mut self, now: Mono, out: &mut Vec<Action>) {
        let Some(audit) = &self.audit else { return };
        let verdict = audit.verdict(&self.table, &self.at, now);
        if verdict == Verdict::Open {
            return;
        }
        self.audit = None;
        let next = self.spread(self.timing.audit);
        self.audit_due = now.plus(next);
        match verdict {
            Verdict::Clean => self.audit_was_clean(now, out),
            Verdict::Lost(lost) => {
                out.push(Action::Emit(Event::Recovered(lost)));
                self.relist(now, out);
            }
            Verdict::Open | Verdict::Moot => {}
        }
    }

    /// Confirms that the held objects equal the server's, even if the watch delivers nothing.
    fn audit_was_clean(&mut self, now: Mono, out: &mut Vec<Action>) {
        if self.health.awaits_event() && matches!(self.phase, Phase::Following { .. }) {
            self.last_event = now;
            self.health.event_came();
        }
        out.push(Action::Emit(Event::Confirmed));
    }
}
