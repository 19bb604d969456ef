//! Health of a kind: failure of its watch, failure of the probe beside it, and time without events.
//!
//! Owned by the machine, which reports what happened. A status is emitted when it differs from the last one.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Mono, SourcePart, SourceState};

/// A failure, and the time of the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) state: SourceState,
    pub(crate) reason: Arc<str>,
    pub(crate) retry: Mono,
    /// Only an event clears the failure: the server answers, and then breaks off.
    pub(crate) until_event: bool,
}

/// Health of one kind.
#[derive(Debug)]
pub(crate) struct Health {
    name: Arc<str>,
    /// Failure of the list or the watch.
    trouble: Option<Trouble>,
    /// Failure of the probe.
    probe: Option<Trouble>,
    /// Reason for an absent kind, which is not a failure.
    absent: Option<Arc<str>>,
    /// The watch delivers nothing: reason, and time of the next attempt.
    silent: Option<(Arc<str>, Mono)>,
    /// Whether a list has completed.
    listed: bool,
    reported: Option<(SourceState, Arc<str>, Option<Mono>)>,
    since: Mono,
    /// Reasons of a healthy kind, shared to avoid allocations.
    syncing: Arc<str>,
    live: Arc<str>,
}

impl Health {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            trouble: None,
            probe: None,
            absent: None,
            silent: None,
            listed: false,
            reported: None,
            since: Mono::default(),
            syncing: "reading the first list".into(),
            live: "".into(),
        }
    }
    /// Records a failure of the list or the watch.
    pub(crate) fn failed(&mut self, trouble: Trouble) {
        self.trouble = Some(trouble);
    }
    /// Records that the server accepted a watch.
    pub(crate) fn answered(&mut self) {
        self.probe = None;
        self.trouble.take_if(|trouble| !trouble.until_event);
    }
    /// Records that the server began a list; a repeated list clears no failure before it completes.
    pub(crate) fn lists(&mut self) {
        self.probe = None;
        self.absent = None;
        if !self.listed {
            self.trouble = None;
        }
    }
    /// Records an event, a bookmark, a complete list or a clean audit.
    pub(crate) fn event_came(&mut self) {
        self.trouble = None;
        self.silent = None;
    }
    /// Records a complete list.
    pub(crate) fn listed(&mut self) {
        self.listed = true;
        self.event_came();
    }
    /// Records the result of the probe.
    pub(crate) fn probed(&mut self, found: Option<Trouble>) {
        self.probe = found;
    }
    /// Records that the server does not serve the kind.
    pub(crate) fn absent(&mut self, reason: Arc<str>) {
        self.listed = false;
        self.trouble = None;
        self.probe = None;
        self.absent = Some(reason);
    }
    /// Records that the watch delivered nothing for this long.
    pub(crate) fn silent(&mut self, lasted: Duration, retry: Mono) {
        let reason = format!("the watch has brought neither event nor bookmark for {} s", lasted.as_secs());
        self.silent = Some((reason.into(), retry));
    }
    /// Whether neither the watch nor the probe has failed.
    pub(crate) const fn is_well(&self) -> bool {
        self.trouble.is_none() && self.probe.is_none()
    }
    /// Whether there is a failure that an event clears.
    pub(crate) const fn awaits_event(&self) -> bool {
        self.trouble.is_some() || self.silent.is_some()
    }
    /// Returns the health as a part, if it differs from the last one returned.
    pub(crate) fn changed(&mut self, now: Mono) -> Option<SourcePart> {
        let (state, reason, retry) = self.current();
        let changed = match &self.reported {
            Some((s, r, at)) => *s != state || **r != *reason || *at != retry,
            None => true,
        };
        if !changed {
            return None;
        }
        if self.reported.as_ref().is_none_or(|(reported, ..)| *reported != state) {
            self.since = now;
        }
        let retry_in = retry.map(|at| at.since(now));
        let part = SourcePart {
            name: Arc::clone(&self.name),
            state,
            reason: Arc::clone(&reason),
            lasted: now.since(self.since),
            retry_in,
        };
        self.reported = Some((state, reason, retry));
        Some(part)
    }

    fn current(&self) -> (SourceState, Arc<str>, Option<Mono>) {
        let of = |trouble: &Trouble| (trouble.state, Arc::clone(&trouble.reason), Some(trouble.retry));
        if let Some(trouble) = &self.trouble {
            return of(trouble);
        }
        if let Some(reason) = &self.absent {
            return (SourceState::Live, Arc::clone(reason), None);
        }
        if !self.listed {
            return (SourceState::Syncing, Arc::clone(&self.syncing), None);
        }
        if let Some((reason, retry)) = &self.silent {
            return (SourceState::Unreachable, Arc::clone(reason), Some(*retry));
        }
        self.probe.as_ref().map_or_else(|| (SourceState::Live, Arc::clone(&self.live), None), of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_trouble(state: SourceState, until_event: bool) -> Trouble {
        Trouble { state, reason: "why".into(), retry: Mono(9_000), until_event }
    }

    fn state(health: &mut Health, now: u64) -> Option<SourceState> {
        health.changed(Mono(now)).map(|part| part.state)
    }

    #[test]
    fn status_is_emitted_once_per_change() {
        let mut health = Health::new("pods");
        assert_eq!(state(&mut health, 0), Some(SourceState::Syncing));
        assert_eq!(state(&mut health, 1), None);
        health.listed();
        assert_eq!(state(&mut health, 2), Some(SourceState::Live));
        health.failed(mk_trouble(SourceState::AuthFailed, false));
        let part = health.changed(Mono(5_000)).unwrap();
        assert_eq!((part.retry_in, part.lasted), (Some(Duration::from_secs(4)), Duration::ZERO));
        health.failed(Trouble { retry: Mono(20_000), ..mk_trouble(SourceState::AuthFailed, false) });
        assert_eq!(health.changed(Mono(9_000)).unwrap().lasted, Duration::from_secs(4));
    }

    #[test]
    fn answer_clears_a_refusal_and_event_clears_a_break() {
        let mut health = Health::new("pods");
        health.listed();
        health.failed(mk_trouble(SourceState::AuthFailed, false));
        health.answered();
        assert_eq!(state(&mut health, 0), Some(SourceState::Live));
        health.failed(mk_trouble(SourceState::Unreachable, true));
        health.answered();
        assert_eq!(state(&mut health, 0), Some(SourceState::Unreachable));
        health.event_came();
        assert_eq!(state(&mut health, 0), Some(SourceState::Live));
    }

    #[test]
    fn probe_failure_shows_while_the_watch_is_well() {
        let mut health = Health::new("pods");
        health.listed();
        health.probed(Some(mk_trouble(SourceState::Forbidden, false)));
        assert_eq!(state(&mut health, 0), Some(SourceState::Forbidden));
        health.silent(Duration::from_secs(150), Mono(1));
        assert_eq!(state(&mut health, 0), Some(SourceState::Unreachable));
        health.event_came();
        assert_eq!(state(&mut health, 0), Some(SourceState::Forbidden), "an event proves no right");
    }
}
