//! Metrics, read on request from counters that are kept where they change. A scrape walks the gateways of networks, but no services,
//! endpoints or sessions, and its cost does not grow with these.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_core::Counters;
use tributary_journal::JournalStats;
use tributary_model::{Catalog, ClientKind, Health, Mono, OverallState};
use tributary_runtime::RuntimeStats;
use tributary_xds::client_gauges::ClientGauges;
use tributary_xds::pushes::Pushes;

use super::clusters;
use super::counts::RegistryCounts;
use crate::admin::metrics::{self as m, Sample};
use crate::document::registries::SourceItem;
use crate::document::{ClusterItem, RegistryItem};
use crate::reload::Reloads;
use crate::tokens::TokenCounts;
use crate::traces::SpanResults;

/// Current state.
pub struct State<'a> {
    /// Whether clients are answered.
    pub ready: bool,
    /// Catalog that is served.
    pub catalog: &'a Catalog,
    /// Registries.
    pub registries: &'a [RegistryItem],
    /// Clusters.
    pub clusters: &'a [ClusterItem],
    /// Services and endpoints of the registries.
    pub counts: &'a RegistryCounts,
    /// Clients.
    pub clients: &'a ClientGauges,
    /// Configuration reloads.
    pub reloads: Reloads,
    /// Counters of the core; `None` once the server stops.
    pub core: Option<Counters>,
    /// Counters of the runtime.
    pub runtime: RuntimeStats,
    /// Counters of xDS, by name.
    pub xds: Vec<(&'static str, u64)>,
    /// Pushes.
    pub pushes: &'a Pushes,
    /// Bytes of cached encoded resources.
    pub cached: u64,
    /// Bytes of requests that are unfinished or not handled yet.
    pub inbound: usize,
    /// Whether a state directory is configured.
    pub keeps_state: bool,
    /// Journal; `None` without one.
    pub journal: Option<JournalStats>,
    /// Reviews of tokens; `None` if the server takes none.
    pub tokens: Option<TokenCounts>,
    /// Spans of traces, by result.
    pub spans: SpanResults,
    /// Time of the request.
    pub now: Mono,
    /// The config cluster, if names of Istio are served too.
    pub istio_names: Option<&'a str>,
}

/// Returns every metric.
#[must_use]
pub fn all(state: &State<'_>) -> Vec<Sample> {
    let mut out = vec![
        Sample::new(m::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0),
        Sample::new(m::READY, &[], flag(state.ready)),
        Sample::new(m::CATALOG_GENERATION, &[], number(state.catalog.generation)),
        Sample::new(m::CATALOG_COMPLETE, &[], flag(state.catalog.complete)),
        Sample::new(m::CONFIG_RELOADS, &["applied"], number(state.reloads.applied)),
        Sample::new(m::CONFIG_RELOADS, &["failed"], number(state.reloads.failed)),
        Sample::new(m::CONFIG_RELOADS, &["rejected"], number(state.reloads.rejected)),
        Sample::new(m::CONFIG_VALID, &[], flag(state.reloads.valid)),
    ];
    of_gateway_names(state.catalog, &mut out);
    for registry in state.registries {
        of_registry(registry, &mut out);
    }
    clusters::metrics::add(state.clusters, jiff::Timestamp::now(), &mut out);
    of_endpoints(state.registries, state.counts, &mut out);
    out.extend(state.core.into_iter().flat_map(of_core));
    of_clients(state.clients, &mut out);
    let runtime = [
        ("batches", state.runtime.batches),
        ("updates", state.runtime.updates),
        ("publications", state.runtime.publications),
        ("runs", state.runtime.runs),
        ("failures", state.runtime.failures),
        ("adoptions", state.runtime.adoptions),
    ];
    out.extend(runtime.map(|(event, count)| Sample::new(m::RUNTIME_EVENTS, &[event], number(count))));
    of_xds(&state.xds, &mut out);
    of_pushes(state.pushes, &mut out);
    out.extend(state.tokens.into_iter().flat_map(of_tokens));
    out.push(Sample::new(m::STATE_CONFIGURED, &[], flag(state.keeps_state)));
    of_journal(state.journal.as_ref(), state.now, &mut out);
    out.push(Sample::new(m::XDS_CACHED, &[], number(state.cached)));
    out.push(Sample::new(m::XDS_INBOUND, &[], number(state.inbound as u64)));
    out.extend(state.xds.iter().map(|(event, count)| Sample::new(m::XDS_EVENTS, &[event], number(*count))));
    let SpanResults { exported, failed, dropped } = state.spans;
    let spans = [("exported", exported), ("failed", failed), ("dropped", dropped)];
    out.extend(spans.map(|(result, count)| Sample::new(m::TRACE_SPANS, &[result], number(count))));
    super::process::add(&mut out);
    if let Some(config_cluster) = state.istio_names {
        super::istio_metrics::add(state, config_cluster, &mut out);
    }
    out
}

/// Adds the endpoints of each registry in each health, zeros too: a replica without any would else be absent from comparisons.
fn of_endpoints(registries: &[RegistryItem], counts: &RegistryCounts, out: &mut Vec<Sample>) {
    let mut all: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for registry in registries {
        all.extend(Health::ALL.map(|health| ((registry.name.as_str(), health.as_str()), 0)));
    }
    all.extend(counts.endpoints.iter().map(|((name, health), count)| ((name.as_str(), *health), *count)));
    out.extend(
        all.into_iter()
            .map(|((name, health), count)| Sample::new(m::ENDPOINTS, &[name, health], number(count))),
    );
}

/// Adds the number of host names by state; their number is bounded.
fn of_gateway_names(catalog: &Catalog, out: &mut Vec<Sample>) {
    let mut counts = [("resolved", 0), ("failing", 0), ("unresolved", 0)];
    let names: BTreeSet<&Arc<str>> = catalog.gateways.values().filter_map(|of| of.wanted_name()).collect();
    for name in names {
        let at = match catalog.gateway_names.get(name) {
            Some(resolved) if resolved.addresses.is_empty() => 2,
            Some(resolved) if resolved.failure.is_some() => 1,
            Some(_) => 0,
            None => 2,
        };
        counts[at].1 += 1;
    }
    out.extend(counts.map(|(state, count)| Sample::new(m::GATEWAY_NAMES, &[state], number(count))));
}

fn of_journal(stats: Option<&JournalStats>, now: Mono, out: &mut Vec<Sample>) {
    out.push(Sample::new(m::STATE_OPEN, &[], flag(stats.is_some_and(|stats| stats.open))));
    let Some(stats) = stats else { return };
    out.push(Sample::new(m::STATE_COMMITS, &[], number(stats.commits)));
    out.push(Sample::new(m::STATE_BYTES, &[], number(stats.bytes)));
    out.push(Sample::new(m::STATE_LIVE_BYTES, &[], number(stats.live_bytes)));
    out.push(Sample::new(m::STATE_PENDING, &[], number(stats.pending_keys as u64)));
    let short = stats.incomplete.len().saturating_add(stats.dropped.len());
    out.push(Sample::new(m::STATE_INCOMPLETE, &[], number(short as u64)));
    if let Some(at) = stats.last_commit {
        out.push(Sample::new(m::STATE_COMMIT_AGE, &[], now.since(at).as_secs_f64()));
    }
}

fn of_core(counts: Counters) -> impl Iterator<Item = Sample> {
    let events = [
        ("views", counts.views),
        ("resource_inputs", counts.resource_inputs),
        ("unchanged", counts.unchanged),
        ("refused", counts.refused),
    ];
    let empty = Sample::new(m::UNEXPLAINED_EMPTY, &[], number(counts.unexplained_empty));
    let events = events.map(|(event, count)| Sample::new(m::CORE_EVENTS, &[event], number(count)));
    std::iter::once(empty).chain(events)
}

/// Adds the counters that have a metric of their own.
fn of_xds(counts: &[(&'static str, u64)], out: &mut Vec<Sample>) {
    let count = |name: &str| counts.iter().find(|(n, _)| *n == name).map_or(0, |(_, count)| *count);
    out.push(Sample::new(m::XDS_NOOP, &[], number(count("wakeups_for_nothing"))));
    let reasons = [
        ("connections", "connections_refused"),
        ("handshake", "handshakes_failed"),
        ("stream", "streams_refused"),
        ("identity", "identities_refused"),
        ("review", "tokens_unreviewed"),
        ("slow", "streams_stuck"),
    ];
    out.extend(reasons.map(|(reason, name)| Sample::new(m::XDS_REJECTED, &[reason], number(count(name)))));
}

fn of_tokens(counts: TokenCounts) -> impl Iterator<Item = Sample> {
    let TokenCounts { granted, refused, failed, cached } = counts;
    let results = [("granted", granted), ("refused", refused), ("failed", failed), ("cached", cached)];
    results.into_iter().map(|(result, count)| Sample::new(m::TOKEN_REVIEWS, &[result], number(count)))
}

/// Adds pushes, by type and by trigger.
fn of_pushes(pushes: &Pushes, out: &mut Vec<Sample>) {
    for of in pushes.kinds() {
        let label = of.kind.as_str().to_uppercase();
        let labels = [label.as_str()];
        out.push(Sample::new(m::XDS_NACKS, &labels, number(of.nacks)));
        out.push(Sample::new(m::XDS_BYTES, &labels, of.bytes));
        out.push(Sample::new(m::XDS_PUSH_SECONDS, &labels, of.seconds));
        let changes = of.convergence.into_iter();
        out.extend(
            changes.map(|(change, histogram)| Sample::new(m::CONVERGENCE, &[&label, change], histogram)),
        );
    }
    let triggers = pushes.triggers();
    out.extend(triggers.map(|(reason, count)| Sample::new(m::XDS_TRIGGERS, &[reason], number(count))));
}

fn of_registry(registry: &RegistryItem, out: &mut Vec<Sample>) {
    let name = registry.name.as_str();
    for state in OverallState::ALL.map(OverallState::as_str) {
        let labels = [name, registry.kind.as_str(), state];
        out.push(Sample::new(m::REGISTRY_STATE, &labels, flag(registry.state == state)));
    }
    if let Some(ago) = registry.confirmed_millis_ago {
        let now = jiff::Timestamp::now().as_millisecond();
        let at = now.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX));
        out.push(Sample::new(m::REGISTRY_CONFIRMED, &[name], at as f64 / 1000.0));
    }
    let gauges = [
        (m::REGISTRY_GENERATION, registry.generation),
        (m::REGISTRY_FAILURES, registry.failures),
        (m::REGISTRY_WAITING, u64::from(registry.needs_accept)),
        (m::REGISTRY_PROBLEMS, registry.problems_total),
        (m::SERVICES, registry.services),
        (m::REMOVALS_HELD, registry.held_total),
    ];
    out.extend(gauges.map(|(info, value)| Sample::new(info, &[name], number(value))));
    registry.sources.iter().for_each(|source| of_source(name, source, out));
}

/// Adds the mode of a scope and its numeric details.
fn of_source(registry: &str, source: &SourceItem, out: &mut Vec<Sample>) {
    let scope = source.scope.as_str();
    out.push(Sample::new(m::SCOPE_LIVE, &[registry, scope], flag(source.state == "Live")));
    if !source.mode.is_empty() {
        out.push(Sample::new(m::SCOPE_MODE, &[registry, scope, &source.mode], 1.0));
    }
    let numbers = source.details.iter().filter_map(|detail| Some((&detail.name, detail.number?)));
    out.extend(
        numbers.map(|(name, value)| Sample::new(m::SCOPE_DETAIL, &[registry, scope, name], number(value))),
    );
}

fn of_clients(clients: &ClientGauges, out: &mut Vec<Sample>) {
    let label = |kind: ClientKind| format!("{kind:?}").to_lowercase();
    for (kind, count) in clients.streams() {
        out.push(Sample::new(m::XDS_CLIENTS, &[&label(kind)], number(count)));
    }
    for (of, kind, count) in clients.subscriptions() {
        let labels = [&*of.as_str().to_uppercase(), &*label(kind)];
        out.push(Sample::new(m::XDS_SUBSCRIPTIONS, &labels, number(count)));
    }
    for (of, count) in clients.nacked() {
        out.push(Sample::new(m::XDS_NACKED, &[&of.as_str().to_uppercase()], number(count)));
    }
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::registries::DetailItem;
    use tributary_model::RegistryName;

    #[test]
    fn registry_without_endpoints_counts_zero_of_each_health() {
        let registry = RegistryItem { name: "empty".into(), ..RegistryItem::default() };
        let mut counts = RegistryCounts::default();
        counts.endpoints.insert((RegistryName::new("full").unwrap(), "HEALTHY"), 3);
        let mut out = Vec::new();
        of_endpoints(&[registry], &counts, &mut out);
        let own = |health: &str| Sample::new(m::ENDPOINTS, &["empty", health], 0.0);
        for health in Health::ALL {
            assert!(out.contains(&own(health.as_str())), "{out:?}");
        }
        assert!(out.contains(&Sample::new(m::ENDPOINTS, &["full", "HEALTHY"], 3.0)), "{out:?}");
    }

    #[test]
    fn scope_metrics_show_liveness_mode_and_numbers() {
        let detail = |(name, value, number): (&str, &str, Option<u64>)| DetailItem {
            name: name.into(),
            value: value.into(),
            number,
            age_millis: None,
        };
        let details =
            [("mode", "notifyAndFetch: too many", None), ("overloads", "3", Some(3)), ("own", "7", None)];
        let source = SourceItem {
            scope: "dc1".into(),
            state: "Unreachable".into(),
            mode: "notifyAndFetch".into(),
            details: details.map(detail).into(),
            ..SourceItem::default()
        };
        let mut out = Vec::new();
        of_source("c", &source, &mut out);
        let want = [
            Sample::new(m::SCOPE_LIVE, &["c", "dc1"], 0.0),
            Sample::new(m::SCOPE_MODE, &["c", "dc1", "notifyAndFetch"], 1.0),
            Sample::new(m::SCOPE_DETAIL, &["c", "dc1", "overloads"], 3.0),
        ];
        assert_eq!(format!("{out:?}"), format!("{want:?}"));
    }
}
