//! `/debug`: documents about what is served and why. The access check precedes every handler.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tributary_model::{Catalog, Code};

use super::Shared;
use super::backend::{Answer, Explained};
use crate::document::bounded::to_json;
use crate::document::services::Contested;
use crate::document::{Filter, List, Metadata, Page, endpoints as endpoint_list};
use crate::document::{
    clusters as cluster_list, gateways as gateway_list, guard as held_list, merges as merge_list,
    registries as registry_list, services as service_list,
};
use crate::ops::receipts::plan_of;

/// How long a request with `after` waits for a newer generation.
const WAIT: Duration = Duration::from_secs(20);

pub(super) type Params<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// Services.
pub async fn services(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let (inside, cache) = (Arc::clone(&shared.inside), Arc::clone(&shared.contested));
    catalog_list(shared, params, "ServiceList", move |catalog, filter| {
        filter.complete_name(catalog)?;
        let contested = cache.of(catalog, inside.has_binding_client());
        Ok(service_list::list(catalog, filter, &contested))
    })
    .await
}

/// What services contest, compared once for each generation: it concerns all services, whatever the page.
#[derive(Debug, Default)]
pub struct ContestedCache(Mutex<Option<(u64, bool, Arc<Contested>)>>);

impl ContestedCache {
    /// Compares the services of a generation, unless they were; other requests wait for it. Called on blocking threads.
    pub fn of(&self, catalog: &Catalog, has_binding: bool) -> Arc<Contested> {
        let mut last = self.0.lock();
        if let Some((generation, binding, contested)) = &*last
            && (*generation, *binding) == (catalog.generation, has_binding)
        {
            return Arc::clone(contested);
        }
        let contested = Arc::new(Contested::of(catalog, has_binding));
        *last = Some((catalog.generation, has_binding, Arc::clone(&contested)));
        contested
    }
}

/// Endpoints.
pub async fn endpoints(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    catalog_list(shared, params, "EndpointList", |catalog, filter| Ok(endpoint_list::list(catalog, filter)))
        .await
}

/// Services with the same name in a cluster and in Consul.
pub async fn merges(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    catalog_list(shared, params, "MergeList", |catalog, filter| Ok(merge_list::list(catalog, filter))).await
}

/// Gateways of networks.
pub async fn gateways(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let now = shared.inside.now();
    let list = move |catalog: &Catalog, filter: &mut Filter| Ok(gateway_list::list(catalog, filter, now));
    catalog_list(shared, params, "GatewayList", list).await
}

/// Policies.
pub async fn policies(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let mut filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    wait(&shared, filter.after).await;
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    if let Err(ambiguous) = filter.complete(&shared.inside.catalog()) {
        return problem(StatusCode::NOT_FOUND, Some(Code::NOT_FOUND), &ambiguous);
    }
    let page = shared.inside.policies(filter.clone()).await;
    let list = List::of_page("PolicyList", page, metadata(&shared, &shared.inside.catalog()), &filter);
    // the spec of a policy that the request names is not cut
    if filter.name.is_some() { Json(list).into_response() } else { bounded(&list) }
}

/// Clients.
pub async fn clients(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let page = shared.inside.clients(filter.clone()).await;
    bounded(&List::of_page("ClientList", page, metadata(&shared, &shared.inside.catalog()), &filter))
}

/// Registries.
pub async fn registries(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    wait(&shared, filter.after).await;
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let items = registry_list::list(shared.inside.registries().await, &filter);
    bounded(&List::new("RegistryList", items, metadata(&shared, &shared.inside.catalog()), filter.limit()))
}

/// Receipts of removed clusters. Not `async`: nothing is waited for.
pub fn receipts(State(shared): State<Shared>) -> std::future::Ready<Response> {
    let items = shared.inside.receipts();
    let list = List::new("ReceiptList", items, metadata(&shared, &shared.inside.catalog()), Filter::MAX);
    std::future::ready(Json(list).into_response())
}

/// What the removal of one cluster would take away.
pub async fn plans(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    if filter.name.is_none() {
        return refuse("the parameter `name` is missing: a plan is that of one cluster");
    }
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let (clusters, _) = shared.inside.clusters().await;
    let catalog = shared.inside.catalog();
    let metadata = metadata(&shared, &catalog);
    let named = cluster_list::list(clusters, &filter);
    let items = named.iter().map(|one| plan_of(&catalog, one)).collect();
    Json(List::new("PlanList", items, metadata, filter.limit())).into_response()
}

/// What each cluster answers when the server tries it.
pub async fn try_clusters(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    let Ok(_permit) = shared.waits.try_acquire() else { return busy() };
    let tried = tokio::select! {
        tried = shared.inside.try_clusters(filter.name.as_deref()) => tried,
        () = shared.stop.cancelled() => None,
    };
    let Some(items) = tried else { return busy() };
    let metadata = metadata(&shared, &shared.inside.catalog());
    Json(List::new("TriedClusterList", items, metadata, filter.limit())).into_response()
}

/// Kubernetes clusters.
pub async fn clusters(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let (items, sources) = shared.inside.clusters().await;
    let metadata = Metadata { sources, ..metadata(&shared, &shared.inside.catalog()) };
    bounded(&List::new("ClusterList", cluster_list::list(items, &filter), metadata, filter.limit()))
}

/// Held removals.
pub async fn guard(State(shared): State<Shared>, params: Params<Filter>) -> Response {
    let filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let items = held_list::list(shared.inside.held().await, &filter);
    bounded(&List::new("HeldList", items, metadata(&shared, &shared.inside.catalog()), filter.limit()))
}

/// Parameters of `release`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseQuery {
    id: String,
}

/// Releases a held removal. Logged, since it removes endpoints.
pub async fn release(State(shared): State<Shared>, params: Params<ReleaseQuery>) -> Response {
    let id = match params {
        Ok(Query(query)) if query.id.len() <= Filter::MAX_TEXT => query.id,
        Ok(_) => return refuse("a parameter is too long"),
        Err(e) => return refuse(&e.body_text()),
    };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let Some(item) = shared.inside.release(&id).await else {
        return problem(
            StatusCode::NOT_FOUND,
            Some(Code::NOT_FOUND),
            &format!("held removal `{id}` not found"),
        );
    };
    tracing::warn!(id, registry = item.registry, what = item.what, "held removal released by an operator");
    Json(List::new("HeldList", vec![item], metadata(&shared, &shared.inside.catalog()), 1)).into_response()
}

/// Parameters of `explain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    endpoint: String,
    host: Option<String>,
    subset: Option<String>,
    client: Option<String>,
}

/// Explains how an endpoint came to be served.
pub async fn explain(State(shared): State<Shared>, params: Params<ExplainQuery>) -> Response {
    let Query(query) = match params {
        Ok(query) => query,
        Err(e) => return refuse(&e.body_text()),
    };
    let texts = [Some(&query.endpoint), query.host.as_ref(), query.subset.as_ref(), query.client.as_ref()];
    if texts.into_iter().flatten().any(|text| text.len() > Filter::MAX_TEXT) {
        return refuse("a parameter is too long");
    }
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let (host, subset, client) = (query.host.as_deref(), query.subset.as_deref(), query.client.as_deref());
    let found = shared.inside.explain(&query.endpoint, (host, subset), client).await;
    explained(&shared, "ExplainList", found)
}

/// Parameters of `why-not`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhyNotQuery {
    host: String,
    subset: Option<String>,
    client: String,
}

/// Explains why a client does not receive a host's endpoints.
pub async fn why_not(State(shared): State<Shared>, params: Params<WhyNotQuery>) -> Response {
    let Query(query) = match params {
        Ok(query) => query,
        Err(e) => return refuse(&e.body_text()),
    };
    let texts = [Some(&query.host), query.subset.as_ref(), Some(&query.client)];
    if texts.into_iter().flatten().any(|text| text.len() > Filter::MAX_TEXT) {
        return refuse("a parameter is too long");
    }
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let found = shared.inside.why_not(&query.host, query.subset.as_deref(), &query.client).await;
    explained(&shared, "WhyNotList", found)
}

/// Running configuration.
pub async fn config(State(shared): State<Shared>) -> Json<serde_json::Value> {
    Json(shared.inside.config())
}

fn explained(shared: &Shared, kind: &str, found: Explained) -> Response {
    match found {
        Ok(Answer { items, notes, .. }) => {
            let metadata = Metadata { notes, ..metadata(shared, &shared.inside.catalog()) };
            let limit = crate::document::ExplainItem::MAX;
            bounded(&List::new(kind, items, metadata, limit))
        }
        Err(what) => problem(StatusCode::NOT_FOUND, Some(Code::NOT_FOUND), &what),
    }
}

/// Page of a list; a name that is ambiguous or not found is an error.
type Made<T> = Result<Page<T>, String>;

/// Builds a list from the catalog on a blocking thread.
async fn catalog_list<T: Serialize + Send + 'static>(
    shared: Shared,
    params: Params<Filter>,
    kind: &'static str,
    make: impl FnOnce(&Catalog, &mut Filter) -> Made<T> + Send + 'static,
) -> Response {
    let mut filter = match filter_of(params) {
        Ok(filter) => filter,
        Err(refusal) => return *refusal,
    };
    wait(&shared, filter.after).await;
    let Ok(permit) = Arc::clone(&shared.work).try_acquire_owned() else { return busy() };
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let catalog = shared.inside.catalog();
        let made = filter.complete(&catalog).and_then(|()| make(&catalog, &mut filter));
        match made {
            Ok(page) => bounded(&List::of_page(kind, page, metadata(&shared, &catalog), &filter)),
            Err(ambiguous) => problem(StatusCode::NOT_FOUND, Some(Code::NOT_FOUND), &ambiguous),
        }
    });
    made.await
        .unwrap_or_else(|_| problem(StatusCode::INTERNAL_SERVER_ERROR, None, "the list could not be built"))
}

fn filter_of(params: Params<Filter>) -> Result<Filter, Box<Response>> {
    match params {
        Ok(Query(filter)) if filter.is_bounded() => Ok(filter),
        Ok(_) => Err(Box::new(refuse("a parameter is too long"))),
        Err(e) => Err(Box::new(refuse(&e.body_text()))),
    }
}

/// Waits a limited time for another catalog generation; returns at once when too many requests wait, and when the server stops.
async fn wait(shared: &Shared, after: Option<u64>) {
    let Some(after) = after else { return };
    let Ok(_permit) = shared.waits.try_acquire() else { return };
    let mut generations = shared.inside.generations();
    let changed = generations.wait_for(|generation| *generation != after);
    tokio::select! {
        _ = tokio::time::timeout(WAIT, changed) => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Answers with a document whose texts are bounded.
pub(super) fn bounded(document: &impl Serialize) -> Response {
    match to_json(document) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, None, "the document could not be written"),
    }
}

pub(super) fn metadata(shared: &Shared, catalog: &Catalog) -> Metadata {
    Metadata::new(shared.inside.name(), catalog.generation, !catalog.complete, Timestamp::now())
}

pub(super) fn refuse(why: &str) -> Response {
    problem(StatusCode::BAD_REQUEST, None, why)
}

/// Answers requests beyond the bound.
pub(super) fn busy() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, None, "too many requests are in progress; retry")
}

pub(super) fn problem(status: StatusCode, code: Option<Code>, message: &str) -> Response {
    let body = json!({
        "apiVersion": crate::document::API_VERSION,
        "kind": "Problem",
        "code": code.map(|code| code.to_string()),
        "message": message,
    });
    (status, Json(body)).into_response()
}
