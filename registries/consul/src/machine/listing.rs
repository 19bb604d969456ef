//! Completeness of a scope's list: complete, filtered by the token, or with known services hidden by it.
//!
//! Every step ends here and reports a change. While the token hides something that was known, the scope's collections
//! are withheld. A peer's names come from its leader's memory, which is empty after an election, so they never form a
//! complete list.

use tributary_model::Completeness;

use super::services::PATIENCE;
use super::{Machine, Output, StepContext};
use crate::answer::RequestFailure;
use crate::watch::{State, TokenView};

/// Completeness of a scope's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// Everything was read.
    Listed(Completeness),
    /// The token hides something that was known.
    Hidden,
}

/// Counts of services by token view, without those that are seen whole.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TokenViews {
    unjudged: usize,
    filtered: usize,
    hidden: usize,
}

impl TokenViews {
    /// Moves one service from one count to another.
    pub(super) fn replace(&mut self, before: TokenView, now: TokenView) {
        if let Some(count) = self.count(before) {
            *count -= 1;
        }
        if let Some(count) = self.count(now) {
            *count += 1;
        }
    }
    const fn count(&mut self, view: TokenView) -> Option<&mut usize> {
        match view {
            TokenView::Whole => None,
            TokenView::Unjudged => Some(&mut self.unjudged),
            TokenView::Filtered => Some(&mut self.filtered),
            TokenView::Hidden => Some(&mut self.hidden),
        }
    }
}

impl Machine {
    /// Returns whether the scope has been listed.
    #[must_use]
    pub const fn is_listed(&self) -> bool {
        self.listing.is_some()
    }
    /// Returns whether its lists can be read.
    #[must_use]
    pub const fn can_be_read(&self) -> bool {
        self.is_listed() && !matches!(self.names.state(), State::Failing(_))
    }
    /// Returns why the scope has never been listed, after enough failures to expect that the next read fails too.
    #[must_use]
    pub fn unreadable(&self) -> Option<RequestFailure> {
        let State::Failing(failure) = self.names.state() else { return None };
        let patience = match failure {
            RequestFailure::Auth
            | RequestFailure::Config
            | RequestFailure::Unsupported
            | RequestFailure::TooLarge => 1,
            RequestFailure::Transient | RequestFailure::Overload | RequestFailure::Broken => PATIENCE,
        };
        (!self.is_listed() && self.names.failures() >= patience).then_some(failure)
    }
    /// Returns whether the token hides something that was known.
    #[must_use]
    pub const fn hides(&self) -> bool {
        matches!(self.listing, Some(Listing::Hidden))
    }
    /// Returns whether the token does not see everything.
    pub(super) fn is_filtered(&self) -> bool {
        self.names.is_filtered() || self.views.filtered + self.views.hidden > 0
    }

    /// Reports the completeness if it changed, and a confirmation if the list of names was answered.
    pub(super) fn notice_listing(&mut self, cx: &mut StepContext) {
        if let Some(now) = self.listing_now()
            && self.listing != Some(now)
        {
            self.listing = Some(now);
            cx.out.push(match now {
                Listing::Listed(how) => Output::Synced(how),
                Listing::Hidden => Output::Hidden,
            });
        }
        if cx.answered && !self.hides() {
            cx.out.push(Output::Confirmed);
        }
    }

    /// Returns the current completeness; `None` while it is undecided.
    fn listing_now(&self) -> Option<Listing> {
        if !self.names.is_known() {
            return None;
        }
        let names = self.names.token_view();
        if names == TokenView::Hidden || self.views.hidden > 0 {
            return Some(Listing::Hidden);
        }
        if self.unread > 0 || names == TokenView::Unjudged || self.views.unjudged > 0 {
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
