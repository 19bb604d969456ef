//! Status of the scopes: at once when the state changes, otherwise at intervals.

use std::sync::Arc;

use tokio::time::Instant;
use tributary_model::{Mono, RegistryUpdate, SourceDetail, SourceMode, SourceState, SourceStatus};
use tributary_registry_api::Reason;

use super::RunLoop;
use super::scope_run::ScopeRun;
use crate::machine::{Mode, Report};

impl RunLoop {
    /// Reports the status of each scope if it changed, at once for a new state, otherwise when the interval is over.
    pub(super) fn report_status(&mut self, at: Instant) {
        let now = self.now();
        let periodic = self.status_at <= at;
        if periodic {
            self.status_at = at + self.config.timing.status;
        }
        let (token, files) = (self.token_fault.as_ref(), self.files_fault.as_ref());
        let faults = Faults { token: token.map(Reason::shared), files: files.map(Reason::shared) };
        let mut updates = Vec::new();
        for run in self.runs.values_mut() {
            if !periodic && run.last_status.as_ref().is_some_and(|last| last.state == run.machine.state()) {
                continue;
            }
            let report = run.machine.report();
            let status = status(run, &report, now, &faults);
            if run.last_status.as_ref() != Some(&status) {
                run.last_status = Some(status.clone());
                updates.push(RegistryUpdate::Status(run.area.scope.clone(), status));
            }
        }
        if !updates.is_empty() {
            self.out.send_all(updates);
        }
    }
}

/// Faults of the configured files.
struct Faults {
    token: Option<Arc<str>>,
    files: Option<Arc<str>>,
}

fn status(run: &ScopeRun, report: &Report, now: Mono, faults: &Faults) -> SourceStatus {
    let mut reason: Arc<str> = report.reason.into();
    if report.state != SourceState::Live
        && let Some(fault) = &run.fault
    {
        reason = format!("{} ({fault})", report.reason).into();
    }
    match (report.state, &faults.token, &faults.files) {
        (SourceState::AuthFailed, Some(token), _) => reason = Arc::clone(token),
        // the previous contents stay in use until a run starts again
        (SourceState::Live, Some(fault), _) | (SourceState::Live, None, Some(fault)) if reason.is_empty() => {
            reason = Arc::clone(fault);
        }
        _ => {}
    }
    if run.unlisted {
        let followed = "not listed; its services stay until the leader confirms that they are gone";
        let more = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        reason = format!("{followed}{more}").into();
    }
    let mode = match report.mode {
        Mode::PerService => "perService",
        Mode::Mixed => "mixed",
        Mode::NotifyAndFetch => "notifyAndFetch",
    };
    let last = "last success";
    let last_success = report
        .last_success
        .map_or_else(|| SourceDetail::text(last, "never"), |at| SourceDetail::age(last, now.since(at)));
    let index = report
        .index
        .map_or_else(|| SourceDetail::text("index", "none"), |index| SourceDetail::number("index", index));
    let view = if report.filtered { "filtered by ACLs" } else { "all" };
    let details = [
        index,
        last_success,
        SourceDetail::text("lag", format!("{} ms", report.lag.as_millis())),
        SourceDetail::number("services", report.services as u64),
        SourceDetail::number("polled", report.polled as u64),
        SourceDetail::number("notified", report.notified as u64),
        SourceDetail::number("failing", report.failing as u64),
        SourceDetail::number("doubtful", report.doubtful as u64),
        SourceDetail::text("ACL view", view),
        SourceDetail::text("address", run.fetch.client.address(report.server)),
        SourceDetail::number("requests", report.under_way as u64),
        SourceDetail::number("overloads", report.overloads),
    ];
    SourceStatus {
        retry_in: run.machine.retry_in(now),
        mode: Some(SourceMode { name: mode.into(), reason: report.mode_reason.into() }),
        details: details.into(),
        ..SourceStatus::new(report.state, reason)
    }
}
