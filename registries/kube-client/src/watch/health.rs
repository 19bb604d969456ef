//! How a kind is doing: what is wrong with its watch, what the probe beside it found, how long it was silent.
//!
//! Owned by the machine, which tells it what happened; a part is said when it differs from the one said last.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Mono, SourcePart, SourceState};

/// Something wrong, and when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) state: SourceState,
    pub(crate) reason: Arc<str>,
    pub(crate) retry: Mono,
    /// Only an event proves that it is over: the server answers, and then breaks off.
    pub(crate) until_heard: bool,
}

/// The health of one kind.
#[derive(Debug)]
pub(crate) struct Health {
    name: Arc<str>,
    /// What is wrong with the list or the watch.
    trouble: Option<Trouble>,
    /// What is wrong with the small list beside it.
    probe: Option<Trouble>,
    /// What to say of a kind that is not there, which is no trouble.
    absent: Option<Arc<str>>,
    /// The watch has been silent for too long, since it was last heard.
    silent: Option<(Arc<str>, Mono)>,
    /// A list has been completed.
    listed: bool,
    told: Option<(SourceState, Arc<str>, Option<Mono>)>,
    since: Mono,
    /// The reasons of a kind that is well, kept so that to look costs nothing.
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
            told: None,
            since: Mono::default(),
            syncing: "reading the first list".into(),
            live: "".into(),
        }
    }
    /// The list or the watch failed.
    pub(crate) fn failed(&mut self, trouble: Trouble) {
        self.trouble = Some(trouble);
    }
    /// The server took up a watch.
    pub(crate) fn answered(&mut self) {
        self.probe = None;
        self.trouble.take_if(|trouble| !trouble.until_heard);
    }
    /// The server began a list: one that is read again ends no trouble before it is complete.
    pub(crate) fn lists(&mut self) {
        self.probe = None;
        self.absent = None;
        if !self.listed {
            self.trouble = None;
        }
    }
    /// An event, a bookmark, a complete list or a clean audit came.
    pub(crate) fn heard(&mut self) {
        self.trouble = None;
        self.silent = None;
    }
    /// A list is complete.
    pub(crate) fn listed(&mut self) {
        self.listed = true;
        self.heard();
    }
    /// What the small list beside the watch found.
    pub(crate) fn probed(&mut self, found: Option<Trouble>) {
        self.probe = found;
    }
    /// The kind is not served.
    pub(crate) fn absent(&mut self, reason: Arc<str>) {
        self.listed = false;
        self.trouble = None;
        self.probe = None;
        self.absent = Some(reason);
    }
    /// The watch has brought nothing for this long.
    pub(crate) fn silent(&mut self, lasted: Duration, retry: Mono) {
        let reason = format!("the watch has brought neither event nor bookmark for {} s", lasted.as_secs());
        self.silent = Some((reason.into(), retry));
    }
    /// Whether neither the watch nor the small list beside it has failed.
    pub(crate) const fn is_well(&self) -> bool {
        self.trouble.is_none() && self.probe.is_none()
    }
    /// Whether something is wrong that an event would put right.
    pub(crate) const fn waits_to_hear(&self) -> bool {
        self.trouble.is_some() || self.silent.is_some()
    }
    /// The health as a part, if it differs from what was said last.
    pub(crate) fn changed(&mut self, now: Mono) -> Option<SourcePart> {
        let (state, reason, retry) = self.current();
        let news = match &self.told {
            Some((s, r, at)) => *s != state || **r != *reason || *at != retry,
            None => true,
        };
        if !news {
            return None;
        }
        if self.told.as_ref().is_none_or(|(told, ..)| *told != state) {
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
        self.told = Some((state, reason, retry));
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

    fn mk_trouble(state: SourceState, until_heard: bool) -> Trouble {
        Trouble { state, reason: "why".into(), retry: Mono(9_000), until_heard }
    }

    fn state(health: &mut Health, now: u64) -> Option<SourceState> {
        health.changed(Mono(now)).map(|part| part.state)
    }

    #[test]
    fn a_part_is_said_once() {
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
    fn an_answer_ends_a_refusal_and_an_event_ends_a_break() {
        let mut health = Health::new("pods");
        health.listed();
        health.failed(mk_trouble(SourceState::AuthFailed, false));
        health.answered();
        assert_eq!(state(&mut health, 0), Some(SourceState::Live));
        health.failed(mk_trouble(SourceState::Unreachable, true));
        health.answered();
        assert_eq!(state(&mut health, 0), Some(SourceState::Unreachable));
        health.heard();
        assert_eq!(state(&mut health, 0), Some(SourceState::Live));
    }

    #[test]
    fn the_probe_speaks_when_the_watch_has_nothing_to_complain_of() {
        let mut health = Health::new("pods");
        health.listed();
        health.probed(Some(mk_trouble(SourceState::Forbidden, false)));
        assert_eq!(state(&mut health, 0), Some(SourceState::Forbidden));
        health.silent(Duration::from_secs(150), Mono(1));
        assert_eq!(state(&mut health, 0), Some(SourceState::Unreachable));
        health.heard();
        assert_eq!(state(&mut health, 0), Some(SourceState::Forbidden), "an event proves no right");
    }
}
