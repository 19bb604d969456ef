//! List state and freshness of one collection.
//!
//! Pure transitions of one value; the ledger calls them for every update of the collection. A list
//! that has started stays open until a complete list of the same run closes it, even if it is
//! interrupted several times.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Completeness, Freshness, ListResult, Mono, SinceMono, Withheld, WithheldCause};

/// List state of one collection.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// Freshness of its facts.
    pub(crate) freshness: Freshness,
    /// Result of this run's last list; `None` until one has ended.
    pub(crate) result: Option<ListResult>,
    /// Whether facts of older epochs still wait for a complete list to decide about them.
    pub(crate) open: bool,
    /// Whether a list is under way.
    listing: bool,
    /// Number of the last list that began; facts keep the number of the last list that contained them.
    pub(crate) epoch: u32,
    /// Time at which that list began.
    begun: Mono,
    /// Time of the source's last confirmation.
    pub(crate) confirmed: Option<Mono>,
    /// Time of the last confirmation after the list, which covers what the source changed before it.
    followed: Option<Mono>,
    /// Time of the last change of one of its facts.
    changed: Mono,
    /// Number of facts that the last list lacked; that list was not complete.
    missing: usize,
    /// Whether it cannot be read for a reason that may pass.
    failing: bool,
}

impl Default for List {
    /// Epochs begin at 1: facts of the previous run keep epoch 0 and are older than any list.
    fn default() -> Self {
        let none = Mono::default();
        Self {
            freshness: Freshness::Unknown,
            result: None,
            open: false,
            listing: false,
            epoch: Self::FIRST,
            begun: none,
            confirmed: None,
            followed: None,
            changed: none,
            missing: 0,
            failing: false,
        }
    }
}

impl List {
    /// Epoch of a collection without a list.
    const FIRST: u32 = 1;
    /// How much later than another run's a confirmation must be to cover what that run has seen: two connections differ in delay.
    const TRANSIT: Duration = Duration::from_secs(1);

    /// Returns whether a complete list of this run decides about facts that it lacked.
    pub(crate) fn decides(&self) -> bool {
        self.result == Some(ListResult::Complete) && !self.open && self.epoch > Self::FIRST
    }
    /// Returns whether the collection is known: unknown is not empty (law 1).
    pub(crate) const fn is_known(&self) -> bool {
        matches!(self.freshness, Freshness::Live | Freshness::Stale { .. })
    }
    /// Returns whether it cannot be read for a reason that may pass.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing && self.result == Some(ListResult::Withheld)
    }
    /// Begins a list.
    pub(crate) fn begin(&mut self, at: Mono) {
        self.epoch = self.epoch.saturating_add(1);
        (self.begun, self.followed) = (at, None);
        (self.open, self.listing, self.missing) = (true, true, 0);
        match self.freshness {
            Freshness::Unknown => self.freshness = Freshness::Syncing,
            Freshness::Live => self.freshness = stale(at, "a list is under way"),
            Freshness::Syncing | Freshness::Stale { .. } => {}
        }
    }
    /// Ends a list that lacked `missing` known facts. Those of invalid documents do not make it stale. Returns whether those facts must be removed.
    pub(crate) fn end(&mut self, how: Completeness, missing: usize, at: Mono) -> bool {
        self.listing = false;
        self.result = Some(match how {
            Completeness::Complete => ListResult::Complete,
            Completeness::Filtered => ListResult::Filtered,
            Completeness::Partial | Completeness::ExceptInvalid => ListResult::Partial,
        });
        let removes = self.open && how == Completeness::Complete;
        self.open &= !removes;
        let stays_live = removes || !self.open || how == Completeness::ExceptInvalid;
        self.missing = if stays_live { 0 } else { missing };
        if self.missing == 0 {
            (self.freshness, self.confirmed) = (Freshness::Live, Some(at));
        } else {
            let why = format!("the list was not complete and lacks {missing} known facts");
            self.lapse(at, &why.into());
        }
        removes
    }
    /// Records that the collection cannot be read: the run may sync, but no fact is confirmed or removed.
    pub(crate) fn withhold(&mut self, withheld: &Withheld, at: Mono) {
        (self.listing, self.result) = (false, Some(ListResult::Withheld));
        self.failing = withheld.cause == WithheldCause::Failing;
        self.lapse(at, &withheld.why);
    }
    /// Makes the collection stale for this reason; an earlier start of the staleness is kept.
    fn lapse(&mut self, at: Mono, why: &Arc<str>) {
        let since = match self.freshness {
            Freshness::Stale { since, .. } => since,
            Freshness::Unknown | Freshness::Syncing | Freshness::Live => SinceMono(at),
        };
        self.freshness = Freshness::Stale { since, why: Arc::clone(why) };
    }
    /// Makes a live collection stale, since the source is not followed. Returns whether the freshness changed.
    pub(crate) fn go_stale(&mut self, since: Mono, why: &Arc<str>) -> bool {
        self.freshness = match self.freshness {
            Freshness::Live => Freshness::Stale { since: SinceMono(since), why: Arc::clone(why) },
            Freshness::Syncing => Freshness::Unknown,
            Freshness::Unknown | Freshness::Stale { .. } => return false,
        };
        true
    }
    /// Makes the collection stale because the run ended; replaces an earlier reason.
    pub(crate) fn fail(&mut self, now: Mono, why: &Arc<str>) {
        self.go_stale(now, why);
        if let Freshness::Stale { why: last, .. } = &mut self.freshness {
            *last = Arc::clone(why);
        }
    }
    /// Makes the collection live if it is followed again. Returns whether it became live.
    pub(crate) fn revive(&mut self) -> bool {
        let stale = matches!(self.freshness, Freshness::Stale { .. });
        let revives = stale && self.is_followed();
        if revives {
            self.freshness = Freshness::Live;
        }
        revives
    }
    /// Records a confirmation by the source. Returns whether the collection became live.
    pub(crate) fn progress(&mut self, at: Mono) -> bool {
        if self.is_followed() {
            (self.confirmed, self.followed) = (Some(at), Some(at));
        }
        self.revive()
    }
    /// Records that one of its facts changed.
    pub(crate) fn change(&mut self, at: Mono) {
        self.changed = at;
    }
    /// Returns whether this list may lack what another run has seen change last in the same collection.
    pub(crate) fn may_lack_changes_of(&self, other: &Self) -> bool {
        other.freshness == Freshness::Live && self.is_followed() && self.may_lack(other.changed)
    }
    /// Returns whether it may lack a change that another run has seen at this time: one since the list began, until a later confirmation.
    pub(crate) fn may_lack(&self, changed: Mono) -> bool {
        let covers = |followed: Mono| followed > changed.plus(Self::TRANSIT);
        changed > self.begun && !self.followed.is_some_and(covers)
    }
    /// Returns whether this run has listed the collection and no fact is missing.
    fn is_followed(&self) -> bool {
        !self.listing && self.missing == 0 && self.result.is_some_and(|result| result > ListResult::Withheld)
    }
    /// Counts a missing fact that was reported or removed. Returns whether the collection became live.
    pub(crate) fn found(&mut self) -> bool {
        self.missing = self.missing.saturating_sub(1);
        self.missing == 0 && self.revive()
    }
    /// Returns whether the last list lacked a fact of this epoch.
    pub(crate) const fn lacks(&self, seen: u32) -> bool {
        self.missing > 0 && seen < self.epoch
    }
    /// Begins the next run on the same facts.
    pub(crate) fn restart(&mut self, now: Mono, why: &Arc<str>) {
        self.go_stale(now, why);
        (self.result, self.open, self.listing, self.missing) = (None, false, false, 0);
    }
    /// Counts facts of the previous run that this run has not reported; a complete list decides about them.
    pub(crate) fn inherit(&mut self, facts: usize, now: Mono) {
        if facts == 0 {
            return;
        }
        match self.result {
            Some(ListResult::Withheld) => {}
            Some(_) => {
                self.missing += facts;
                let why = format!("the list was not complete and lacks {facts} known facts");
                self.lapse(now, &why.into());
            }
            None => self.rest(now, "the run has not listed it yet"),
        }
    }
    /// Makes the collection stale without a list result, after a restore or a rotation.
    pub(crate) fn rest(&mut self, since: Mono, why: &str) {
        (self.result, self.listing, self.missing) = (None, false, 0);
        if !matches!(self.freshness, Freshness::Stale { .. }) {
            self.freshness = stale(since, why);
        }
    }
    /// Restores the collection from a journal: stale since its last confirmation.
    pub(crate) fn restore(&mut self, confirmed: Option<Mono>, now: Mono) {
        self.confirmed = confirmed;
        self.rest(confirmed.unwrap_or(now), "restored; the source has not been listed yet");
    }
}

fn stale(since: Mono, why: &str) -> Freshness {
    Freshness::Stale { since: SinceMono(since), why: why.into() }
}
