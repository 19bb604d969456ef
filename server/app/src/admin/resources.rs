//! `/debug/resources`, `/debug/routes` and `/debug/diff`: what clients were sent. The access check precedes every handler.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tributary_model::Code;
use tributary_xds::answers::ResourceType;

use super::Shared;
use super::backend::Answer;
use super::debug::{Params, busy, metadata, problem, refuse};
use crate::document::{Filter, List};
use crate::ops::resources::ResourceRequest;

/// Parameters of `resources`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourcesQuery {
    client: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    name: Option<String>,
    host: Option<String>,
    #[serde(default)]
    bodies: bool,
}

/// Resources that a client was sent.
pub async fn list(State(shared): State<Shared>, params: Params<ResourcesQuery>) -> Response {
    let Query(query) = match params {
        Ok(query) => query,
        Err(e) => return refuse(&e.body_text()),
    };
    if !are_bounded([Some(&query.client), query.name.as_ref(), query.host.as_ref()]) {
        return refuse("a parameter is too long");
    }
    let kind = match type_of(query.kind.as_deref()) {
        Ok(kind) => kind,
        Err(why) => return refuse(&why),
    };
    let ResourcesQuery { client, name, host, bodies, .. } = query;
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let found = shared.inside.resources(ResourceRequest { client, kind, name, host, bodies }).await;
    answer(&shared, "ResourceList", found)
}

/// Parameters of `routes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutesQuery {
    host: String,
    client: String,
}

/// Routes of a client to a host.
pub async fn routes(State(shared): State<Shared>, params: Params<RoutesQuery>) -> Response {
    let Query(query) = match params {
        Ok(query) => query,
        Err(e) => return refuse(&e.body_text()),
    };
    if !are_bounded([Some(&query.host), Some(&query.client)]) {
        return refuse("a parameter is too long");
    }
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let found = shared.inside.routes(&query.host, &query.client).await;
    answer(&shared, "RouteList", found)
}

/// Parameters of `diff`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    a: String,
    b: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// Differences between the resources of two clients.
pub async fn diff(State(shared): State<Shared>, params: Params<DiffQuery>) -> Response {
    let Query(query) = match params {
        Ok(query) => query,
        Err(e) => return refuse(&e.body_text()),
    };
    if !are_bounded([Some(&query.a), Some(&query.b)]) {
        return refuse("a parameter is too long");
    }
    let kind = match type_of(query.kind.as_deref()) {
        Ok(kind) => kind,
        Err(why) => return refuse(&why),
    };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let found = shared.inside.diff(&query.a, &query.b, kind).await;
    answer(&shared, "DiffList", found)
}

fn answer<T: Serialize>(shared: &Shared, kind: &str, found: Result<Answer<T>, String>) -> Response {
    match found {
        Ok(Answer { items, more, notes }) => {
            let mut list = List::new(kind, items, metadata(shared, &shared.inside.catalog()), usize::MAX);
            (list.metadata.remaining, list.metadata.notes) = (more, notes);
            Json(list).into_response()
        }
        Err(what) => problem(StatusCode::NOT_FOUND, Some(Code::NOT_FOUND), &what),
    }
}

fn are_bounded<const N: usize>(texts: [Option<&String>; N]) -> bool {
    texts.into_iter().flatten().all(|text| text.len() <= Filter::MAX_TEXT)
}

fn type_of(text: Option<&str>) -> Result<Option<ResourceType>, String> {
    let Some(text) = text else { return Ok(None) };
    let found = ResourceType::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text));
    found.map(Some).ok_or_else(|| "`type` is not cds, eds, lds, rds or sds".to_owned())
}
