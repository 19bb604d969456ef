//! How far a scope is listed: completely, filtered by its token, or with something hidden by it.
//!
//! Every step ends here. A listing is reported when it changes: what a token hides withholds the scope's collections
//! until nothing that was known is missing. A peer's names come from the memory of its leader, which is empty after an
//! election, so that they never are a complete list.

use tributary_model::Completeness;

use super::services::PATIENCE;
use super::{Machine, Output, Turn};
use crate::answer::RequestFailure;
use crate::watch::{Sight, State};

/// What a scope's lists came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// All of it was read.
    Listed(Completeness),
    /// The token hides something that was known.
    Hidden,
}

/// How many services are seen how, but for those of which all is seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sights {
    unjudged: usize,
    filtered: usize,
    hidden: usize,
}

impl Sights {
    /// One service is seen otherwise than before.
    pub(super) fn replace(&mut self, before: Sight, now: Sight) {
        if let Some(count) = self.count(before) {
            *count -= 1;
        }
        if let Some(count) = self.count(now) {
            *count += 1;
        }
    }
    const fn count(&mut self, sight: Sight) -> Option<&mut usize> {
        match sight {
            Sight::Whole => None,
            Sight::Unjudged => Some(&mut self.unjudged),
            Sight::Filtered => Some(&mut self.filtered),
            Sight::Hidden => Some(&mut self.hidden),
        }
    }
}

impl Machine {
    /// Whether the scope's lists have come to anything.
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        self.listing.is_some()
    }
    /// Whether its lists can be read.
    #[must_use]
    pub const fn can_be_read(&self) -> bool {
        self.is_listed() && !matches!(self.names.state(), State::Failing(_))
    }
    /// Why nothing could be listed yet, after as many failures as show that the next read will fail too.
    #[must_use]
    pub fn unreadable(&self) -> Option<RequestFailure> {
        let State::Failing(failure) = self.names.state() else { return None };
        let patience = match failure {
            RequestFailure::Auth | RequestFailure::Config | RequestFailure::Unsupported => 1,
            RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Broken => PATIENCE,
        };
        (!self.is_listed() && self.names.failures() >= patience).then_some(failure)
    }
    /// Whether the token hides something that was known.
    #[must_use]
    pub const fn hides(&self) -> bool {
        matches!(self.listing, Some(Listing::Hidden))
    }
    /// Whether the token does not see all.
    pub(super) fn is_filtered(&self) -> bool {
        self.names.is_filtered() || self.sights.filtered + self.sights.hidden > 0
    }

    /// Reports how far the scope is listed where that has changed, and that it is followed where it answered.
    pub(super) fn notice_listing(&mut self, turn: &mut Turn) {
        if let Some(now) = self.listing_now()
            && self.listing != Some(now)
        {
            self.listing = Some(now);
            turn.out.push(match now {
                Listing::Listed(how) => Output::Synced(how),
                Listing::Hidden => Output::Hidden,
            });
        }
        if turn.answered && !self.hides() {
            turn.out.push(Output::Confirmed);
        }
    }

    /// `None` while nothing can be said that was not said before.
    fn listing_now(&self) -> Option<Listing> {
        if !self.names.is_known() {
            return None;
        }
        let names = self.names.sight();
        if names == Sight::Hidden || self.sights.hidden > 0 {
            return Some(Listing::Hidden);
        }
        if self.unread > 0 || names == Sight::Unjudged || self.sights.unjudged > 0 {
            return None;
        }
        let doubtful = matches!(self.names.state(), State::Doubtful(_));
        Some(Listing::Listed(match (self.settings.peer, self.is_filtered(), doubtful) {
            (true, ..) => Completeness::Partial,
            (false, true, _) => Completeness::Filtered,
            (false, false, true) if self.is_listed() => return None,
            (false, false, true) => Completeness::Partial,
            (false, false, false) => Completeness::Complete,
        }))
    }
}
