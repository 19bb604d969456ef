//! What the scopes say of themselves: at once where they fare otherwise, else from time to time.

use std::sync::Arc;

use tokio::time::Instant;
use tributary_model::{Mono, RegistryUpdate, SourceState, SourceStatus};
use tributary_registry_api::Reason;

use super::scope_run::ScopeRun;
use super::{RunLoop, STATUS};
use crate::modes::{Mode, Report};

impl RunLoop {
    /// Says how each scope is doing, where that is another status than the last or the time has come.
    pub(super) fn tell_status(&mut self, at: Instant) {
        let now = self.now();
        let periodic = self.status_at <= at;
        if periodic {
            self.status_at = at + STATUS;
        }
        let (token, files) = (self.token_fault.as_ref(), self.files_fault.as_ref());
        let faults = Faults { token: token.map(Reason::shared), files: files.map(Reason::shared) };
        let mut said = Vec::new();
        for place in self.places.values_mut() {
            if !periodic && place.told.as_ref().is_some_and(|told| told.state == place.machine.state()) {
                continue;
            }
            let report = place.machine.report(now);
            let status = status(place, &report, now, &faults);
            if place.told.as_ref() != Some(&status) {
                place.told = Some(status.clone());
                said.push(RegistryUpdate::Status(place.area.scope.clone(), status));
            }
        }
        if !said.is_empty() {
            self.out.send_all(said);
        }
    }
}

/// What is wrong with the files that the registry was given.
struct Faults {
    token: Option<Arc<str>>,
    files: Option<Arc<str>>,
}

fn status(place: &ScopeRun, report: &Report, now: Mono, faults: &Faults) -> SourceStatus {
    let mut reason: Arc<str> = report.reason.into();
    if report.state != SourceState::Live
        && let Some(fault) = &place.fault
    {
        reason = format!("{} ({fault})", report.reason).into();
    }
    match (report.state, &faults.token, &faults.files) {
        (SourceState::AuthFailed, Some(token), _) => reason = Arc::clone(token),
        // what was read before is used until a run begins anew
        (SourceState::Live, Some(fault), _) | (SourceState::Live, None, Some(fault)) if reason.is_empty() => {
            reason = Arc::clone(fault);
        }
        _ => {}
    }
    if place.unlisted {
        let followed = "not listed; its services stay until the leader confirms that they are gone";
        let more = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        reason = format!("{followed}{more}").into();
    }
    let mode = match report.mode {
        Mode::Precise => "precise".to_owned(),
        Mode::Doorbell if report.mode_reason.is_empty() => "doorbell".to_owned(),
        Mode::Doorbell => format!("doorbell: {}", report.mode_reason),
    };
    let ago = report
        .last_success
        .map_or_else(|| "never".to_owned(), |at| format!("{} s ago", now.since(at).as_secs()));
    let index = report.index.map_or_else(|| "none".to_owned(), |index| index.to_string());
    let view = if report.filtered { "filtered by ACLs" } else { "all" };
    let details = [
        ("mode", mode),
        ("index", index),
        ("last success", ago),
        ("lag", format!("{} ms", report.lag.as_millis())),
        ("services", report.services.to_string()),
        ("failing", report.failing.to_string()),
        ("doubtful", report.doubtful.to_string()),
        ("ACL view", view.to_owned()),
        ("address", place.fetch.client.address(report.server)),
        ("requests", report.under_way.to_string()),
        ("overloads", report.overloads.to_string()),
    ];
    SourceStatus {
        retry_in: place.machine.retry_in(now),
        details: details.map(|(name, value)| (name.into(), value.into())).into(),
        ..SourceStatus::new(report.state, reason)
    }
}
