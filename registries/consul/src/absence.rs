//! Decides how far an absence is trusted: only [`Absence::verdict`] grants a confirmation.
//!
//! A [`watch`](crate::watch) asks about what each answer lacks. A [`machine`](crate::machine) asks about what
//! follows for its scope: services that a list of names lacks, services of a peer without instances, and a scope
//! without services. Pure: no I/O, no clock.
//!
//! Only the leader confirms, and only what the token may see. A token that never saw everything confirms while its
//! identity is unchanged, because what such a token no longer shows may be gone. An incomplete list, a peer's list and
//! one empty answer of a peer's leader confirm nothing.

use std::time::Duration;

use crate::answer::Doubt;

/// Confidence in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// Its additions hold; what it lacks stays.
    Partial(Doubt),
    /// Any server may have answered: the core judges what it lacks.
    Plausible,
    /// The leader answered exactly this.
    Confirmed,
}

/// How much a token shows of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenView {
    /// Everything, as far as the answers show.
    Whole,
    /// The known content was read with another token and not yet with this one.
    Unjudged,
    /// Possibly less than exists, but nothing that was known is missing.
    Filtered,
    /// Less than was known: no answer to this token can prove that the missing part is gone.
    Hidden,
}

/// Absence to judge, with everything that decides about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Whatever an answer lacks.
    Entries(Signs),
    /// A known service that a list of names lacks.
    Unlisted {
        /// Confidence in the list.
        list: Confidence,
        /// How much of the list the token shows.
        view: TokenView,
        /// Whether a peer exports the names.
        peer: bool,
    },
    /// All instances of a peer's service.
    PeerService {
        /// Confidence in the answer without instances.
        answer: Confidence,
        /// Time since the leader first answered so; `None` if it has not.
        empty_for: Option<Duration>,
        /// Time after which it must answer so again.
        pause: Duration,
    },
    /// All services of a scope that has none left.
    Scope {
        /// Whether the leader's list is empty.
        confirmed: bool,
        /// How much of the list the token shows.
        view: TokenView,
        /// Whether a peer exports the names.
        peer: bool,
        /// Whether the object that holds the names was not found.
        not_found: bool,
    },
}

/// Signs of one answer and of the answers before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Whether the leader was requested.
    pub(crate) leader_read: bool,
    /// Whether the server reports a leader, and not merely no sign of its loss.
    pub(crate) known_leader: bool,
    /// Reason to distrust the answer.
    pub(crate) doubt: Option<Doubt>,
    /// Whether the indexes went backwards and the leader has not answered since.
    pub(crate) after_reset: bool,
    /// Whether the token may not see everything.
    pub(crate) filtered: bool,
    /// Whether that was so from the token's first answer on.
    pub(crate) always_filtered: bool,
    /// Whether a filter hides something that was known or requested.
    pub(crate) hides: bool,
    /// What a check of the token showed.
    pub(crate) token: TokenCheck,
}

/// Result of comparing the token's identity and policies with the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenCheck {
    /// Not compared.
    Unchecked,
    /// Equal.
    Same,
    /// Different or unknown.
    Changed,
}

/// Decision about an absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is certain.
    Confirmed,
    /// The core judges it.
    Plausible,
    /// It proves nothing.
    Partial(Doubt),
    /// It is certain if the token is unchanged.
    CheckToken,
    /// It proves nothing; the leader must be read after this time.
    ReadLeader(Duration),
}

impl Absence {
    /// Decides how far the absence is trusted.
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Entries(signs) => signs.verdict(),
            Self::Unlisted { list: Confidence::Partial(doubt), .. } => Verdict::Partial(doubt),
            Self::Unlisted { list, view: TokenView::Whole, peer: false } => list.into(),
            Self::Unlisted { .. } => Verdict::ReadLeader(Duration::ZERO),
            Self::PeerService { answer: Confidence::Confirmed, empty_for: Some(time), pause }
                if time >= pause =>
            {
                Verdict::Confirmed
            }
            Self::PeerService { answer: Confidence::Confirmed, empty_for, pause } => {
                Verdict::ReadLeader(pause.saturating_sub(empty_for.unwrap_or_default()))
            }
            Self::PeerService { .. } => Verdict::ReadLeader(Duration::ZERO),
            // a newly elected leader reports a peer without services
            Self::Scope { confirmed: true, view: TokenView::Whole, peer, not_found }
                if not_found || !peer =>
            {
                Verdict::Confirmed
            }
            Self::Scope { .. } => Verdict::ReadLeader(Duration::ZERO),
        }
    }
}

impl Signs {
    fn verdict(self) -> Verdict {
        let by_leader = self.leader_read && self.known_leader;
        let filter_only = matches!(self.doubt, None | Some(Doubt::Filtered));
        let baseline = self.filtered && self.always_filtered && !self.hides;
        let doubt = match (self.doubt, self.token) {
            (_, TokenCheck::Unchecked) if by_leader && filter_only && baseline => return Verdict::CheckToken,
            (_, TokenCheck::Same) if by_leader && filter_only && baseline => return Verdict::Confirmed,
            (Some(doubt), _) => doubt,
            (None, _) if self.leader_read && !self.known_leader => Doubt::Stale,
            (None, _) if self.hides || (self.leader_read && self.filtered) => Doubt::Filtered,
            (None, _) if self.leader_read => return Verdict::Confirmed,
            (None, _) if self.after_reset => Doubt::Reset,
            (None, _) => return Verdict::Plausible,
        };
        Verdict::Partial(if self.after_reset { Doubt::Reset } else { doubt })
    }
}

impl From<Confidence> for Verdict {
    fn from(confidence: Confidence) -> Self {
        match confidence {
            Confidence::Partial(doubt) => Self::Partial(doubt),
            Confidence::Plausible => Self::Plausible,
            Confidence::Confirmed => Self::Confirmed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Doubt::{Filtered, Reset, Stale};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Verdict = Verdict::ReadLeader(Duration::ZERO);

    /// The leader's answer without any doubt.
    const LEADER: Signs = Signs {
        leader_read: true,
        known_leader: true,
        doubt: None,
        after_reset: false,
        filtered: false,
        always_filtered: false,
        hides: false,
        token: TokenCheck::Unchecked,
    };
    const ANY: Signs = Signs { leader_read: false, ..LEADER };
    /// The leader's answer to a token that never saw everything.
    const BASELINE: Signs = Signs { filtered: true, always_filtered: true, ..LEADER };

    #[test]
    fn each_answer_has_its_verdict() {
        let doubted = |doubt| Signs { doubt: Some(doubt), ..LEADER };
        let checked = |token| Signs { token, ..BASELINE };
        let cases = [
            (LEADER, Verdict::Confirmed),
            (Signs { after_reset: true, ..LEADER }, Verdict::Confirmed),
            (Signs { known_leader: false, ..LEADER }, Verdict::Partial(Stale)),
            (Signs { hides: true, ..LEADER }, Verdict::Partial(Filtered)),
            (Signs { filtered: true, ..LEADER }, Verdict::Partial(Filtered)),
            (doubted(Reset), Verdict::Partial(Reset)),
            (doubted(Stale), Verdict::Partial(Stale)),
            (doubted(Filtered), Verdict::Partial(Filtered)),
            (Signs { after_reset: true, ..doubted(Stale) }, Verdict::Partial(Reset)),
            (BASELINE, Verdict::CheckToken),
            (Signs { doubt: Some(Filtered), ..BASELINE }, Verdict::CheckToken),
            (Signs { doubt: Some(Stale), ..BASELINE }, Verdict::Partial(Stale)),
            (Signs { hides: true, ..BASELINE }, Verdict::Partial(Filtered)),
            (Signs { known_leader: false, ..BASELINE }, Verdict::Partial(Stale)),
            (checked(TokenCheck::Same), Verdict::Confirmed),
            (checked(TokenCheck::Changed), Verdict::Partial(Filtered)),
            (Signs { after_reset: true, ..checked(TokenCheck::Same) }, Verdict::Confirmed),
            (Signs { after_reset: true, ..checked(TokenCheck::Changed) }, Verdict::Partial(Reset)),
            (ANY, Verdict::Plausible),
            (Signs { known_leader: false, ..ANY }, Verdict::Plausible),
            (Signs { after_reset: true, ..ANY }, Verdict::Partial(Reset)),
            (Signs { hides: true, ..ANY }, Verdict::Partial(Filtered)),
            (Signs { leader_read: false, ..BASELINE }, Verdict::Plausible),
            (Signs { doubt: Some(Filtered), leader_read: false, ..BASELINE }, Verdict::Partial(Filtered)),
        ];
        for (signs, want) in cases {
            assert_eq!(Absence::Entries(signs).verdict(), want, "{signs:?}");
        }
    }

    /// Tests every combination of signs: each sign of an incomplete answer is enough to deny a confirmation.
    #[test]
    fn only_the_leader_confirms_what_the_token_may_see() {
        let doubts = [None, Some(Reset), Some(Stale), Some(Filtered)];
        let tokens = [TokenCheck::Unchecked, TokenCheck::Same, TokenCheck::Changed];
        for bits in 0_u32..64 {
            let bit = |at: u32| bits & (1 << at) != 0;
            for (doubt, token) in doubts.iter().flat_map(|doubt| tokens.iter().map(move |t| (*doubt, *t))) {
                let signs = Signs {
                    leader_read: bit(0),
                    known_leader: bit(1),
                    after_reset: bit(2),
                    filtered: bit(3),
                    always_filtered: bit(4),
                    hides: bit(5),
                    doubt,
                    token,
                };
                let verdict = Absence::Entries(signs).verdict();
                let leader = signs.leader_read && signs.known_leader && !signs.hides;
                let fresh = !matches!(doubt, Some(Reset | Stale));
                let sees = match token {
                    TokenCheck::Same => doubt.is_none() || signs.filtered && signs.always_filtered,
                    TokenCheck::Unchecked | TokenCheck::Changed => doubt.is_none() && !signs.filtered,
                };
                if verdict == Verdict::Confirmed {
                    assert!(leader && fresh && sees, "{signs:?}");
                }
                if verdict == Verdict::CheckToken {
                    assert!(leader && fresh && signs.filtered && signs.always_filtered, "{signs:?}");
                }
                assert!(!matches!(verdict, Verdict::ReadLeader(_)), "the loop reads by itself");
            }
        }
    }

    #[test]
    fn only_a_complete_list_proves_an_absence() {
        use Confidence::{Confirmed, Partial, Plausible};
        let views = [TokenView::Whole, TokenView::Unjudged, TokenView::Filtered, TokenView::Hidden];
        for (view, peer) in views.iter().flat_map(|view| [false, true].map(|peer| (*view, peer))) {
            let verdict = |list| Absence::Unlisted { list, view, peer }.verdict();
            let whole = view == TokenView::Whole && !peer;
            assert_eq!(verdict(Partial(Stale)), Verdict::Partial(Stale), "{view:?} {peer}");
            assert_eq!(verdict(Confirmed), if whole { Verdict::Confirmed } else { NOW }, "{view:?} {peer}");
            assert_eq!(verdict(Plausible), if whole { Verdict::Plausible } else { NOW }, "{view:?} {peer}");
        }
    }

    #[test]
    fn peer_service_needs_two_answers_of_the_leader() {
        let verdict = |answer, empty_for: Option<u32>| {
            let empty_for = empty_for.map(|seconds| seconds * SECOND);
            Absence::PeerService { answer, empty_for, pause: 10 * SECOND }.verdict()
        };
        assert_eq!(verdict(Confidence::Confirmed, None), Verdict::ReadLeader(10 * SECOND));
        assert_eq!(verdict(Confidence::Confirmed, Some(4)), Verdict::ReadLeader(6 * SECOND));
        assert_eq!(verdict(Confidence::Confirmed, Some(10)), Verdict::Confirmed);
        for answer in [Confidence::Plausible, Confidence::Partial(Stale)] {
            assert_eq!((verdict(answer, None), verdict(answer, Some(20))), (NOW, NOW), "{answer:?}");
        }
    }

    #[test]
    fn scope_ends_only_if_the_leader_shows_that_it_is_empty() {
        for bits in 0_u32..8 {
            let [confirmed, peer, not_found] = [1, 2, 4].map(|bit| bits & bit != 0);
            for view in [TokenView::Whole, TokenView::Unjudged, TokenView::Filtered, TokenView::Hidden] {
                let verdict = Absence::Scope { confirmed, view, peer, not_found }.verdict();
                let sure = confirmed && view == TokenView::Whole && (!peer || not_found);
                assert_eq!(verdict == Verdict::Confirmed, sure, "{bits:b} {view:?}");
            }
        }
    }
}
