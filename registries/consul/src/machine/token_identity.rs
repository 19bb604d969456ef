//! Identity and policies of the token when they were first read. A later answer confirms an absence only while they
//! are unchanged.
//!
//! Requests without an own token have the agent's default token. Its identity matters under a default policy of deny
//! only, because Consul masks the filter of anonymous requests there.

use std::time::Duration;

use tributary_model::Mono;

use crate::absence::TokenCheck;
use crate::answer::Headers;

/// Identity of the token of one scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenIdentity {
    has_token: bool,
    /// Hash of identity and policies when first read; `None` while requests are anonymous.
    first: Option<u64>,
    /// Time from which the agent's token may be read again.
    agents_at: Option<Mono>,
}

impl TokenIdentity {
    /// Creates an identity that has not been read.
    pub(super) const fn new(has_token: bool) -> Self {
        Self { has_token, first: None, agents_at: None }
    }
    /// Returns whether the identity can be compared.
    pub(super) const fn is_comparable(&self) -> bool {
        self.has_token || self.first.is_some()
    }
    /// Stores the identity if it is the first one.
    pub(super) fn learn(&mut self, token: Option<u64>) {
        self.first = self.first.or(token);
    }
    /// Compares the identity with the first one.
    pub(super) fn compare(&mut self, token: Option<u64>) -> TokenCheck {
        let same = token.is_some() && token == self.first;
        self.learn(token);
        if same { TokenCheck::Same } else { TokenCheck::Changed }
    }
    /// Forgets the identity because another token applies. Returns whether the new one must be read.
    pub(super) const fn forget(&mut self) -> bool {
        *self = Self::new(self.has_token);
        self.has_token
    }
    /// Returns whether the agent's token must be read because an answer depends on it; at most once per interval.
    pub(super) fn needs_agents(&mut self, headers: &Headers, now: Mono, interval: Duration) -> bool {
        let due = self.agents_at.is_none_or(|at| at <= now);
        let needed = headers.default_deny && !self.is_comparable() && due;
        if needed {
            self.agents_at = Some(now.plus(interval));
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: Headers = Headers {
        index: Some(1),
        known_leader: Some(true),
        last_contact: Duration::ZERO,
        age: Duration::ZERO,
        filtered: false,
        default_deny: true,
        translated: false,
    };

    #[test]
    fn only_the_first_identity_is_the_same() {
        let mut identity = TokenIdentity::new(true);
        assert_eq!(identity.compare(Some(1)), TokenCheck::Changed, "nothing was known");
        assert_eq!(identity.compare(Some(1)), TokenCheck::Same);
        assert_eq!(identity.compare(Some(2)), TokenCheck::Changed);
        assert_eq!(identity.compare(None), TokenCheck::Changed);
        assert!(identity.forget());
        assert_eq!(identity.compare(Some(1)), TokenCheck::Changed);
    }

    #[test]
    fn agents_token_is_read_under_default_deny_once_per_interval() {
        let minute = Duration::from_secs(60);
        let mut identity = TokenIdentity::new(false);
        let allow = Headers { default_deny: false, ..DENY };
        assert!(!identity.needs_agents(&allow, Mono(0), minute) && !identity.is_comparable());
        let needed = [0, 1, 59_999, 60_000].map(|at| identity.needs_agents(&DENY, Mono(at), minute));
        assert_eq!(needed, [true, false, false, true]);
        identity.learn(Some(1));
        assert!(identity.is_comparable() && !identity.needs_agents(&DENY, Mono(200_000), minute));
        assert!(!TokenIdentity::new(true).needs_agents(&DENY, Mono(0), minute), "it has its own");
    }
}
