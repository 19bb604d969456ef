//! Registries as documents and metrics, combined from the core, the supervisor and the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_core::{CollectionStatus, EndedScope, HeldView, ProblemView, RegistryStatus, SourceView};
use tributary_model::{
    Catalog, DetailValue, Evidence, Mono, OverallState, OverallStatus, RegistryName, Scope, SourceDetail,
    SourcePart,
};
use tributary_runtime::{RunReport, RunState};

use super::counts::RegistryCounts;
use super::{notices, removals};
use crate::config::RegistryKind;
use crate::config::registry::{CONFIG_REGISTRY, DNS_REGISTRY};
use crate::document::endpoints::freshness_text;
use crate::document::policies::is_of_unserved_kind;
use crate::document::registries::{CollectionItem, DetailItem, EndedItem, PartItem, ProblemItem, SourceItem};
use crate::document::{ConditionItem, HeldItem, ObjectItem, RegistryItem};

/// Maximum number of quarantined objects and of held removals that are listed for one registry; the rest is
/// counted.
const MAX_SHOWN: usize = 1_000;

/// Report of the core, taken between two batches.
#[derive(Debug, Default)]
pub struct CoreReport {
    /// Every registry.
    pub registries: Vec<RegistryStatus>,
    /// Held removals.
    pub held: Vec<HeldView>,
    /// Quarantined objects.
    pub problems: Vec<ProblemView>,
}

/// State of all registries at one moment.
pub struct Report<'a> {
    /// Report of the core.
    pub core: &'a CoreReport,
    /// Runs of the supervisor.
    pub runs: &'a BTreeMap<RegistryName, RunReport>,
    /// Catalog that is served.
    pub catalog: &'a Catalog,
    /// Services and endpoints of that catalog.
    pub counts: &'a RegistryCounts,
    /// Kinds, as configured.
    pub kinds: &'a BTreeMap<String, RegistryKind>,
    /// Time of the report.
    pub now: Mono,
}

impl Report<'_> {
    /// Returns every configured registry, ordered by name, the configuration itself if it has a condition, and that of
    /// the host names of gateways if one of them has a problem.
    #[must_use]
    pub fn items(&self) -> Vec<RegistryItem> {
        let shown = self.core.registries.iter().filter(|r| self.is_shown(r));
        shown.map(|status| self.item(status)).collect()
    }
    fn is_shown(&self, status: &RegistryStatus) -> bool {
        let name = status.id.name.as_str();
        match name {
            CONFIG_REGISTRY => self.conditions_of(name).is_some(),
            DNS_REGISTRY => status.problems > 0,
            _ => self.kinds.contains_key(name),
        }
    }
    /// Returns the conditions of a registry as a whole.
    fn conditions_of(&self, name: &str) -> Option<String> {
        let view = self.catalog.registries.iter().find(|(own, _)| own.as_str() == name)?.1;
        let messages: Vec<&str> = view.conditions.iter().map(|condition| &*condition.message).collect();
        (!messages.is_empty()).then(|| messages.join("; "))
    }
    fn item(&self, status: &RegistryStatus) -> RegistryItem {
        let name = &status.id.name;
        let run = self.runs.get(name);
        let OverallStatus { state, reason } = state(status, run);
        let mut reason = reason.to_string();
        if name.as_str() == CONFIG_REGISTRY {
            reason = self.conditions_of(name.as_str()).unwrap_or(reason);
        }
        let reason = with_notes(reason, status);
        let confirmed = counted(status).filter_map(|c| c.confirmed).min();
        let view = self.catalog.registries.get(name);
        RegistryItem {
            name: name.to_string(),
            kind: self.kinds.get(name.as_str()).map(|kind| kind.as_str().to_owned()).unwrap_or_default(),
            provider: status.id.provider.to_string(),
            cluster: status.id.cluster.to_string(),
            generation: status.generation.0,
            state: state.as_str().to_owned(),
            reason,
            next_generation: status.shadow.map(|generation| generation.0),
            waits_for: status.waits_for.as_deref().unwrap_or_default().to_owned(),
            needs_accept: status.needs_accept,
            identity: status.identity.as_ref().map(ToString::to_string).unwrap_or_default(),
            ended: status.ended.iter().map(|one| self.ended(one)).collect(),
            confirmed_millis_ago: confirmed.map(|at| self.ago(at)),
            failures: run.map_or(0, |run| u64::from(run.failures)),
            services: self.counts.services.get(name).copied().unwrap_or_default(),
            endpoints: self.counts.endpoints_of(name),
            collections: status.collections.iter().map(collection).collect(),
            sources: self.sources(status),
            held_total: status.held as u64,
            problems_total: status.problems as u64,
            held: self.held(name),
            problems: self.problems(name),
            conditions: view
                .map(|v| v.conditions.iter().map(ConditionItem::from).collect())
                .unwrap_or_default(),
        }
    }
    fn ended(&self, ended: &EndedScope) -> EndedItem {
        let evidence = match &ended.evidence {
            Evidence::Ended(reason) => reason.to_string(),
            Evidence::Operator => "an operator or the configuration ended it".to_owned(),
            other => format!("{other:?}"),
        };
        EndedItem { scope: ended.scope.to_string(), evidence, ended_millis_ago: self.ago(ended.at) }
    }
    fn sources(&self, status: &RegistryStatus) -> Vec<SourceItem> {
        let mut held: BTreeMap<&Scope, u64> = BTreeMap::new();
        for one in self.core.held.iter().filter(|held| held.registry == status.id.name) {
            *held.entry(&one.key.scope).or_default() += 1;
        }
        let count = |scope| held.get(scope).copied().unwrap_or_default();
        let item = |(scope, view): (_, &SourceView)| SourceItem {
            held: count(scope),
            since_millis_ago: view.since.map(|at| self.ago(at)),
            ..self.source(scope, view, status.overall_of(scope))
        };
        status.sources.iter().map(item).collect()
    }
    fn source(&self, scope: &Scope, view: &SourceView, overall: OverallStatus) -> SourceItem {
        let SourceView { status, at, .. } = view;
        let age = self.ago(*at);
        // A time span that the status reported has shrunk by the age of the status.
        let left = |span: Option<Duration>| span.map(|span| millis(span).saturating_sub(age));
        let mode = status.mode.iter().map(|mode| DetailItem {
            name: "mode".to_owned(),
            value: mode.to_string(),
            ..DetailItem::default()
        });
        SourceItem {
            scope: scope.to_string(),
            state: overall.state.as_str().to_owned(),
            reason: overall.reason.to_string(),
            since_millis_ago: None,
            reported_millis_ago: age,
            retry_in_millis: left(status.retry_in),
            held: 0,
            mode: status.mode.as_ref().map(|mode| mode.name.to_string()).unwrap_or_default(),
            parts: parts(view, self.now),
            details: mode.chain(status.details.iter().map(|one| detail(one, age))).collect(),
        }
    }
    fn held(&self, name: &RegistryName) -> Vec<HeldItem> {
        let own = self.core.held.iter().filter(|held| held.registry == *name).take(MAX_SHOWN);
        own.map(|held| removals::item(held, self.now)).collect()
    }
    fn problems(&self, name: &RegistryName) -> Vec<ProblemItem> {
        let own = || self.core.problems.iter().filter(|problem| problem.registry == *name);
        // objects whose kind is not served may be many, and nothing can be corrected in them
        let invalid = own().filter(|problem| !is_of_unserved_kind(problem));
        let own = invalid.chain(own().filter(|problem| is_of_unserved_kind(problem))).take(MAX_SHOWN);
        let item = |view: &ProblemView| ProblemItem {
            object: ObjectItem::from(&view.object),
            code: view.problem.code.to_string(),
            message: view.problem.message.to_string(),
        };
        own.map(item).collect()
    }
    fn ago(&self, at: u64) -> u64 {
        self.now.0.saturating_sub(at)
    }
}

/// Returns the parts of a scope at `now`: a time span that the status reported has shrunk or grown by the age of the status.
pub(super) fn parts(view: &SourceView, now: Mono) -> Vec<PartItem> {
    let age = now.0.saturating_sub(view.at);
    let part = |part: &SourcePart| PartItem {
        name: part.name.to_string(),
        state: part.state.as_str().to_owned(),
        reason: part.reason.to_string(),
        since_millis_ago: millis(part.lasted).saturating_add(age),
        retry_in_millis: part.retry_in.map(|span| millis(span).saturating_sub(age)),
    };
    view.status.parts.iter().map(part).collect()
}

/// Returns a detail of a status of this age in milliseconds.
fn detail(detail: &SourceDetail, age: u64) -> DetailItem {
    let (text, number, age_millis) = match &detail.value {
        DetailValue::Number(number) => (number.to_string(), Some(*number), None),
        DetailValue::Text(text) => (text.to_string(), None, None),
        DetailValue::Age(span) => (String::new(), None, Some(millis(*span).saturating_add(age))),
    };
    DetailItem { name: detail.name.to_string(), value: text, number, age_millis }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the state of a registry with its reason: of its run if that has failed, else of its sources and facts.
pub(super) fn state(status: &RegistryStatus, run: Option<&RunReport>) -> OverallStatus {
    failed(run).unwrap_or_else(|| status.overall())
}

/// Does the same as [`state`] without the sources that may not be read and of which nothing is required.
pub(super) fn state_of_required(status: &RegistryStatus, run: Option<&RunReport>) -> OverallStatus {
    failed(run).unwrap_or_else(|| status.overall_of_required())
}

/// Returns the state of a run that failed. One that waits for its first start has not.
fn failed(run: Option<&RunReport>) -> Option<OverallStatus> {
    let run = run.filter(|run| match run.state {
        RunState::Waiting { .. } => run.failures > 0,
        RunState::Parked => true,
        _ => false,
    })?;
    let why = run.last_error.as_ref().map(|(code, reason, _)| format!("{code} {reason}"));
    Some(OverallStatus { state: OverallState::Failed, reason: why.unwrap_or_default().into() })
}

/// Returns the collections that decide a registry's state: those that it requires, and those with served
/// facts.
pub(super) fn counted(status: &RegistryStatus) -> impl Iterator<Item = &CollectionStatus> {
    status.collections.iter().filter(|collection| collection.required || collection.facts > 0)
}

/// Returns the reason of a state, with notes for the operator.
fn with_notes(reason: String, status: &RegistryStatus) -> String {
    let all = std::iter::once(reason).filter(|reason| !reason.is_empty());
    let all =
        all.chain(notices::policy(status)).chain(notices::waiting(status)).chain(notices::failing(status));
    all.collect::<Vec<_>>().join("; ")
}

fn collection(status: &CollectionStatus) -> CollectionItem {
    CollectionItem {
        scope: status.collection.scope.to_string(),
        kind: format!("{:?}", status.collection.kind),
        freshness: freshness_text(&status.freshness),
        withheld: status.withheld,
        facts: status.facts,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser as _;
    use tributary_model::{
        ClusterId, Collection, CollectionKind, Fingerprint, Freshness, Generation, ProviderId, RegistryId,
        ShardPriority, SinceMono, SourceState, SourceStatus, StalePolicy,
    };

    use super::*;
    use crate::args::{Cli, Command};
    use crate::cli::get::render;
    use crate::document::{List, Metadata};

    fn mk_status() -> RegistryStatus {
        let (name, cluster) = (RegistryName::new("k").unwrap(), ClusterId::new("k").unwrap());
        let scope = |text: &str| Scope::new(text).unwrap();
        let collection = |kind, freshness, withheld: bool| CollectionStatus {
            collection: Collection { scope: scope("dc1"), kind },
            required: true,
            freshness,
            synced: true,
            complete: !withheld,
            withheld,
            facts: 3,
            confirmed: None,
            known: true,
        };
        let stale = Freshness::Stale { since: SinceMono(Mono(1)), why: "403 forbidden".into() };
        let end = |name: &str, evidence| EndedScope { scope: scope(name), evidence, at: 1_000 };
        RegistryStatus {
            id: Arc::new(RegistryId { name, provider: ProviderId::KUBERNETES, cluster }),
            generation: Generation(4),
            shadow: Some(Generation(5)),
            waits_for: Some("the new run can read less of the endpoints of scope dc1".into()),
            shadow_failure: None,
            needs_accept: true,
            identity: Some(Fingerprint::new("uid-1").unwrap()),
            found_identity: None,
            ended: vec![
                end("dc2", Evidence::Ended("404 no such datacenter".into())),
                end("dc3", Evidence::Operator),
            ],
            unknown: false,
            synced: true,
            failing: false,
            decided: true,
            priority: ShardPriority::default(),
            stale: StalePolicy::Hold,
            by_policy: BTreeMap::new(),
            collections: vec![
                collection(CollectionKind::Services, Freshness::Live, false),
                collection(CollectionKind::Groups, stale, true),
            ],
            sources: BTreeMap::new(),
            problems: 0,
            held: 0,
            waiting: 0,
            weight: 0,
        }
    }

    fn items(status: RegistryStatus, kind: RegistryKind, now: Mono) -> Vec<RegistryItem> {
        let core = CoreReport { registries: vec![status], ..CoreReport::default() };
        let kinds = BTreeMap::from([("k".to_owned(), kind)]);
        let (runs, catalog, counts) = (BTreeMap::new(), Catalog::default(), RegistryCounts::default());
        let report =
            Report { core: &core, runs: &runs, catalog: &catalog, counts: &counts, kinds: &kinds, now };
        report.items()
    }

    #[test]
    fn waiting_run_withheld_and_ended_collections_are_shown() {
        let all = items(mk_status(), RegistryKind::Kubernetes, Mono(62_000));
        let items: Vec<_> = all.iter().map(|item| serde_json::to_value(item).unwrap()).collect();
        assert_eq!((&items[0]["nextGeneration"], &items[0]["identity"]), (&5.into(), &"uid-1".into()));
        let waits = "the new run can read less of the endpoints of scope dc1; if that is intended, accept it with `tributary cluster accept`, or `tributary state accept k` for a registry of the configuration";
        assert_eq!(items[0]["reason"], format!("403 forbidden; a new run waits: {waits}"));
        let withheld: Vec<_> = (0..2).map(|at| items[0]["collections"][at]["withheld"].clone()).collect();
        assert_eq!(withheld, [false, true]);
        let args = Cli::try_parse_from(["tributary", "get", "registries", "-o", "wide"]).unwrap();
        let Command::Get(args) = args.command else { panic!() };
        let list = List::new("RegistryList", items, Metadata::default(), 10);
        let text = render(&args, &list, false).unwrap();
        let columns = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "IDENTITY NEXT RUN WAITS FOR",
            "uid-1 5 the new run can read less of the endpoints of scope dc1",
            "REGISTRY WITHHELD FACTS FRESHNESS k endpoints of dc1 3 Stale: 403 forbidden",
            "REGISTRY ENDED SCOPE AGO EVIDENCE k dc2 61s 404 no such datacenter k dc3 61s an operator",
        ] {
            assert!(columns.contains(part), "no {part:?} in {text}");
        }
        assert!(!columns.contains("dc1 Services"), "a readable collection is not listed as withheld: {text}");
    }

    #[test]
    fn failing_new_run_is_a_reason_of_a_live_registry() {
        let mut status = mk_status();
        status.collections.truncate(1);
        (status.needs_accept, status.shadow_failure) = (false, Some("/nowhere cannot be read".into()));
        let all = items(status, RegistryKind::File, Mono(62_000));
        let shown = [&*all[0].state, &*all[0].reason];
        assert_eq!(shown, ["Live", "a new run waits until it can read its source: /nowhere cannot be read"]);
    }

    #[test]
    fn collection_that_was_never_read_is_noted() {
        let mut status = mk_status();
        assert_eq!(notices::unread(&status), None, "it has facts");
        status.collections.iter_mut().for_each(|collection| collection.facts = 0);
        let why = "could never read endpoints of scope dc1: 403 forbidden";
        assert_eq!(notices::unread(&status).as_deref(), Some(why));
        status.collections[1].confirmed = Some(1);
        assert_eq!(notices::unread(&status), None, "it was empty when it was last read");
        (status.collections[1].confirmed, status.collections[1].required) = (None, false);
        assert_eq!(notices::unread(&status), None, "an optional kind does not count");
    }

    fn shown(status: &RegistryStatus, run: Option<&RunReport>) -> (&'static str, Arc<str>) {
        let OverallStatus { state, reason } = state(status, run);
        (state.as_str(), reason)
    }

    #[test]
    fn registry_is_as_stale_as_what_it_serves() {
        let mut status = mk_status();
        status.collections.iter_mut().for_each(|collection| collection.required = false);
        assert_eq!(shown(&status, None), ("Stale", "403 forbidden".into()), "required or not");
        status.collections.iter_mut().for_each(|collection| collection.facts = 0);
        assert_eq!(shown(&status, None).0, "Live", "no stale fact is served");
    }

    #[test]
    fn scope_is_as_stale_as_its_facts() {
        let states = |status: RegistryStatus| {
            let all = items(status, RegistryKind::Kubernetes, Mono(1));
            let item = &all[0];
            let scope = &item.sources[0];
            [item.state.clone(), scope.state.clone(), scope.reason.clone()]
        };
        let mut status = mk_status();
        let live = SourceView { status: SourceStatus::new(SourceState::Live, ""), at: 9, since: None };
        status.sources = BTreeMap::from([(Scope::new("dc1").unwrap(), live)]);
        assert_eq!(states(status.clone()), ["Stale", "Stale", "403 forbidden"]);
        let withheld = &mut status.collections[1];
        (withheld.required, withheld.facts) = (false, 0);
        assert_eq!(
            states(status.clone()),
            ["Live", "Stale", "403 forbidden"],
            "an optional kind fails alone"
        );
        status.collections.truncate(1);
        assert_eq!(states(status), ["Live", "Live", ""]);
    }

    #[test]
    fn restored_facts_show_their_age() {
        let mut status = mk_status();
        let restored = &mut status.collections[0];
        (restored.required, restored.confirmed) = (false, Some(2_000));
        let all = items(status, RegistryKind::Consul, Mono(62_000));
        assert_eq!(all[0].confirmed_millis_ago, Some(60_000));
    }

    #[test]
    fn run_fails_only_after_its_first_start() {
        let run = |failures| RunReport {
            state: RunState::Waiting { until: Mono(0) },
            failures,
            ..RunReport::default()
        };
        assert_eq!(shown(&mk_status(), Some(&run(0))), ("Stale", "403 forbidden".into()));
        assert_eq!(shown(&mk_status(), Some(&run(1))).0, "Failed");
        let paused = RunReport { state: RunState::Paused, ..run(1) };
        assert_eq!(shown(&mk_status(), Some(&paused)).0, "Stale", "nothing failed");
    }
}
