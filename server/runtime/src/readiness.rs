//! The start rule: from when on a server answers, so that unknown is never served as empty.
//!
//! A pure function of the rule and of what is known; the pump calls it after each publication and
//! at the rule's deadline. Once ready, ready: no registry that joins or goes stale later undoes it.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::{Mono, RegistryName};

/// What a start waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRule {
    /// The registries that are known at start.
    pub known: BTreeSet<RegistryName>,
    /// The registry of the config cluster, where there is one: it has no timeout.
    pub config_cluster: Option<RegistryName>,
    /// How long registries other than the config cluster are waited for; `None` waits for ever.
    pub first_sync_timeout: Option<Duration>,
}

impl Default for StartRule {
    /// Waits 30 seconds for nobody in particular.
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            config_cluster: None,
            first_sync_timeout: Some(Duration::from_secs(30)),
        }
    }
}

/// What is known of a start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartFacts {
    /// A journal of a server that had been ready was restored.
    pub restored: bool,
    /// Registries whose required collections have all been listed once.
    pub synced: BTreeSet<RegistryName>,
    /// Registries that were known at start and have left since.
    pub left: BTreeSet<RegistryName>,
    /// When the config cluster had synced.
    pub config_synced: Option<Mono>,
}

/// Why a server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyBecause {
    /// A journal of a server that had been ready was restored.
    Restored,
    /// Every registry that was known at start has synced.
    Synced,
    /// The first sync was waited for long enough.
    TimedOut,
}

/// Whether a server may answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Why it is ready; `None` while it is not.
    pub ready: Option<ReadyBecause>,
    /// The registries of the start that have not synced yet.
    pub unknown: BTreeSet<RegistryName>,
}

impl Readiness {
    /// Whether it is ready.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
}

impl StartRule {
    /// Judges a start at a time since the process began; `before` is what was judged last.
    #[must_use]
    pub fn judge(&self, facts: &StartFacts, now: Mono, before: &Readiness) -> Readiness {
        let waits = |name: &&RegistryName| !facts.synced.contains(*name) && !facts.left.contains(*name);
        let unknown: BTreeSet<RegistryName> = self.known.iter().filter(waits).cloned().collect();
        let timed_out = || self.deadline(facts).is_some_and(|deadline| now >= deadline);
        let ready = before.ready.or_else(|| {
            if facts.restored {
                Some(ReadyBecause::Restored)
            } else if unknown.is_empty() {
                Some(ReadyBecause::Synced)
            } else if timed_out() {
                Some(ReadyBecause::TimedOut)
            } else {
                None
            }
        });
        Readiness { ready, unknown }
    }
    /// When the first sync has been waited for long enough; `None` while no end is in sight.
    #[must_use]
    pub fn deadline(&self, facts: &StartFacts) -> Option<Mono> {
        let from = match &self.config_cluster {
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
    fn the_timeout_names_whom_it_gave_up() {
        let rule = mk_rule(&["a", "b"], None);
        assert!(!judged(&rule, &mk_facts(&["a"]), 29).is_ready());
        let late = judged(&rule, &mk_facts(&["a"]), 30);
        assert_eq!(late.ready, Some(ReadyBecause::TimedOut));
        assert_eq!(late.unknown, BTreeSet::from([name("b")]));
    }

    #[test]
    fn zero_means_for_ever() {
        let rule = StartRule { first_sync_timeout: None, ..mk_rule(&["a"], None) };
        assert!(!judged(&rule, &mk_facts(&[]), 1_000_000).is_ready());
    }

    #[test]
    fn the_config_cluster_has_no_timeout_and_starts_that_of_the_others() {
        let rule = mk_rule(&["config", "b"], Some("config"));
        assert!(!judged(&rule, &mk_facts(&[]), 1_000_000).is_ready());
        let facts = StartFacts { config_synced: Some(at(100_000)), ..mk_facts(&["config"]) };
        assert!(!judged(&rule, &facts, 129).is_ready());
        assert!(judged(&rule, &facts, 130).is_ready());
    }

    #[test]
    fn a_restored_journal_of_a_ready_server_waits_for_nobody() {
        let facts = StartFacts { restored: true, ..StartFacts::default() };
        assert_eq!(judged(&mk_rule(&["a"], Some("a")), &facts, 0).ready, Some(ReadyBecause::Restored));
    }

    #[test]
    fn whoever_leaves_is_not_waited_for() {
        let facts = StartFacts { left: BTreeSet::from([name("b")]), ..mk_facts(&["a"]) };
        assert!(judged(&mk_rule(&["a", "b"], None), &facts, 1).is_ready());
    }

    #[test]
    fn once_ready_always_ready() {
        let before = Readiness { ready: Some(ReadyBecause::Synced), unknown: BTreeSet::new() };
        let after = mk_rule(&["a"], None).judge(&mk_facts(&[]), Mono(1), &before);
        assert_eq!(after.ready, Some(ReadyBecause::Synced));
        assert_eq!(after.unknown, BTreeSet::from([name("a")]), "and still named");
    }
}
