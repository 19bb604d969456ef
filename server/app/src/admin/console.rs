//! Documents of the console: the overview, the timeline and the map. The access check precedes every handler.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Shared;
use super::backend::Summary;
use super::debug::{Params, bounded, busy, metadata, refuse};
use crate::check::judge;
use crate::config::Span;
use crate::document::map::MapFacts;
use crate::document::overview::{OverviewCounts, ServerItem, Worst};
use crate::document::{Filter, List, Map, Overview, RegistryItem, gateways, server};
use crate::ops::check_documents::collect;
use crate::ops::timeline::{Entries, Timeline};

/// Share of the time that checks for the overview may take: they run again after so many times the last duration.
const SHARE: u32 = 10;
/// Longest time until they run again.
const LONGEST: Duration = Duration::from_secs(2);

/// Findings of the last checks. The checks read all clients, policies and conflicts, so in a large server they run less often than the
/// overview is read.
#[derive(Debug, Default)]
pub struct FindingsCache(Mutex<Option<Checked>>);

/// Findings with their cost.
#[derive(Debug)]
struct Checked {
    at: Instant,
    cost: Duration,
    worst: Arc<Worst>,
}

impl FindingsCache {
    /// Returns the findings, judged now unless the last checks were too costly for that. Other requests wait for them.
    async fn read(&self, shared: &Shared) -> Arc<Worst> {
        let mut last = self.0.lock().await;
        if let Some(checked) = &*last
            && checked.at.elapsed() < (checked.cost * SHARE).min(LONGEST)
        {
            return Arc::clone(&checked.worst);
        }
        let began = Instant::now();
        let documents = collect(&shared.inside, &shared.contested).await;
        let judged = tokio::task::spawn_blocking(move || Worst::of(&judge(&documents), documents.now));
        let worst = Arc::new(judged.await.unwrap_or_default());
        *last = Some(Checked { at: Instant::now(), cost: began.elapsed(), worst: Arc::clone(&worst) });
        worst
    }
}

/// State of the server.
pub async fn overview(State(shared): State<Shared>) -> Response {
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let (summary, clusters) = (shared.inside.summary().await, shared.inside.clusters().await.0.len());
    let worst = shared.findings.read(&shared).await;
    let catalog = shared.inside.catalog();
    let document = Overview::new(metadata(&shared, &catalog), &summary.registries, Timestamp::now());
    bounded(&Overview {
        server: ServerItem {
            name: shared.inside.name().to_owned(),
            version: server::VERSION.to_owned(),
            uptime_millis: u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        },
        ready: shared.inside.readiness().ready,
        counts: OverviewCounts { clusters, policies: catalog.policies.len(), ..counts(&summary) },
        findings: worst.items.clone(),
        more_findings: worst.more,
        ..document
    })
}

fn counts(summary: &Summary) -> OverviewCounts {
    let mut out = OverviewCounts {
        services: summary.counts.total,
        registries: summary.registries.len(),
        held_removals: summary.held,
        problems: summary.registries.iter().map(|one| one.problems_total).sum(),
        clients: summary.clients.iter().map(|(state, count)| ((*state).to_owned(), *count)).collect(),
        ..OverviewCounts::default()
    };
    for ((_, health), count) in &summary.counts.endpoints {
        *out.endpoints.entry((*health).to_owned()).or_default() += count;
    }
    out
}

/// Map of clusters, networks and registries.
pub async fn map(State(shared): State<Shared>) -> Response {
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let Summary { registries, counts, .. } = shared.inside.summary().await;
    let clusters = shared.inside.clusters().await.0;
    let catalog = shared.inside.catalog();
    let filter = Filter { limit: Some(crate::document::map::MAX_NODES), ..Filter::default() };
    let gateways = gateways::list(&catalog, &filter, shared.inside.now()).items;
    let is_real = |one: &RegistryItem| !one.kind.is_empty();
    let registries = registries.into_iter().filter(is_real).collect();
    bounded(&Map::of(metadata(&shared, &catalog), &MapFacts { registries, clusters, gateways, counts }))
}

/// Parameters of `timeline`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineQuery {
    after: Option<u64>,
    since: Option<String>,
    host: Option<String>,
    limit: Option<usize>,
}

/// The last changes. Not `async`: nothing is waited for.
pub fn timeline(State(shared): State<Shared>, params: Params<TimelineQuery>) -> std::future::Ready<Response> {
    std::future::ready(entries(&shared, params).unwrap_or_else(|why| refuse(&why)))
}

fn entries(shared: &Shared, params: Params<TimelineQuery>) -> Result<Response, String> {
    let Query(query) = params.map_err(|e| e.body_text())?;
    let span: Option<Span> = query.since.as_deref().map(str::parse).transpose()?;
    let since = span.map(|span| Timestamp::now().checked_sub(span.get()).unwrap_or(Timestamp::MIN));
    let limit = query.limit.unwrap_or(Timeline::MOST).min(Timeline::MOST);
    let wanted = (query.after, since);
    let Entries { items, more, dropped } =
        shared.inside.timeline().read(wanted, query.host.as_deref(), limit);
    let mut list = List::new("Timeline", items, metadata(shared, &shared.inside.catalog()), usize::MAX);
    list.metadata.remaining = more;
    if dropped > 0 {
        list.metadata.notes.push(format!("{dropped} entries are no longer kept"));
    }
    Ok(bounded(&list))
}
