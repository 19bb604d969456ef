//! What runs beside the watch: the small authenticated list, and the audit.

use tributary_model::Mono;

use super::super::api_failure::ApiFailure;
use super::super::audit::{Audit, Verdict};
use super::super::head::Head;
use super::super::protocol::{Action, Say, WatchRequest};
use super::{Machine, Phase};

/// Pages of an audit hold names and versions only.
const AUDIT_PAGE: u32 = 500;

impl Machine {
    /// After a list: when the first probe and the next audit are due.
    pub(super) fn schedule_beside(&mut self, now: Mono) {
        let audit = self.spread(self.timing.audit);
        self.audit_due = now.plus(audit);
        self.probe = super::Probe { due: now.plus(self.timing.probe), ..super::Probe::default() };
    }

    /// Ends whatever runs beside the watch.
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

    /// So short that a loss shows within two intervals.
    fn probe_patience(&self) -> std::time::Duration {
        self.timing.answer.min(self.timing.probe / 2)
    }

    fn tick_probe(&mut self, now: Mono, out: &mut Vec<Action>) {
        match self.probe.asked {
            Some(asked) if now.since(asked) >= self.probe_patience() => {
                out.push(Action::StopProbe);
                let waited = format!("nothing came for {} s", self.probe_patience().as_secs());
                self.probed(Err(ApiFailure::Unreachable(waited)), now, out);
            }
            None if now >= self.probe.due => {
                self.probe.asked = Some(now);
                out.push(Action::Probe(WatchRequest::Probe { version: self.served_version() }));
            }
            _ => {}
        }
    }

    /// The small list was answered.
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
            // too busy to answer says nothing of credential and right
            Err(ApiFailure::TooMany(pause, _)) => {
                self.probe.due = now.plus(pause.unwrap_or_default().max(self.timing.probe));
            }
            Err(failure) => {
                self.probe.failures = self.probe.failures.saturating_add(1);
                self.withhold("small list", &failure, self.probe.failures, out);
                let trouble = self.trouble("small list", &failure, self.probe.due, false);
                self.health.probed(Some(trouble));
            }
        }
    }

    fn tick_audit(&mut self, now: Mono, out: &mut Vec<Action>) {
        match &self.audit {
            None if now >= self.audit_due => {
                self.audit = Some(Audit::begin(&mut self.table, now));
                out.push(Action::Audit(self.audit_ask(None)));
            }
            Some(audit) if audit.asked.is_some_and(|at| now.since(at) >= self.timing.answer) => {
                out.push(Action::StopAudit);
                self.audit_failed(now);
            }
            Some(_) => self.judge_audit(now, out),
            None => {}
        }
    }

    fn audit_ask(&self, next: Option<String>) -> WatchRequest {
        WatchRequest::Audit { version: self.served_version(), limit: AUDIT_PAGE, next }
    }

    /// The audit's list holds this object.
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
        let ask = next.map(|next| self.audit_ask(Some(next)));
        let Some(audit) = &mut self.audit else { return };
        if let Some(ask) = ask {
            audit.asked = Some(now);
            return out.push(Action::Audit(ask));
        }
        audit.complete(&self.table, version, now.plus(self.timing.live / 2));
        self.judge_audit(now, out);
    }

    /// Tried again soon, and without a word: whether the server answers is the probe's to say.
    pub(super) fn audit_failed(&mut self, now: Mono) {
        self.audit = None;
        self.audit_due = now.plus(self.timing.probe);
    }

    /// The watch spoke of a name.
    pub(super) fn touch(&mut self, key: u64) {
        if let Some(audit) = &mut self.audit {
            audit.touch(key);
        }
    }

    /// Says what came of the audit, once that can be told.
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
                out.push(Action::Say(Say::Recovered(lost)));
                self.relist(now, out);
            }
            Verdict::Open | Verdict::Moot => {}
        }
    }

    /// What is held is what the server holds, whether or not the watch says anything.
    fn audit_was_clean(&mut self, now: Mono, out: &mut Vec<Action>) {
        if self.health.waits_to_hear() && matches!(self.phase, Phase::Following { .. }) {
            self.heard = now;
            self.health.heard();
        }
        out.push(Action::Say(Say::Confirmed));
    }
}
