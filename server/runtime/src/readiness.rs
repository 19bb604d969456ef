//! The start rule: when a server begins to answer, so that unknown facts are never served as empty.
//!
//! A pure function of the rule and of the known facts; the core task calls it after each publication and
//! at the rule's deadline. Once ready, a server stays ready: no registry added or stale later changes that.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::{Mono, RegistryName};

/// Conditions of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRule {
    /// Registries that are known at start.
    pub known: BTreeSet<RegistryName>,
    /// Registry of the config cluster, if any: it has no timeout.
    pub config_cluster: Option<RegistryName>,
    /// How long to wait for registries other than the config cluster; `None` waits without limit.
    pub first_sync_timeout: Option<Duration>,
    /// Whether further registries are found at run time: those that are added before the membership is known count as known at start.
    pub awaits_membership: bool,
}

impl Default for StartRule {
    /// Waits at most 30 seconds, for no particular registry.
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            config_cluster: None,
            first_sync_timeout: Some(Duration::from_secs(30)),
            awaits_membership: false,
        }
    }
}

/// Facts about a start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartFacts {
    /// Whether a journal of a server that had been ready was restored.
    pub restored: bool,
    /// Known registries of which a collection that decides what clients may reach was never read, also not before the restart.
    pub undecided: BTreeSet<RegistryName>,
    /// Registries whose required collections have all been listed once, or may not be read.
    pub synced: BTreeSet<RegistryName>,
    /// Registries that were known at start and have been removed since.
    pub left: BTreeSet<RegistryName>,
    /// When the config cluster synced. A kind of it that keeps failing does not count: the timeout is for such kinds, too.
    pub config_synced: Option<Mono>,
    /// Registries that were added before the membership was known, if the rule awaits it.
    pub found: BTreeSet<RegistryName>,
    /// Whether the rule awaits the membership and it is not known yet.
    pub awaits_membership: bool,
}

/// Reason for readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyBecause {
    /// A journal of a server that had been ready was restored.
    Restored,
    /// Every registry that was known at start has synced.
    Synced,
    /// The first sync timed out.
    TimedOut,
}

/// Whether a server may answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Reason for readiness; `None` if not ready.
    pub ready: Option<ReadyBecause>,
    /// Registries of the start that have not synced yet.
    pub unknown: BTreeSet<RegistryName>,
}

impl Readiness {
    /// Whether the server is ready.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
}

impl StartRule {
    /// Judges a start at a time since the process began; `before` is the previous result.
    #[must_use]
    pub fn judge(&self, facts: &StartFacts, now: Mono, before: &Readiness) -> Readiness {
        let waits = |name: &&RegistryName| !facts.synced.contains(*name) && !facts.left.contains(*name);
        let unknown: BTreeSet<RegistryName> = self.known.union(&facts.found).filter(waits).cloned().collect();
        let timed_out = || self.deadline(facts).is_some_and(|deadline| now >= deadline);
        let ready = before.ready.or_else(|| {
            if facts.restored && facts.undecided.is_empty() {
                Some(ReadyBecause::Restored)
            } else if unknown.is_empty() && !facts.awaits_membership {
                Some(ReadyBecause::Synced)
            } else if timed_out() {
                Some(ReadyBecause::TimedOut)
            } else {
                None
            }
        });
        Readiness { ready, unknown }
    }
    /// Returns when the first sync times out; `None` if no timeout applies yet. Restored facts of the config cluster may be served
    /// without it.
    #[must_use]
    pub fn deadline(&self, facts: &StartFacts) -> Option<Mono> {
        let from = match &self.config_cluster {
            _ if facts.restored => Mono::START,
            Some(name) if facts.left.contains(name) => Mono::START,
            Some(_) => facts.config_synced?,
            None => Mono::START,
        };
        Some(from.plus(self.first_sync_timeout?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RegistryName {
        RegistryName::new(text).unwrap()
    }

    fn at(millis: u64) -> Mono {
        Mono::START.plus(Duration::from_millis(millis))
    }

    fn mk_rule(known: &[&str], config: Option<&str>) -> StartRule {
        StartRule {
            known: known.iter().map(|n| name(n)).collect(),
            config_cluster: config.map(name),
            ..StartRule::default()
        }
    }

    fn mk_facts(synced: &[&str]) -> StartFacts {
        StartFacts { synced: synced.iter().map(|n| name(n)).collect(), ..StartFacts::default() }
    }

    fn judged(rule: &StartRule, facts: &StartFacts, seconds: u64) -> Readiness {
        rule.judge(facts, at(seconds * 1000), &Readiness::default())
    }

    #[test]
    fn ready_once_all_have_synced() {
        let rule = mk_rule(&["a", "b"], None);
        assert_eq!(judged(&rule, &mk_facts(&["a"]), 1).ready, None);
        assert_eq!(judged(&rule, &mk_facts(&["a", "b"]), 1).ready, Some(ReadyBecause::Synced));
    }

    #[test]
    fn found_registries_are_awaited_like_known_ones() {
        let rule = StartRule { awaits_membership: true, ..mk_rule(&["a"], Some("a")) };
        let mut facts =
            StartFacts { awaits_membership: true, config_synced: Some(at(0)), ..mk_facts(&["a"]) };
        assert_eq!(judged(&rule, &facts, 1).ready, None, "the membership is not known");
        assert_eq!(judged(&rule, &facts, 30).ready, Some(ReadyBecause::TimedOut));
        facts.awaits_membership = false;
        facts.found = [name("b")].into();
        let waiting = judged(&rule, &facts, 1);
        assert_eq!((waiting.ready, waiting.unknown.contains("b")), (None, true));
        facts.synced.insert(name("b"));
        assert_eq!(judged(&rule, &facts, 1).ready, Some(ReadyBecause::Synced));
    }

    #[test]
    fn timeout_lists_registries_that_did_not_sync() {
        let rule = mk_rule(&["a", "b"], None);
        assert!(!judged(&rule, &mk_facts(&["a"]), 29).is_ready());
        let late = judged(&rule, &mk_facts(&["a"]), 30);
        assert_eq!(late.ready, Some(ReadyBecause::TimedOut));
        assert_eq!(late.unknown, BTreeSet::from([name("b")]));
    }

    #[test]
    fn zero_timeout_waits_without_limit() {
        let rule = StartRule { first_sync_timeout: None, ..mk_rule(&["a"], None) };
        assert!(!judged(&rule, &mk_facts(&[]), 1_000_000).is_ready());
    }

    #[test]
    fn sync_of_the_config_cluster_starts_the_timeout_of_others() {
        let rule = mk_rule(&["config", "b"], Some("config"));
        assert!(!judged(&rule, &mk_facts(&[]), 1_000_000).is_ready());
        let facts = StartFacts { config_synced: Some(at(100_000)), ..mk_facts(&["config"]) };
        assert!(!judged(&rule, &facts, 129).is_ready());
        assert!(judged(&rule, &facts, 130).is_ready());
    }

    #[test]
    fn restored_journal_of_a_ready_server_is_ready_at_once() {
        let facts = StartFacts { restored: true, ..StartFacts::default() };
        assert_eq!(judged(&mk_rule(&["a"], Some("a")), &facts, 0).ready, Some(ReadyBecause::Restored));
    }

    #[test]
    fn restored_journal_without_a_policy_waits_for_it_until_the_timeout() {
        let undecided = BTreeSet::from([name("b")]);
        let facts = StartFacts { restored: true, undecided, ..StartFacts::default() };
        let rule = mk_rule(&["a", "b"], Some("a"));
        assert_eq!(judged(&rule, &facts, 29).ready, None);
        assert_eq!(
            judged(&rule, &facts, 30).ready,
            Some(ReadyBecause::TimedOut),
            "also without the config cluster"
        );
        let known = StartFacts { undecided: BTreeSet::new(), ..facts };
        assert_eq!(judged(&rule, &known, 1).ready, Some(ReadyBecause::Restored), "it was read since");
    }

    #[test]
    fn removed_registry_does_not_delay_readiness() {
        let facts = StartFacts { left: BTreeSet::from([name("b")]), ..mk_facts(&["a"]) };
        assert!(judged(&mk_rule(&["a", "b"], None), &facts, 1).is_ready());
    }

    #[test]
    fn once_ready_always_ready() {
        let before = Readiness { ready: Some(ReadyBecause::Synced), unknown: BTreeSet::new() };
        let after = mk_rule(&["a"], None).judge(&mk_facts(&[]), Mono(1), &before);
        assert_eq!(after.ready, Some(ReadyBecause::Synced));
        assert_eq!(after.unknown, BTreeSet::from([name("a")]), "still listed");
    }
}
