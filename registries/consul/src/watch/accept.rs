//! What becomes of an answer: what is told of it, on which basis, and what is asked next.

use std::collections::BTreeMap;

use tributary_model::{Basis, Mono};

use super::{Action, Actions, Pending, State, Watch, doubling};
use crate::answer::{Doubt, Failure, Headers, Known};

impl<K: Ord + Clone, V: Clone + PartialEq> Watch<K, V> {
    pub(super) fn answered(
        &mut self,
        now: Mono,
        chance: f64,
        headers: &Headers,
        content: BTreeMap<K, V>,
        confirming: bool,
        out: &mut Actions<K, V>,
    ) {
        let Some(index) = headers.index else {
            self.failed(now, chance, Failure::Broken, out);
            return;
        };
        self.failures = 0;
        let doubt = headers.doubt(&self.known(&content));
        let filtered = headers.may_be_filtered(self.policy.has_token);
        self.always_filtered.get_or_insert(filtered);
        self.follow(index, doubt);
        match doubt {
            Some(Doubt::Filtered) if confirming && self.always_filtered == Some(true) => {
                self.check_token(headers, content, now, chance, out);
            }
            Some(doubt) => self.doubted(now, chance, doubt, content, out),
            None if confirming && filtered => self.check_token(headers, content, now, chance, out),
            None if confirming && headers.known_leader == Some(true) => self.confirmed(now, content, out),
            None if confirming => self.doubted(now, chance, Doubt::Stale, content, out),
            None => self.sound(now, content, out),
        }
    }

    fn known(&self, content: &BTreeMap<K, V>) -> Known {
        let loses = self.told.as_ref().is_some_and(|told| told.keys().any(|key| !content.contains_key(key)));
        Known {
            floor: self.floor,
            always_filtered: self.always_filtered,
            has_token: self.policy.has_token,
            loses,
            max_contact: self.policy.max_contact,
            max_age: self.policy.max_age,
        }
    }

    /// After a reset the next read does not block, and is measured against where the indexes began anew.
    fn follow(&mut self, index: u64, doubt: Option<Doubt>) {
        self.floor = Some(index);
        self.index = (doubt != Some(Doubt::Reset)).then_some(index);
    }

    /// Its absences are not believed: what is missing stays, and the leader is asked, less and less often.
    fn doubted(
        &mut self,
        now: Mono,
        chance: f64,
        doubt: Doubt,
        mut content: BTreeMap<K, V>,
        out: &mut Actions<K, V>,
    ) {
        let doubt = if self.doubt == Some(Doubt::Reset) { Doubt::Reset } else { doubt };
        for (key, value) in self.told.iter().flatten() {
            content.entry(key.clone()).or_insert_with(|| value.clone());
        }
        self.tell(content, "the answer may be short", out);
        if asked_leader(&self.pending) || self.confirm_at.is_none() {
            self.ask_leader_later(now, chance);
        }
        self.doubt = Some(doubt);
        self.become_state(State::Doubtful(doubt), out);
        self.next_read(now, out);
    }

    fn ask_leader_later(&mut self, now: Mono, chance: f64) {
        let most = doubling(self.policy.pause_first, self.policy.pause_most, self.tries);
        let pause =
            if self.tries == 0 { std::time::Duration::ZERO } else { most.mul_f64(0.5 + chance / 2.0) };
        self.tries = self.tries.saturating_add(1);
        self.confirm_at = Some(now.plus(pause));
    }

    /// Looks sound. Only the leader clears the doubt that a reset leaves.
    fn sound(&mut self, now: Mono, mut content: BTreeMap<K, V>, out: &mut Actions<K, V>) {
        if self.doubt == Some(Doubt::Reset) {
            for (key, value) in self.told.iter().flatten() {
                content.entry(key.clone()).or_insert_with(|| value.clone());
            }
            self.tell(content, "the indexes began anew", out);
        } else {
            if self.doubt.take().is_some() {
                (self.tries, self.confirm_at) = (0, None);
            }
            self.tell(content, "any server may have answered", out);
            self.become_state(State::Live, out);
        }
        self.next_read(now, out);
    }

    /// The leader's own word: it settles whatever was doubted or asked.
    fn confirmed(&mut self, now: Mono, content: BTreeMap<K, V>, out: &mut Actions<K, V>) {
        self.told = Some(content.clone());
        out.push(Action::Say(content, Basis::Authoritative));
        (self.doubt, self.confirm_at, self.tries) = (None, None, 0);
        self.become_state(State::Live, out);
        self.next_read(now, out);
    }

    /// A token that never saw all confirms only while it is still the same one.
    fn check_token(
        &mut self,
        headers: &Headers,
        content: BTreeMap<K, V>,
        now: Mono,
        chance: f64,
        out: &mut Actions<K, V>,
    ) {
        if headers.known_leader == Some(true) {
            self.pending = Pending::Token { content };
            out.push(Action::CheckToken(self.ticket));
        } else {
            self.doubted(now, chance, Doubt::Filtered, content, out);
        }
    }

    pub(super) fn checked(&mut self, now: Mono, chance: f64, same: bool, out: &mut Actions<K, V>) {
        let Pending::Token { content } = &self.pending else { return };
        let content = content.clone();
        if same {
            self.confirmed(now, content, out);
        } else {
            self.doubted(now, chance, Doubt::Filtered, content, out);
        }
    }

    /// Says what is new, and nothing when nothing is.
    fn tell(&mut self, content: BTreeMap<K, V>, why: &'static str, out: &mut Actions<K, V>) {
        if self.told.as_ref() != Some(&content) {
            self.told = Some(content.clone());
            out.push(Action::Say(content, Basis::Unsure(why.into())));
        }
    }
}

/// Whether what came answers a question to the leader.
const fn asked_leader<K: Ord, V>(pending: &Pending<K, V>) -> bool {
    matches!(pending, Pending::Token { .. } | Pending::Read { confirming: true })
}
