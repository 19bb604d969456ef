//! How much of a query's content the token shows.
//!
//! `accept` records every filtered answer here before it judges it, and a [`machine`](crate::machine) sums up the
//! loops of a scope. A filtered answer hides what it lacks, unless the token has been filtered from its first answer
//! on: what such a token no longer shows may be gone, and a leader read can confirm it.

use super::{Content, TokenView, Watch};
use crate::answer::{Doubt, Headers};

/// What a filter hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Hides {
    /// Nothing that was known.
    #[default]
    Nothing,
    /// Something that this loop has reported.
    Known,
    /// Something that the core requested and this loop has never seen.
    Unknown,
}

impl<C: Content> Watch<C> {
    /// Returns how much the token shows.
    #[must_use]
    pub fn token_view(&self) -> TokenView {
        match (self.hides, self.always_filtered, &self.last_reported) {
            (Hides::Known | Hides::Unknown, ..) => TokenView::Hidden,
            _ if self.is_filtered() => TokenView::Filtered,
            (_, None, Some(_)) => TokenView::Unjudged,
            _ => TokenView::Whole,
        }
    }
    /// Returns whether the token sees less than everything, by the last answer that shows it.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        self.filtered || self.doubt == Some(Doubt::Filtered)
    }
    /// Records the mark of a filter. If marks begin after an answer without one, the token has lost rights, even if its
    /// answers counted as filtered before because they may have been masked.
    pub(super) fn note_mark(&mut self, headers: &Headers) {
        let first = *self.always_marked.get_or_insert(headers.filtered);
        if headers.filtered && !first && self.always_filtered.is_some() {
            self.always_filtered = Some(false);
        }
    }
    /// Records the filter of an answer. Returns whether it hides something. That ends with an answer that lacks
    /// nothing known, or that is not filtered.
    ///
    /// A confirm request of the core may concern facts of an earlier run, which this loop has never seen: a filtered
    /// answer that lacks nothing else does not prove that they are gone.
    pub(super) fn note_filter(&mut self, filtered: bool, loses: bool, confirming: bool) -> bool {
        if !filtered {
            return false;
        }
        let unknown = confirming && self.confirm_open && !loses && !self.is_confirmed();
        let narrower = loses && (self.hides == Hides::Known || self.always_filtered != Some(true));
        self.hides = match self.hides {
            Hides::Unknown => Hides::Unknown,
            _ if unknown => Hides::Unknown,
            _ if narrower => Hides::Known,
            _ => Hides::Nothing,
        };
        self.hides != Hides::Nothing
    }
}
