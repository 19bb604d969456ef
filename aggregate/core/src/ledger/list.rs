//! How far one collection was listed, and how fresh that makes it.
//!
//! Pure transitions of one value; called by the ledger for every update about the collection. A
//! list that was opened stays open until a complete one of the same run closes it, however often it
//! is interrupted.

use std::sync::Arc;

use tributary_model::{Completeness, Freshness, ListResult, Mono, SinceMono, Withheld};

/// State of one collection.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// How fresh.
    pub(crate) freshness: Freshness,
    /// What the last list of this run came to; `None` until one has ended.
    pub(crate) result: Option<ListResult>,
    /// Whether facts of older epochs still wait for a complete list.
    pub(crate) open: bool,
    /// Whether a list is under way.
    listing: bool,
    /// Number of the last list that began; facts remember the one that last held them.
    pub(crate) epoch: u32,
    /// When the source last confirmed it.
    pub(crate) confirmed: Option<Mono>,
    /// Facts that the last list, which was not complete, did not hold.
    missing: usize,
}

impl Default for List {
    /// Epochs begin at 1, so that facts of the run before, which keep epoch 0, are older than any list.
    fn default() -> Self {
        let (freshness, result, confirmed) = (Freshness::Unknown, None, None);
        Self { freshness, result, open: false, listing: false, epoch: Self::FIRST, confirmed, missing: 0 }
    }
}

impl List {
    /// Epoch of a collection of which no list has begun.
    const FIRST: u32 = 1;

    /// Whether a list of this run decides about facts that it did not hold.
    pub(crate) fn decides(&self) -> bool {
        self.result == Some(ListResult::Complete) && !self.open && self.epoch > Self::FIRST
    }
    /// Whether anything is known of it: unknown is not empty (law 1).
    pub(crate) const fn is_known(&self) -> bool {
        matches!(self.freshness, Freshness::Live | Freshness::Stale { .. })
    }
    /// A list begins.
    pub(crate) fn begin(&mut self, at: Mono) {
        self.epoch = self.epoch.saturating_add(1);
        (self.open, self.listing, self.missing) = (true, true, 0);
        match self.freshness {
            Freshness::Unknown => self.freshness = Freshness::Syncing,
            Freshness::Live => self.freshness = stale(at, "a list is under way"),
            Freshness::Syncing | Freshness::Stale { .. } => {}
        }
    }
    /// A list ended without the facts that are `missing`. Returns whether facts that it lacks are gone.
    pub(crate) fn end(&mut self, how: Completeness, missing: usize, at: Mono) -> bool {
        self.listing = false;
        self.result = Some(match how {
            Completeness::Complete => ListResult::Complete,
            Completeness::Filtered => ListResult::Filtered,
            Completeness::Partial => ListResult::Partial,
        });
        let sweeps = self.open && how == Completeness::Complete;
        self.open &= !sweeps;
        self.missing = if sweeps || !self.open { 0 } else { missing };
        if self.missing == 0 {
            (self.freshness, self.confirmed) = (Freshness::Live, Some(at));
        } else {
            let why = format!("the list was not complete and lacks {missing} known facts");
            self.lapse(at, &why.into());
        }
        sweeps
    }
    /// It cannot be read: ends the wait and proves nothing.
    pub(crate) fn withhold(&mut self, withheld: &Withheld, at: Mono) {
        (self.listing, self.result) = (false, Some(ListResult::Withheld));
        self.lapse(at, &withheld.why);
    }
    /// Becomes stale for this reason, since then or since it has been.
    fn lapse(&mut self, at: Mono, why: &Arc<str>) {
        let since = match self.freshness {
            Freshness::Stale { since, .. } => since,
            Freshness::Unknown | Freshness::Syncing | Freshness::Live => SinceMono(at),
        };
        self.freshness = Freshness::Stale { since, why: Arc::clone(why) };
    }
    /// The source is not followed any more. Returns whether that changed the freshness.
    pub(crate) fn go_stale(&mut self, since: Mono, why: &Arc<str>) -> bool {
        self.freshness = match self.freshness {
            Freshness::Live => Freshness::Stale { since: SinceMono(since), why: Arc::clone(why) },
            Freshness::Syncing => Freshness::Unknown,
            Freshness::Unknown | Freshness::Stale { .. } => return false,
        };
        true
    }
    /// The run ended: what is stale is so for this reason.
    pub(crate) fn fail(&mut self, now: Mono, why: &Arc<str>) {
        self.go_stale(now, why);
        if let Freshness::Stale { why: last, .. } = &mut self.freshness {
            *last = Arc::clone(why);
        }
    }
    /// The source is followed again. Returns whether that made it live.
    pub(crate) fn revive(&mut self) -> bool {
        let stale = matches!(self.freshness, Freshness::Stale { .. });
        let revives = stale && self.is_followed();
        if revives {
            self.freshness = Freshness::Live;
        }
        revives
    }
    /// The source confirmed that it is followed. Returns whether that made it live.
    pub(crate) fn progress(&mut self, at: Mono) -> bool {
        if self.is_followed() {
            self.confirmed = Some(at);
        }
        self.revive()
    }
    /// Whether this run has listed it, and nothing of it is in doubt.
    fn is_followed(&self) -> bool {
        !self.listing && self.missing == 0 && self.result.is_some_and(|result| result > ListResult::Withheld)
    }
    /// A fact that the last list lacked was reported or is gone. Returns whether that made the collection live.
    pub(crate) fn found(&mut self) -> bool {
        self.missing = self.missing.saturating_sub(1);
        self.missing == 0 && self.revive()
    }
    /// Whether a fact of this epoch is one that the last list lacked.
    pub(crate) const fn lacks(&self, seen: u32) -> bool {
        self.missing > 0 && seen < self.epoch
    }
    /// The next run begins on the same facts.
    pub(crate) fn restart(&mut self, now: Mono, why: &Arc<str>) {
        self.go_stale(now, why);
        (self.result, self.open, self.listing, self.missing) = (None, false, false, 0);
    }
    /// Facts of the run before stay that this run has not reported: a complete list decides about them.
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
    /// As a journal kept it, or as a rotation leaves what the new run does not list.
    pub(crate) fn rest(&mut self, since: Mono, why: &str) {
        (self.result, self.listing, self.missing) = (None, false, 0);
        if !matches!(self.freshness, Freshness::Stale { .. }) {
            self.freshness = stale(since, why);
        }
    }
    /// As a journal kept it: stale since the source last confirmed it.
    pub(crate) fn restore(&mut self, confirmed: Option<Mono>, now: Mono) {
        self.confirmed = confirmed;
        self.rest(confirmed.unwrap_or(now), "restored; the source has not been listed yet");
    }
}

fn stale(since: Mono, why: &str) -> Freshness {
    Freshness::Stale { since: SinceMono(since), why: why.into() }
}
