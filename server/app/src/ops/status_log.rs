//! Logs when a registry or a part of it changes its state.
//!
//! Started with the server. The runtime wakes it when a status changed; it then waits for the status to settle,
//! compares states and problems and logs each change once. The journal wakes it with its errors. Metrics show faster
//! changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tributary_core::{CollectionStatus, Core, RegistryStatus, SourceView};
use tributary_model::{DetailValue, Freshness, OverallState, OverallStatus, Scope, SourcePart};
use tributary_runtime::RunReport;

use super::backend::LiveBackend;
use super::held_log::{HeldLog, MOST_HELD};
use super::notices::Notices;
use super::problem_log::{MOST_PROBLEMS, ProblemLog};
use super::report::state;
use crate::config::registry::DNS_REGISTRY;
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};

/// Time from a change to the comparison: a list under way or a restarted run usually ends within it.
const SETTLE: Duration = Duration::from_secs(1);
/// Maximum number of parts that are logged for one registry.
const MOST_PARTS: usize = 64;
/// Maximum number of scopes that are compared for one registry.
const MOST_SCOPES: usize = 1_000;

/// What is served of a registry that is not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    /// Facts that its source reported earlier, or that were restored.
    LastFacts,
    /// No facts: its source had none when it was last read.
    NoFacts,
    /// Nothing is known: its source was never read.
    Unknown,
}

impl Served {
    fn of(status: &RegistryStatus) -> Self {
        // one that could never be read is stale as well, but has no confirmation
        let is_known = |c: &CollectionStatus| c.confirmed.is_some() || c.freshness == Freshness::Live;
        // a readable optional collection shows nothing about the others
        let has_required = status.collections.iter().any(|collection| collection.required);
        let mut counted = status.collections.iter().filter(|one| one.required || !has_required);
        if status.collections.iter().any(|collection| collection.facts > 0) {
            Self::LastFacts
        } else if counted.any(is_known) {
            Self::NoFacts
        } else {
            Self::Unknown
        }
    }
    /// Event text of a registry that is not live.
    const fn text(self) -> &'static str {
        match self {
            Self::LastFacts => "registry is not live; serving its last known facts",
            Self::NoFacts => "registry is not live; it had no facts when it was last read",
            Self::Unknown => "registry is not live; nothing of it is known yet",
        }
    }
}

/// State of a registry, or of a part of a live one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LoggedState {
    registry: String,
    part: Option<String>,
    state: &'static str,
    reason: String,
    served: Served,
}

impl LoggedState {
    /// Returns the same registry's part with a state of its own.
    fn with_part(&self, part: String, state: OverallState, reason: &str) -> Self {
        Self { part: Some(part), state: state.as_str(), reason: reason.to_owned(), ..self.clone() }
    }
}

/// Detail that its adapter marks as a warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WarningKey {
    registry: String,
    scope: Scope,
    name: Arc<str>,
}

/// States that were logged last, by registry and part, and the warnings.
#[derive(Debug, Default)]
struct StatusLog {
    states: BTreeMap<(String, Option<String>), &'static str>,
    warnings: BTreeMap<WarningKey, DetailValue>,
}

/// Logs changed states until the server stops.
pub async fn run(live: Arc<LiveBackend>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = follow(&live) => {}
    }
}

async fn follow(live: &LiveBackend) {
    let (mut log, mut notices, mut all) = (StatusLog::default(), Notices::default(), Vec::new());
    let (mut problem_log, mut held_log) = (ProblemLog::default(), HeldLog::default());
    let mut changes = live.handle.status_changes();
    let mut journal = live.state.errors();
    // an error from before the subscription counts as a change
    journal.iter_mut().for_each(watch::Receiver::mark_changed);
    loop {
        let is_changed = tokio::select! {
            changed = changes.next() => match changed {
                Some(_) => true,
                None => return,
            },
            () = changed(journal.as_mut()) => false,
        };
        if is_changed {
            let at = Timestamp::now();
            tokio::time::sleep(SETTLE).await;
            let look = |core: &Core| {
                let problems = core.problems().take(MOST_PROBLEMS + 1).collect::<Vec<_>>();
                (core.status(), problems, core.held().take(MOST_HELD).collect::<Vec<_>>())
            };
            let Ok((statuses, problems, held)) = live.handle.inspect(look).await else { return };
            all = statuses;
            let kinds = live.kinds();
            let problems = problem_log.compare(live.clock.now(), &problems, |name| {
                kinds.contains_key(name) || name == DNS_REGISTRY
            });
            let entries = log.compare(live, &all).into_iter().chain(held_log.compare(&all, &held));
            entries.chain(problems).for_each(|entry| live.timeline.add(at, entry));
        }
        notices.look(&all, journal.as_mut().and_then(|errors| errors.borrow_and_update().clone()));
    }
}

/// Waits for a change; forever without a journal, or after its end.
async fn changed(errors: Option<&mut watch::Receiver<Option<String>>>) {
    if let Some(errors) = errors
        && errors.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// State of a live registry with a reason: it sees only a part, or misses a file.
const PARTIAL: &str = "Live with a partial view";

/// Returns the state of a registry; of its scopes if it has several, since each fails on its own; and of the
/// failed parts of a live registry.
fn logged_states(status: &RegistryStatus, run: Option<&RunReport>) -> Vec<LoggedState> {
    let OverallStatus { state: name, reason } = state(status, run);
    let (name, reason) = (name.as_str(), reason.to_string());
    let is_partial = status.sources.values().any(|source| source.status.is_partial());
    let shown = if name == "Live" && is_partial { PARTIAL } else { name };
    let (registry, served) = (status.id.name.to_string(), Served::of(status));
    let own = LoggedState { registry, part: None, state: shown, reason, served };
    let scopes: Vec<_> =
        status.sources.iter().filter(|(_, source)| !source.status.is_directory).take(MOST_SCOPES).collect();
    let each = scopes.iter().filter(|_| scopes.len() > 1).map(|(scope, _)| {
        let OverallStatus { state, reason } = status.overall_of(scope);
        own.with_part(scope.to_string(), state, &reason)
    });
    let parts = scopes.iter().flat_map(|(scope, source)| parts(scope, source));
    let parts = parts.filter(|_| name == "Live").take(MOST_PARTS).map(|(scope, part)| {
        let part_name =
            if scopes.len() > 1 { format!("{scope} {}", part.name) } else { part.name.to_string() };
        own.with_part(part_name, part.state.into(), &part.reason)
    });
    let of_parts: Vec<_> = each.chain(parts).collect();
    std::iter::once(own).chain(of_parts).collect()
}

/// Returns the parts of a scope, without a part that has the scope's own name.
fn parts<'a>(scope: &'a Scope, source: &'a SourceView) -> impl Iterator<Item = (&'a Scope, &'a SourcePart)> {
    let kind = scope.as_str().split('/').next();
    source.status.parts.iter().filter(move |part| kind != Some(&*part.name)).map(move |part| (scope, part))
}

/// Returns the details of a registry that its adapter marks as warnings, by registry, scope and name.
fn warnings(status: &RegistryStatus) -> impl Iterator<Item = (WarningKey, DetailValue)> {
    let sources = status.sources.iter().take(MOST_SCOPES);
    let details =
        sources.flat_map(|(scope, source)| source.status.details.iter().map(move |detail| (scope, detail)));
    details.filter(|(_, detail)| detail.is_warning).map(|(scope, detail)| {
        let key = WarningKey {
            registry: status.id.name.to_string(),
            scope: scope.clone(),
            name: Arc::clone(&detail.name),
        };
        (key, detail.value.clone())
    })
}

impl StatusLog {
    /// Logs the changed states and warnings of the configured registries. Returns the states as entries of the timeline.
    fn compare(&mut self, live: &LiveBackend, all: &[RegistryStatus]) -> Vec<TimelineItem> {
        let (kinds, runs) = (live.kinds(), live.handle.runs());
        let configured = all.iter().filter(|status| kinds.contains_key(status.id.name.as_str()));
        self.warnings.retain(|key, _| kinds.contains_key(key.registry.as_str()));
        for (key, value) in self.warnings(configured.clone().flat_map(warnings)) {
            let WarningKey { registry, scope, name } = key;
            tracing::warn!(registry, %scope, detail = &*name, %value, "source reports a warning");
        }
        let now = configured.flat_map(|status| logged_states(status, runs.get(&status.id.name))).collect();
        let changes = self.changes(now);
        changes.iter().for_each(write);
        changes.iter().map(entry).collect()
    }
    /// Returns the warnings that are new or have changed since they were logged. One that a new run reports again is
    /// neither.
    fn warnings(
        &mut self,
        now: impl Iterator<Item = (WarningKey, DetailValue)>,
    ) -> Vec<(WarningKey, DetailValue)> {
        let is_changed = |(key, value): &(WarningKey, DetailValue)| self.warnings.get(key) != Some(value);
        let changed: Vec<_> = now.filter(is_changed).collect();
        self.warnings.extend(changed.iter().cloned());
        changed
    }
    /// Returns the states that changed since they were logged. `Syncing` is not a change, and a part is
    /// logged only when it fails or recovers.
    fn changes(&mut self, now: Vec<LoggedState>) -> Vec<LoggedState> {
        let known = std::mem::take(&mut self.states);
        let mut changes = Vec::new();
        for state in now {
            let key = (state.registry.clone(), state.part.clone());
            let before = known.get(&key).copied();
            let is_logged = match (before, state.state) {
                (_, "Syncing") => false,
                (None, "Live") => state.part.is_none(),
                (before, name) => before != Some(name),
            };
            let last = if state.state == "Syncing" { before } else { Some(state.state) };
            self.states.extend(last.map(|name| (key, name)));
            if is_logged {
                changes.push(state);
            }
        }
        changes
    }
}

/// Returns the entry of the timeline.
fn entry(state: &LoggedState) -> TimelineItem {
    let LoggedState { registry, part, state, reason, served } = state;
    let severity = match (*state, served) {
        ("Live", _) => TimelineSeverity::Info,
        (_, Served::Unknown) => TimelineSeverity::Error,
        _ => TimelineSeverity::Warning,
    };
    let of = part.as_ref().map(|part| format!("{part}: ")).unwrap_or_default();
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    TimelineItem {
        kind: TimelineKind::Registry,
        severity,
        object: TimelineObject::new("registry", registry.as_str()),
        message: format!("{of}{state}{reason}"),
        registry: registry.clone(),
        ..TimelineItem::default()
    }
}

fn write(state: &LoggedState) {
    let LoggedState { registry, part, state, reason, served } = state;
    let note = Some(reason).filter(|reason| !reason.is_empty());
    match (part, *state) {
        (None, "Live") => tracing::info!(registry, note, "registry is live"),
        (None, PARTIAL) => tracing::warn!(registry, reason, "registry is live with a partial view"),
        (None, _) => tracing::warn!(registry, state, reason, "{}", served.text()),
        (Some(part), "Live") => tracing::info!(registry, part, "part of a registry is live again"),
        (Some(part), _) => {
            tracing::warn!(registry, part, state, reason, "part of a registry is not live");
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        ClusterId, Generation, ProviderId, RegistryId, RegistryName, SinceMono, SourceDetail, SourceState,
        SourceStatus, StalePolicy,
    };

    use super::*;

    fn mk(state: &'static str, parts: &[(&str, &'static str)]) -> Vec<LoggedState> {
        let one = |part: Option<&str>, state| LoggedState {
            registry: "k".to_owned(),
            part: part.map(str::to_owned),
            state,
            reason: "why".to_owned(),
            served: Served::LastFacts,
        };
        let parts = parts.iter().map(|(part, state)| one(Some(part), state));
        std::iter::once(one(None, state)).chain(parts).collect()
    }

    #[test]
    fn state_is_logged_once_per_change() {
        let mut log = StatusLog::default();
        let mut logged = |state| log.changes(mk(state, &[])).first().map(|one| one.state);
        let states = ["Syncing", "Forbidden", "Forbidden", "Syncing", "Forbidden", "Syncing", "Live", "Live"];
        let seen: Vec<_> = states.into_iter().filter_map(&mut logged).collect();
        assert_eq!(seen, ["Forbidden", "Live"]);
        assert_eq!(logged("AuthFailed"), Some("AuthFailed"));
        assert_eq!(logged("Live"), Some("Live"));
    }

    #[test]
    fn part_is_logged_when_it_fails_and_recovers() {
        let mut log = StatusLog::default();
        let mut logged = |part| {
            let changes = log.changes(mk("Live", &[("gateways", part)]));
            changes.into_iter().filter(|one| one.part.is_some()).map(|one| one.state).next()
        };
        let seen: Vec<_> =
            ["Live", "Forbidden", "Forbidden", "Live", "Live"].into_iter().filter_map(&mut logged).collect();
        assert_eq!(seen, ["Forbidden", "Live"]);
    }

    fn mk_status(sources: &[(&str, SourceState, &str)]) -> RegistryStatus {
        let source = |(scope, state, reason): &(&str, SourceState, &str)| {
            let is_directory = *scope == "(datacenters)";
            let status = SourceStatus { is_directory, ..SourceStatus::new(*state, *reason) };
            (Scope::new(*scope).unwrap(), SourceView { status, at: 0, since: None })
        };
        RegistryStatus {
            id: Arc::new(RegistryId {
                name: RegistryName::new("c").unwrap(),
                provider: ProviderId::CONSUL,
                cluster: ClusterId::new("k").unwrap(),
            }),
            generation: Generation(1),
            shadow: None,
            waits_for: None,
            shadow_failure: None,
            needs_accept: false,
            identity: None,
            found_identity: None,
            ended: Vec::new(),
            unknown: false,
            synced: true,
            failing: false,
            decided: true,
            priority: tributary_model::ShardPriority::default(),
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
    fn registry_that_is_not_live_is_logged_with_what_is_served() {
        let collection = |facts, freshness| CollectionStatus {
            collection: tributary_model::Collection {
                scope: Scope::new("dc1").unwrap(),
                kind: tributary_model::CollectionKind::Services,
            },
            required: true,
            freshness,
            synced: false,
            complete: false,
            withheld: false,
            facts,
            confirmed: None,
            known: true,
        };
        let served = |facts, freshness| {
            let mut status = mk_status(&[("dc1", SourceState::Unreachable, "no path")]);
            status.collections = vec![collection(facts, freshness)];
            logged_states(&status, None).first().map(|one| one.served)
        };
        assert_eq!(served(0, Freshness::Unknown), Some(Served::Unknown));
        assert_eq!(served(0, Freshness::Syncing), Some(Served::Unknown));
        assert_eq!(served(0, Freshness::Live), Some(Served::NoFacts));
        assert_eq!(served(3, Freshness::Syncing), Some(Served::LastFacts), "restored facts are served");
        let refused = || Freshness::Stale { since: SinceMono::default(), why: "403".into() };
        assert_eq!(served(0, refused()), Some(Served::Unknown), "it could never be read");
        let mut status = mk_status(&[("dc1", SourceState::Forbidden, "403")]);
        let optional = CollectionStatus { required: false, ..collection(0, Freshness::Live) };
        status.collections = vec![collection(0, refused()), optional];
        assert_eq!(Served::of(&status), Served::Unknown, "only an optional one was read");
        status.collections[0].confirmed = Some(1);
        assert_eq!(Served::of(&status), Served::NoFacts);
    }

    #[test]
    fn several_scopes_and_partial_views_are_logged() {
        let logged = |sources: &[(&str, SourceState, &str)]| {
            let all = logged_states(&mk_status(sources), None).into_iter();
            all.map(|one| (one.part.unwrap_or_default(), one.state)).collect::<Vec<_>>()
        };
        let own = |state| (String::new(), state);
        let directory = ("(datacenters)", SourceState::Live, "");
        assert_eq!(logged(&[directory, ("dc1", SourceState::Live, "")]), [own("Live")]);
        assert_eq!(logged(&[directory, ("dc1", SourceState::Live, "sees less")]), [own(PARTIAL)]);
        let both = [directory, ("dc1", SourceState::Live, ""), ("dc2", SourceState::Unreachable, "no path")];
        let each = [("dc1".to_owned(), "Live"), ("dc2".to_owned(), "Unreachable")];
        assert_eq!(logged(&both), [&[own("Unreachable")], &each[..]].concat());
        let both = [("a", SourceState::AuthFailed, ""), ("b", SourceState::Forbidden, "")];
        assert_eq!(logged(&both)[0], own("AuthFailed"), "the worse state is that of the registry");
    }

    #[test]
    fn part_is_logged_once_with_its_scope() {
        let part = |name: &str| SourcePart {
            name: name.into(),
            state: SourceState::Forbidden,
            ..SourcePart::default()
        };
        let logged = |scopes: &[(&str, &str)]| {
            let live: Vec<_> = scopes.iter().map(|(scope, _)| (*scope, SourceState::Live, "")).collect();
            let mut status = mk_status(&live);
            for (scope, name) in scopes {
                let source = status.sources.get_mut(&Scope::new(*scope).unwrap()).unwrap();
                source.status.parts = [part(name)].into();
            }
            let parts = logged_states(&status, None).into_iter().filter(|one| one.state == "Forbidden");
            parts.filter_map(|one| one.part).collect::<Vec<_>>()
        };
        assert_eq!(logged(&[("cluster", "gateways")]), ["gateways"]);
        assert_eq!(logged(&[("a", "gateways"), ("b", "gateways")]), ["a gateways", "b gateways"]);
        assert_eq!(logged(&[("serviceentries/shop", "serviceentries"), ("b", "c")]), ["b c"]);
    }

    #[test]
    fn warning_is_logged_when_it_changes() {
        let mut log = StatusLog::default();
        let mut logged = |values: &[&str]| {
            let mut status = mk_status(&[("c", SourceState::Live, "")]);
            let plain = SourceDetail::text("address", values.len().to_string());
            let details = values.iter().map(|value| SourceDetail::text("ignored", *value).warning());
            let source = status.sources.values_mut().next().unwrap();
            source.status.details = std::iter::once(plain).chain(details).collect();
            log.warnings(warnings(&status)).len()
        };
        let all = [&["a"][..], &["a"], &["a, b"], &["a, b"], &[], &["a, b"]];
        assert_eq!(all.map(&mut logged), [1, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn registry_before_its_first_run_is_not_logged() {
        let mut log = StatusLog::default();
        let status = RegistryStatus { unknown: true, synced: false, ..mk_status(&[]) };
        let waiting = tributary_runtime::RunState::Waiting { until: tributary_model::Mono(0) };
        for state in [tributary_runtime::RunState::New, waiting, tributary_runtime::RunState::Running] {
            let run = RunReport { state, ..RunReport::default() };
            assert!(log.changes(logged_states(&status, Some(&run))).is_empty(), "{state:?}");
        }
        assert!(log.changes(logged_states(&status, None)).is_empty());
        let live = mk_status(&[("c", SourceState::Live, "")]);
        let states: Vec<_> = log.changes(logged_states(&live, None)).iter().map(|one| one.state).collect();
        assert_eq!(states, ["Live"]);
    }

    #[test]
    fn removed_registry_is_forgotten() {
        let mut log = StatusLog::default();
        assert_eq!(log.changes(mk("Live", &[])).len(), 1);
        assert!(log.changes(Vec::new()).is_empty());
        assert_eq!(log.changes(mk("Live", &[])).len(), 1);
    }
}
