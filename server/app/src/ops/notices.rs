//! Notices that an operator may have to act on, once per change: a run that waits for `state accept` or
//! cannot read its source, a staleness policy that applies, a journal that cannot be written.
//!
//! The status log calls it with every status and every error of the journal, and it writes to the log; reports use its texts. It keeps the
//! notices that it logged last.

use std::collections::BTreeMap;

use tributary_core::{CollectionStatus, RegistryStatus};
use tributary_model::{Code, Freshness, RegistryName, Scope, ShardPriority};

use super::state::shortened;
use crate::config::staleness::Staleness;

/// Subject of a notice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// Run of a registry that waits for `state accept`.
    Run(RegistryName),
    /// Run that cannot read its source, while an earlier one is served.
    FailingRun(RegistryName),
    /// Staleness policy that applies to a scope of a registry.
    Policy(RegistryName, Scope),
    /// Journal that cannot be written.
    Journal,
}

/// Notices that were logged last.
#[derive(Debug, Default)]
pub struct Notices(BTreeMap<Subject, String>);

/// Returns why a run of a registry waits to be accepted; `None` if none waits.
fn obstacle(status: &RegistryStatus) -> Option<&str> {
    status.waits_for.as_deref().filter(|_| status.needs_accept)
}

/// Returns the notice of a run that waits to be accepted.
#[must_use]
pub fn waiting(status: &RegistryStatus) -> Option<String> {
    obstacle(status).map(|why| {
        let name = &status.id.name;
        format!(
            "a new run waits: {why}; if that is intended, accept it with `tributary cluster accept`, or `tributary state accept {name}` for a registry of the configuration"
        )
    })
}

/// Returns the notice of a run that cannot read its source while an earlier one is served.
#[must_use]
pub fn failing(status: &RegistryStatus) -> Option<String> {
    let why = status.shadow_failure.as_deref()?;
    Some(format!("a new run waits until it can read its source: {why}"))
}

/// Returns which required collections of a registry could never be read, with the reason of the first; `None` if there
/// are none.
#[must_use]
pub fn unread(status: &RegistryStatus) -> Option<String> {
    let is_unread = |one: &&CollectionStatus| one.required && one.facts == 0 && one.confirmed.is_none();
    let unread = status.collections.iter().filter(is_unread).filter_map(|one| match &one.freshness {
        Freshness::Stale { why, .. } => Some((&one.collection, why)),
        Freshness::Unknown | Freshness::Syncing | Freshness::Live => None,
    });
    let all: Vec<_> = unread.collect();
    let (_, why) = all.first()?;
    let mut scopes: BTreeMap<&Scope, Vec<&str>> = BTreeMap::new();
    all.iter().for_each(|(one, _)| scopes.entry(&one.scope).or_default().push(one.kind.plain_name()));
    let covers = |(scope, kinds): (&&Scope, &Vec<&str>)| {
        let is_whole = kinds.len() == count(status, scope);
        if is_whole { format!("scope {scope}") } else { format!("{} of scope {scope}", kinds.join(", ")) }
    };
    let names: Vec<_> = scopes.iter().map(covers).collect();
    Some(format!("could never read {}: {why}", shortened(names.iter().map(String::as_str))))
}

/// Returns the number of collections that a scope has.
fn count(status: &RegistryStatus, scope: &Scope) -> usize {
    status.collections.iter().filter(|one| one.collection.scope == *scope).count()
}

fn run(status: &RegistryStatus) -> Option<(Subject, String)> {
    Some((Subject::Run(status.id.name.clone()), obstacle(status)?.to_owned()))
}

fn failing_run(status: &RegistryStatus) -> Option<(Subject, String)> {
    Some((Subject::FailingRun(status.id.name.clone()), status.shadow_failure.as_deref()?.to_owned()))
}

fn policies(status: &RegistryStatus) -> impl Iterator<Item = (Subject, String)> {
    let text = Staleness::from(status.stale).to_string();
    let name = &status.id.name;
    status.by_policy.keys().map(move |scope| (Subject::Policy(name.clone(), scope.clone()), text.clone()))
}

fn begins(subject: &Subject, text: &str) {
    match subject {
        Subject::Run(registry) => {
            tracing::warn!(%registry, reason = text, "a new run waits to be accepted; see `tributary state show`");
        }
        Subject::FailingRun(registry) => {
            tracing::warn!(
                %registry, reason = text,
                "a new run cannot read its source; serving the facts of the earlier run until it can"
            );
        }
        Subject::Policy(registry, scope) => {
            tracing::warn!(%registry, %scope, policy = text, "the staleness policy applies to a scope");
        }
        Subject::Journal => {
            tracing::warn!(
                code = %Code::STATE_UNUSABLE, error = text,
                "cannot write the state directory; retrying, with changes kept in memory"
            );
        }
    }
}

fn ends(subject: &Subject) {
    match subject {
        Subject::Run(registry) => tracing::info!(%registry, "no run waits to be accepted"),
        Subject::FailingRun(registry) => {
            tracing::info!(%registry, "the new run no longer fails to read its source")
        }
        Subject::Policy(registry, scope) => {
            tracing::info!(%registry, %scope, "the staleness policy no longer applies to a scope");
        }
        Subject::Journal => tracing::info!("the state directory is writable again"),
    }
}

/// Returns the staleness policy of a registry with the scopes to which it applies now; `None` if there are
/// none.
#[must_use]
pub fn policy(status: &RegistryStatus) -> Option<String> {
    let (_, priority) = status.by_policy.first_key_value()?;
    let scopes = shortened(status.by_policy.keys().map(Scope::as_str));
    Some(format!(
        "staleness policy {} applies, {}: {scopes}",
        Staleness::from(status.stale),
        served(*priority)
    ))
}

/// Registries with scopes that a policy withdraws, each with a text that names them.
pub type Withdrawn = BTreeMap<RegistryName, String>;

/// Returns the registries with scopes that a policy withdraws.
#[must_use]
pub fn withdrawn(all: &[RegistryStatus]) -> Withdrawn {
    let is_withdrawn =
        |status: &&RegistryStatus| status.by_policy.values().any(|s| *s == ShardPriority::Withdrawn);
    let name = |status: &RegistryStatus| {
        let name = status.id.name.clone();
        let text = format!("registry {name}: {}", policy(status)?);
        Some((name, text))
    };
    all.iter().filter(is_withdrawn).filter_map(name).collect()
}

/// Describes the effect of a priority.
const fn served(priority: ShardPriority) -> &'static str {
    match priority {
        ShardPriority::Normal => "served normally",
        ShardPriority::Demoted => "served one priority lower",
        ShardPriority::Withdrawn => "not served",
    }
}

impl Notices {
    /// Logs the changes since the last call, among them the error of a journal that cannot be written. Its later errors
    /// do not repeat the notice.
    pub fn look(&mut self, all: &[RegistryStatus], journal: Option<String>) {
        let runs = |status| run(status).into_iter().chain(failing_run(status));
        let registries = all.iter().flat_map(|status| runs(status).chain(policies(status)));
        let journal = journal.map(|error| (Subject::Journal, error));
        let (begun, ended) = self.changes(registries.chain(journal).collect());
        begun.iter().for_each(|(subject, text)| begins(subject, text));
        ended.iter().for_each(ends);
    }
    /// Returns the new or changed notices, and the ended ones.
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
    fn waiting_run_is_logged_once_per_change() {
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
    fn unwritable_journal_is_logged_once_for_all_errors() {
        let mut notices = Notices::default();
        let mut look = |error: Option<&str>| {
            let now = error.map(|error| (Subject::Journal, error.to_owned())).into_iter().collect();
            let (begun, ended) = notices.changes(now);
            (begun.len(), ended.len())
        };
        let looks = [Some("no space left"), Some("input/output error"), None, None].map(&mut look);
        assert_eq!(looks, [(1, 0), (0, 0), (0, 1), (0, 0)]);
    }
}
