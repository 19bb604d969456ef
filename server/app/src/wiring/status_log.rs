//! Tells the log when a registry stops or begins again to be live, so that whoever reads nothing else knows.
//!
//! Started with the server. It looks once a second, at states alone, and says each of them once: what changes
//! more often than that is in the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tributary_core::{RegistryStatus, SourceView};
use tributary_model::{Scope, SourcePart, SourceState, SourceStatus};
use tributary_runtime::RunReport;

use super::backend::LiveBackend;
use super::notices::Notices;
use super::report::{source_word, state};

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// So many parts are told of one registry.
const MOST_PARTS: usize = 64;
/// So many scopes.
const MOST_SCOPES: usize = 1_000;

/// How a registry, or a part of one that is live, is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LoggedState {
    registry: String,
    part: Option<String>,
    state: &'static str,
    reason: String,
}

impl LoggedState {
    fn of(registry: &str, part: String, state: SourceState, reason: &str) -> Self {
        let (registry, reason) = (registry.to_owned(), reason.to_owned());
        Self { registry, part: Some(part), state: source_word(&state), reason }
    }
}

/// What was said last, by registry and part, and of details by registry.
#[derive(Debug, Default)]
struct StatusLog {
    standings: BTreeMap<(String, Option<String>), &'static str>,
    ignored: BTreeMap<String, Arc<str>>,
}

/// Looks until the server stops.
pub async fn run(live: Arc<LiveBackend>, stop: CancellationToken) {
    let (mut herald, mut notices) = (StatusLog::default(), Notices::default());
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Ok(all) = live.handle.inspect(tributary_core::Core::status).await else { return };
        notices.look(&all, live.state.stats().as_ref());
        let (kinds, runs) = (live.kinds(), live.handle.runs());
        let configured = all.iter().filter(|status| kinds.contains_key(status.id.name.as_str()));
        for (registry, what) in herald.ignored(configured.clone().filter_map(ignored)) {
            tracing::warn!(registry, what = &*what, "of the mesh configuration this is not honoured");
        }
        let now = configured.flat_map(|status| standings(status, runs.get(&status.id.name))).collect();
        herald.news(now).iter().for_each(say);
    }
}

/// What a registry is called that is live and has a reservation: that it does not see all, or misses a file.
const IN_PART: &str = "Live with a reservation";

/// Of a registry; of its scopes, where it has several, since each fails alone; and of its parts where it is live although
/// one of them is not.
fn standings(status: &RegistryStatus, run: Option<&RunReport>) -> Vec<LoggedState> {
    let (word, reason) = state(status, run);
    let told = if word == "Live" && !reason.is_empty() { IN_PART } else { word };
    let registry = status.id.name.to_string();
    let own = LoggedState { registry: registry.clone(), part: None, state: told, reason };
    // lists of scopes, in brackets, are none
    let scopes: Vec<_> = status
        .sources
        .iter()
        .filter(|(scope, _)| !scope.as_str().starts_with('('))
        .take(MOST_SCOPES)
        .collect();
    let each = scopes.iter().filter(|_| scopes.len() > 1).map(|(scope, source)| {
        let SourceStatus { state, reason, .. } = &source.status;
        LoggedState::of(&registry, scope.to_string(), *state, reason)
    });
    let parts = scopes.iter().flat_map(|(scope, source)| parts(scope, source));
    let parts = parts.filter(|_| word == "Live").take(MOST_PARTS).map(|(scope, part)| {
        let name = if scopes.len() > 1 { format!("{scope} {}", part.name) } else { part.name.to_string() };
        LoggedState::of(&registry, name, part.state, &part.reason)
    });
    std::iter::once(own).chain(each).chain(parts).collect()
}

/// The parts of a scope; that of one kind has itself as its only part.
fn parts<'a>(scope: &'a Scope, source: &'a SourceView) -> impl Iterator<Item = (&'a Scope, &'a SourcePart)> {
    let kind = scope.as_str().split('/').next();
    source.status.parts.iter().filter(move |part| kind != Some(&*part.name)).map(move |part| (scope, part))
}

/// What of a cluster's mesh configuration has no effect here.
fn ignored(status: &RegistryStatus) -> Option<(String, Arc<str>)> {
    let mut details = status.sources.values().flat_map(|source| source.status.details.iter());
    let (_, what) = details.find(|(name, _)| &**name == tributary_kubernetes::Index::NOT_HONOURED)?;
    Some((status.id.name.to_string(), Arc::clone(what)))
}

impl StatusLog {
    /// What is to be said of it: a list that is another one than was said last.
    fn ignored(&mut self, now: impl Iterator<Item = (String, Arc<str>)>) -> Vec<(String, Arc<str>)> {
        let other = |(registry, what): &(String, Arc<str>)| self.ignored.get(registry) != Some(what);
        let news: Vec<_> = now.filter(other).collect();
        self.ignored.extend(news.iter().cloned());
        news
    }
    /// What is to be said: a state that is another one than was said last. One that is still being found out is
    /// none, and a part is told of only where it fails or is well again.
    fn news(&mut self, now: Vec<LoggedState>) -> Vec<LoggedState> {
        let known = std::mem::take(&mut self.standings);
        let mut news = Vec::new();
        for standing in now {
            let key = (standing.registry.clone(), standing.part.clone());
            let before = known.get(&key).copied();
            let is_said = match (before, standing.state) {
                (_, "Syncing") => false,
                (None, "Live") => standing.part.is_none(),
                (before, state) => before != Some(state),
            };
            let told = if standing.state == "Syncing" { before } else { Some(standing.state) };
            self.standings.extend(told.map(|state| (key, state)));
            if is_said {
                news.push(standing);
            }
        }
        news
    }
}

fn say(standing: &LoggedState) {
    let LoggedState { registry, part, state, reason } = standing;
    match (part, *state) {
        (None, "Live") => tracing::info!(registry, "the registry is live"),
        (None, IN_PART) => tracing::warn!(registry, reason, "the registry is live, with a reservation"),
        (None, _) => {
            tracing::warn!(registry, state, reason, "the registry is not live; what it said stays served");
        }
        (Some(part), "Live") => tracing::info!(registry, part, "a part of the registry is live again"),
        (Some(part), _) => {
            tracing::warn!(registry, part, state, reason, "a part of the registry is not live");
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{ClusterId, Generation, Provider, RegistryId, RegistryName, StalePolicy};

    use super::*;

    fn mk(state: &'static str, parts: &[(&str, &'static str)]) -> Vec<LoggedState> {
        let one = |part: Option<&str>, state| LoggedState {
            registry: "k".to_owned(),
            part: part.map(str::to_owned),
            state,
            reason: "why".to_owned(),
        };
        let parts = parts.iter().map(|(part, state)| one(Some(part), state));
        std::iter::once(one(None, state)).chain(parts).collect()
    }

    #[test]
    fn a_state_is_said_when_it_becomes_another_one() {
        let mut herald = StatusLog::default();
        let mut told = |state| herald.news(mk(state, &[])).first().map(|one| one.state);
        let states = ["Syncing", "Forbidden", "Forbidden", "Syncing", "Forbidden", "Syncing", "Live", "Live"];
        let said: Vec<_> = states.into_iter().filter_map(&mut told).collect();
        assert_eq!(said, ["Forbidden", "Live"]);
        assert_eq!(told("AuthFailed"), Some("AuthFailed"));
        assert_eq!(told("Live"), Some("Live"));
    }

    #[test]
    fn a_part_is_told_of_where_it_fails_and_when_it_is_well_again() {
        let mut herald = StatusLog::default();
        let mut told = |part| {
            let news = herald.news(mk("Live", &[("gateways", part)]));
            news.into_iter().filter(|one| one.part.is_some()).map(|one| one.state).next()
        };
        let said: Vec<_> =
            ["Live", "Forbidden", "Forbidden", "Live", "Live"].into_iter().filter_map(&mut told).collect();
        assert_eq!(said, ["Forbidden", "Live"]);
    }

    fn mk_status(sources: &[(&str, SourceState, &str)]) -> RegistryStatus {
        let source = |(scope, state, reason): &(&str, SourceState, &str)| {
            let status = SourceStatus::new(*state, *reason);
            (Scope::new(*scope).unwrap(), SourceView { status, at: 0 })
        };
        RegistryStatus {
            id: Arc::new(RegistryId {
                name: RegistryName::new("c").unwrap(),
                provider: Provider::Consul,
                cluster: ClusterId::new("k").unwrap(),
            }),
            generation: Generation(1),
            shadow: None,
            waits_for: None,
            needs_accept: false,
            identity: None,
            ended: Vec::new(),
            unknown: false,
            synced: true,
            standing: tributary_model::ShardPriority::default(),
            stale: StalePolicy::Hold,
            by_policy: BTreeMap::new(),
            collections: Vec::new(),
            sources: sources.iter().map(source).collect(),
            problems: 0,
            held: 0,
            waiting: 0,
            weight: 0,
        }
    }

    #[test]
    fn each_of_several_scopes_is_told_of_and_what_is_seen_in_part() {
        let told = |sources: &[(&str, SourceState, &str)]| {
            let all = standings(&mk_status(sources), None).into_iter();
            all.map(|one| (one.part.unwrap_or_default(), one.state)).collect::<Vec<_>>()
        };
        let own = |state| (String::new(), state);
        let directory = ("(datacenters)", SourceState::Live, "");
        assert_eq!(told(&[directory, ("dc1", SourceState::Live, "")]), [own("Live")]);
        assert_eq!(told(&[directory, ("dc1", SourceState::Live, "sees less")]), [own(IN_PART)]);
        let both = [directory, ("dc1", SourceState::Live, ""), ("dc2", SourceState::Unreachable, "no path")];
        let each = [("dc1".to_owned(), "Live"), ("dc2".to_owned(), "Unreachable")];
        assert_eq!(told(&both), [&[own("Unreachable")], &each[..]].concat());
    }

    #[test]
    fn a_part_is_told_of_once_and_under_its_scope_where_there_are_several() {
        let part = |name: &str| SourcePart {
            name: name.into(),
            state: SourceState::Forbidden,
            ..SourcePart::default()
        };
        let told = |scopes: &[(&str, &str)]| {
            let live: Vec<_> = scopes.iter().map(|(scope, _)| (*scope, SourceState::Live, "")).collect();
            let mut status = mk_status(&live);
            for (scope, name) in scopes {
                let source = status.sources.get_mut(&Scope::new(*scope).unwrap()).unwrap();
                source.status.parts = [part(name)].into();
            }
            let parts = standings(&status, None).into_iter().filter(|one| one.state == "Forbidden");
            parts.filter_map(|one| one.part).collect::<Vec<_>>()
        };
        assert_eq!(told(&[("cluster", "gateways")]), ["gateways"]);
        assert_eq!(told(&[("a", "gateways"), ("b", "gateways")]), ["a gateways", "b gateways"]);
        assert_eq!(told(&[("serviceentries/shop", "serviceentries"), ("b", "c")]), ["b c"]);
    }

    #[test]
    fn what_is_ignored_is_listed_once() {
        let mut herald = StatusLog::default();
        let mut told = |what: &str| herald.ignored([("k".to_owned(), what.into())].into_iter()).len();
        assert_eq!([told("a"), told("a"), told("a, b"), told("a, b")], [1, 0, 1, 0]);
    }

    #[test]
    fn a_registry_that_has_left_is_forgotten() {
        let mut herald = StatusLog::default();
        assert_eq!(herald.news(mk("Live", &[])).len(), 1);
        assert!(herald.news(Vec::new()).is_empty());
        assert_eq!(herald.news(mk("Live", &[])).len(), 1);
    }
}
