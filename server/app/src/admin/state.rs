//! `/debug/state`: what is remembered, and what an operator may do to it. Reached only through the gate.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tributary_model::{Code, RegistryName};

use super::Shared;
use super::backend::NotThere;
use super::debug::{Asked, busy, metadata, problem, refuse};
use crate::document::List;
use crate::document::filter::Filter;
use crate::document::state::Part;
use crate::wiring::config_source::NAME;

/// What is remembered.
pub async fn show(State(shared): State<Shared>) -> Response {
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    Json(shared.inside.state().await).into_response()
}

/// Which part is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartQuery {
    part: String,
}

/// What ending a part would take away.
pub async fn plan(State(shared): State<Shared>, asked: Asked<PartQuery>) -> Response {
    ending(&shared, asked, false).await
}

/// Ends a part.
pub async fn end(State(shared): State<Shared>, asked: Asked<PartQuery>) -> Response {
    ending(&shared, asked, true).await
}

async fn ending(shared: &Shared, asked: Asked<PartQuery>, really: bool) -> Response {
    let text = match asked {
        Ok(Query(query)) if query.part.len() <= Filter::MAX_TEXT => query.part,
        Ok(_) => return refuse("a parameter is too long"),
        Err(e) => return refuse(&e.body_text()),
    };
    let part: Part = match text.parse() {
        Ok(part) => part,
        Err(why) => return refuse(&format!("`{text}` is not REGISTRY[/SCOPE[/KIND]]: {why}")),
    };
    if part.registry.as_str() == NAME {
        return refuse("registry `config` is the server's own configuration: change that instead");
    }
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let items = match shared.inside.end(part, really).await {
        Ok(items) => items,
        Err(missing) => return not_there(&missing),
    };
    if really {
        let facts: u64 = items.iter().map(|item| item.facts).sum();
        // it takes endpoints away without evidence of their source
        tracing::warn!(part = text, facts, "an operator ended facts");
    }
    Json(List::new("EndList", items, metadata(shared, &shared.inside.catalog()), Filter::MAX)).into_response()
}

fn not_there(missing: &NotThere) -> Response {
    problem(StatusCode::NOT_FOUND, Some(Code::NOT_FOUND), &missing.0)
}

/// Which registry is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptQuery {
    registry: String,
}

/// Takes a run that holds less than what is served, or whose source's identity changed.
pub async fn accept(State(shared): State<Shared>, asked: Asked<AcceptQuery>) -> Response {
    let text = match asked {
        Ok(Query(query)) => query.registry,
        Err(e) => return refuse(&e.body_text()),
    };
    let Ok(name) = RegistryName::new(&text) else { return refuse("that is no name of a registry") };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    if let Err(missing) = shared.inside.accept(name).await {
        return not_there(&missing);
    }
    tracing::warn!(registry = text, "an operator accepted what a registry's next run reports");
    Json(shared.inside.state().await).into_response()
}
