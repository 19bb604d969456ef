//! Since when each scope has the state that operators see: that of its source and of its facts together.
//!
//! The core updates it at the end of a batch for registries whose status may have changed; the report reads it. Pure.

use std::collections::BTreeMap;

use tributary_model::{Freshness, Mono, OverallState, OverallStatus, Scope};

use super::{DatedStatus, Registry};

/// State of each scope whose source reports a status, and since when it has that state.
pub(crate) type ShownStates = BTreeMap<Scope, (OverallState, Mono)>;

impl Registry {
    /// Returns the statuses that its sources report. Restored facts have no run of their own and an ended run reports
    /// nothing: only the run in the shadow has statuses then.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Scope, &DatedStatus)> {
        let reports = self.ledger.scopes.values().any(|scoped| scoped.status.is_some());
        let shadow = self.shadow.as_ref().filter(|_| !reports);
        let reporting = shadow.map(|shadow| &shadow.ledger).into_iter().chain([&self.ledger]);
        let sources = reporting.flat_map(|ledger| &ledger.scopes);
        sources.filter_map(|(scope, scoped)| Some((scope, scoped.status.as_ref()?)))
    }
    /// Returns since when a scope is in its current state; `None` if that is not known.
    pub(crate) fn since(&self, scope: &Scope, dated: &DatedStatus) -> Option<Mono> {
        let (state, since) = self.shown.get(scope)?;
        (*state == self.state_of(scope, dated)).then_some(*since)
    }
    /// Records the states that have changed.
    pub(crate) fn date_states(&mut self, now: Mono) {
        let dated = |(scope, dated): (&Scope, &DatedStatus)| {
            let state = self.state_of(scope, dated);
            let since = match self.shown.get(scope) {
                Some((known, since)) if *known == state => *since,
                Some(_) => now,
                // a run begins: its facts may have been stale before
                None if state == OverallState::Stale => self.stale_since(scope).unwrap_or(now),
                None => now,
            };
            (scope.clone(), (state, since))
        };
        self.shown = self.sources().map(dated).collect();
    }
    fn state_of(&self, scope: &Scope, dated: &DatedStatus) -> OverallState {
        let facts: Vec<_> = self.freshness_in(scope).collect();
        OverallStatus::of(std::iter::once(&dated.status), facts.into_iter()).state
    }
    fn stale_since(&self, scope: &Scope) -> Option<Mono> {
        let since = |freshness: &Freshness| match freshness {
            Freshness::Stale { since, .. } => Some(since.0),
            Freshness::Unknown | Freshness::Syncing | Freshness::Live => None,
        };
        self.freshness_in(scope).filter_map(since).min()
    }
    fn freshness_in(&self, scope: &Scope) -> impl Iterator<Item = &Freshness> {
        let own = self.ledger.scopes.get_key_value(scope);
        let lists = own.into_iter().flat_map(|(scope, scoped)| self.ledger.collections_in(scope, scoped));
        lists.map(|(_, list)| &list.freshness)
    }
}
