//! What an operator may have to act on, once per change: a run that waits to be accepted, a staleness policy
//! that applies, a journal that cannot be written.
//!
//! The status log calls it with every status and it writes to the log; reports take its texts. Keeps what it logged last.

use std::collections::BTreeMap;

use tributary_core::RegistryStatus;
use tributary_journal::JournalStats;
use tributary_model::{Code, RegistryName, Scope, ShardPriority};

use super::state::shortened;
use crate::config::staleness::Staleness;

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// A run of a registry waits to be accepted.
    Run(RegistryName),
    /// The staleness policy applies to a scope of a registry.
    Policy(RegistryName, Scope),
    /// The journal cannot be written.
    Journal,
}

/// What was logged last.
#[derive(Debug, Default)]
pub struct Notices(BTreeMap<Subject, String>);

/// Why a run of a registry waits to be accepted; `None` if none waits.
fn obstacle(status: &RegistryStatus) -> Option<&str> {
    status.waits_for.as_deref().filter(|_| status.needs_accept)
}

/// The notice of a run that waits to be accepted.
#[must_use]
pub fn waiting(status: &RegistryStatus) -> Option<String> {
    obstacle(status).map(|why| format!("a new run waits: {why}; see `tributary state show`"))
}

fn run(status: &RegistryStatus) -> Option<(Subject, String)> {
    Some((Subject::Run(status.id.name.clone()), obstacle(status)?.to_owned()))
}

fn policies(status: &RegistryStatus) -> impl Iterator<Item = (Subject, String)> {
    let text = Staleness::from(status.stale).to_string();
    let name = &status.id.name;
    status.by_policy.keys().map(move |scope| (Subject::Policy(name.clone(), scope.clone()), text.clone()))
}

/// The error of a journal that cannot be written. The first one stands for those of the tries that follow.
fn unwritable(stats: &JournalStats) -> Option<(Subject, String)> {
    Some((Subject::Journal, stats.last_error.clone()?))
}

fn begins(subject: &Subject, text: &str) {
    match subject {
        Subject::Run(registry) => {
            tracing::warn!(%registry, reason = text, "a new run waits to be accepted; see `tributary state show`");
        }
        Subject::Policy(registry, scope) => {
            tracing::warn!(%registry, %scope, policy = text, "the staleness policy applies to a scope");
        }
        Subject::Journal => {
            tracing::warn!(
                code = %Code::STATE_UNUSABLE, error = text,
                "the state directory cannot be written; trying again, with what changes kept in memory"
            );
        }
    }
}

fn ends(subject: &Subject) {
    match subject {
        Subject::Run(registry) => tracing::info!(%registry, "no run waits to be accepted any more"),
        Subject::Policy(registry, scope) => {
            tracing::info!(%registry, %scope, "the staleness policy applies to a scope no longer");
        }
        Subject::Journal => tracing::info!("the state directory is written again"),
    }
}

/// The staleness policy of a registry and the scopes to which it applies now; `None` if there are none.
#[must_use]
pub fn policy(status: &RegistryStatus) -> Option<String> {
    let (_, standing) = status.by_policy.first_key_value()?;
    let scopes = shortened(status.by_policy.keys().map(Scope::as_str));
    Some(format!(
        "staleness policy {} applies, {}: {scopes}",
        Staleness::from(status.stale),
        served(*standing)
    ))
}

/// The registries of which a policy withdraws scopes, with these scopes.
#[must_use]
pub fn withdrawn(all: &[RegistryStatus]) -> Vec<String> {
    let is_withdrawn =
        |status: &&RegistryStatus| status.by_policy.values().any(|s| *s == ShardPriority::Withdrawn);
    let name = |status: &RegistryStatus| Some(format!("registry {}: {}", status.id.name, policy(status)?));
    all.iter().filter(is_withdrawn).filter_map(name).collect()
}

/// How a policy has facts served.
const fn served(standing: ShardPriority) -> &'static str {
    match standing {
        ShardPriority::Normal => "served as usual",
        ShardPriority::Demoted => "served one priority lower",
        ShardPriority::Withdrawn => "not served",
    }
}

impl Notices {
    /// Logs what has changed since the last call.
    pub fn look(&mut self, all: &[RegistryStatus], journal: Option<&JournalStats>) {
        let registries = all.iter().flat_map(|status| run(status).into_iter().chain(policies(status)));
        let (begun, ended) = self.changes(registries.chain(journal.and_then(unwritable)).collect());
        begun.iter().for_each(|(subject, text)| begins(subject, text));
        ended.iter().for_each(ends);
    }
    /// What begins or reads otherwise than before, and what is over.
    fn changes(&mut self, now: BTreeMap<Subject, String>) -> (Vec<(Subject, String)>, Vec<Subject>) {
        let before = std::mem::replace(&mut self.0, now);
        let changed = |(subject, text): &(&Subject, &String)| match before.get(*subject) {
            Some(last) => last != *text && **subject != Subject::Journal,
            None => true,
        };
        let begun = self.0.iter().filter(changed).map(|(subject, text)| (subject.clone(), text.clone()));
        let begun = begun.collect();
        let ended = before.into_keys().filter(|subject| !self.0.contains_key(subject)).collect();
        (begun, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_logged_once_per_change() {
        let mut notices = Notices::default();
        let subject = || Subject::Run(RegistryName::new("east").unwrap());
        let mut look = |why: Option<&str>| {
            let (begun, ended) =
                notices.changes(why.map(|why| (subject(), why.to_owned())).into_iter().collect());
            (begun.len(), ended.len())
        };
        let looks = [None, Some("identity"), Some("identity"), Some("less"), None, None].map(&mut look);
        assert_eq!(looks, [(0, 0), (1, 0), (0, 0), (1, 0), (0, 1), (0, 0)]);
    }

    #[test]
    fn journal_that_cannot_be_written_is_logged_once_whatever_the_error() {
        let mut notices = Notices::default();
        let stats = |error: Option<&str>| JournalStats {
            last_error: error.map(ToOwned::to_owned),
            ..JournalStats::default()
        };
        let mut look = |error| {
            let (begun, ended) = notices.changes(unwritable(&stats(error)).into_iter().collect());
            (begun.len(), ended.len())
        };
        let looks = [Some("no space left"), Some("input/output error"), None, None].map(&mut look);
        assert_eq!(looks, [(1, 0), (0, 0), (0, 1), (0, 0)]);
    }
}
