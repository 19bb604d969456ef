//! Tells the log when a source begins or ceases to answer.
//!
//! Owned by the pump, which shows it every word before the core hears it. Only what differs from what was said last of
//! a scope is a line, so that a source that fails for hours is two: that it does, and that it answers again.

use std::collections::BTreeMap;

use tributary_model::{Delta, RegistryName, Scope, SourceState, SourceStatus, Stamped};

/// How many scopes are known at once; the rest is not told.
const MOST: usize = 10_000;

/// What the log was told last of each scope.
#[derive(Debug, Default)]
pub(crate) struct Standings(BTreeMap<(RegistryName, Scope), SourceState>);

impl Standings {
    /// Tells what of these words is new.
    pub(super) fn hear(&mut self, words: &[Stamped<Delta>]) {
        for word in words {
            if let Delta::Status(scope, status) = &word.value
                && self.is_new(&word.registry, scope, status.state)
            {
                tell(&word.registry, scope, status);
            }
        }
    }
    /// Nothing more is heard of this registry.
    pub(super) fn forget(&mut self, name: &RegistryName) {
        self.0.retain(|(registry, _), _| registry != name);
    }

    /// A source that begins anew says that it synchronises, which is neither good nor bad.
    fn is_new(&mut self, registry: &RegistryName, scope: &Scope, state: SourceState) -> bool {
        let key = (registry.clone(), scope.clone());
        if state == SourceState::Syncing || (self.0.len() >= MOST && !self.0.contains_key(&key)) {
            return false;
        }
        self.0.insert(key, state) != Some(state)
    }
}

fn tell(registry: &RegistryName, scope: &Scope, status: &SourceStatus) {
    if status.state == SourceState::Live && status.reason.is_empty() {
        tracing::info!(%registry, %scope, "a source answers");
    } else if status.state == SourceState::Live {
        tracing::warn!(%registry, %scope, reason = %status.reason, "a source answers, and not in full");
    } else {
        tracing::warn!(
            %registry, %scope, state = ?status.state, reason = %status.reason,
            "a source does not answer as it should; what it last said stays served"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_once_and_again_when_it_is_another() {
        use SourceState::{AuthFailed, Live, Syncing, Unreachable};
        let name = |text: &str| RegistryName::new(text).unwrap();
        let scope = |text: &str| Scope::new(text).unwrap();
        let mut known = Standings::default();
        let mut is_new = |state| known.is_new(&name("consul"), &scope("dc1"), state);
        let heard = [Syncing, Unreachable, Unreachable, AuthFailed, Live, Syncing, Live, Unreachable];
        assert_eq!(heard.map(&mut is_new), [false, true, false, true, true, false, false, true]);
        assert!(known.is_new(&name("consul"), &scope("dc2"), Unreachable), "each scope is its own");
        known.forget(&name("consul"));
        assert!(known.is_new(&name("consul"), &scope("dc1"), Unreachable));
    }
}
