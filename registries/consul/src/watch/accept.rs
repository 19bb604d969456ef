//! What becomes of an answer: what is told of it, on which word, and what is asked next.

use tributary_model::Mono;
use tributary_registry_api::RandomSource;

use super::digest::{lacks, union};
use super::sight::Hides;
use super::{Action, Actions, Confidence, Content, Digest, LastReported, Mode, Pending, State, Watch};
use crate::answer::{Doubt, Headers, ReadHistory, RequestFailure};

impl<C: Content> Watch<C> {
    /// How many reads in a row have come to nothing.
    pub(crate) const fn failures(&self) -> u32 {
        self.retry.failures()
    }
    /// Whether what was told last is the leader's own word.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.word == Confidence::Confirmed)
    }

    pub(super) fn answered(
        &mut self,
        now: Mono,
        chance: f64,
        headers: &Headers,
        content: Option<C>,
        confirming: bool,
        out: &mut Actions<C>,
    ) {
        let Some(index) = headers.index else {
            self.failed(now, chance, RequestFailure::Broken, out);
            return;
        };
        self.retry.reset();
        if content.is_some() {
            self.seen_at = now;
        }
        let digest = content.as_ref().map(Content::digest);
        let loses = digest.as_ref().is_some_and(|digest| self.loses(digest));
        let doubt = headers.doubt(&self.known(loses));
        let filtered = headers.may_be_filtered(self.policy.has_token);
        let hides = self.note_filter(filtered, loses, confirming);
        if !(filtered && loses) {
            // a token that sees less than was known when it came has no baseline to go by
            self.always_filtered.get_or_insert(filtered);
        }
        self.filtered = filtered || (self.filtered && doubt.is_some());
        self.follow(index, doubt);
        let Some((content, digest)) = content.zip(digest) else {
            self.unchanged(now, doubt, confirming, out);
            return;
        };
        let leads = headers.known_leader == Some(true);
        match doubt {
            Some(Doubt::Filtered) if confirming && leads && !hides && self.always_filtered == Some(true) => {
                self.check_token(content, out);
            }
            Some(doubt) => self.doubted(now, chance, doubt, content, digest, out),
            None if confirming && !leads => {
                self.doubted(now, chance, Doubt::Stale, content, digest, out);
            }
            None if hides => self.doubted(now, chance, Doubt::Filtered, content, digest, out),
            None if confirming && filtered => self.check_token(content, out),
            None if confirming => self.confirmed(now, content, digest, out),
            None => self.sound(now, chance, content, digest, out),
        }
    }

    fn loses(&self, digest: &Digest) -> bool {
        self.told.as_ref().is_some_and(|told| lacks(&told.keys, &digest.keys))
    }

    fn known(&self, loses: bool) -> ReadHistory {
        ReadHistory {
            floor: self.floor,
            always_filtered: self.always_filtered,
            has_token: self.policy.has_token,
            loses,
            max_contact: self.policy.timing.max_contact,
            max_age: self.policy.timing.max_age,
        }
    }

    /// After a reset the next read does not block, and is measured against where the indexes began anew.
    fn follow(&mut self, index: u64, doubt: Option<Doubt>) {
        self.floor = Some(index);
        self.index = (doubt != Some(Doubt::Reset)).then_some(index);
    }

    /// The index says that there is nothing new. Where that is not enough, the content is read after all.
    fn unchanged(&mut self, now: Mono, doubt: Option<Doubt>, confirming: bool, out: &mut Actions<C>) {
        let said_in_doubt = self.told.as_ref().is_none_or(|told| matches!(told.word, Confidence::Partial(_)));
        let begins_to_hide = doubt == Some(Doubt::Filtered) && self.doubt.is_none();
        if confirming || begins_to_hide || (doubt.is_none() && said_in_doubt) {
            self.index = None;
        }
        self.doubt = doubt;
        self.become_state(doubt.map_or(State::Live, State::Doubtful), out);
        self.next_read(now, out);
    }

    /// Its absences are not believed: the leader is asked about them, less and less often.
    fn doubted(
        &mut self,
        now: Mono,
        chance: f64,
        doubt: Doubt,
        content: C,
        digest: Digest,
        out: &mut Actions<C>,
    ) {
        let doubt = if self.doubt == Some(Doubt::Reset) { Doubt::Reset } else { doubt };
        let asked = asked_leader(&self.pending);
        if self.loses(&digest) || doubt == Doubt::Reset || asked {
            self.ask_leader(now, chance, asked);
        }
        self.tell(content, digest, Confidence::Partial(doubt), out);
        self.doubt = Some(doubt);
        self.become_state(State::Doubtful(doubt), out);
        self.next_read(now, out);
    }

    fn ask_leader(&mut self, now: Mono, chance: f64, again: bool) {
        if again {
            self.confirm_at = Some(now.plus(self.confirm.next(&mut Given(chance))));
        } else if self.confirm_at.is_none() {
            self.confirm_at = Some(now);
        }
    }

    /// Looks sound. Only the leader clears the doubt that a reset leaves.
    fn sound(&mut self, now: Mono, chance: f64, content: C, digest: Digest, out: &mut Actions<C>) {
        if self.doubt == Some(Doubt::Reset) {
            self.doubted(now, chance, Doubt::Reset, content, digest, out);
            return;
        }
        self.hides = Hides::Nothing;
        if self.doubt.take().is_some() {
            self.confirm_at = None;
            self.confirm.reset();
        }
        self.tell(content, digest, Confidence::Plausible, out);
        self.become_state(State::Live, out);
        self.next_read(now, out);
    }

    /// The leader's own word: it settles whatever was doubted or asked.
    fn confirmed(&mut self, now: Mono, content: C, digest: Digest, out: &mut Actions<C>) {
        self.told = Some(LastReported { hash: digest.hash, keys: digest.keys, word: Confidence::Confirmed });
        out.push(Action::Say(content, Confidence::Confirmed));
        (self.doubt, self.confirm_at) = (None, None);
        (self.hides, self.questioned) = (Hides::Nothing, false);
        self.confirm.reset();
        self.become_state(State::Live, out);
        self.next_read(now, out);
    }

    /// A token that never saw all confirms only while it is still the same one.
    fn check_token(&mut self, content: C, out: &mut Actions<C>) {
        self.pending = Pending::Token(content);
        out.push(Action::CheckToken(self.ticket));
    }

    pub(super) fn checked(&mut self, now: Mono, chance: f64, same: bool, out: &mut Actions<C>) {
        let Pending::Token(content) = &self.pending else { return };
        let content = content.clone();
        let digest = content.digest();
        if same {
            self.confirmed(now, content, digest, out);
        } else {
            self.hides = Hides::Known;
            self.doubted(now, chance, Doubt::Filtered, content, digest, out);
        }
    }

    /// Says what is new, or what is surer than it was, and nothing when nothing is.
    fn tell(&mut self, content: C, digest: Digest, word: Confidence, out: &mut Actions<C>) {
        let told = self.told.take();
        let news = told.as_ref().is_none_or(|t| t.hash != digest.hash || t.word.rank() < word.rank());
        let keys = match (word, &told) {
            (Confidence::Partial(_), Some(told)) => union(&told.keys, &digest.keys),
            _ => digest.keys,
        };
        let word_kept = told.filter(|_| !news).map_or(word, |told| told.word);
        self.told = Some(LastReported { hash: digest.hash, keys, word: word_kept });
        if news {
            out.push(Action::Say(content, word));
        }
    }
}

/// Whether what came answers a question to the leader.
const fn asked_leader<C>(pending: &Pending<C>) -> bool {
    matches!(pending, Pending::Token(_) | Pending::Read(Mode::Leader))
}

/// Chance that was passed in.
pub(super) struct Given(pub(super) f64);

impl RandomSource for Given {
    fn unit(&mut self) -> f64 {
        self.0
    }
}
