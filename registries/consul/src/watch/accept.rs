//! Handling of an answer: what is reported, with which confidence, and what is read next.

use tributary_model::Mono;
use tributary_registry_api::RandomSource;

use super::digest::{lacks, union};
use super::token_view::Hides;
use super::{Action, Actions, Confidence, Content, Digest, LastReported, Mode, Pending, State, Watch};
use crate::absence::{Absence, Signs, TokenCheck, Verdict};
use crate::answer::{Doubt, Headers, ReadHistory, RequestFailure};

impl<C: Content> Watch<C> {
    /// Returns the number of consecutive failed reads.
    pub(crate) const fn failures(&self) -> u32 {
        self.retry.failures()
    }
    /// Returns whether the last report was the leader's answer.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.last_reported.as_ref().is_some_and(|last| last.confidence == Confidence::Confirmed)
    }

    pub(super) fn answered(
        &mut self,
        now: Mono,
        random: f64,
        headers: &Headers,
        content: Option<C>,
        confirming: bool,
        out: &mut Actions<C>,
    ) {
        let Some(index) = headers.index else {
            self.failed(now, random, RequestFailure::Broken, out);
            return;
        };
        self.retry.reset();
        if content.is_some() {
            self.seen_at = now;
        }
        let digest = content.as_ref().map(Content::digest);
        let loses = digest.as_ref().is_some_and(|digest| self.loses(digest));
        self.note_mark(headers);
        let doubt = headers.doubt(&self.known(loses));
        let filtered = headers.may_be_filtered(self.policy.has_token);
        let hides = self.note_filter(filtered, loses, confirming);
        if !(filtered && loses) {
            // a token that at its first answer sees less than was known has no baseline
            self.always_filtered.get_or_insert(filtered);
        }
        self.filtered = filtered || (self.filtered && doubt.is_some());
        self.follow(index, doubt);
        let Some((content, digest)) = content.zip(digest) else {
            self.unchanged(now, doubt, confirming, out);
            return;
        };
        let signs = Signs {
            leader_read: confirming,
            known_leader: headers.known_leader == Some(true),
            doubt,
            after_reset: self.doubt == Some(Doubt::Reset),
            filtered,
            always_filtered: self.always_filtered == Some(true),
            hides,
            token: TokenCheck::Unchecked,
        };
        self.judge(now, random, signs, content, digest, out);
    }

    /// Acts on how far the absences of an answer are trusted.
    fn judge(
        &mut self,
        now: Mono,
        random: f64,
        signs: Signs,
        content: C,
        digest: Digest,
        out: &mut Actions<C>,
    ) {
        match Absence::Entries(signs).verdict() {
            Verdict::Confirmed => self.confirmed(now, content, digest, out),
            Verdict::Plausible => self.plausible(now, content, digest, out),
            Verdict::Partial(doubt) => self.doubted(now, random, doubt, content, digest, out),
            Verdict::CheckToken | Verdict::ReadLeader(_) => {
                self.pending = Pending::Token(content, signs);
                out.push(Action::CheckToken(self.ticket));
            }
        }
    }

    fn loses(&self, digest: &Digest) -> bool {
        self.last_reported.as_ref().is_some_and(|last| lacks(&last.keys, &digest.keys))
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

    /// Stores the index. After a reset the next read does not block, and the new index is the baseline.
    fn follow(&mut self, index: u64, doubt: Option<Doubt>) {
        self.floor = Some(index);
        self.index = (doubt != Some(Doubt::Reset)).then_some(index);
    }

    /// Handles an answer whose index has not changed. If that is not enough, the next read fetches the content.
    fn unchanged(&mut self, now: Mono, doubt: Option<Doubt>, confirming: bool, out: &mut Actions<C>) {
        let partial_report =
            self.last_reported.as_ref().is_none_or(|last| matches!(last.confidence, Confidence::Partial(_)));
        let begins_to_hide = doubt == Some(Doubt::Filtered) && self.doubt.is_none();
        if confirming || begins_to_hide || (doubt.is_none() && partial_report) {
            self.index = None;
        }
        self.doubt = doubt;
        self.become_state(doubt.map_or(State::Live, State::Doubtful), out);
        self.next_read(now, out);
    }

    /// Handles an answer whose absences are not trusted: the leader is read about them, at growing intervals.
    fn doubted(
        &mut self,
        now: Mono,
        random: f64,
        doubt: Doubt,
        content: C,
        digest: Digest,
        out: &mut Actions<C>,
    ) {
        let from_leader = is_leader_read(&self.pending);
        if self.loses(&digest) || doubt == Doubt::Reset || from_leader {
            self.read_leader_later(now, random, from_leader);
        }
        self.report(content, digest, Confidence::Partial(doubt), out);
        self.doubt = Some(doubt);
        self.become_state(State::Doubtful(doubt), out);
        self.next_read(now, out);
    }

    fn read_leader_later(&mut self, now: Mono, random: f64, again: bool) {
        if again {
            self.confirm_at = Some(now.plus(self.confirm.next(&mut Given(random))));
        } else if self.confirm_at.is_none() {
            self.confirm_at = Some(now);
        }
    }

    /// Handles an answer without doubts.
    fn plausible(&mut self, now: Mono, content: C, digest: Digest, out: &mut Actions<C>) {
        self.hides = Hides::Nothing;
        if self.doubt.take().is_some() {
            self.confirm_at = None;
            self.confirm.reset();
        }
        self.report(content, digest, Confidence::Plausible, out);
        self.become_state(State::Live, out);
        self.next_read(now, out);
    }

    /// Handles an answer of the leader, which settles every doubt and request.
    fn confirmed(&mut self, now: Mono, content: C, digest: Digest, out: &mut Actions<C>) {
        self.last_reported =
            Some(LastReported { hash: digest.hash, keys: digest.keys, confidence: Confidence::Confirmed });
        out.push(Action::Report(content, Confidence::Confirmed));
        (self.doubt, self.confirm_at) = (None, None);
        (self.hides, self.confirm_open) = (Hides::Nothing, false);
        self.confirm.reset();
        self.become_state(State::Live, out);
        self.next_read(now, out);
    }

    /// Judges an answer again after the check of the token.
    pub(super) fn checked(&mut self, now: Mono, random: f64, token: TokenCheck, out: &mut Actions<C>) {
        let Pending::Token(content, signs) = &self.pending else { return };
        let (content, signs) = (content.clone(), Signs { token, ..*signs });
        if token == TokenCheck::Changed {
            self.hides = Hides::Known;
        }
        let digest = content.digest();
        self.judge(now, random, signs, content, digest, out);
    }

    /// Reports content that is new or more certain.
    fn report(&mut self, content: C, digest: Digest, confidence: Confidence, out: &mut Actions<C>) {
        let last = self.last_reported.take();
        let is_new = last
            .as_ref()
            .is_none_or(|last| last.hash != digest.hash || last.confidence.rank() < confidence.rank());
        let keys = match (confidence, &last) {
            (Confidence::Partial(_), Some(last)) => union(&last.keys, &digest.keys),
            _ => digest.keys,
        };
        let kept = last.filter(|_| !is_new).map_or(confidence, |last| last.confidence);
        self.last_reported = Some(LastReported { hash: digest.hash, keys, confidence: kept });
        if is_new {
            out.push(Action::Report(content, confidence));
        }
    }
}

/// Returns whether the answer belongs to a leader read.
const fn is_leader_read<C>(pending: &Pending<C>) -> bool {
    matches!(pending, Pending::Token(..) | Pending::Read(Mode::Leader))
}

/// Randomness passed in by the caller.
pub(super) struct Given(pub(super) f64);

impl RandomSource for Given {
    fn unit(&mut self) -> f64 {
        self.0
    }
}
