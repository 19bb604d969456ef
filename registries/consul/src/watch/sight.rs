//! How much of what a loop follows its token shows.
//!
//! Owned by the loop; `accept` notes every filtered answer here before it judges it, and a [`modes`](crate::modes)
//! machine adds up the loops of a scope. A filtered answer that lacks something hides it, unless the token has been
//! filtered from its first answer on: what such a token no longer shows may be gone, which it then vouches for.

use super::{Content, Watch};
use crate::answer::Doubt;

/// How much a token shows of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// All, as far as the answers report.
    Whole,
    /// What was read with another token, which this one has not read yet.
    Unjudged,
    /// Less than there may be, and nothing that was known is missing because of it.
    Filtered,
    /// Less than was known: something is missing that no answer to this token can prove gone.
    Hidden,
}

/// What a filter hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Hides {
    /// Nothing that was known.
    #[default]
    Nothing,
    /// Something that this loop has reported.
    Known,
    /// Something that the core asks about and this loop has never seen.
    Unknown,
}

impl<C: Content> Watch<C> {
    /// How much the token shows.
    #[must_use]
    pub fn sight(&self) -> Sight {
        match (self.hides, self.always_filtered, &self.told) {
            (Hides::Known | Hides::Unknown, ..) => Sight::Hidden,
            _ if self.is_filtered() => Sight::Filtered,
            (_, None, Some(_)) => Sight::Unjudged,
            _ => Sight::Whole,
        }
    }
    /// Whether the token does not see all, by the last answer that shows it.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        self.filtered || self.doubt == Some(Doubt::Filtered)
    }
    /// Notes what a filter does to an answer. Returns whether it hides something; that ends when nothing that was
    /// known is missing, or with an answer that is not filtered.
    ///
    /// A question of the core may be about facts of an earlier run, which this loop has never seen: a filtered answer
    /// that lacks nothing else does not prove that they are gone.
    pub(super) fn note_filter(&mut self, filtered: bool, loses: bool, confirming: bool) -> bool {
        if !filtered {
            return false;
        }
        let unknown = confirming && self.questioned && !loses && !self.is_confirmed();
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
