//! `/debug/state`: the kept state and operator commands on it. The access check precedes every handler.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tributary_model::{Code, RegistryName};

use super::Shared;
use super::backend::NotThere;
use super::debug::{Params, busy, metadata, problem, refuse};
use crate::config::registry::{CONFIG_REGISTRY, DNS_REGISTRY};
use crate::document::List;
use crate::document::filter::Filter;
use crate::document::state::Part;

/// Returns the kept state.
pub async fn show(State(shared): State<Shared>) -> Response {
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    Json(shared.inside.state().await).into_response()
}

/// Parameters that name a part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartQuery {
    part: String,
}

/// Returns the facts that ending a part would remove.
pub async fn plan(State(shared): State<Shared>, params: Params<PartQuery>) -> Response {
    ending(&shared, params, false).await
}

/// Ends a part.
pub async fn end(State(shared): State<Shared>, params: Params<PartQuery>) -> Response {
    ending(&shared, params, true).await
}

async fn ending(shared: &Shared, params: Params<PartQuery>, really: bool) -> Response {
    let text = match params {
        Ok(Query(query)) if query.part.len() <= Filter::MAX_TEXT => query.part,
        Ok(_) => return refuse("a parameter is too long"),
        Err(e) => return refuse(&e.body_text()),
    };
    let part: Part = match text.parse() {
        Ok(part) => part,
        Err(why) => return refuse(&format!("`{text}` is not REGISTRY[/SCOPE[/KIND]]: {why}")),
    };
    if part.registry.as_str() == CONFIG_REGISTRY {
        return refuse(
            "registry `config` is the server's own configuration; change the configuration instead",
        );
    }
    if part.registry.as_str() == DNS_REGISTRY {
        return refuse(
            "registry `gateway-names` has the addresses of gateways' host names; remove the gateway, or correct its name",
        );
    }
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    let items = match shared.inside.end(part, really).await {
        Ok(items) => items,
        Err(missing) => return not_there(&missing),
    };
    if really {
        let facts: u64 = items.iter().map(|item| item.facts).sum();
        // it removes endpoints without evidence of their source
        tracing::warn!(part = text, facts, "facts ended by an operator");
    }
    Json(List::new("EndList", items, metadata(shared, &shared.inside.catalog()), Filter::MAX)).into_response()
}

fn not_there(missing: &NotThere) -> Response {
    problem(StatusCode::NOT_FOUND, Some(Code::NOT_FOUND), &missing.0)
}

/// Parameters that name a registry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptQuery {
    registry: String,
}

/// Accepts a run that serves less, or whose source has a new identity.
pub async fn accept(State(shared): State<Shared>, params: Params<AcceptQuery>) -> Response {
    let text = match params {
        Ok(Query(query)) => query.registry,
        Err(e) => return refuse(&e.body_text()),
    };
    let Ok(name) = RegistryName::new(&text) else { return refuse("the name of the registry is not valid") };
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    if let Err(missing) = shared.inside.accept(name).await {
        return not_there(&missing);
    }
    tracing::warn!(registry = text, "next run of a registry accepted by an operator");
    Json(shared.inside.state().await).into_response()
}
